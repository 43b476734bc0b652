package traversal

import (
	"slices"

	"github.com/skerrydb/skerry/graph/gql"
	"github.com/skerrydb/skerry/graph/value"
)

// rows are the results of RETURN: one for each solution, or for each group of them
// if one of the values is computed of several.
type rows struct {
	r      *run
	q      *gql.Query
	list   []*value.Map
	groups map[string]*rowGroup
	order  []*rowGroup
	seen   map[string]bool // with DISTINCT
}

// rowGroup has the solutions that agree in the values that are not computed.
type rowGroup struct {
	row  *value.Map
	aggs []*aggregate
}

// aggregate is a value that is computed of all solutions of a group.
type aggregate struct {
	name  string
	count int64
	sum   *summing
	list  value.List
}

func newRows(r *run, q *gql.Query) *rows {
	return &rows{r: r, q: q, groups: map[string]*rowGroup{}, seen: map[string]bool{}}
}

func (o *rows) grouped() bool {
	return slices.ContainsFunc(o.q.Return, func(i gql.Item) bool { return i.Func != "" })
}

// returned adds a solution.
func (s *describer) returned(o *rows, found []value.Element) error {
	row := &value.Map{}
	key := value.List{}
	vals := make([]any, len(o.q.Return))
	for i, item := range o.q.Return {
		v, err := s.operand(item.Operand, found)
		if err != nil {
			return err
		}
		if vals[i] = v; item.Func == "" {
			row.Set(item.Name, v)
			key = append(key, v)
		}
	}
	if !o.grouped() {
		return o.add(row)
	}
	h := value.EqualHash(key)
	g := o.groups[h]
	if g == nil {
		if err := o.r.hold(1); err != nil {
			return err
		}
		g = &rowGroup{row: row}
		for _, item := range o.q.Return {
			g.aggs = append(g.aggs, newAggregate(item.Func))
		}
		o.groups[h], o.order = g, append(o.order, g)
	}
	for i, item := range o.q.Return {
		if err := g.aggs[i].add(o.r, item, vals[i]); err != nil {
			return err
		}
	}
	return nil
}

func (o *rows) add(row *value.Map) error {
	if o.q.Distinct {
		h := value.EqualHash(row)
		if o.seen[h] {
			return nil
		}
		o.seen[h] = true
	}
	o.list = append(o.list, row)
	return o.r.hold(1)
}

func newAggregate(name string) *aggregate {
	sums := map[string]string{"sum": "sum", "avg": "mean", "min": "min", "max": "max"}
	return &aggregate{name: name, sum: &summing{name: sums[name]}, list: value.List{}}
}

// add adds a value. null counts for nothing.
func (a *aggregate) add(r *run, item gql.Item, v any) error {
	if item.Func == "" || v == nil && !item.All {
		return nil
	}
	a.count++
	switch item.Func {
	case "count":
		return nil
	case "collect":
		a.list = append(a.list, v)
		return r.hold(1)
	}
	return a.sum.add(traverser{val: v, bulk: 1})
}

func (a *aggregate) value() (any, error) {
	switch a.name {
	case "count":
		return a.count, nil
	case "collect":
		return a.list, nil
	}
	v, _, err := a.sum.result()
	if v == nil && a.name == "sum" {
		v = int64(0)
	}
	return v, err
}

// all returns the rows in their order.
func (o *rows) all() ([]*value.Map, error) {
	if o.grouped() && len(o.order) == 0 && !slices.ContainsFunc(o.q.Return, func(i gql.Item) bool { return i.Func == "" }) {
		g := &rowGroup{row: &value.Map{}} // of no solution there is still a count
		for _, item := range o.q.Return {
			g.aggs = append(g.aggs, newAggregate(item.Func))
		}
		o.order = append(o.order, g)
	}
	for _, g := range o.order {
		row := &value.Map{}
		for i, item := range o.q.Return {
			v, _ := g.row.Get(item.Name)
			if item.Func != "" {
				var err error
				if v, err = g.aggs[i].value(); err != nil {
					return nil, err
				}
			}
			row.Set(item.Name, v)
		}
		if err := o.add(row); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(o.list, func(a, b *value.Map) int {
		for _, by := range o.q.Order {
			x, _ := a.Get(by.Name)
			y, _ := b.Get(by.Name)
			if c := value.Order(x, y); c != 0 {
				if by.Desc {
					return -c
				}
				return c
			}
		}
		return 0
	})
	out := o.list[min(int64(len(o.list)), o.q.Skip):]
	if o.q.Limit >= 0 {
		out = out[:min(int64(len(out)), o.q.Limit)]
	}
	return out, nil
}
