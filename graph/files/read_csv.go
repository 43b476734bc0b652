package files

import (
	"encoding/csv"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/graph"
)

// csvReader reads a file of vertices or of edges.
type csvReader struct {
	in      *input
	c       *csv.Reader
	o       ReadOptions
	base    int64 // the size of the byte order mark
	columns []column
	at      Position // of the record
	line    int      // where the last one that was read begins
	what    string   // the element
}

// EdgesOfCSV reports whether the header of a file of CSV is that of a file of edges. A
// header that is malformed is not; reading the file reports it.
func (f File) EdgesOfCSV() (edges bool, err error) {
	o, err := ReadOptions{}.checked()
	if err != nil {
		return false, err
	}
	in, err := openFile(f)
	if err != nil {
		return false, err
	}
	r := newCSVReader(in, o)
	rec, err := r.record()
	for _, text := range rec {
		c, _ := parseColumn(text)
		edges = edges || c == column{name: columnFrom} || c == column{name: columnTo}
	}
	if err != nil && !errors.Is(err, io.EOF) && engine.CodeOf(err) == engine.CodeInternal { // of the file, not of what it says
		return false, errors.Join(err, in.close())
	}
	return edges, in.close()
}

func newCSVReader(in *input, o ReadOptions) *csvReader {
	r := &csvReader{in: in, c: csv.NewReader(in), o: o, base: in.offset}
	r.c.ReuseRecord, r.c.TrimLeadingSpace = true, true // a space that counts is quoted
	return r
}

func readCSV(in *input, o ReadOptions, s sink) error {
	r := newCSVReader(in, o)
	if err := r.header(s.edge != nil); err != nil {
		return err
	}
	for {
		rec, err := r.record()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case s.edge != nil:
			err = r.edge(rec, s.edge)
		default:
			err = r.vertex(rec, s.vertex)
		}
		if err != nil {
			return err
		}
	}
}

// record returns the next record, which is valid until the next call. io.EOF: there
// is none.
func (r *csvReader) record() ([]string, error) {
	r.what = ""
	r.in.next(r.o)
	from := r.c.InputOffset()
	rec, err := r.c.Read()
	r.at = Position{File: r.in.name, Offset: r.base + from, Bytes: r.c.InputOffset() - from}
	var e *csv.ParseError
	switch {
	case r.in.err != nil:
		r.at.Line, r.at.Column = r.line+1, 1
		return nil, r.in.atEnd(r.at, r.o, err)
	case errors.As(err, &e):
		r.at.Line, r.at.Column = e.Line, max(e.Column, 1)
		if errors.Is(e.Err, csv.ErrFieldCount) {
			return nil, r.at.errorf("", "expected %d columns as in the header, found %d", len(r.columns), len(rec))
		}
		return nil, r.at.errorf("", "expected CSV: %v", e.Err)
	case err != nil:
		return nil, err
	}
	r.at.Line, r.at.Column = r.c.FieldPos(0)
	r.line = r.at.Line
	if r.at.Bytes > int64(r.o.RecordBytes)+2 { // with the end of the line
		return nil, r.at.limit("", "a record has at most %d bytes (MaxRecordBytes)", r.o.RecordBytes)
	}
	return rec, nil
}

