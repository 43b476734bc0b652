package traversal

import (
	"math"
)

// rankEpsilon ends pageRank: the sum of the changes of one iteration is less.
const rankEpsilon = 1e-5

// pageRank computes how likely a walker is at each vertex: one that mostly follows an
// edge, and else, or where there is none, goes to any vertex. Where traversers are, is
// where the walkers start, if the vertices have weights.
func pageRank(c *computation) (func(uint32) any, error) {
	n := c.vertices.count
	if err := c.kept.take(8 * n); err != nil {
		return nil, err
	}
	rank, total := make([]float64, n), kahan{}
	if c.weights != nil {
		copy(rank, c.weights)
		for _, w := range rank {
			total.add(w)
		}
	} else {
		total.sum = 1
		for i := range rank {
			rank[i] = 1 / float64(n)
		}
	}
	if c.p.times > 0 {
		var err error
		if rank, err = c.iterateRank(rank, total.sum); err != nil {
			return nil, err
		}
	}
	return func(i uint32) any { return rank[i] }, nil
}

func (c *computation) iterateRank(rank []float64, total float64) ([]float64, error) {
	edges, err := c.network(false)
	if err != nil {
		return nil, err
	}
	if err := c.work.take(8 * len(rank)); err != nil {
		return nil, err
	}
	next := make([]float64, len(rank))
	for k := int64(1); k <= c.p.times; k++ {
		given, err := c.spreadRank(edges, rank, next)
		if err != nil {
			return nil, err
		}
		free := max(total-given, 0) / float64(len(rank)) // for all in equal parts, so that the sum remains
		change := 0.0
		for i := range next {
			next[i] += free
			change += math.Abs(next[i] - rank[i])
			rank[i] = 0
		}
		rank, next = next, rank
		if err := c.beat(len(rank)); err != nil {
			return nil, err
		}
		c.r.progressed(c.p.name, k, c.p.times)
		if change < rankEpsilon {
			break
		}
	}
	return rank, nil
}

// spreadRank adds what each vertex gives to its neighbours to next, and returns the sum.
func (c *computation) spreadRank(edges *network, rank, next []float64) (float64, error) {
	given := kahan{}
	for i, has := range rank {
		far := edges.of(uint32(i))
		if err := c.beat(1 + len(far)); err != nil {
			return 0, err
		}
		if len(far) == 0 {
			continue
		}
		has *= c.p.alpha
		given.add(has)
		part := has / float64(len(far))
		for _, j := range far {
			next[j] += part
		}
	}
	return given.sum, nil
}

// kahan adds many numbers without adding up the errors of rounding.
type kahan struct{ sum, lost float64 }

func (k *kahan) add(x float64) {
	x -= k.lost
	sum := k.sum + x
	k.lost = (sum - k.sum) - x
	k.sum = sum
}
