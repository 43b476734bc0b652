package traversal

// random is java.util.Random, whose documentation gives its formula: a seed yields
// the same choices as on other Gremlin servers. Each step of a run has its own.
type random struct{ state uint64 }

const (
	randomFactor = 0x5DEECE66D
	randomMask   = 1<<48 - 1
)

// random returns the source of chance of a step.
func (r *run) random(of any) *random {
	if x := r.chances[of]; x != nil {
		return x
	}
	if r.chances == nil {
		r.chances = map[any]*random{}
	}
	seed := r.rand.Uint64()
	if r.source.seed != nil {
		seed = uint64(*r.source.seed)
	}
	x := &random{(seed ^ randomFactor) & randomMask}
	r.chances[of] = x
	return x
}

func (x *random) bits(n int) int64 {
	x.state = (x.state*randomFactor + 0xB) & randomMask
	return int64(x.state >> (48 - n))
}

// float returns a number from 0 up to 1.
func (x *random) float() float64 { return float64(x.bits(26)<<27+x.bits(27)) / (1 << 53) }

// below returns a whole number from 0 up to n, which is at most 2^31-1.
func (x *random) below(n int) int {
	m := int64(n)
	if m&(m-1) == 0 {
		return int(m * x.bits(31) >> 31)
	}
	for {
		b := x.bits(31)
		if v := b % m; b-v+m-1 < 1<<31 {
			return int(v)
		}
	}
}
