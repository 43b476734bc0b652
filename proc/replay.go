package proc

import (
	"encoding/base64"
	"reflect"
	"strconv"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// replay writes a result that is kept as JSON, as value wrote it when it was a
// value. What JSON does not tell is lost: bytes that are no UTF-8 in a string, and
// fields that were left out are zero.
func (w *writer) replay(p *plan, c *cursor) error {
	if err := w.count(0); err != nil {
		return err
	}
	null := c.peek() == 'n'
	switch p.op {
	case opPtr:
		if null {
			c.raw()
			w.sink.Null()
			return nil
		}
		return w.replay(p.elem, c)
	case opNull:
		c.raw()
		w.sink.Null()
	case opBool:
		v, err := strconv.ParseBool(string(c.raw()))
		w.sink.Bool(v)
		return other(err)
	case opInt, opUint, opFloat:
		return w.replayNumber(p, c.raw())
	case opObject:
		return w.replayObject(p, c)
	case opList, opArray:
		return w.replayList(p, c, null)
	case opMap:
		return w.replayMap(p, c, null)
	case opJSON:
		w.sink.Bulk(c.raw())
	default:
		return w.replayText(p, c, null)
	}
	return nil
}

func (w *writer) replayNumber(p *plan, text []byte) (err error) {
	switch p.op {
	case opInt:
		var i int64
		i, err = strconv.ParseInt(string(text), 10, 64)
		w.sink.Int(i)
	case opUint:
		var u uint64
		u, err = strconv.ParseUint(string(text), 10, 64)
		w.uint(u)
	default:
		var f float64
		f, err = strconv.ParseFloat(string(text), p.bits)
		w.sink.Double(f)
	}
	return other(err)
}

func (w *writer) replayText(p *plan, c *cursor, null bool) error {
	if null { // bytes that are nil
		c.raw()
		w.sink.Bulk(nil)
		return nil
	}
	if c.peek() != '"' {
		return other(strconv.ErrSyntax)
	}
	text := c.text()
	switch p.op {
	case opBytes:
		b, err := base64.StdEncoding.AppendDecode(nil, text)
		if err != nil {
			return other(err)
		}
		text = b
	case opTime:
		var at time.Time
		if err := at.UnmarshalText(text); err != nil {
			return other(err)
		}
		b, err := at.UTC().AppendText(w.scratch[:0])
		if err != nil {
			return other(err)
		}
		w.scratch, text = b, b
	}
	w.sink.Bulk(text)
	return nil
}

func (w *writer) replayObject(p *plan, c *cursor) error {
	if c.peek() != '{' {
		return other(strconv.ErrSyntax)
	}
	found := make([][]byte, len(p.fields))
	for c.i++; c.more('}'); {
		key := c.text()
		c.peek()
		c.i++
		raw := c.raw()
		if i, ok := p.byName[string(key)]; ok {
			found[i] = raw
		}
	}
	w.sink.Map(len(p.fields))
	for i := range p.fields {
		f := &p.fields[i]
		w.sink.BulkString(f.name)
		var err error
		switch {
		case found[i] != nil:
			err = w.replay(f.plan, &cursor{b: found[i]})
		case f.viaPointer:
			w.sink.Null()
		default:
			err = w.value(f.plan, addressable(reflect.Zero(f.typ)))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) replayList(p *plan, c *cursor, null bool) error {
	if null {
		c.raw()
		w.sink.Array(0)
		return nil
	}
	if c.peek() != '[' {
		return other(strconv.ErrSyntax)
	}
	n, at := 0, c.i
	for c.i++; c.more(']'); n++ {
		c.raw()
	}
	c.i = at
	w.sink.Array(n)
	for c.i++; c.more(']'); {
		if err := w.replay(p.elem, c); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) replayMap(p *plan, c *cursor, null bool) error {
	if null {
		c.raw()
		w.sink.Map(0)
		return nil
	}
	if c.peek() != '{' {
		return other(strconv.ErrSyntax)
	}
	n, at := 0, c.i
	for c.i++; c.more('}'); n++ {
		c.text()
		c.peek()
		c.i++
		c.raw()
	}
	c.i = at
	w.sink.Map(n)
	for c.i++; c.more('}'); {
		w.sink.Bulk(c.text())
		c.peek()
		c.i++
		if err := w.replay(p.elem, c); err != nil {
			return err
		}
	}
	return nil
}

// other is the error of an answer whose shape is not that of the procedure's
// result, nil if err is nil: another version of the program remembered it.
func other(err error) error {
	if err == nil {
		return nil
	}
	return engine.Errorf(engine.CodeUnsupported, "the answer was remembered by a version of the program whose result has another shape")
}
