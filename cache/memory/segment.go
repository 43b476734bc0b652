package memory

import "encoding/binary"

// A segment is a piece of memory that is filled with entries from its beginning. An entry is a header, the key and
// the value. The header: the length of the key (2 bytes), how often it was read (1 byte), a byte of the value's
// length that is left over, and the lower 4 bytes of that length.
type segment struct {
	mem  []byte
	used int
	live int // entries that the index still points to
}

const (
	headerBytes = 8
	maxReads    = 3 // reads are counted up to here
)

// entryBytes returns how many bytes an entry takes.
func entryBytes(key string, value []byte) int { return headerBytes + len(key) + len(value) }

// add appends an entry for which there is room, and returns where it is.
func (g *segment) add(key string, value []byte) (at int) {
	at = g.used
	h := g.mem[at:]
	binary.LittleEndian.PutUint16(h, uint16(len(key)))
	h[2], h[3] = 0, 0
	binary.LittleEndian.PutUint32(h[4:], uint32(len(value)))
	copy(h[headerBytes:], key)
	copy(h[headerBytes+len(key):], value)
	g.used += entryBytes(key, value)
	g.live++
	return at
}

// addCopy appends a copy of an entry of another segment, with its header.
func (g *segment) addCopy(entry []byte) (at int) {
	at = g.used
	g.used += copy(g.mem[at:], entry)
	g.live++
	return at
}

func (g *segment) key(at int) []byte {
	h := g.mem[at:]
	return h[headerBytes:][:binary.LittleEndian.Uint16(h)]
}

func (g *segment) value(at int) []byte {
	h := g.mem[at:]
	from := headerBytes + int(binary.LittleEndian.Uint16(h))
	return h[from:][:binary.LittleEndian.Uint32(h[4:])]
}

func (g *segment) reads(at int) *byte { return &g.mem[at+2] }

// entry returns the whole entry.
func (g *segment) entry(at int) []byte {
	h := g.mem[at:]
	return h[:headerBytes+int(binary.LittleEndian.Uint16(h))+int(binary.LittleEndian.Uint32(h[4:]))]
}

// room returns how many bytes are left.
func (g *segment) room() int { return len(g.mem) - g.used }
