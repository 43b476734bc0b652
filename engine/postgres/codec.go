package postgres

import (
	"encoding/binary"

	"github.com/skerrydb/skerry/engine"
)

// A row of table change has the writes of one transaction, one after the other. This is a
// format on disk: do not change it without a new version of the schema.
//
//	uvarint  2 × length of the key, + 1 if the key was deleted
//	bytes    the key
//	uvarint  length of the value, unless the key was deleted
//	bytes    the value, unless the key was deleted

// appendWrite adds one write to b.
func appendWrite(b, key, val []byte, deleted bool) []byte {
	n := uint64(len(key)) << 1
	if deleted {
		return append(binary.AppendUvarint(b, n|1), key...)
	}
	b = append(binary.AppendUvarint(b, n), key...)
	return append(binary.AppendUvarint(b, uint64(len(val))), val...)
}

// decodeWrites returns the writes of one transaction. They alias b.
func decodeWrites(b []byte) (out []engine.Write, ok bool) {
	cut := func(n uint64) (s []byte) {
		if ok = ok && n <= uint64(len(b)); ok {
			s, b = b[:n:n], b[n:]
		}
		return s
	}
	length := func() uint64 {
		n, w := binary.Uvarint(b)
		if ok = ok && w > 0; ok {
			b = b[w:]
		}
		return n
	}
	for ok = true; ok && len(b) > 0; {
		n := length()
		w := engine.Write{Key: cut(n >> 1), Deleted: n&1 == 1}
		if !w.Deleted {
			w.Val = cut(length())
		}
		out = append(out, w)
	}
	return out, ok
}
