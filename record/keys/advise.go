package keys

import (
	"math"
	"slices"
	"strings"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/schema"
)

// maxAdvised is how many indexes are advised together. More than one are for a union, which needs an index for each alternative.
const maxAdvised = 4

// minGain is how many times fewer records a search must read by an index that is advised.
const minGain = 2

// guessedRecords is how many records a collection is supposed to have where nothing counts them.
const guessedRecords = 100_000

// Reason says why no index is advised.
type Reason string

// The reasons.
const (
	Advised     Reason = ""
	OtherEngine Reason = "engine"   // the engine plans the search itself
	InPast      Reason = "past"     // indexes have only the present
	Unbounded   Reason = "filter"   // no condition compares a column or field with a value in a way that an index serves
	Exists      Reason = "exists"   // an index that was added since serves it
	Building    Reason = "building" // an index that is being built will serve it
	NoGain      Reason = "planner"  // the planner would not use the index, or read about as many records with it
)

// Advice is what would make a search read fewer records.
type Advice struct {
	Indexes []schema.Index // without names; all are needed
	Reason  Reason         // why there are none
	Index   string         // of Exists and Building: its name, or several
	Reads   int            // how many records the planner expects to read with the indexes
}

// Measured is what was measured of a search, on average. It is about the values that the search had then; Advise needs only
// samples of them.
type Measured struct {
	Index    string // by which the records were found, "" if by none
	Union    bool   // by several
	Read     float64
	Met      float64 // of Read
	Expected float64 // records in the ranges, 0 if unknown
	Usable   uint64  // Collection.Usable then
	All      bool    // every record was wanted, to count it or for an aggregate
}

// sizes says how many records are in the ranges of a way to the records within some bounds.
type sizes func(a *access, b bounds, bounded bool) int

// supposed marks indexes that do not exist. No declared index has such a name.
const supposed = "?"

// Advise returns the indexes with which the planner would find the records of a search by reading fewer of them. It asks the
// planner, with indexes that do not exist.
func Advise(tx engine.Tx, c *Collection, s *Search, m Measured) (Advice, error) {
	if _, own := c.driver().(ordered); !own && !c.parted() {
		return Advice{Reason: OtherEngine}, nil
	}
	if s.Past != nil {
		return Advice{Reason: InPast}, nil
	}
	a := adviser{tx: tx, c: c, s: s, m: m}
	_, a.counts = tx.(engine.Ranker)
	a.read = max(m.Read, 1)
	n, err := ReadCounters(tx, c)
	if err != nil {
		return Advice{}, err
	}
	for _, deleted := range []bool{false, true} {
		if s.Deleted.Includes(deleted) {
			a.total += float64(n.of(deleted))
		}
	}
	if c.parted() {
		a.total = guessedRecords
	}
	a.total = max(a.total, a.read)
	if m.Read == 0 {
		a.read = a.total // it was refused: it would have to read all
	}
	return a.advise()
}

// adviser is an Advise under way.
type adviser struct {
	tx     engine.Tx
	c      *Collection
	s      *Search
	m      Measured
	counts bool    // the planner counts records, so that it knows the sizes of ranges
	total  float64 // records
	read   float64 // of them, those that the search has read
}

func (a *adviser) advise() (Advice, error) {
	now, err := a.plan(nil, a.sizes)
	if err != nil {
		return Advice{}, err
	}
	if len(now.ways) > 0 && a.m.Usable != a.c.Usable() {
		if name := now.ways[0].names(); name != "" && name != a.m.Index && (a.m.Index != "" || !a.m.Union) && a.gains(now.ways[0].cost) {
			return Advice{Reason: Exists, Index: name}, nil
		}
	}
	best := Advice{Reason: Unbounded}
	for _, fields := range now.candidates() {
		if best.Reason == Unbounded {
			best.Reason = NoGain
		}
		if err := a.try([][]schema.IndexField{fields}, &best); err != nil {
			return Advice{}, err
		}
	}
	if err := a.tryUnion(now, &best); err != nil {
		return Advice{}, err
	}
	for _, x := range best.Indexes {
		if name := a.c.unfinished(x.Fields); name != "" {
			return Advice{Reason: Building, Index: name}, nil
		}
	}
	return best, nil
}

// gains reports whether it is worth an index to read n records.
func (a *adviser) gains(n int) bool { return float64(n)*minGain <= a.read }

// plan plans the search as if there were indexes on some fields besides those that there are.
func (a *adviser) plan(sets [][]schema.IndexField, by sizes) (*search, error) {
	c, s := *a.c, *a.s
	c.stored = slices.Clip(c.stored)
	for _, fields := range sets {
		c.stored = append(c.stored, newIndex(c.Compiled, schema.Index{Name: supposed, Fields: fields}, 0, true))
	}
	s.sizes, s.everything = by, a.m.All
	f, err := newSearch(a.tx, &c, &s, MaxScan+s.Offset+s.Limit)
	if _, none := err.(*PathError); none { //nolint:errorlint // newSearch returns it as it is
		err = nil
	}
	return f, err
}

