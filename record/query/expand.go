package query

import (
	"fmt"
	"slices"
	"strings"

	"github.com/skerrydb/skerry/record/expr"
	"github.com/skerrydb/skerry/record/schema"
)

// Limits of expansions.
const (
	MaxExpand     = 32    // references that one query expands, those on the way to others included
	MaxExpandList = 100   // records of one list
	MaxExpanded   = 5_000 // records that the expansions of one page add
)

// Expand adds the records related by a reference, in either direction.
type Expand struct {
	Name       string           // as it is written: "owner", "comments(post)"
	Collection *schema.Compiled // of the records
	Field      int              // the reference, of this collection or, with List, of the other
	List       bool             // the records refer to this one
	Next       []*Expand        // of each of the records
}

// ParseExpand reads which references to expand: paths with commas between them, each of at most MaxHops steps with
// points between them. A step is a field that is a reference, or COLLECTION(FIELD) for the records of another
// collection whose field refers to this one:
//
//	owner,owner.company,comments(post).author
//
// Paths that begin in the same way share their first steps. The error is an *expr.Error.
func ParseExpand(text string, s Scope) ([]*Expand, error) {
	var root Expand
	n := 0
	err := list(text, MaxExpand, func(path string, at expr.Span) error {
		in, k := &root, s.Collection
		steps := strings.Split(path, ".")
		if len(steps) > MaxHops {
			return fail(at, "more than %d references in one path", MaxHops)
		}
		for _, step := range steps {
			i := slices.IndexFunc(in.Next, func(e *Expand) bool { return e.Name == step })
			if i < 0 {
				e, err := s.step(k, step, at)
				if err != nil {
					return err
				}
				if n++; n > MaxExpand {
					return fail(at, "more than %d references to expand", MaxExpand)
				}
				i, in.Next = len(in.Next), append(in.Next, e)
			}
			in = in.Next[i]
			k = in.Collection
			at.Pos += len(step) + 1
		}
		return nil
	})
	return root.Next, err
}

// step reads one step of a path that has come to collection k.
func (s Scope) step(k *schema.Compiled, text string, at expr.Span) (*Expand, error) {
	name, rest, back := strings.Cut(text, "(")
	if !back {
		i, ok := k.Index(name)
		switch {
		case !ok:
			return nil, fail(at, "%s has no field %q%s", k.Name, name, meant(name, references(k, "")))
		case k.Fields[i].Type != schema.Reference:
			return nil, fail(at, "%s is not a reference%s", name, meant(name, references(k, "")))
		}
		other := s.other(k.Fields[i].Collection)
		if other == nil {
			return nil, fail(at, "%s refers to the unknown collection %s", name, k.Fields[i].Collection)
		}
		return &Expand{Name: name, Collection: other, Field: i}, nil
	}
	field, ok := strings.CutSuffix(rest, ")")
	if !ok {
		return nil, fail(at, "a closing parenthesis is missing")
	}
	other := s.other(name)
	if other == nil {
		return nil, fail(at, "unknown collection %q", name)
	}
	i, ok := other.Index(field)
	if !ok || other.Fields[i].Type != schema.Reference || other.Fields[i].Collection != k.Name {
		return nil, fail(at, "%s has no field %q that refers to %s%s", name, field, k.Name, meant(field, references(other, k.Name)))
	}
	return &Expand{Name: text, Collection: other, Field: i, List: true}, nil
}

// references returns the names of the fields that refer to a collection; "" is any.
func references(k *schema.Compiled, to string) (names []string) {
	for _, f := range k.Fields {
		if f.Type == schema.Reference && (to == "" || f.Collection == to) {
			names = append(names, f.Name)
		}
	}
	return names
}

// Lookup finds the records to add. It leaves out those that the caller of the query must not see.
type Lookup interface {
	// Get returns the record with an id that is not deleted, or nil.
	Get(k *schema.Compiled, id string) (Row, error)

	// Referring returns, by id, at most n of the records that are not deleted and whose field is id.
	Referring(k *schema.Compiled, field int, id string, n int) ([]Row, error)
}

// Related are the records that an Expand has found for one record.
type Related struct {
	*Expand
	Rows []Row       // without List at most one
	Of   [][]Related // what the expansions of Next have found for each of Rows
	More bool        // there are more than MaxExpandList
}

// Expander expands the records of one page. It looks up every record once, and stops with CodeTooLarge at more than
// MaxExpanded of them.
type Expander struct {
	lookup Lookup
	found  map[place]Row
	n      int
}

type place struct{ collection, id string }

// NewExpander returns an Expander that finds records with l.
func NewExpander(l Lookup) *Expander { return &Expander{lookup: l, found: map[place]Row{}} }

// Expand returns the records that each of all finds for row, in the same order.
func (x *Expander) Expand(row Row, all []*Expand) ([]Related, error) {
	var found []Related
	for _, e := range all {
		r := Related{Expand: e}
		var err error
		if e.List {
			err = x.referring(&r, row)
		} else {
			err = x.get(&r, row)
		}
		if err != nil {
			return nil, err
		}
		if x.n += len(r.Rows); x.n > MaxExpanded {
			return nil, &Error{Code: CodeTooLarge, Member: "expand", Text: fmt.Sprintf("it would add more than %d records; use smaller pages or fewer references", MaxExpanded)}
		}
		for _, to := range r.Rows {
			of, err := x.Expand(to, e.Next)
			if err != nil {
				return nil, err
			}
			r.Of = append(r.Of, of)
		}
		found = append(found, r)
	}
	return found, nil
}

func (x *Expander) get(r *Related, row Row) error {
	id, ok := row.Field(r.Field).Text()
	if !ok {
		return nil
	}
	at := place{r.Collection.Name, id}
	to, ok := x.found[at]
	if !ok {
		var err error
		if to, err = x.lookup.Get(r.Collection, id); err != nil {
			return err
		}
		x.found[at] = to
	}
	if to != nil {
		r.Rows = []Row{to}
	}
	return nil
}

func (x *Expander) referring(r *Related, row Row) (err error) {
	id, _ := row.Column(0).Text()
	r.Rows, err = x.lookup.Referring(r.Collection, r.Field, id, MaxExpandList+1)
	if r.More = len(r.Rows) > MaxExpandList; r.More {
		r.Rows = r.Rows[:MaxExpandList]
	}
	return err
}
