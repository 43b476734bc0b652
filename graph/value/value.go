// Package value has the values of Gremlin: what elements hold, what traversals
// compute, and what drivers send and receive.
//
// It knows types, their order, equality, arithmetic and text. It must not know
// where elements are stored, how they are traversed, or how values are encoded.
//
// A value is an any that holds one of: nil, bool, int8, int16, int32, int64,
// *big.Int, float32, float64, Decimal, string, Char, UUID, time.Time, Duration,
// []byte, List, *Set, *Map, Entry, *BulkSet, Enum, *Vertex, *Edge,
// *VertexProperty, *Property, *Path, *Tree, *Graph or *TraversalMetrics. A value
// must not be changed once a second party has it.
package value

import "time"

// Char is one character: Java's Character.
type Char rune

// UUID is a universally unique identifier, as in RFC 9562.
type UUID [16]byte

// Duration is a length of time with the range of Java's Duration.
type Duration struct {
	Seconds int64
	Nanos   int32 // from 0 to 999,999,999
}

// Of returns d as a Duration.
func Of(d time.Duration) Duration {
	s, n := int64(d/time.Second), int32(d%time.Second)
	if n < 0 {
		s, n = s-1, n+int32(time.Second)
	}
	return Duration{s, n}
}

// Enum is a constant of one of Gremlin's enumerations, as T.id or Order.desc.
type Enum struct{ Kind, Name string }

// The enumerations' names.
const (
	KindT           = "T"
	KindDirection   = "Direction"
	KindOrder       = "Order"
	KindScope       = "Scope"
	KindPop         = "Pop"
	KindColumn      = "Column"
	KindOperator    = "Operator"
	KindMerge       = "Merge"
	KindPick        = "Pick"
	KindBarrier     = "Barrier"
	KindCardinality = "Cardinality"
	KindDT          = "DT"
	KindGType       = "GType"
)

// Constants that occur in data, as keys of maps, or that several packages ask for.
var (
	ID    = Enum{KindT, "id"}
	Label = Enum{KindT, "label"}
	Key   = Enum{KindT, "key"}
	Val   = Enum{KindT, "value"}

	Out  = Enum{KindDirection, "OUT"}
	In   = Enum{KindDirection, "IN"}
	Both = Enum{KindDirection, "BOTH"}

	OnCreate = Enum{KindMerge, "onCreate"}
	OnMatch  = Enum{KindMerge, "onMatch"}
	OutV     = Enum{KindMerge, "outV"}
	InV      = Enum{KindMerge, "inV"}

	PickAny          = Enum{KindPick, "any"}
	PickNone         = Enum{KindPick, "none"}
	PickUnproductive = Enum{KindPick, "unproductive"}

	Single     = Enum{KindCardinality, "single"}
	ListOf     = Enum{KindCardinality, "list"}
	SetOf      = Enum{KindCardinality, "set"}
	NormSack   = Enum{KindBarrier, "normSack"}
	Asc        = Enum{KindOrder, "asc"}
	Desc       = Enum{KindOrder, "desc"}
	Shuffle    = Enum{KindOrder, "shuffle"}
	Local      = Enum{KindScope, "local"}
	Global     = Enum{KindScope, "global"}
	PopFirst   = Enum{KindPop, "first"}
	PopLast    = Enum{KindPop, "last"}
	PopAll     = Enum{KindPop, "all"}
	PopMixed   = Enum{KindPop, "mixed"}
	ColumnKeys = Enum{KindColumn, "keys"}
	ColumnVals = Enum{KindColumn, "values"}
)

// Enums returns the names of each enumeration, in the order in which drivers
// list them.
func Enums() map[string][]string {
	return map[string][]string{
		KindT:           {"id", "label", "key", "value"},
		KindDirection:   {"OUT", "IN", "BOTH"},
		KindOrder:       {"asc", "desc", "shuffle"},
		KindScope:       {"global", "local"},
		KindPop:         {"first", "last", "all", "mixed"},
		KindColumn:      {"keys", "values"},
		KindOperator:    {"sum", "minus", "mult", "div", "min", "max", "assign", "and", "or", "addAll", "sumLong"},
		KindMerge:       {"onCreate", "onMatch", "outV", "inV"},
		KindPick:        {"any", "none", "unproductive"},
		KindBarrier:     {"normSack"},
		KindCardinality: {"single", "list", "set"},
		KindDT:          {"second", "minute", "hour", "day"},
		KindGType: {
			"BIGDECIMAL", "BIGINT", "BINARY", "BOOLEAN", "BYTE", "CHAR", "DATETIME", "DOUBLE", "DURATION", "EDGE", "FLOAT", "GRAPH",
			"INT", "LIST", "LONG", "MAP", "NULL", "NUMBER", "PATH", "PROPERTY", "SET", "SHORT", "STRING", "TREE", "UUID", "VERTEX",
			"VPROPERTY",
		},
	}
}

