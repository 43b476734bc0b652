package proc

import (
	"encoding/base64"
	"reflect"
	"strconv"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/jsonscan"
)

// replay writes a result that is stored as JSON in the same form as value wrote the
// original. Some information is lost in JSON: bytes in strings that are not UTF-8, and
// omitted fields, which become zero. It implements Call.Write; jsonWriter.replay is the
// counterpart for Call.AppendJSON.
func (w *writer) replay(p *plan, c *cursor) error {
	if err := w.count(0); err != nil {
		return err
	}
	null := c.Peek() == 'n'
	switch p.op {
	case opPtr:
		if null {
			c.Raw()
			w.sink.Null()
			return nil
		}
		return w.replay(p.elem, c)
	case opNull:
		c.Raw()
		w.sink.Null()
	case opBool:
		text := string(c.Raw())
		if text != "true" && text != "false" {
			return other(strconv.ErrSyntax)
		}
		w.sink.Bool(text == "true")
	case opInt, opUint, opFloat:
		return w.replayNumber(p, c.Raw())
	case opObject:
		return w.replayObject(p, c)
	case opList, opArray:
		return w.replayList(p, c)
	case opMap:
		return w.replayMap(p, c, null)
	case opJSON:
		return w.replayBulk(c.Raw())
	default:
		return w.replayText(p, c, null)
	}
	return nil
}

func (w *writer) replayBulk(b []byte) error {
	if err := w.countText(len(b)); err != nil {
		return err
	}
	w.sink.Bulk(b)
	return nil
}

func (w *writer) replayNumber(p *plan, text []byte) (err error) {
	switch p.op {
	case opInt:
		var i int64
		i, err = strconv.ParseInt(string(text), 10, p.bits)
		w.sink.Int(i)
	case opUint:
		var u uint64
		u, err = strconv.ParseUint(string(text), 10, p.bits)
		w.uint(u)
	default:
		var f float64
		f, err = strconv.ParseFloat(string(text), p.bits)
		w.sink.Double(f)
	}
	return other(err)
}

func (w *writer) replayText(p *plan, c *cursor, null bool) error {
	if null && p.op == opBytes {
		c.Raw()
		w.sink.Bulk(nil)
		return nil
	}
	if c.Peek() != '"' {
		return other(strconv.ErrSyntax)
	}
	text, _ := c.Text()
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
	return w.replayBulk(text)
}

func (w *writer) replayObject(p *plan, c *cursor) error {
	if c.Peek() != '{' {
		return other(strconv.ErrSyntax)
	}
	found := p.members(c)
	w.sink.Map(len(p.fields))
	for i := range p.fields {
		f := &p.fields[i]
		err := w.count(len(f.name))
		if err != nil {
			return err
		}
		w.sink.BulkString(f.name)
		switch {
		case found[i] != nil:
			err = w.replay(f.plan, &cursor{Scanner: jsonscan.New(found[i])})
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

// members returns the text of each field's value in the object at c, or nil for missing
// fields. Unknown fields are skipped.
func (p *plan) members(c *cursor) [][]byte {
	found := make([][]byte, len(p.fields))
	for c.Open(); c.More('}'); {
		key, _ := c.Text()
		raw := c.Raw()
		if i, ok := p.byName[string(key)]; ok {
			found[i] = raw
		}
	}
	return found
}

func (w *writer) replayList(p *plan, c *cursor) error {
	if p.op == opList && c.Peek() == 'n' {
		c.Raw()
		w.sink.Array(0)
		return nil
	}
	if c.Peek() != '[' {
		return other(strconv.ErrSyntax)
	}
	n, ahead := 0, c.Scanner
	for ahead.Open(); ahead.More(']'); n++ {
		ahead.Raw()
	}
	if p.op == opArray && n != p.typ.Len() {
		return other(strconv.ErrRange)
	}
	w.sink.Array(n)
	for c.Open(); c.More(']'); {
		if err := w.replay(p.elem, c); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) replayMap(p *plan, c *cursor, null bool) error {
	if null {
		c.Raw()
		w.sink.Map(0)
		return nil
	}
	if c.Peek() != '{' {
		return other(strconv.ErrSyntax)
	}
	n, ahead := 0, c.Scanner
	for ahead.Open(); ahead.More('}'); n++ {
		ahead.Text()
		ahead.Raw()
	}
	w.sink.Map(n)
	key := reflect.New(p.typ.Key()).Elem()
	for c.Open(); c.More('}'); {
		text, _ := c.Text()
		if setKey(key, text) != nil {
			return other(strconv.ErrSyntax)
		}
		if err := w.count(len(text)); err != nil {
			return err
		}
		w.sink.Bulk(text)
		if err := w.replay(p.elem, c); err != nil {
			return err
		}
	}
	return nil
}

// other returns the error for a remembered answer whose shape differs from the procedure's
// result, because another version of the program stored it. It returns nil if err is nil.
func other(err error) error {
	if err == nil {
		return nil
	}
	return engine.Errorf(engine.CodeUnsupported, "the answer was remembered by a version of the program whose result has another shape")
}

// nowhere is a Sink that discards a result, to check it.
type nowhere struct{}

func (nowhere) Null()             {}
func (nowhere) Bool(bool)         {}
func (nowhere) Int(int64)         {}
func (nowhere) Double(float64)    {}
func (nowhere) Bulk([]byte)       {}
func (nowhere) BulkString(string) {}
func (nowhere) Array(int)         {}
func (nowhere) Map(int)           {}

// replay appends a result that is stored as JSON and whose shape writer.replay has checked.
// Only objects differ from the stored form: they get the present fields.
func (w *jsonWriter) replay(p *plan, c *cursor) error {
	begin := c.Peek()
	switch {
	case p.op == opNull:
		c.Raw()
		w.b = append(w.b, "null"...)
	case p.op == opPtr && begin != 'n':
		return w.replay(p.elem, c)
	case p.op == opObject:
		return w.replayObject(p, c)
	case begin == '[' && p.op != opJSON:
		return w.replayAll(p, c, '[', ']', false)
	case p.op == opMap && begin != 'n':
		return w.replayAll(p, c, '{', '}', true)
	default:
		w.b = append(w.b, c.Raw()...)
	}
	return w.check(0)
}

func (w *jsonWriter) replayObject(p *plan, c *cursor) error {
	w.b = append(w.b, '{')
	first := len(w.b)
	for i, raw := range p.members(c) {
		f := &p.fields[i]
		none := reflect.Zero(f.typ)
		if raw == nil && (f.viaPointer || f.omitted(none)) {
			continue
		}
		if len(w.b) > first {
			w.b = append(w.b, ',')
		}
		w.b = append(w.b, f.label...)
		var err error
		if raw != nil {
			err = w.replay(f.plan, &cursor{Scanner: jsonscan.New(raw)})
		} else {
			err = w.value(f.plan, addressable(none))
		}
		if err != nil {
			return err
		}
	}
	w.b = append(w.b, '}')
	return w.check(0)
}

// replayAll writes a list, or if keyed a map.
func (w *jsonWriter) replayAll(p *plan, c *cursor, open, end byte, keyed bool) error {
	w.b = append(w.b, open)
	first := len(w.b)
	for c.Open(); c.More(end); {
		if len(w.b) > first {
			w.b = append(w.b, ',')
		}
		if keyed {
			w.b = append(append(w.b, c.Raw()...), ':')
		}
		if err := w.replay(p.elem, c); err != nil {
			return err
		}
	}
	w.b = append(w.b, end)
	return w.check(0)
}
