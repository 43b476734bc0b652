package query

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skerrydb/skerry/record/expr"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/record/value"
)

// Limits of aggregates.
const (
	MaxGroupFields = 4     // fields to group by
	MaxAggregates  = 16    // aggregates of one query
	MaxGroups      = 1_000 // groups of one query
)

// AggregateOp is a function that computes one value from many.
type AggregateOp string

// The aggregates. Null is left out; of no values each but CountOf is null.
const (
	CountOf AggregateOp = "count" // of values, or without a field of records
	SumOf   AggregateOp = "sum"   // exact: of ints an int, or a decimal if no int holds it; of decimals a decimal; of floats the nearest float
	AvgOf   AggregateOp = "avg"   // of ints and decimals a decimal with at most AvgDigits digits after its point, half away from zero; of floats the nearest float
	MinOf   AggregateOp = "min"
	MaxOf   AggregateOp = "max"
)

// AvgDigits is the maximum number of digits after the decimal point in an average of ints or decimals.
const AvgDigits = 16

var aggregateOps = []string{string(CountOf), string(SumOf), string(AvgOf), string(MinOf), string(MaxOf)}

// Aggregate is one value to compute.
type Aggregate struct {
	Name string // as it is written: "count", "sum(total)"
	Op   AggregateOp
	term *term // nil: of records
}

// Group groups records by the value of a column or field, or by the beginning of the period of a time, in UTC.
type Group struct {
	Name string // as it is written: "status", "month(created)"
	unit string // "": the value itself
	term *term
}

// units are the periods in which times can be grouped. A week begins on Monday.
var units = []string{"hour", "day", "week", "month", "year"}

// ParseGroup reads what to group by: names with commas between them, each alone or, if it is a time, in one of
// hour(…), day(…), week(…), month(…) and year(…). The error is an *expr.Error.
func ParseGroup(text string, s Scope) (all []Group, err error) {
	err = list(text, MaxGroupFields, func(text string, at expr.Span) error {
		unit, t, err := s.call(text, at, units)
		if err != nil {
			return err
		}
		if unit != "" && t.kind != value.Time {
			return fail(at, "%s needs a time, not %s", unit, t.kind.Article())
		}
		if slices.ContainsFunc(all, func(g Group) bool { return g.Name == text }) {
			return fail(at, "%s appears twice", text)
		}
		all = append(all, Group{text, unit, t})
		return nil
	})
	return all, err
}

// ParseAggregates reads what to compute: count, count(NAME), sum(NAME), avg(NAME), min(NAME) and max(NAME) with commas
// between them. Fields of type json have no aggregates. The error is an *expr.Error.
func ParseAggregates(text string, s Scope) (all []Aggregate, err error) {
	err = list(text, MaxAggregates, func(text string, at expr.Span) error {
		a := Aggregate{Name: text, Op: CountOf}
		if text != string(CountOf) {
			op, t, err := s.call(text, at, aggregateOps)
			switch {
			case err != nil:
				return err
			case op == "":
				return fail(at, "%q is not a valid aggregate; use one of %s with a field in parentheses%s", text, strings.Join(aggregateOps, ", "), meant(text, aggregateOps))
			}
			a.Op, a.term = AggregateOp(op), t
			if (a.Op == SumOf || a.Op == AvgOf) && !t.kind.IsNumber() {
				return fail(at, "%s needs numbers, not %s", op, t.kind.Article())
			}
		}
		if slices.ContainsFunc(all, func(b Aggregate) bool { return a.Name == b.Name }) {
			return fail(at, "%s appears twice", text)
		}
		all = append(all, a)
		return nil
	})
	return all, err
}

// GroupOrder is a group or aggregate of a query by which its groups are sorted. Null comes before all values, or with Desc
// after them.
type GroupOrder struct {
	Name      string // as it is written
	Desc      bool
	aggregate bool
	index     int // in Query.Group or Query.Aggregates
}

// groupOrders reads what to sort the groups of q by, as ParseOrders does: names of groups and aggregates as the query has
// them.
func (q *Query) groupOrders(text string) (all []GroupOrder, err error) {
	var names []string
	for _, g := range q.Group {
		names = append(names, g.Name)
	}
	for _, a := range q.Aggregates {
		names = append(names, a.Name)
	}
	err = signed(text, func(name string, desc bool, at expr.Span) error {
		i := slices.IndexFunc(names, func(x string) bool { return unspaced(x) == unspaced(name) })
		if i < 0 {
			return fail(at, "%q is neither a group nor an aggregate of the query%s", name, meant(name, names))
		}
		o := GroupOrder{Name: names[i], Desc: desc, index: i}
		if slices.ContainsFunc(all, func(x GroupOrder) bool { return x.Name == o.Name }) {
			return fail(at, "%s appears twice", name)
		}
		if n := len(q.Group); i >= n {
			o.aggregate, o.index = true, i-n
		}
		all = append(all, o)
		return nil
	})
	return all, err
}

// unspaced returns a name without the spaces that one may have around parentheses.
func unspaced(name string) string { return strings.ReplaceAll(name, " ", "") }

// distinct reports a name that is of a group and of an aggregate: the answer could not have both.
func (q *Query) distinct() error {
	for _, a := range q.Aggregates {
		if slices.ContainsFunc(q.Group, func(g Group) bool { return g.Name == a.Name }) {
			return fmt.Errorf("%s is also the name of a group; write %s(id)", a.Name, CountOf)
		}
	}
	return nil
}

