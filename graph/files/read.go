package files

import (
	"errors"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/graph/value"
)

// sink takes what a reader finds. Only one of its functions is set: a reader reads
// over what is not asked for. A function returns errStop to end the reading.
type sink struct {
	vertex func(*Vertex) error
	edge   func(*Edge) error
}

var errStop = errors.New("stop")

// Vertices yields the vertices of a file, in its order, until an error, which comes
// last. Of CSV it is a file of vertices.
func (f File) Vertices(format Format, o ReadOptions) iter.Seq2[*Vertex, error] {
	return func(yield func(*Vertex, error) bool) {
		if err := f.read(format, o, sink{vertex: func(v *Vertex) error { return goOn(yield(v, nil)) }}); err != nil {
			yield(nil, err)
		}
	}
}

// Edges yields the edges of a file, as Vertices does.
func (f File) Edges(format Format, o ReadOptions) iter.Seq2[*Edge, error] {
	return func(yield func(*Edge, error) bool) {
		n := int64(0)
		if err := f.read(format, o, sink{edge: func(e *Edge) error {
			n++
			e.Number = n
			return goOn(yield(e, nil))
		}}); err != nil {
			yield(nil, err)
		}
	}
}

func goOn(more bool) error {
	if more {
		return nil
	}
	return errStop
}

// read reads the file once. Nothing is yielded after s has returned errStop.
func (f File) read(format Format, o ReadOptions, s sink) (err error) {
	if o, err = o.checked(); err != nil {
		return err
	}
	var run func(*input, ReadOptions, sink) error
	switch format {
	case GraphSON:
		run = readGraphSON
	case GraphML:
		run = readGraphML
	case CSV:
		run = readCSV
	default:
		return engine.Errorf(engine.CodeInvalid, "there is no file format %v", format)
	}
	in, err := openFile(f)
	if err != nil {
		return err
	}
	err = run(in, o, s)
	if closing := in.close(); err == nil && closing != nil {
		err = reading(f.Name, closing)
	}
	if errors.Is(err, errStop) {
		return nil
	}
	return err
}

// vertexLabels returns the labels that text has, separated by value.LabelSeparator.
func vertexLabels(text string) []string {
	if text == "" {
		return []string{graph.DefaultLabel}
	}
	if labels := strings.Split(text, value.LabelSeparator); !slices.Contains(labels, "") {
		return labels
	}
	return []string{text}
}

// textID returns an id that a file has as text.
func (o ReadOptions) textID(s string) any {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil && !o.TextIDs && strconv.FormatInt(n, 10) == s {
		return n
	}
	return s
}

// ownID returns an id as the graph has it.
func ownID(v any) (any, bool) {
	switch x := v.(type) {
	case string:
		return x, x != "" && len(x) <= graph.MaxIDBytes
	case value.UUID:
		return x, true
	}
	n, ok := value.Int(v)
	return n, ok
}

// checkName returns an error if a label or a key cannot be one.
func (o ReadOptions) checkName(at Position, what, name string) error {
	if name == "" {
		return at.errorf(what, "expected a label or a key of a property, found an empty one")
	}
	if len(name) > o.NameBytes {
		return at.limit(what, "a label or a key of a property has at most %d bytes (MaxNameBytes)", o.NameBytes)
	}
	return nil
}

// checkLabels does the same for the labels of a vertex.
func (o ReadOptions) checkLabels(at Position, what string, labels []string) error {
	if len(labels) > graph.MaxLabels {
		return at.limit(what, "a vertex has at most %d labels (graph.MaxLabels)", graph.MaxLabels)
	}
	for _, l := range labels {
		if err := o.checkName(at, what, l); err != nil {
			return err
		}
	}
	return nil
}

// bag collects the properties of an element.
type bag struct {
	o     ReadOptions
	at    Position
	what  string // the element
	once  bool   // each key only once
	props []Property
	seen  map[string]struct{} // with once
}

func (b *bag) add(p Property) error {
	if err := b.o.checkName(b.at, b.what, p.Key); err != nil {
		return err
	}
	if len(b.props) >= b.o.Properties {
		return b.at.limit(b.what, "it has more than %d properties (MaxProperties)", b.o.Properties)
	}
	if b.once {
		if _, ok := b.seen[p.Key]; ok {
			return b.at.errorf(b.what, "expected one value of the property %q, found several", clip(p.Key))
		}
		if b.seen == nil {
			b.seen = map[string]struct{}{}
		}
		b.seen[p.Key] = struct{}{}
	}
	b.props = append(b.props, p)
	return nil
}

// named names an element for errors.
func named(kind string, id any) string {
	if id == nil {
		return kind
	}
	return kind + " " + clip(value.Text(id))
}

// clip shortens text for errors.
func clip(s string) string {
	if len(s) > 60 {
		return strings.ToValidUTF8(s[:60], "") + "…"
	}
	return s
}

// atEnd returns the error of a record that was not read: of the file, or err.
func (in *input) atEnd(at Position, o ReadOptions, err error) error {
	switch {
	case errors.Is(in.err, errRecord):
		return at.limit("", "a record has at most %d bytes (MaxRecordBytes)", o.RecordBytes)
	case in.err != nil:
		return reading(in.name, in.err)
	case errors.Is(err, io.EOF):
		return at.errorf("", "the file ends too early")
	}
	return err
}
