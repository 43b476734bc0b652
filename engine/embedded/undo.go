package embedded

import (
	"encoding/binary"

	"github.com/skerrydb/skerry/btree"
)

// The undo log of a batch has, for each write of the batch in order, what the tree had
// before. If the batch is lost, revert takes the tree back with it. It is in memory only:
//
//	uvarint  0 if there was no value; otherwise 1 + 2 × length of the value, + 1 if it was marked
//	bytes    the value
//
// It costs a copy of each overwritten value. A clone of the tree for the same purpose
// would cost a copy of each leaf that is written to after it.

// replaced adds what the tree had before the next write.
func (b *batch) replaced(old btree.Value, had bool) {
	if !had {
		b.undo = append(b.undo, 0)
		return
	}
	n := uint64(len(old.Bytes)) << 1
	if old.Marked {
		n |= 1
	}
	b.undo = binary.AppendUvarint(b.undo, n+1)
	b.undo = append(b.undo, old.Bytes...)
}

// before is what the tree had before one write.
type before struct {
	val btree.Value // aliases the undo log
	had bool
}

func (d *decoder) before() before {
	n := d.uvarint()
	if n == 0 {
		return before{}
	}
	n--
	return before{btree.Value{Bytes: d.bytes(n >> 1), Marked: n&1 == 1}, true}
}

// revert takes the tree back to the state before b, which is the newest batch in it. The
// spiller may have moved values since: they stay moved unless b wrote them. It reports
// whether a value longer than limit is in memory again, if limit is not 0.
func (x *speculation) revert(b *batch, limit int) (unmoved bool) {
	writes, _, _, err := decodeWrites(nil, b.buf)
	d, olds := decoder{rest: b.undo}, make([]before, len(writes))
	for i := range olds {
		olds[i] = d.before()
	}
	if err != nil || d.bad || len(d.rest) > 0 {
		panic("BUG: the undo log does not fit the batch")
	}
	for i := len(olds) - 1; i >= 0; i-- {
		key, old := writes[i].Key, olds[i]
		if now, ok := x.tree.Get(key); ok {
			x.bytes -= size(key, len(now.Bytes))
		}
		if !old.had {
			x.tree.Delete(key)
			continue
		}
		x.bytes += size(key, len(old.val.Bytes))
		x.tree.Set(key, old.val)
		unmoved = unmoved || limit > 0 && !old.val.Marked && len(old.val.Bytes) > limit
	}
	return unmoved
}
