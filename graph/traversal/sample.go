package traversal

import (
	"fmt"
	"slices"

	"github.com/skerrydb/skerry/graph/value"
)

// makeSample makes sample(n), weighted by by().
func makeSample(b *builder, c *callInfo) (kernel, traits, error) {
	local := c.scope()
	n, err := c.int(0)
	if err == nil && n < 0 {
		err = fmt.Errorf("argument 1 must not be negative")
	}
	if err != nil {
		return nil, traits{}, err
	}
	bys, err := b.oneBy(c, "Sample")
	s := &sampling{n, bys}
	if local {
		return mapping(s.local), traits{}, err
	}
	return collecting(s.choose), traits{barrier: true}, err
}

// sampling chooses n of all, each with a chance in proportion to its weight.
type sampling struct {
	n   int64
	bys []*by
}

func (s *sampling) local(r *run, t traverser) (any, bool, error) {
	items, ok := itemsOf(t.val)
	if !ok || int64(len(items)) <= s.n {
		return t.val, true, nil
	}
	left, out := slices.Clone(items), value.List{}
	for int64(len(out)) < s.n {
		i := r.random(s).below(len(left))
		out, left = append(out, left[i]), slices.Delete(left, i, i+1)
	}
	return out, true, nil
}

func (s *sampling) choose(r *run, all []traverser) ([]traverser, error) {
	weights, kept := make([]float64, 0, len(all)), all[:0]
	total, bulk := 0.0, int64(0)
	for _, t := range all {
		w := 1.0
		if len(s.bys) > 0 {
			v, ok, err := s.bys[0].value(r, t)
			if err != nil {
				return nil, err
			}
			if !ok {
				continue
			}
			if w, ok = value.Float(v); !ok || w < 0 {
				return nil, fmt.Errorf("a weight must be a number from 0, not %s", value.Text(v))
			}
		}
		weights, kept = append(weights, w), append(kept, t)
		total, bulk = total+w*float64(t.bulk), bulk+t.bulk
	}
	if bulk <= s.n {
		return kept, nil
	}
	var out []traverser
	for int64(len(out)) < s.n && total > 0 {
		at, sum := r.random(s).float()*total, 0.0
		for i := range kept {
			if sum += weights[i] * float64(kept[i].bulk); kept[i].bulk == 0 || at > sum {
				continue
			}
			one := kept[i]
			one.bulk = 1
			out = append(out, one)
			kept[i].bulk--
			total -= weights[i]
			break
		}
	}
	return out, nil
}
