package engine

import "bytes"

// PrefixEnd returns the first key after all keys that begin with prefix: the upper
// bound of a scan over them. If there is no such key it returns nil, which means no
// upper bound.
func PrefixEnd(prefix []byte) []byte {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] != 0xff {
			end := bytes.Clone(prefix[:i+1])
			end[i]++
			return end
		}
	}
	return nil
}
