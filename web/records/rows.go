package records

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/skerrydb/skerry/record/schema"
)

// row is a record in an imported file.
type row struct {
	line   int
	id     string
	data   []byte
	places map[string]place // where the values of fields begin; nil for JSON

	refers map[string]reference // to records of the same collection, by field
	cyclic bool                 // a row that this one refers to refers to it in turn
}

// place is a position in a file.
type place struct{ line, column int } // from 1; column 0: the line as a whole

// of returns the position of a field's value, or of the row.
func (x *row) of(field string) place {
	if at, ok := x.places[field]; ok {
		return at
	}
	return place{x.line, 0}
}

// member stores a member of a JSON line, or returns what is wrong with it.
func (x *row) member(name string, raw []byte) (bad string) {
	switch {
	case name == "id":
		if err := json.Unmarshal(raw, &x.id); err != nil {
			return err.Error()
		}
	case name == "data":
		x.data = raw
	case !isColumn(name) && name != "expand":
		return "unknown member; a line has id and data, and columns such as rev, which are ignored"
	}
	return ""
}

// Mistake reports why a row cannot be imported.
type Mistake struct {
	Line   int    `json:"line"`
	Column int    `json:"column,omitempty"` // in bytes, from 1; 0: the line as a whole
	Field  string `json:"field,omitempty"`
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

// String returns the mistake with its position.
func (m Mistake) String() string {
	at := fmt.Sprintf("line %d", m.Line)
	if m.Column > 0 {
		at += fmt.Sprintf(", column %d", m.Column)
	}
	if m.Field != "" {
		at += " (" + m.Field + ")"
	}
	return at + ": " + m.Detail
}

// reader reads the rows of a file. Its error is io.EOF at the end; errBroken means that nothing more can be read.
type reader interface{ next() (row, *Mistake, error) }

// errBroken ends a file whose remaining rows cannot be determined.
var errBroken = errors.New("records: the rest of the file cannot be read")

// jsonReader reads one JSON object per line: {"id":…,"data":{…}}, as in an export.
type jsonReader struct {
	lines *bufio.Scanner
	line  int
}

func newJSONReader(body []byte) *jsonReader {
	s := bufio.NewScanner(bytes.NewReader(body))
	s.Buffer(nil, MaxBody+1)
	return &jsonReader{lines: s}
}

func (r *jsonReader) next() (row, *Mistake, error) {
	for r.lines.Scan() {
		r.line++
		text := bytes.TrimSpace(r.lines.Bytes())
		if len(text) == 0 {
			continue
		}
		x := row{line: r.line}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(text, &members); err != nil {
			m := &Mistake{Line: r.line, Code: schema.CodeInvalid, Detail: "the line is not a JSON object: " + err.Error()}
			if s, ok := errors.AsType[*json.SyntaxError](err); ok {
				m.Column = int(s.Offset)
			}
			return x, m, nil
		}
		for name, raw := range members {
			if bad := x.member(name, raw); bad != "" {
				return x, &Mistake{Line: r.line, Field: name, Code: schema.CodeUnknown, Detail: bad}, nil
			}
		}
		if x.data == nil {
			return x, &Mistake{Line: r.line, Field: "data", Code: schema.CodeRequired, Detail: "data is missing"}, nil
		}
		return x, nil, nil
	}
	if err := r.lines.Err(); err != nil {
		return row{}, &Mistake{Line: r.line + 1, Code: schema.CodeTooLarge, Detail: err.Error()}, errBroken
	}
	return row{}, nil, io.EOF
}

// isColumn reports whether name is a property that every record has.
func isColumn(name string) bool {
	for _, c := range schema.Columns() {
		if c.Name == name {
			return true
		}
	}
	return false
}

// csvReader reads comma-separated values (RFC 4180) after a line with the names of the fields. An empty value is null.
type csvReader struct {
	csv    *csv.Reader
	k      *schema.Compiled
	names  []string // of the columns; "": ignored
	broken *Mistake // of the header
}

func newCSVReader(body []byte, k *schema.Compiled) *csvReader {
	r := &csvReader{csv: csv.NewReader(bytes.NewReader(bytes.TrimPrefix(body, []byte("\ufeff")))), k: k}
	header, err := r.csv.Read()
	if err != nil {
		r.broken = &Mistake{Line: 1, Code: schema.CodeRequired, Detail: "the first line must name the fields"}
		if !errors.Is(err, io.EOF) {
			r.broken = syntax(err)
		}
		return r
	}
	for i, name := range header {
		_, known := k.Index(name)
		line, column := r.csv.FieldPos(i)
		switch {
		case slices.Contains(r.names, name) && name != "":
			r.broken = &Mistake{line, column, name, schema.CodeRepeated, "the name appears twice"}
		case name == "id" || known || k.Extra && name != "" && !isColumn(name):
		case isColumn(name):
			name = ""
		default:
			r.broken = &Mistake{line, column, "", schema.CodeUnknown, fmt.Sprintf("%s has no field %.80q", k.Name, name)}
		}
		r.names = append(r.names, name)
	}
	return r
}

// syntax converts an error of package csv.
func syntax(err error) *Mistake {
	m := &Mistake{Code: schema.CodeInvalid, Detail: err.Error()}
	if p, ok := errors.AsType[*csv.ParseError](err); ok {
		m.Line, m.Column, m.Detail = p.Line, p.Column, p.Err.Error()
	}
	return m
}

func (r *csvReader) next() (x row, m *Mistake, err error) {
	if r.broken != nil {
		return x, r.broken, errBroken
	}
	values, err := r.csv.Read()
	if errors.Is(err, io.EOF) {
		return x, nil, io.EOF
	}
	if err != nil {
		if m = syntax(err); errors.Is(err, csv.ErrFieldCount) {
			m.Detail = fmt.Sprintf("the line has %d values, but the first line has %d names", len(values), len(r.names))
			return x, m, nil
		}
		return x, m, errBroken // where a quotation ends is not known
	}
	x.places = map[string]place{}
	x.data = []byte{'{'}
	for i, text := range values {
		name := r.names[i]
		line, column := r.csv.FieldPos(i)
		if i == 0 {
			x.line = line
		}
		if name == "" || text == "" {
			continue
		}
		if !utf8.ValidString(text) {
			return x, &Mistake{line, column, name, schema.CodeInvalid, "the value is not valid UTF-8"}, nil
		}
		if name == "id" {
			x.id = text
			continue
		}
		if x.places[name] = (place{line, column}); len(x.data) > 1 {
			x.data = append(x.data, ',')
		}
		x.data = append(append(x.data, quote(name)...), ':')
		x.data = append(x.data, r.cell(name, text)...)
	}
	x.data = append(x.data, '}')
	return x, nil, nil
}

// cell returns a value as JSON: as it is if its type is written so, and otherwise as a text.
func (r *csvReader) cell(name, text string) []byte {
	i, ok := r.k.Index(name)
	if ok {
		switch f := &r.k.Fields[i]; {
		case f.Type == schema.Int || f.Type == schema.Float || f.Type == schema.Bool, f.Type == schema.JSON, f.Type == schema.Select && f.Many:
			if json.Valid([]byte(text)) {
				return []byte(strings.TrimSpace(text))
			}
		}
	}
	return quote(text)
}

// quote returns a valid text as JSON.
func quote(text string) []byte {
	b, err := json.Marshal(text)
	if err != nil {
		panic("BUG: encode a text: " + err.Error())
	}
	return b
}
