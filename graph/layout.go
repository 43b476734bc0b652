package graph

import (
	"encoding/binary"
	"math/bits"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/keyspace"
)

// Keys begin with keyspace.Graphs, the number of a graph and a room. Numbers are in
// the encoding of appendNumber, which keeps their order. All of it is stored: do
// not change it.
//
//	0 'n' name                        → number of the graph; without one, Default is 1
//	0 'x' graph                       → nothing: all keys of that graph are to be removed
//	graph 'c'                         → counters
//	graph 'n' name                    → number of a label or of a property's key
//	graph 'N' number                  → its name
//	graph 'v' vertex                  → record: labels and properties
//	graph 'o' vertex label in edge    → record of an edge, at the vertex that it leaves
//	graph 'i' vertex label out edge   → nothing, at the vertex that it enters
//	graph 'x' kind id                 → the element that has an id of its own
//	graph 'd' number                  → definition of an index
//	graph 'q' number values element   → nothing: an entry of an index
//	graph 'f' number                  → the element with which filling the index goes on
//	graph 'l' vertex                  → nothing: the vertex is being removed
//	graph 'd' 0 which                 → the schema in force, or the next one
//	graph 'f' 0                       → the element with which checking the next schema goes on
//	graph 's'                         → the version that a schema was given last
const (
	roomNames    = 'n'
	roomNumbers  = 'N'
	roomCounters = 'c'
	roomVertices = 'v'
	roomOut      = 'o'
	roomIn       = 'i'
	roomIDs      = 'x'
	roomIndexes  = 'd'
	roomEntries  = 'q'
	roomFills    = 'f'
	roomLeaving  = 'l'
	roomSchemas  = 's'

	roomGarbage = 'x' // of graph 0
)

// appendNumber appends n so that the bytes of numbers have the order of the
// numbers: one byte below 128, and another one for every seven bits more. As many
// bits of the first byte are set as there are further bytes.
func appendNumber(b []byte, n uint64) []byte {
	if n < 1<<7 {
		return append(b, byte(n))
	}
	more := (bits.Len64(n) - 1) / 7
	if more > 7 {
		return binary.BigEndian.AppendUint64(append(b, 0xff), n)
	}
	var buf [8]byte
	binary.BigEndian.PutUint64(buf[:], n|firstBits(more))
	return append(b, buf[7-more:]...)
}

// firstBits returns the bits that say how many bytes follow the first one, at most
// seven.
func firstBits(more int) uint64 { return uint64(^byte(0xff>>more)) << (8 * more) }

// number reads what appendNumber wrote and returns what follows. ok is false if b
// does not begin with a number in its only form.
func number(b []byte) (n uint64, rest []byte, ok bool) {
	if len(b) == 0 {
		return 0, b, false
	}
	if b[0] < 1<<7 {
		return uint64(b[0]), b[1:], true
	}
	more := bits.LeadingZeros8(^b[0])
	if len(b) <= more {
		return 0, b, false
	}
	for _, c := range b[:1+more] {
		n = n<<8 | uint64(c)
	}
	if more < 8 {
		n &^= firstBits(more)
	}
	return n, b[1+more:], n >= 1<<(7*more)
}

// key returns a key of this graph that begins with numbers.
func (t *Tx) key(room byte, numbers ...uint64) []byte {
	b := append(make([]byte, 0, 32), t.prefix...)
	b = append(b, room)
	for _, n := range numbers {
		b = appendNumber(b, n)
	}
	return b
}

func graphPrefix(graph uint64) []byte { return appendNumber([]byte{keyspace.Graphs}, graph) }

func garbage(graph uint64) []byte { return appendNumber(append(graphPrefix(0), roomGarbage), graph) }

func graphName(name string) []byte { return append(append(graphPrefix(0), roomNames), name...) }

// within returns the bounds of the keys that begin with prefix.
func within(prefix []byte) (lo, hi []byte) { return prefix, engine.PrefixEnd(prefix) }

// numbers reads the numbers of a key after its first skip bytes.
func numbers(key []byte, skip int, into []uint64) bool {
	rest := key[min(skip, len(key)):]
	for i := range into {
		n, after, ok := number(rest)
		if !ok {
			return false
		}
		into[i], rest = n, after
	}
	return len(rest) == 0
}

// A vertex's or an edge's number is twice its serial number, plus 1 if it has an
// id of its own, which its record has.
func hasOwnID(num uint64) bool { return num&1 == 1 }
