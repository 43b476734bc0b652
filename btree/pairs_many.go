package btree

import "unsafe"

// manyKeys is how many look-ups of GetMany go down the tree together.
const manyKeys = 8

const cacheLine = 64 // bytes

// GetMany looks up many keys: vals[i] becomes the value of keys[i], and the zero Value,
// whose Bytes are nil, if the key is missing. The Bytes of a value that is there are not
// nil, even if it is empty. vals must be at least as long as keys. The look-ups wait
// for memory together, which makes them faster than as many calls of Get in large maps.
func (p *Pairs) GetMany(keys [][]byte, vals []Value) {
	vals = vals[:len(keys)]
	if p.root == nil {
		clear(vals)
		return
	}
	for len(keys) > 0 {
		n := min(len(keys), manyKeys)
		p.getGroup(keys[:n], vals[:n])
		keys, vals = keys[n:], vals[n:]
	}
}

// getGroup is GetMany of at most manyKeys keys in a map that is not empty.
func (p *Pairs) getGroup(keys [][]byte, vals []Value) {
	var nodes [manyKeys]unsafe.Pointer
	n := min(len(keys), len(nodes))
	for i := range n {
		nodes[i] = p.root
	}
	for h := p.height; h > 0; h-- {
		if h < p.height { // the root is in the cache
			touchInner(nodes[:n])
		}
		for i, key := range keys {
			in := (*inner)(nodes[i])
			nodes[i] = in.kids[in.route(key)]
		}
	}
	touchHeads(nodes[:n])
	var at [manyKeys]int
	for i, key := range keys {
		lf := (*leaf)(nodes[i])
		at[i] = lowerLeaf(&lf.heads, Head(key, int(lf.plen)))
	}
	touchRecords(nodes[:n], at[:n])
	for i, key := range keys {
		vals[i] = Value{}
		lf := (*leaf)(nodes[i])
		if j := lf.findFrom(at[i], Head(key, int(lf.plen)), key); j >= 0 {
			vals[i] = lf.val(j)
		}
	}
}

// touchInner reads the parts of inner nodes that a search needs, so that their cache misses
// overlap. Like the functions below it returns a meaningless sum and is not inlined, so
// that the reads are not optimised away.
//
//go:noinline
func touchInner(nodes []unsafe.Pointer) (sum int) {
	for _, node := range nodes {
		sum += (*inner)(node).seps.plen
	}
	for _, node := range nodes {
		s := (*inner)(node).seps
		sum += int(s.heads[7]) + int(s.heads[15]) + int(s.heads[23]) + int(s.heads[31])
	}
	return sum
}

//go:noinline
func touchHeads(leaves []unsafe.Pointer) (sum int) {
	for _, node := range leaves {
		lf := (*leaf)(node)
		sum += int(lf.plen) + int(lf.heads[7]) + int(lf.heads[15]) + int(lf.heads[23]) + int(lf.heads[31]) +
			int(lf.heads[39]) + int(lf.heads[47]) + int(lf.offs[0]) + int(lf.offs[cacheLine/2])
	}
	return sum
}

//go:noinline
func touchRecords(leaves []unsafe.Pointer, at []int) (sum int) {
	for i, node := range leaves {
		lf := (*leaf)(node)
		if j := at[i]; j < int(lf.n) {
			sum += int(Touch(lf.blob[int(lf.offs[j])*recordUnit : lf.used]))
		}
	}
	return sum
}

// Touch reads from the first three cache lines of b, which must not be empty, and returns a
// meaningless sum. Functions that touch many places before they use them are not inlined,
// so that the reads are not optimised away.
func Touch(b []byte) byte {
	return b[0] + b[min(cacheLine, len(b)-1)] + b[min(2*cacheLine, len(b)-1)]
}
