package match

// Nodes returns how many nodes the index has below its root.
func (s *Set[T]) Nodes() int { return s.root.nodes() - 1 }

func (n *node[T]) nodes() int {
	sum := 1
	for _, p := range n.places {
		for _, c := range p.points {
			sum += c.nodes()
		}
		sum += p.spans.root.nodes()
	}
	return sum
}

func (s *span[T]) nodes() int {
	if s == nil {
		return 0
	}
	return s.node.nodes() + s.left.nodes() + s.right.nodes()
}
