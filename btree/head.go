package btree

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// Head returns the eight bytes of key after the first skip bytes as a big-endian number,
// padded with zeros. Among keys with the same first skip bytes a smaller head means a
// smaller key; equal heads mean nothing.
func Head(key []byte, skip int) uint64 {
	if len(key) >= skip+8 {
		return binary.BigEndian.Uint64(key[skip:])
	}
	return shortHead(key, skip)
}

// shortHead is Head for keys with fewer than eight bytes left.
func shortHead(key []byte, skip int) uint64 {
	rest := len(key) - skip
	if rest <= 0 {
		return 0
	}
	if len(key) >= 8 {
		return binary.BigEndian.Uint64(key[len(key)-8:]) << (64 - 8*rest)
	}
	var h uint64
	for i, c := range key[skip:] {
		h |= uint64(c) << (56 - 8*i)
	}
	return h
}

// lowerHead returns the number of heads below x. It reads one head of each group first,
// so that the cache misses of a cold node overlap, unlike in a binary search.
func lowerHead(h *[innerKids]uint64, x uint64) int {
	g := groupKeys * (below(h[7], x) + below(h[15], x) + below(h[23], x))
	q := (*[groupKeys]uint64)(h[g:])
	return g + below(q[0], x) + below(q[1], x) + below(q[2], x) + below(q[3], x) +
		below(q[4], x) + below(q[5], x) + below(q[6], x) + below(q[7], x)
}

// lowerLeaf is lowerHead for the wider leaves.
func lowerLeaf(h *[leafKeys]uint64, x uint64) int {
	g := groupKeys * (below(h[7], x) + below(h[15], x) + below(h[23], x) +
		below(h[31], x) + below(h[39], x) + below(h[47], x))
	q := (*[groupKeys]uint64)(h[g:])
	return g + below(q[0], x) + below(q[1], x) + below(q[2], x) + below(q[3], x) +
		below(q[4], x) + below(q[5], x) + below(q[6], x) + below(q[7], x)
}

// comparePrefix returns -1 or 1 if key is below or above all keys that begin with prefix,
// or 0 if key begins with prefix.
func comparePrefix(key, prefix []byte) int {
	if len(key) >= len(prefix) {
		key = key[:len(prefix)]
		if string(key) == string(prefix) {
			return 0
		}
	}
	return bytes.Compare(key, prefix)
}

// CommonPrefix returns the length of the common prefix of a and b.
func CommonPrefix(a, b []byte) int {
	n, i := min(len(a), len(b)), 0
	for ; i+8 <= n; i += 8 {
		x := binary.LittleEndian.Uint64(a[i:]) ^ binary.LittleEndian.Uint64(b[i:])
		if x != 0 {
			return i + bits.TrailingZeros64(x)/8
		}
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}

// separator returns the shortest string above left and not above right.
func separator(left, right []byte) []byte {
	return right[:CommonPrefix(left, right)+1]
}
