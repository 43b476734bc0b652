package record

import (
	"encoding/json"
	"strconv"

	"github.com/skerrydb/skerry/record/keys"
	"github.com/skerrydb/skerry/record/query"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/record/value"
)

// Record is a record as its actor sees it. Do not modify it.
type Record struct {
	*keys.Doc
	in *collection
}

func newRecord(c *collection, d *keys.Doc) *Record { return &Record{d, c} }

// Collection returns the description of the record's collection.
func (r *Record) Collection() *schema.Compiled { return r.in.Compiled }

// Value returns the value of a column or field, or null if there is none.
func (r *Record) Value(name string) value.Value {
	if i, ok := r.in.Index(name); ok {
		return r.Field(i)
	}
	for i, c := range schema.Columns() {
		if c.Name == name {
			return r.Column(i)
		}
	}
	return r.Extra(name)
}

// AppendJSON appends the record in the form that clients receive: an object with the columns that are not null, and
// "data" without passwords.
func (r *Record) AppendJSON(dst []byte) []byte {
	return append(r.in.AppendPublic(append(r.appendColumns(dst, nil), `,"data":`...), r.Data), '}')
}

// appendColumns appends the columns that are not null and that the query wants; nil wants all. The object is not closed.
func (r *Record) appendColumns(dst []byte, q *query.Query) []byte {
	for i, c := range schema.Columns() {
		v := r.Column(i)
		if v.IsNull() || q != nil && !q.Wants(c.Name) {
			continue
		}
		if i == 0 {
			dst = append(dst, '{')
		} else {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, '"'), c.Name...), `":`...)
		dst = v.AppendJSON(dst)
	}
	return dst
}

// MarshalJSON returns what AppendJSON appends.
func (r *Record) MarshalJSON() ([]byte, error) { return r.AppendJSON(nil), nil }

// AppendJSON appends the page as clients see it: {"items":[…],"next":"…","total":n}, with
// "total_at_least":true if there may be more, or with aggregates {"groups":[…]}, with "more":true if there are others. What
// the query expands is in the member "expand" of a record, by the names of the query.
func (p *Page) AppendJSON(dst []byte) []byte {
	if len(p.query.Aggregates) > 0 {
		return p.appendGroups(dst)
	}
	dst = append(dst, `{"items":[`...)
	for i := range p.Items {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = p.AppendItem(dst, i)
	}
	dst = append(dst, ']')
	if p.Next != "" {
		dst = strconv.AppendQuote(append(dst, `,"next":`...), p.Next)
	}
	if p.query.Count {
		dst = strconv.AppendInt(append(dst, `,"total":`...), int64(p.Total), 10)
		if p.AtLeast {
			dst = append(dst, `,"total_at_least":true`...)
		}
	}
	return append(p.appendPlans(dst), '}')
}

// appendPlans appends how the records of the page, and their total, were found.
func (p *Page) appendPlans(dst []byte) []byte {
	for _, x := range []struct {
		name string
		plan *keys.Plan
	}{{"plan", p.Plan}, {"count_plan", p.Count}} {
		if x.plan != nil {
			text, _ := json.Marshal(x.plan) // it has only texts, numbers and lists of them
			dst = append(append(strconv.AppendQuote(append(dst, ','), x.name), ':'), text...)
		}
	}
	return dst
}

// AppendItem appends one of Items, with what the query asks of it.
func (p *Page) AppendItem(dst []byte, i int) []byte {
	r, q := p.Items[i], p.query
	dst = r.appendColumns(dst, q)
	dst = append(dst, `,"data":`...)
	if q.Fields == nil {
		dst = r.in.AppendPublic(dst, r.Data)
	} else {
		dst = r.in.AppendOnly(dst, r.Data, q.Wants)
	}
	if p.related != nil {
		dst = appendRelated(append(dst, `,"expand":`...), p.related[i])
	}
	return append(dst, '}')
}

func appendRelated(dst []byte, all []query.Related) []byte {
	dst = append(dst, '{')
	for i := range all {
		r := &all[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(strconv.AppendQuote(dst, r.Name), ':')
		switch {
		case r.List:
			dst = append(dst, `{"items":[`...)
			for j := range r.Rows {
				if j > 0 {
					dst = append(dst, ',')
				}
				dst = appendRow(dst, r, j)
			}
			dst = strconv.AppendBool(append(dst, `],"more":`...), r.More)
			dst = append(dst, '}')
		case len(r.Rows) == 0:
			dst = append(dst, "null"...)
		default:
			dst = appendRow(dst, r, 0)
		}
	}
	return append(dst, '}')
}

// appendRow appends one related record, with what is expanded of it.
func appendRow(dst []byte, r *query.Related, i int) []byte {
	dst = r.Rows[i].(*Record).AppendJSON(dst) // as lookup returns them
	if len(r.Next) == 0 {
		return dst
	}
	return append(appendRelated(append(dst[:len(dst)-1], `,"expand":`...), r.Of[i]), '}')
}

func (p *Page) appendGroups(dst []byte) []byte {
	dst = append(dst, `{"groups":[`...)
	for i, g := range p.Groups {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, '{')
		for j, x := range p.query.Group {
			dst = append(strconv.AppendQuote(dst, x.Name), ':')
			dst = append(g.Group[j].AppendJSON(dst), ',')
		}
		for j, x := range p.query.Aggregates {
			dst = append(strconv.AppendQuote(dst, x.Name), ':')
			dst = append(g.Aggregates[j].AppendJSON(dst), ',')
		}
		dst[len(dst)-1] = '}'
	}
	dst = append(dst, ']')
	if p.More {
		dst = append(dst, `,"more":true`...)
	}
	return append(p.appendPlans(dst), '}')
}