// try asks the planner about indexes. If it would use all of them, and read fewer records than with those of best, they become
// best.
func (a *adviser) try(sets [][]schema.IndexField, best *Advice) error {
	f, err := a.plan(sets, a.sizes)
	if err != nil {
		return err
	}
	reads := math.MaxInt
	for _, w := range f.ways {
		if w.supposes() == len(sets) {
			reads = min(reads, w.cost)
		}
	}
	if !a.counts { // it guesses otherwise than by what was measured
		if f, err = a.plan(sets, nil); err != nil {
			return err
		}
	}
	if len(f.ways) == 0 || f.ways[0].supposes() != len(sets) || !a.gains(reads) || best.Indexes != nil && reads >= best.Reads {
		return nil
	}
	*best = Advice{Reads: reads}
	for _, fields := range sets {
		best.Indexes = append(best.Indexes, schema.Index{Fields: fields})
	}
	return nil
}

// tryUnion tries the indexes that the alternatives of a disjunction lack, one after the other, until a union has all.
func (a *adviser) tryUnion(f *search, best *Advice) error {
	var sets [][]schema.IndexField
	for len(sets) < maxAdvised && len(f.lacking) > 0 {
		sets = append(sets, f.lacking)
		if err := a.try(sets, best); err != nil {
			return err
		}
		var err error
		if f, err = a.plan(sets, a.sizes); err != nil {
			return err
		}
	}
	if best.Reason == Unbounded && slices.ContainsFunc(f.ways, func(w *access) bool { return len(sets) > 0 && w.supposes() == len(sets) }) {
		best.Reason = NoGain
	}
	return nil
}

// names returns the names of the indexes that a way reads.
func (a *access) names() string {
	var all []string
	for _, p := range append([]*access{a}, a.parts...) {
		if p.index != nil && !slices.Contains(all, p.index.Name) {
			all = append(all, p.index.Name)
		}
	}
	return strings.Join(all, ", ")
}

// supposes returns how many indexes that do not exist a way reads.
func (a *access) supposes() int {
	all := map[*Index]bool{}
	for _, p := range append([]*access{a}, a.parts...) {
		if p.index != nil && p.index.Name == supposed {
			all[p.index] = true
		}
	}
	return len(all)
}

// candidates returns the fields of the indexes that may help: those with one value, then one range or the order.
func (f *search) candidates() (all [][]schema.IndexField) {
	add := func(b bounds, ordered bool) {
		fields := f.wanted(b, ordered)
		if len(fields) > 0 && !slices.ContainsFunc(all, func(x []schema.IndexField) bool { return slices.Equal(x, fields) }) {
			all = append(all, fields)
		}
	}
	equal := bounds{}
	var ranges []string
	for name, x := range f.bounds {
		if x.equal {
			equal[name] = x
		} else {
			ranges = append(ranges, name)
		}
	}
	slices.Sort(ranges)
	add(equal, false)
	for _, name := range ranges {
		one := bounds{name: f.bounds[name]}
		for name, x := range equal {
			one[name] = x
		}
		add(one, false)
	}
	add(equal, true)
	return all
}

// unfinished returns the name of an index that begins with some fields and is not ready; "" if there is none.
func (c *Collection) unfinished(fields []schema.IndexField) string {
	for i := range c.stored {
		if x := &c.stored[i]; !x.Ready && len(x.Fields) >= len(fields) && slices.Equal(x.Fields[:len(fields)], fields) {
			return x.Name
		}
	}
	return ""
}

// sizes supposes that each bound, and what else is asked of records, leaves out its share of those that were read and not
// found, as if all left out the same part; a range counts half. Of what was measured it takes that.
func (a *adviser) sizes(w *access, b bounds, bounded bool) int {
	all, used := 0.0, 0.0
	for name, x := range b {
		if name == "is_deleted" {
			continue // entries are kept apart by it
		}
		weight := 1.0
		if !x.equal {
			weight = 0.5
		}
		all += weight
		if slices.Contains(w.used, name) {
			used += weight
		}
	}
	if !bounded {
		all++
	}
	expected := a.m.Expected
	if expected == 0 || a.m.Index == "" && !a.m.Union {
		expected = a.total
	}
	expected = min(max(expected, a.read), a.total)
	found := max(a.m.Met, 0.5) / a.read * expected // of all records
	size := a.total
	if all > 0 {
		size *= math.Pow(found/a.total, used/all)
	}
	if x := w.index; x != nil && x.Name != supposed && a.m.Usable == a.c.Usable() {
		if size = max(size, expected); x.Name == a.m.Index {
			size = expected // the planner had the others too, and did not take them
		}
	}
	return int(math.Ceil(size))
}

// Usable returns a number that is different once the planner may use other indexes.
func (c *Collection) Usable() uint64 {
	ready := uint64(0)
	for i := range c.stored {
		if c.stored[i].Ready {
			ready++
		}
	}
	return c.Version<<16 | ready
}
