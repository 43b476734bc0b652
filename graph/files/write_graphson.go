package files

import (
	"bufio"
	"unicode/utf8"

	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/graph/graphson"
	"github.com/skerrydb/skerry/graph/value"
)

// lineWriter writes a vertex with its edges in a line.
type lineWriter struct {
	w     *bufio.Writer
	k     *keeper
	buf   []byte
	size  int    // of the line so far
	what  string // the vertex
	label string // of the edge before
	some  bool   // there was one
	props int64  // properties of vertices so far: TinkerPop needs ids of them
}

// raw writes what is in buf.
func (w *lineWriter) raw() error {
	w.size += len(w.buf)
	_, err := w.w.Write(w.buf)
	w.buf = w.buf[:0]
	if err == nil {
		err = recordLimit(w.what, w.size)
	}
	return err
}

// text appends a string, or refuses it.
func (w *lineWriter) text(what, kind, s string) error {
	if !utf8.ValidString(s) {
		return w.k.refuse(what, "%s, which is not UTF-8", kind)
	}
	return w.value(s)
}

func (w *lineWriter) value(v any) (err error) {
	w.buf, err = graphson.Typed.Append(w.buf, v)
	return err
}

func (w *lineWriter) id(what string, id any) error {
	if s, ok := id.(string); ok {
		return w.text(what, "its id", s)
	}
	return w.value(id)
}

func (w *lineWriter) begin(v *Vertex) error {
	w.size, w.what = 0, named("vertex", v.ID)
	w.buf = append(w.buf, `{"id":`...)
	if err := w.id(w.what, v.ID); err != nil {
		return err
	}
	label, err := w.k.labels(w.what, v.Labels)
	if err != nil {
		return err
	}
	w.buf = append(w.buf, `,"label":`...)
	if err := w.text(w.what, "a label", label); err != nil {
		return err
	}
	return w.raw()
}

// edge writes an edge. Those of a direction follow each other, sorted by label.
func (w *lineWriter) edge(dir graph.Direction, e *Edge) error {
	what := named("edge", e.ID)
	name, far, id := `,"outE":{`, `,"inV":`, e.In
	if dir == graph.In {
		name, far, id = `,"inE":{`, `,"outV":`, e.Out
	}
	switch {
	case !w.some:
		w.buf = append(w.buf, name...)
	case w.label != e.Label:
		w.buf = append(w.buf, "],"...)
	default:
		w.buf = append(w.buf, ',')
	}
	if !w.some || w.label != e.Label {
		if err := w.text(what, "its label", e.Label); err != nil {
			return err
		}
		w.buf = append(w.buf, ":["...)
	}
	w.some, w.label = true, e.Label
	w.buf = append(w.buf, `{"id":`...)
	if err := w.id(what, e.ID); err != nil {
		return err
	}
	w.buf = append(w.buf, far...)
	if err := w.id(what, id); err != nil {
		return err
	}
	if err := w.plain(what, e.Properties); err != nil {
		return err
	}
	w.buf = append(w.buf, '}')
	return w.raw()
}

func (w *lineWriter) endEdges() {
	if w.some {
		w.buf = append(w.buf, "]}"...)
	}
	w.some = false
}

// plain writes properties that have none of their own.
func (w *lineWriter) plain(what string, props []Property) error {
	n := 0
	for _, p := range props {
		if !whole(p.Key) || !whole(p.Val) {
			if err := w.k.leave(what, "the property %q, which is not UTF-8", clip(p.Key)); err != nil {
				return err
			}
			continue
		}
		if n++; n == 1 {
			w.buf = append(w.buf, `,"properties":{`...)
		} else {
			w.buf = append(w.buf, ',')
		}
		if err := w.value(p.Key); err != nil {
			return err
		}
		w.buf = append(w.buf, ':')
		if err := w.value(p.Val); err != nil {
			return err
		}
	}
	if n > 0 {
		w.buf = append(w.buf, '}')
	}
	return nil
}

// end writes the properties of the vertex and ends the line.
func (w *lineWriter) end(v *Vertex) error {
	at := map[string]int{}
	var groups [][]Property
	for _, p := range v.Properties {
		if !whole(p.Key) || !whole(p.Val) {
			if err := w.k.leave(w.what, "the property %q, which is not UTF-8", clip(p.Key)); err != nil {
				return err
			}
			continue
		}
		i, ok := at[p.Key]
		if !ok {
			i = len(groups)
			at[p.Key] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], p)
	}
	for i, group := range groups {
		begin := `],`
		if i == 0 {
			begin = `,"properties":{`
		}
		w.buf = append(w.buf, begin...)
		if err := w.value(group[0].Key); err != nil {
			return err
		}
		w.buf = append(w.buf, ":["...)
		for j, p := range group {
			if j > 0 {
				w.buf = append(w.buf, ',')
			}
			if err := w.property(p); err != nil {
				return err
			}
		}
	}
	if len(groups) > 0 {
		w.buf = append(w.buf, "]}"...)
	}
	w.buf = append(w.buf, "}\n"...)
	return w.raw()
}

// property writes a value of a property.
func (w *lineWriter) property(p Property) error {
	w.buf = append(w.buf, `{"id":`...)
	if err := w.value(w.props); err != nil {
		return err
	}
	w.props++
	w.buf = append(w.buf, `,"value":`...)
	if err := w.value(p.Val); err != nil {
		return err
	}
	if err := w.plain(w.what, p.Properties); err != nil {
		return err
	}
	w.buf = append(w.buf, '}')
	return w.raw()
}

// whole reports whether JSON can hold a value as it is: its text is UTF-8.
func whole(v any) bool {
	switch x := v.(type) {
	case string:
		return utf8.ValidString(x)
	case value.Char:
		return utf8.ValidRune(rune(x))
	case value.List, *value.Set:
		for _, item := range value.Items(x) {
			if !whole(item) {
				return false
			}
		}
	case *value.Map:
		for _, e := range x.Entries() {
			if !whole(e.Key) || !whole(e.Val) {
				return false
			}
		}
	}
	return true
}
