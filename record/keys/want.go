package keys

import (
	"slices"

	"github.com/skerrydb/skerry/record/schema"
)

// tooMany returns the error for a search that needs an index.
func (f *search) tooMany() error {
	e := &ScanError{Collection: f.c.Name, Limit: f.budget - f.Offset - f.Limit}
	fields := f.wanted(f.bounds, true)
	if f.lacking != nil && len(f.wanted(f.bounds, false)) == 0 {
		fields = f.lacking
	}
	if len(fields) == 0 {
		return e
	}
	e.Want = &schema.Index{Fields: fields}
	for i := range f.c.stored {
		if x := &f.c.stored[i]; len(x.Fields) >= len(fields) && slices.Equal(x.Fields[:len(fields)], fields) {
			if e.Want = nil; !x.Ready {
				e.Building = x.Name
			}
			break
		}
	}
	return e
}

// wanted returns the fields of the index that would help most with some bounds: those with one value, then a range or, if
// ordered is set, the order.
func (f *search) wanted(b bounds, ordered bool) (fields []schema.IndexField) {
	if f.Past != nil {
		return nil
	}
	add := func(name string, desc bool) {
		if name != "id" && name != "is_deleted" && !slices.ContainsFunc(fields, func(x schema.IndexField) bool { return x.Name == name }) && len(fields) < schema.MaxIndexFields {
			fields = append(fields, schema.IndexField{Name: name, Desc: desc})
		}
	}
	var names []string
	for name := range b {
		names = append(names, name)
	}
	slices.Sort(names)
	ranged := false
	for _, equal := range []bool{true, false} {
		for _, name := range names {
			if b[name].equal == equal && (equal || !ranged) {
				ranged = ranged || !equal && name != "id"
				add(name, false)
			}
		}
	}
	if !ranged && ordered && !f.everything {
		for _, o := range f.Orders {
			add(o.Name, o.Desc)
		}
	}
	return fields
}
