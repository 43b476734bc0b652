package btree

import "encoding/binary"

// outside has the values of a leaf that are too long for its blob. A record has the index
// of its value, which never changes. Like a node, it belongs to a tree or is shared.
type outside struct {
	owner *token
	vals  [][]byte // nil: free
	bytes int      // allocated for the values
}

// outsideRooms are the capacities of outside.vals: each fills a size class of the
// allocator.
var outsideRooms = [...]int{1, 2, 4, 8, 16, 37, leafKeys + 2}

// val returns the value whose index is in a record. Its capacity equals its length.
func (out *outside) val(index []byte) []byte {
	v := out.vals[binary.LittleEndian.Uint16(index)]
	return v[:len(v):len(v)]
}

// addOutside copies val and returns its index.
func (lf *leaf) addOutside(val []byte) int {
	b := makeBlob(len(val), 0)[:len(val)]
	copy(b, val)
	return lf.holdOutside(b)
}

// holdOutside adds val itself and returns its index.
func (lf *leaf) holdOutside(val []byte) int {
	out := lf.ownOutside(1)
	out.bytes += cap(val)
	for i := range out.vals {
		if out.vals[i] == nil {
			out.vals[i] = val
			return i
		}
	}
	out.vals = append(out.vals, val)
	return len(out.vals) - 1
}

// dropOutside releases value i.
func (lf *leaf) dropOutside(i int) {
	out := lf.ownOutside(0)
	out.bytes -= cap(out.vals[i])
	out.vals[i] = nil
	if out.bytes == 0 {
		lf.out = nil
	}
}

// ownOutside returns the outside values for the leaf to change, with room for so many more.
func (lf *leaf) ownOutside(more int) *outside {
	out := lf.out
	if out == nil {
		out = &outside{owner: lf.owner}
	} else if out.owner != lf.owner {
		out = &outside{lf.owner, out.vals[:len(out.vals):len(out.vals)], out.bytes}
	} else if len(out.vals)+more <= cap(out.vals) {
		return out
	}
	vals := make([][]byte, len(out.vals), outsideRoom(len(out.vals)+more))
	copy(vals, out.vals)
	out.vals, lf.out = vals, out
	return out
}

func outsideRoom(n int) int {
	for _, room := range outsideRooms {
		if n <= room {
			return room
		}
	}
	panic("BUG: btree: a leaf with too many outside values")
}

// allocated returns the bytes allocated for the outside values.
func (out *outside) allocated() int {
	if out == nil {
		return 0
	}
	return outsideBytes + sizeClass(cap(out.vals)*sliceBytes+headerOf(cap(out.vals)*sliceBytes)) + out.bytes
}
