package sqldriver

import (
	"database/sql/driver"

	"github.com/skerrydb/skerry/resp/wire"
)

// shape is how a result is mapped to rows.
type shape uint8

const (
	noRows   shape = iota // null
	oneRow                // a struct
	manyRows              // a slice of structs
	oneValue              // one row with one column
	values                // a slice: rows with one column
	pairs                 // a map: rows with key and value
)

// resultColumn is the name of the column if a result has no names.
const resultColumn = "result"

// layout describes the rows and columns of a result. It is never modified.
type layout struct {
	shape shape
	names []string
	types []*typ // nil: determined by the reply
}

// layOut determines the rows of a result from its type.
func layOut(t *typ) layout {
	switch t.Kind {
	case kindNull:
		return layout{}
	case kindObject:
		return ofFields(oneRow, t)
	case kindList:
		if t.Of == nil {
			return single(values, nil)
		}
		if t.Of.Kind == kindObject && len(t.Of.Fields) > 0 {
			return ofFields(manyRows, t.Of) // a null among them is a row of NULLs
		}
		return single(values, t.Of)
	case kindMap:
		return layout{shape: pairs, names: []string{"key", "value"}, types: []*typ{{Kind: kindString}, t.Of}}
	}
	return single(oneValue, t)
}

func single(s shape, t *typ) layout {
	return layout{shape: s, names: []string{resultColumn}, types: []*typ{t}}
}

func ofFields(s shape, t *typ) layout {
	l := layout{shape: s}
	for _, f := range t.Fields {
		f.Type.Nullable = f.Type.Nullable || s == manyRows && t.Nullable
		l.names = append(l.names, f.Name)
		l.types = append(l.types, &f.Type)
	}
	return l
}

// list reports whether values of that kind have elements.
func list(kind byte) bool {
	return kind == wire.KindArray || kind == wire.KindSet || kind == wire.KindPush
}

// begin returns a cursor at the first row of a reply, and the number of rows. If the reply
// has another shape, it returns errMisfit.
func (l *layout) begin(raw []byte) (c cursor, n int, err error) {
	c = cursor{raw}
	if l.shape == oneValue {
		return c, 1, nil
	}
	it := c.peek()
	switch {
	case it.IsNull():
		return c, 0, nil
	case l.shape == oneRow && it.Kind == wire.KindMap:
		return c, 1, nil
	case (l.shape == values || l.shape == manyRows) && list(it.Kind):
		c.next()
		return c, it.Len, nil
	case l.shape == pairs && it.Kind == wire.KindMap:
		c.next()
		return c, it.Len / 2, nil
	}
	return c, 0, errMisfit
}

// row reads the next row into dest.
func (l *layout) row(c *cursor, dest []driver.Value) (err error) {
	fields := l.shape == oneRow || l.shape == manyRows
	if fields {
		it := c.next()
		if it.IsNull() {
			clear(dest)
			return nil
		}
		if it.Kind != wire.KindMap || it.Len != 2*len(l.names) {
			return errMisfit
		}
	}
	for i := range l.names {
		if fields {
			if it := c.next(); string(it.Str) != l.names[i] {
				return errMisfit
			}
		}
		if dest[i], err = c.value(l.types[i]); err != nil {
			return err
		}
	}
	return nil
}

// layShown determines the rows of a reply whose schema is unknown or does not match.
func layShown(raw []byte) layout {
	c := cursor{raw}
	it := c.next()
	switch {
	case it.IsNull():
		return layout{}
	case it.Kind == wire.KindMap:
		return fieldsShown(oneRow, c, it.Len/2)
	case !list(it.Kind):
		return single(oneValue, nil)
	case it.Len == 0:
		return single(values, nil)
	}
	first := c.next()
	if first.Kind != wire.KindMap {
		return single(values, nil)
	}
	l := fieldsShown(manyRows, c, first.Len/2)
	if l.fits(raw) != nil {
		return single(values, nil)
	}
	return l
}

func fieldsShown(s shape, c cursor, n int) layout {
	l := layout{shape: s}
	for range n {
		l.names = append(l.names, string(c.next().Str))
		l.types = append(l.types, nil)
		c.b, _ = wire.Skip(c.b)
	}
	return l
}

// fits reads a whole reply. It returns errMisfit if the reply does not match l.
func (l *layout) fits(raw []byte) error {
	c, n, err := l.begin(raw)
	if err != nil {
		return err
	}
	dest := make([]driver.Value, len(l.names))
	for range n {
		if err := l.row(&c, dest); err != nil {
			return err
		}
	}
	return nil
}