// List is an ordered collection.
type List []any

// Entry is one pair of a Map.
type Entry struct{ Key, Val any }

// Map is a map that keeps the order in which keys were first set. Keys are equal
// as by Hash. The zero Map is empty and ready to use. Do not copy a Map.
type Map struct {
	entries []Entry
	index   map[string]int
}

// MapOf returns a map of keys and values that alternate.
func MapOf(pairs ...any) *Map {
	m := &Map{}
	for i := 0; i+1 < len(pairs); i += 2 {
		m.Set(pairs[i], pairs[i+1])
	}
	return m
}

// Len returns the number of entries.
func (m *Map) Len() int { return len(m.entries) }

// Entries returns the entries in order. The caller must not change them.
func (m *Map) Entries() []Entry { return m.entries }

// Get returns the value of key, and whether there is one.
func (m *Map) Get(key any) (any, bool) {
	if i, ok := m.index[Hash(key)]; ok {
		return m.entries[i].Val, true
	}
	return nil, false
}

// Set sets the value of key.
func (m *Map) Set(key, val any) {
	h := Hash(key)
	if i, ok := m.index[h]; ok {
		m.entries[i].Val = val
		return
	}
	if m.index == nil {
		m.index = map[string]int{}
	}
	m.index[h] = len(m.entries)
	m.entries = append(m.entries, Entry{key, val})
}

// Without returns a copy of the map that lacks the keys for which drop is true.
func (m *Map) Without(drop func(key any) bool) *Map {
	out := &Map{}
	for _, e := range m.entries {
		if !drop(e.Key) {
			out.Set(e.Key, e.Val)
		}
	}
	return out
}

// Set is a collection without duplicates that keeps the order in which values
// were first added. Values are the same as by Hash. The zero Set is empty and
// ready to use. Do not copy a Set.
type Set struct {
	items []any
	index map[string]struct{}
}

// NewSet returns a set of the given values.
func NewSet(vals ...any) *Set {
	s := &Set{}
	for _, v := range vals {
		s.Add(v)
	}
	return s
}

// Add adds v and reports whether it was new.
func (s *Set) Add(v any) bool {
	h := Hash(v)
	if _, ok := s.index[h]; ok {
		return false
	}
	if s.index == nil {
		s.index = map[string]struct{}{}
	}
	s.index[h] = struct{}{}
	s.items = append(s.items, v)
	return true
}

// Has reports whether the set has v.
func (s *Set) Has(v any) bool {
	_, ok := s.index[Hash(v)]
	return ok
}

// Len returns the number of values.
func (s *Set) Len() int { return len(s.items) }

// Items returns the values in order. The caller must not change them.
func (s *Set) Items() []any { return s.items }

// BulkSet is a multiset: what aggregate collects. The zero BulkSet is empty and
// ready to use. Do not copy a BulkSet.
type BulkSet struct {
	items []any
	bulks []int64
	index map[string]int
}

// Add adds bulk copies of v.
func (s *BulkSet) Add(v any, bulk int64) {
	h := Hash(v)
	if i, ok := s.index[h]; ok {
		s.bulks[i] += bulk
		return
	}
	if s.index == nil {
		s.index = map[string]int{}
	}
	s.index[h] = len(s.items)
	s.items = append(s.items, v)
	s.bulks = append(s.bulks, bulk)
}

// Len returns the number of values, each counted as often as it was added.
func (s *BulkSet) Len() int64 {
	n := int64(0)
	for _, b := range s.bulks {
		n += b
	}
	return n
}

// All yields each different value and how often it was added, until yield returns
// false. It is an iter.Seq2.
func (s *BulkSet) All(yield func(v any, bulk int64) bool) {
	for i, v := range s.items {
		if !yield(v, s.bulks[i]) {
			return
		}
	}
}

// Different returns the number of different values.
func (s *BulkSet) Different() int { return len(s.items) }

// Has reports whether v was added.
func (s *BulkSet) Has(v any) bool {
	_, ok := s.index[Hash(v)]
	return ok
}
