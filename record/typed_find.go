package record

import (
	"context"
	"errors"
	"iter"
	"net/url"
	"strconv"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/expr"
	"github.com/skerrydb/skerry/record/query"
)

// Query selects records of a Set. The zero value selects all, sorted by id: oldest first, unless clients choose the
// ids.
type Query struct {
	Filter string // a condition in the language of package expr, with ? for values that follow the query; "" is every record
	Sort   string // columns and fields, with - for descending order: "-created,title"
	Limit  int    // List: records of a page, 0 is query.DefaultLimit. Find: records altogether, 0 is no limit
	After  string // the cursor that List has returned for the page before; "" is the first page
	Trash  bool   // records in the trash instead of the others
}

// findBatch is how many records Find reads at once.
const findBatch = 200

// params returns the query as query.Parse reads it.
func (q Query) params(args []any) (url.Values, error) {
	p := url.Values{}
	set := func(name, text string) {
		if text != "" {
			p.Set(name, text)
		}
	}
	filter, err := expr.Bind(q.Filter, args...)
	if err != nil {
		bad := &query.Error{Code: query.CodeInvalid, Member: "filter", Text: err.Error()}
		if x, ok := errors.AsType[*expr.Error](err); ok {
			bad.Pos, bad.Text = x.Pos, x.Text
		}
		return nil, invalidQuery(bad)
	}
	set("filter", filter)
	set("sort", q.Sort)
	set("after", q.After)
	if q.Limit != 0 {
		p.Set("limit", strconv.Itoa(q.Limit))
	}
	if q.Trash {
		p.Set("deleted", query.Trash.String())
	}
	return p, nil
}

// List returns a page of the records of a collection; see Set.List.
func (t *Tx) List(collection string, q Query, args ...any) (*Page, error) {
	p, err := q.params(args)
	if err != nil {
		return nil, err
	}
	return t.list(collection, p)
}

func (t *Tx) list(collection string, params url.Values) (*Page, error) {
	q, err := t.ParseQuery(collection, params)
	if err != nil {
		return nil, err
	}
	return t.Find(collection, q)
}

// CheckQuery returns the error with which a query of the program would fail: it is malformed, the actor may not make it, or it has
// no access path on an engine that needs one (CodeNoPath; the message names the index to declare). Call it when the program starts,
// after Define, for each query that it is going to make. The actor and args are examples. It reads no records.
func (db *DB) CheckQuery(ctx context.Context, a Actor, collection string, q Query, args ...any) error {
	p, err := q.params(args)
	if err != nil {
		return err
	}
	p.Set("limit", "0")
	_, err = db.View(ctx, engine.Read{}, a, func(tx *Tx) error {
		_, err := tx.list(collection, p)
		return err
	})
	return err
}

// page returns a page of records, and how many there are on all pages if the query counts them.
func (s *Set[T]) page(r Runner, p url.Values) (items []*T, next string, total int, err error) {
	err = r.run(false, func(tx *Tx) error {
		found, err := tx.list(s.Name(), p)
		if err != nil {
			return err
		}
		if items, next, total = nil, found.Next, found.Total; found.AtLeast {
			return engine.Errorf(CodeScan, "there are more than %d records; the count would read more than %d", total, MaxCounted)
		}
		for _, x := range found.Items {
			v, err := s.decode(x)
			if err != nil {
				return err
			}
			items = append(items, v)
		}
		return nil
	})
	return items, next, total, err
}

// List returns a page of the records that match q and that the actor may list, and the cursor of the next page, or ""
// after the last page. args are the values of the placeholders in the filter; see expr.Bind:
//
//	page, next, err := Posts.List(tx, record.Query{Filter: "author = ?", Sort: "-created"}, author)
func (s *Set[T]) List(r Runner, q Query, args ...any) (items []*T, next string, err error) {
	p, err := q.params(args)
	if err != nil {
		return nil, "", err
	}
	items, next, _, err = s.page(r, p)
	return items, next, err
}

// Find returns an iterator over the records that match q and that the actor may list; see List. It reads in batches. In
// a Tx all batches see the same state; otherwise each batch is a separate transaction. An error is yielded last. The
// loop may change records, but a record that it moves to a later place in the order is yielded again.
func (s *Set[T]) Find(r Runner, q Query, args ...any) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		p, err := q.params(args)
		for left := q.Limit; err == nil; {
			batch := findBatch
			if left > 0 {
				batch = min(batch, left)
			}
			p.Set("limit", strconv.Itoa(batch))
			var items []*T
			var next string
			if items, next, _, err = s.page(r, p); err != nil {
				break
			}
			for _, v := range items {
				if !yield(v, nil) {
					return
				}
			}
			if left -= len(items); next == "" || left == 0 {
				return
			}
			p.Set("after", next)
		}
		yield(nil, err)
	}
}

// First returns the first record that matches q and that the actor may list; see List. If there is none, the error
// matches ErrNotFound.
func (s *Set[T]) First(r Runner, q Query, args ...any) (*T, error) {
	q.Limit = 1
	items, _, err := s.List(r, q, args...)
	if err == nil && len(items) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	return items[0], nil
}

// Count returns how many records meet a query and may be listed by the actor. Sort, Limit and After mean nothing. For an
// actor who is not System it fails with CodeScan rather than read more than MaxCounted records.
func (s *Set[T]) Count(r Runner, q Query, args ...any) (int, error) {
	q.Sort, q.Limit, q.After = "", 0, ""
	p, err := q.params(args)
	if err != nil {
		return 0, err
	}
	p.Set("limit", "0")
	p.Set("count", "true")
	_, _, total, err := s.page(r, p)
	return total, err
}
