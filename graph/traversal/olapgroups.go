package traversal

import (
	"math"
	"slices"

	"github.com/skerrydb/skerry/graph"
)

// none is the number of no vertex.
const none = math.MaxUint32

// peerPressure finds clusters: each vertex joins the one that most of its peers, which
// have edges to it, and itself vote for. A cluster is known by the id of one of its
// vertices; of those with the same votes, the one whose id comes first as text wins.
func peerPressure(c *computation) (func(uint32) any, error) {
	n := c.vertices.count
	if err := c.kept.take(4 * n); err != nil {
		return nil, err
	}
	cluster := make([]uint32, n)
	for i := range cluster {
		cluster[i] = uint32(i)
	}
	if c.p.times > 0 {
		var err error
		if cluster, err = c.iterateVotes(cluster); err != nil {
			return nil, err
		}
	}
	return func(i uint32) any { return c.vertices.id(cluster[i]) }, nil
}

func (c *computation) iterateVotes(cluster []uint32) ([]uint32, error) {
	peers, err := c.network(true)
	if err != nil {
		return nil, err
	}
	if err := c.work.take(16 * len(cluster)); err != nil {
		return nil, err
	}
	next := make([]uint32, len(cluster))
	box := &ballotBox{votes: make([]float64, len(cluster))}
	for k := int64(1); k <= c.p.times; k++ {
		changed := false
		for i := range next {
			own := uint32(i)
			voters := peers.of(own)
			box.add(cluster[i], c.weight(own))
			for _, j := range voters {
				box.add(cluster[j], c.weight(j))
			}
			if next[i] = box.winner(c.vertices); next[i] == none {
				next[i] = own
			}
			changed = changed || next[i] != cluster[i]
			if err := c.beat(1 + 2*len(voters)); err != nil {
				return nil, err
			}
		}
		cluster, next = next, cluster
		c.r.progressed(c.p.name, k, c.p.times)
		if !changed {
			break
		}
	}
	return cluster, nil
}

// weight returns how much the vote of a vertex counts.
func (c *computation) weight(i uint32) float64 {
	if c.weights == nil {
		return 1
	}
	return c.weights[i]
}

// ballotBox counts the votes of one vertex.
type ballotBox struct {
	votes []float64 // by cluster
	named []uint32  // the clusters with votes
}

func (b *ballotBox) add(cluster uint32, weight float64) {
	if weight == 0 {
		return
	}
	if b.votes[cluster] == 0 {
		b.named = append(b.named, cluster)
	}
	b.votes[cluster] += weight
}

// winner returns the cluster with the most votes, or none, and empties the box.
func (b *ballotBox) winner(vertices *numbering) uint32 {
	best, most := uint32(none), 0.0
	for _, c := range b.named {
		if n := b.votes[c]; n > most || n == most && vertices.compare(c, best) < 0 {
			best, most = c, n
		}
		b.votes[c] = 0
	}
	b.named = b.named[:0]
	return best
}

// connectedComponent finds what is connected: each vertex gets, of the vertices with a
// way to it, and itself, the id that comes first as text.
func connectedComponent(c *computation) (func(uint32) any, error) {
	edges, err := c.network(false)
	if err != nil {
		return nil, err
	}
	n := c.vertices.count
	if err := c.kept.take(4 * n); err != nil {
		return nil, err
	}
	if err := c.work.take(8 * n); err != nil {
		return nil, err
	}
	s := &spread{c: c, edges: edges, component: make([]uint32, n), queue: make([]uint32, 0, n)}
	for i := range s.component {
		s.component[i] = none
	}
	if h := &c.p.edges; h.plan == nil && h.dir == graph.Both {
		err = s.symmetric()
	} else {
		err = s.directed()
	}
	if err != nil {
		return nil, err
	}
	c.r.progressed(c.p.name, int64(n), int64(n))
	return func(i uint32) any { return string(c.vertices.appendID(nil, s.component[i])) }, nil
}

// spread marks the vertices that can be reached from others.
type spread struct {
	c         *computation
	edges     *network
	component []uint32 // by vertex; none: not reached yet
	queue     []uint32 // those that were reached from the last one
	done      int64
}

// from marks what can be reached from a vertex and was not reached before: it is the
// queue then.
func (s *spread) from(i uint32) error {
	s.component[i] = i
	s.queue = append(s.queue[:0], i)
	for at := 0; at < len(s.queue); at++ {
		far := s.edges.of(s.queue[at])
		for _, j := range far {
			if s.component[j] == none {
				s.component[j] = i
				s.queue = append(s.queue, j)
			}
		}
		if err := s.c.beat(1 + len(far)); err != nil {
			return err
		}
	}
	before := s.done
	if s.done += int64(len(s.queue)); s.done>>20 != before>>20 {
		s.c.r.progressed(s.c.p.name, s.done, int64(len(s.component)))
	}
	return nil
}

// symmetric is for edges that go both ways: what is reached from one vertex is reached
// from each of them.
func (s *spread) symmetric() error {
	for i := range s.component {
		if s.component[i] != none {
			continue
		}
		if err := s.from(uint32(i)); err != nil {
			return err
		}
		first := uint32(i)
		for _, j := range s.queue {
			if s.c.vertices.compare(j, first) < 0 {
				first = j
			}
			if err := s.c.beat(8); err != nil {
				return err
			}
		}
		if first == uint32(i) {
			continue
		}
		for _, j := range s.queue {
			s.component[j] = first
		}
	}
	return nil
}

// directed is for edges that go one way: it begins with the vertex whose id comes first.
func (s *spread) directed() error {
	order, err := s.c.byID()
	if err != nil {
		return err
	}
	for _, i := range order {
		if s.component[i] == none {
			if err := s.from(i); err != nil {
				return err
			}
		}
	}
	return nil
}

// sortChunk is how many vertices are sorted between two looks at the context.
const sortChunk = 1 << 14

// byID returns the vertices in the order of the texts of their ids. It sorts chunks and
// merges them, as a sort of all at once could not be cancelled.
func (c *computation) byID() ([]uint32, error) {
	n := c.vertices.count
	if err := c.work.take(8 * n); err != nil {
		return nil, err
	}
	order, merged := make([]uint32, n), make([]uint32, n)
	for i := range order {
		order[i] = uint32(i)
	}
	for chunk := range slices.Chunk(order, sortChunk) {
		slices.SortFunc(chunk, c.vertices.compare)
		if err := c.ctx.Err(); err != nil {
			return nil, err
		}
	}
	for size := sortChunk; size < n; size *= 2 {
		for lo := 0; lo < n; lo += 2 * size {
			mid, hi := min(lo+size, n), min(lo+2*size, n)
			if err := c.merge(merged[lo:hi:hi], order[lo:mid], order[mid:hi]); err != nil {
				return nil, err
			}
		}
		order, merged = merged, order
	}
	return order, nil
}

// merge merges two sorted lists into one.
func (c *computation) merge(into, a, b []uint32) error {
	for i := range into {
		if len(b) == 0 || len(a) > 0 && c.vertices.compare(a[0], b[0]) <= 0 {
			into[i], a = a[0], a[1:]
		} else {
			into[i], b = b[0], b[1:]
		}
		if err := c.beat(8); err != nil {
			return err
		}
	}
	return nil
}
