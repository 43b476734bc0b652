package files

import (
	"bytes"
	"errors"
	"io"

	"github.com/skerrydb/skerry/graph/graphson"
	"github.com/skerrydb/skerry/graph/message"
	"github.com/skerrydb/skerry/graph/value"
)

// lineReader reads a line of GraphSON: a vertex with its edges.
type lineReader struct {
	o    ReadOptions
	s    sink
	cut  cutter
	at   Position // of the line
	what string   // the element that is being read
}

func readGraphSON(in *input, o ReadOptions, s sink) error {
	var buf []byte
	for line := 1; ; line++ {
		at := Position{File: in.name, Line: line, Column: 1, Offset: in.offset}
		b, err := in.line(buf, o.RecordBytes)
		switch {
		case errors.Is(err, errRecord):
			return at.limit("", "a line has at most %d bytes (MaxRecordBytes)", o.RecordBytes)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return reading(in.name, err)
		}
		buf = b
		at.Bytes = in.offset - at.Offset
		if len(bytes.TrimSpace(b)) == 0 {
			continue
		}
		r := &lineReader{o: o, s: s, cut: cutter{b: b}, at: at, what: "vertex"}
		if err := r.located(r.vertex()); err != nil {
			return err
		}
	}
}

// located gives an error of JSON its position.
func (r *lineReader) located(err error) error {
	var e *cutError
	if !errors.As(err, &e) {
		return err
	}
	at := r.at
	at.Column = e.at + 1
	return at.errorf(r.what, "%s", e.msg)
}

// here returns the position of the value that the cutter has just passed.
func (r *lineReader) here(from int) Position {
	at := r.at
	at.Column, at.Offset, at.Bytes = from+1, at.Offset+int64(from), int64(r.cut.at-from)
	return at
}

// value reads a value.
func (r *lineReader) value() (any, error) {
	r.cut.next()
	from := r.cut.at
	if err := r.cut.skip(); err != nil {
		return nil, err
	}
	v, err := graphson.Decode(r.cut.b[from:r.cut.at])
	if err == nil {
		if s, ok := v.(*value.BulkSet); ok { // as the graph has it
			v = value.List(value.Items(s))
		}
		return v, nil
	}
	var e *message.Error
	if errors.As(err, &e) {
		return nil, &cutError{from + e.Offset, e.Msg}
	}
	return nil, &cutError{from, err.Error()}
}

func (r *lineReader) id() (any, error) {
	from := r.cut.at
	v, err := r.value()
	if err != nil {
		return nil, err
	}
	id, ok := ownID(v)
	if !ok {
		return nil, &cutError{from, "expected an id that is a whole number, a UUID or a string of 1 to 256 bytes, found " + value.Describe(v)}
	}
	return id, nil
}

func (r *lineReader) text(what string) (string, error) {
	from := r.cut.at
	v, err := r.value()
	if err != nil {
		return "", err
	}
	s, ok := v.(string)
	if !ok {
		return "", &cutError{from, "expected " + what + " that is a string, found " + value.Describe(v)}
	}
	return s, nil
}

