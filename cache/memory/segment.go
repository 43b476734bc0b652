package memory

import (
	"encoding/binary"
	"slices"
)

// A segment is a piece of memory that is filled with entries from its beginning. An entry is a header, the key and
// the value. The header: the length of the key (2 bytes), how often it was read (1 byte), a byte that is not used, and
// the length of the value (4 bytes).
type segment struct {
	mem       []byte
	used      int
	live      int // entries that the index points to
	liveBytes int // of these
	number    int
	in        *queue // nil: it is being drained
	own       bool   // it is for one large entry
}

const (
	headerBytes = 8
	maxReads    = 3 // reads are counted up to here
)

// queue is a queue of segments, oldest first.
type queue struct {
	list    []*segment
	filling *segment // entries are added to it; nil: there is none with room
	bytes   int
}

func (q *queue) push(g *segment) {
	g.in = q
	q.list = append(q.list, g)
	q.bytes += len(g.mem)
}

func (q *queue) remove(g *segment) {
	g.in = nil
	i := slices.Index(q.list, g)
	q.list = slices.Delete(q.list, i, i+1)
	q.bytes -= len(g.mem)
	if q.filling == g {
		q.filling = nil
	}
}

// entryBytes returns how many bytes an entry takes.
func entryBytes(key string, value []byte) int { return headerBytes + len(key) + len(value) }

// pages rounds the size of an allocation up to what the Go runtime takes for it, if it is large.
func pages(n int) int {
	if n <= 32<<10 {
		return n
	}
	return (n + 8<<10 - 1) &^ (8<<10 - 1)
}

// add appends an entry for which there is room, and returns where it is.
func (g *segment) add(key string, value []byte) (at int) {
	at = g.used
	h := g.mem[at:]
	binary.LittleEndian.PutUint16(h, uint16(len(key)))
	h[2], h[3] = 0, 0
	binary.LittleEndian.PutUint32(h[4:], uint32(len(value)))
	copy(h[headerBytes:], key)
	copy(h[headerBytes+len(key):], value)
	g.gained(entryBytes(key, value))
	return at
}

// addCopy appends a copy of an entry of another segment, with its header.
func (g *segment) addCopy(entry []byte) (at int) {
	at = g.used
	g.gained(copy(g.mem[at:], entry))
	return at
}

func (g *segment) gained(n int) {
	g.used += n
	g.live++
	g.liveBytes += n
}

// lost counts an entry that the index no longer points to here.
func (g *segment) lost(n int) {
	g.live--
	g.liveBytes -= n
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

// dead returns the bytes of entries that were replaced, removed or moved.
func (g *segment) dead() int { return g.used - g.liveBytes }
