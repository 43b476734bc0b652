package record

import (
	"strconv"

	"github.com/skerrydb/skerry/record/keys"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/record/value"
)

// Record is one record as an actor sees it. Do not modify it.
type Record struct {
	*keys.Doc
	in *collection
}

func newRecord(c *collection, d *keys.Doc) *Record { return &Record{d, c} }

// Collection returns the description of the record's collection.
func (r *Record) Collection() *schema.Compiled { return r.in.Compiled }

// Value returns the value of a column or field by its name, null if there is none.
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

// AppendJSON appends the record as clients see it: an object of its columns that are not null, and "data", without
// passwords.
func (r *Record) AppendJSON(dst []byte) []byte {
	for i, c := range schema.Columns() {
		v := r.Column(i)
		if v.IsNull() {
			continue
		}
		if i == 0 {
			dst = append(dst, '{')
		} else {
			dst = append(dst, ',')
		}
		dst = append(strconv.AppendQuote(dst, c.Name), ':')
		dst = v.AppendJSON(dst)
	}
	return append(r.in.AppendPublic(append(dst, `,"data":`...), r.Data), '}')
}

// MarshalJSON returns what AppendJSON appends.
func (r *Record) MarshalJSON() ([]byte, error) { return r.AppendJSON(nil), nil }