// call reads NAME or FUNCTION(NAME). A function must be one of functions.
func (s Scope) call(text string, at expr.Span, functions []string) (function string, t *term, err error) {
	name := text
	if before, rest, ok := strings.Cut(text, "("); ok {
		function, name = strings.TrimSpace(before), strings.TrimSpace(rest)
		if !slices.Contains(functions, function) {
			return "", nil, fail(at, "unknown function %q; use one of %s%s", function, strings.Join(functions, ", "), meant(function, functions))
		}
		if name, ok = strings.CutSuffix(name, ")"); !ok {
			return "", nil, fail(at, "a closing parenthesis is missing")
		}
		at.Pos += len(before) + 1
	}
	if t, err = s.path([]string{strings.TrimSpace(name)}, at, MaxHops); err != nil {
		if function == "" && slices.Contains(functions, string(CountOf)) {
			return "", nil, nil // the caller knows what was probably meant
		}
		return "", nil, err
	}
	if t.kind == value.JSON {
		return "", nil, fail(at, "%s can have values of different types", name)
	}
	return function, t, nil
}

// of returns the value of a record by which it is put into a group.
func (g *Group) of(row Row) value.Value {
	v, _ := g.term.of(nil, row, nil) // a column or field cannot fail
	at, ok := v.Time()
	if g.unit == "" || !ok {
		return v
	}
	year, month, day := at.Date()
	switch g.unit {
	case "hour":
		at = at.Truncate(time.Hour)
	case "day":
		at = time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
	case "week":
		at = time.Date(year, month, day-(int(at.Weekday())+6)%7, 0, 0, 0, 0, time.UTC)
	case "month":
		at = time.Date(year, month, 1, 0, 0, 0, 0, time.UTC)
	case "year":
		at = time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	return known(value.OfTime(at))
}

// Groups collects the records of a query in groups and computes the aggregates of each.
type Groups struct {
	query *Query
	byKey map[string]*group
}

type group struct {
	key  []value.Value
	sums []sum
}

// NewGroups returns the groups of no records.
func NewGroups(q *Query) *Groups { return &Groups{q, map[string]*group{}} }

// Add adds a record. It fails with CodeTooLarge if there are more than MaxGroups groups.
func (g *Groups) Add(row Row) error {
	var key []value.Value
	var text []byte
	for i := range g.query.Group {
		v := g.query.Group[i].of(row)
		key, text = append(key, v), v.AppendKey(text)
	}
	in := g.byKey[string(text)]
	if in == nil {
		if len(g.byKey) == MaxGroups {
			return &Error{Code: CodeTooLarge, Member: "group", Text: fmt.Sprintf("more than %d groups; group by a field with fewer values, or narrow the filter", MaxGroups)}
		}
		in = &group{key, make([]sum, len(g.query.Aggregates))}
		g.byKey[string(text)] = in
	}
	for i, a := range g.query.Aggregates {
		v := value.OfBool(true)
		if a.term != nil {
			v, _ = a.term.of(nil, row, nil)
		}
		if !v.IsNull() {
			in.sums[i].add(a.Op, v)
		}
	}
	return nil
}

// Values are the aggregates of one group.
type Values struct {
	Group      []value.Value // as Query.Group
	Aggregates []value.Value // as Query.Aggregates
}

// Values returns all groups, sorted by Query.GroupOrders, and where these do not tell groups apart by their values. Without
// Query.Group there is always one. It fails with CodeTooLarge.
func (g *Groups) Values() ([]Values, error) {
	if len(g.query.Group) == 0 && len(g.byKey) == 0 {
		g.byKey[""] = &group{nil, make([]sum, len(g.query.Aggregates))}
	}
	var all []Values
	for _, in := range g.byKey {
		v := Values{Group: in.key}
		for i, a := range g.query.Aggregates {
			x, err := in.sums[i].value(a)
			if err != nil {
				return nil, err
			}
			v.Aggregates = append(v.Aggregates, x)
		}
		all = append(all, v)
	}
	slices.SortFunc(all, g.compare)
	return all, nil
}

// compare returns -1, 0 or +1 as group a sorts before, with or after b.
func (g *Groups) compare(a, b Values) int {
	for _, o := range g.query.GroupOrders {
		x, y := a.Group, b.Group
		if o.aggregate {
			x, y = a.Aggregates, b.Aggregates
		}
		if c := value.Compare(x[o.index], y[o.index]); c != 0 {
			if o.Desc {
				return -c
			}
			return c
		}
	}
	return slices.CompareFunc(a.Group, b.Group, value.Compare)
}

// kind returns the kind of the values of an aggregate other than null.
func (a *Aggregate) kind() value.Kind {
	switch {
	case a.Op == CountOf:
		return value.Int
	case a.Op == AvgOf && a.term.kind == value.Int:
		return value.Decimal
	}
	return a.term.kind
}

// Type returns the type of the values of an aggregate. A sum of ints may be a decimal all the same.
func (a *Aggregate) Type() schema.Type {
	return [...]schema.Type{value.Bool: schema.Bool, value.Int: schema.Int, value.Float: schema.Float, value.Decimal: schema.Decimal, value.Time: schema.Time, value.Text: schema.Text}[a.kind()]
}
