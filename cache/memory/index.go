package memory

// index finds entries by their hash: an open-addressing table of places, without pointers. A place has a tag of the
// hash, the number of the segment plus 1, and where the entry begins in it. Lookups go from the slot of the hash to
// the next free one.
type index struct {
	slots []uint64
	used  int // slots that are not free, dead ones included
	dead  int
}

const (
	slotBytes  = 8
	minSlots   = 16
	offsetBits = 27 // MaxValue and a header fit
	numberBits = 16
	tagBits    = 64 - offsetBits - numberBits

	free = uint64(0)
	dead = uint64(1) << (64 - tagBits) // number 0: it was removed, and later ones were put behind it

	maxSegments = 1<<numberBits - 2
)

func newIndex(slots int) index { return index{slots: make([]uint64, slots)} }

func place(hash uint64, number, at int) uint64 {
	return tagOf(hash)<<(64-tagBits) | uint64(number+1)<<offsetBits | uint64(at)
}

// tagOf returns bits of a hash that choose neither the slot nor the shard.
func tagOf(hash uint64) uint64 { return hash >> (58 - tagBits) & (1<<tagBits - 1) }

func numberOf(place uint64) int { return int(place>>offsetBits&(1<<numberBits-1)) - 1 }
func offsetOf(place uint64) int { return int(place & (1<<offsetBits - 1)) }

// isPlace reports whether a slot has a place with this tag.
func isPlace(slot, tag uint64) bool {
	return slot>>(64-tagBits) == tag && numberOf(slot) >= 0
}

// full reports whether the table must grow, or be made anew, before another place is put into it.
func (x *index) full() bool { return (x.used+1)*4 > len(x.slots)*3 }

// put adds a place to a table that is not full. The key has none there.
func (x *index) put(hash, place uint64) {
	mask := uint64(len(x.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		switch x.slots[i] {
		case free:
			x.used++
		case dead:
			x.dead--
		default:
			continue
		}
		x.slots[i] = place
		return
	}
}

// clear removes the place in slot i.
func (x *index) clear(i uint64) {
	x.slots[i] = dead
	x.dead++
	mask := uint64(len(x.slots) - 1)
	if x.slots[(i+1)&mask] != free {
		return
	}
	for ; x.slots[i] == dead; i = (i - 1) & mask { // nothing is behind it
		x.slots[i] = free
		x.used--
		x.dead--
	}
}

// places returns how many places the table has.
func (x *index) places() int { return x.used - x.dead }

func (x *index) bytes() int { return len(x.slots) * slotBytes }

// ghosts remembers the hashes of entries that were dropped after nobody had read them. One that comes back is worth
// more. A new hash replaces the older one of its slot.
type ghosts []uint32

func (g ghosts) add(hash uint64) {
	if len(g) > 0 {
		g[hash&uint64(len(g)-1)] = uint32(hash>>32) | 1
	}
}

// take forgets a hash and reports whether it was remembered.
func (g ghosts) take(hash uint64) bool {
	if len(g) == 0 || g[hash&uint64(len(g)-1)] != uint32(hash>>32)|1 {
		return false
	}
	g[hash&uint64(len(g)-1)] = 0
	return true
}

func (g ghosts) bytes() int { return len(g) * 4 }
