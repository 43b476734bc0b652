package engine

import "bytes"

// PrefixEnd returns the first key after all keys that begin with prefix: the end of a
// scan over them. It returns nil, the end of all keys, if there is no such key.
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