// vertex reads the line. It reads it in full before anything is yielded but for edges.
func (r *lineReader) vertex() error {
	v := &Vertex{At: r.at}
	label, props, edges := "", -1, -1
	seen := map[string]bool{}
	err := r.cut.object("a vertex", func(name string) (err error) {
		if seen[name] {
			return r.cut.failf("expected %q once", name)
		}
		seen[name] = true
		switch name {
		case "id":
			v.ID, err = r.id()
			r.what = named("vertex", v.ID)
			return err
		case "label":
			label, err = r.text("a label")
			return err
		case "properties":
			props = r.cut.at
		case "outE":
			edges = r.cut.at
		case "inE": // each edge is also an outE of its other vertex
		case "vertices":
			return r.cut.failf("expected a vertex a line, found all in one object (wrapAdjacencyList)")
		default:
			return r.cut.failf("expected id, label, inE, outE or properties, found %q", clip(name))
		}
		return r.cut.skip()
	})
	if err == nil && r.cut.next() != 0 {
		err = r.cut.failf("expected the end of the line, found %q", r.cut.next())
	}
	if err == nil && v.ID == nil {
		err = r.cut.failf("expected a vertex with an id")
	}
	switch {
	case err != nil:
		return err
	case r.s.edge != nil && edges >= 0:
		r.cut.at = edges
		return r.edges(v.ID)
	case r.s.edge != nil:
		return nil
	}
	v.Labels = vertexLabels(label)
	if err := r.o.checkLabels(r.at, r.what, v.Labels); err != nil {
		return err
	}
	if props >= 0 {
		r.cut.at = props
		if v.Properties, err = r.vertexProperties(); err != nil {
			return err
		}
	}
	return r.s.vertex(v)
}

// vertexProperties reads an object with an array of values for each key.
func (r *lineReader) vertexProperties() ([]Property, error) {
	all := &bag{o: r.o, at: r.at, what: r.what}
	n := 0 // with properties of properties
	err := r.cut.object("properties", func(key string) error {
		return r.cut.array("the values of a property", func() error {
			p, err := r.vertexProperty(key)
			if err != nil {
				return err
			}
			if n += len(p.Properties); n > r.o.Properties {
				return r.at.limit(r.what, "its properties have more than %d properties (MaxProperties)", r.o.Properties)
			}
			return all.add(p)
		})
	})
	return all.props, err
}

func (r *lineReader) vertexProperty(key string) (Property, error) {
	p, found := Property{Key: key}, false
	err := r.cut.object("a property", func(name string) (err error) {
		switch name {
		case "value":
			found = true
			p.Val, err = r.value()
			return err
		case "properties":
			p.Properties, err = r.plain()
			return err
		case "id", "label": // ids of properties are the graph's
			return r.cut.skip()
		}
		return r.cut.failf("expected id, value or properties of the property %q, found %q", clip(key), clip(name))
	})
	if err == nil && !found {
		err = r.cut.failf("expected a value of the property %q", clip(key))
	}
	return p, err
}

// plain reads an object with a value for each key. That may be a typed g:Property.
func (r *lineReader) plain() ([]Property, error) {
	all := &bag{o: r.o, at: r.at, what: r.what, once: true}
	err := r.cut.object("properties", func(key string) error {
		v, err := r.value()
		if err != nil {
			return err
		}
		if p, ok := v.(*value.Property); ok {
			v = p.Val
		}
		return all.add(Property{Key: key, Val: v})
	})
	return all.props, err
}

// edges reads an object with an array of edges for each label.
func (r *lineReader) edges(out any) error {
	vertex := r.what
	return r.cut.object("edges", func(label string) error {
		return r.cut.array("the edges of a label", func() error {
			r.cut.next()
			from := r.cut.at
			r.what = "edge of " + vertex
			e := &Edge{Label: label, Out: out}
			if err := r.edge(e); err != nil {
				return err
			}
			e.At = r.here(from)
			if err := r.o.checkName(e.At, r.what, label); err != nil {
				return err
			}
			return r.s.edge(e)
		})
	})
}

func (r *lineReader) edge(e *Edge) error {
	err := r.cut.object("an edge", func(name string) (err error) {
		switch name {
		case "id":
			e.ID, err = r.id()
			r.what = named("edge", e.ID)
		case "inV":
			e.In, err = r.id()
		case "properties":
			e.Properties, err = r.plain()
		case "label", "inVLabel", "outVLabel", "outV":
			err = r.cut.skip()
		default:
			err = r.cut.failf("expected id, inV or properties, found %q", clip(name))
		}
		return err
	})
	if err == nil && (e.ID == nil || e.In == nil) {
		err = r.cut.failf("expected an edge with an id and the id inV of a vertex")
	}
	return err
}