func (r *csvReader) header(edges bool) error {
	rec, err := r.record()
	if errors.Is(err, io.EOF) {
		return Position{File: r.in.name, Line: 1, Column: 1}.errorf("", "expected a header, the file is empty")
	}
	if err != nil {
		return err
	}
	if len(rec) > r.o.Properties {
		return r.at.limit("", "a file has at most %d columns (MaxProperties)", r.o.Properties)
	}
	seen := map[column]bool{}
	for i, text := range rec {
		at := r.field(i)
		c, wrong := parseColumn(text)
		switch {
		case wrong != "":
			return at.errorf("header", "%s", wrong)
		case !edges && (c.name == columnFrom || c.name == columnTo) && c.typ == "":
			return at.errorf("header", "expected a file of vertices, found %s", c.name)
		case edges && c.many:
			return at.errorf("header", "a property of an edge has one value, but %q has []", clip(c.name))
		case seen[c]:
			return at.errorf("header", "expected the column %q once", clip(text))
		}
		if err := r.o.checkName(at, "header", c.name); err != nil {
			return err
		}
		seen[c] = true
		r.columns = append(r.columns, c)
	}
	need := []string{columnID}
	if edges {
		need = []string{columnID, columnFrom, columnTo, columnLabel}
	}
	for _, name := range need {
		if !slices.ContainsFunc(r.columns, func(c column) bool { return c.name == name && c.typ == "" }) {
			return r.at.errorf("header", "expected a column %s", name)
		}
	}
	return nil
}

// field returns where a field of the record is.
func (r *csvReader) field(i int) Position {
	at := r.at
	at.Line, at.Column = r.c.FieldPos(i)
	return at
}

func (r *csvReader) id(i int, text string) (any, error) {
	id, ok := ownID(r.o.textID(text))
	if !ok {
		return nil, r.field(i).errorf(r.what, "expected an id of 1 to 256 bytes as %s", r.columns[i].name)
	}
	return id, nil
}

// named sets what the record is from its id.
func (r *csvReader) named(kind string, rec []string) (id any, err error) {
	r.what = kind
	i := slices.IndexFunc(r.columns, func(c column) bool { return c == column{name: columnID} })
	if id, err = r.id(i, rec[i]); err == nil {
		r.what = named(kind, id)
	}
	return id, err
}

func (r *csvReader) vertex(rec []string, yield func(*Vertex) error) error {
	id, err := r.named("vertex", rec)
	if err != nil {
		return err
	}
	v := &Vertex{ID: id, At: r.at, Labels: []string{graph.DefaultLabel}}
	all := &bag{o: r.o, at: r.at, what: r.what}
	for i, c := range r.columns {
		switch {
		case rec[i] == "" || c == column{name: columnID}:
		case c.typ == "":
			v.Labels = strings.Split(rec[i], ";")
		case c.many:
			for _, text := range splitItems(rec[i]) {
				if err := r.property(all, i, text); err != nil {
					return err
				}
			}
		default:
			if err := r.property(all, i, rec[i]); err != nil {
				return err
			}
		}
	}
	v.Properties = all.props
	if err := r.o.checkLabels(r.at, r.what, v.Labels); err != nil {
		return err
	}
	return yield(v)
}

func (r *csvReader) edge(rec []string, yield func(*Edge) error) error {
	id, err := r.named("edge", rec)
	if err != nil {
		return err
	}
	e := &Edge{ID: id, At: r.at}
	all := &bag{o: r.o, at: r.at, what: r.what, once: true}
	for i, c := range r.columns {
		var err error
		switch {
		case c.typ == "" && c.name == columnLabel:
			e.Label = rec[i]
		case c.typ == "" && c.name == columnFrom:
			e.Out, err = r.id(i, rec[i])
		case c.typ == "" && c.name == columnTo:
			e.In, err = r.id(i, rec[i])
		case c.typ != "" && rec[i] != "":
			err = r.property(all, i, rec[i])
		}
		if err != nil {
			return err
		}
	}
	e.Properties = all.props
	if err := r.o.checkName(r.at, r.what, e.Label); err != nil {
		return err
	}
	return yield(e)
}

// property adds the value that text has in a column.
func (r *csvReader) property(all *bag, i int, text string) error {
	c := r.columns[i]
	v, ok := parseScalar(c.typ, text)
	if !ok {
		return r.field(i).errorf(r.what, "expected the property %q as %s, found %q", clip(c.name), columnTypes()[c.typ], clip(text))
	}
	return all.add(Property{Key: c.name, Val: v})
}
