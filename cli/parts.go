package cli

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/web/records"
)

// part is a piece of a file of records that is sent as a file of its own.
type part struct {
	body        []byte
	header      int // lines of the header with which a part of CSV begins
	first, last int // lines of the file that follow
	records     int
}

// line returns the line of the file that is line n of the part.
func (t part) line(n int) int {
	if n <= t.header {
		return n
	}
	return t.first + n - t.header - 1
}

// splitter splits a file of records into parts.
type splitter struct {
	read       func() ([]byte, error)  // the next record as the file has it, or a blank line
	idOf       func(raw []byte) string // the id of the record that was read last, "" if it has none
	maxRecords int
	maxBytes   int

	header []byte
	next   []byte // read, but in no part yet
	line   int    // lines in parts
	bytes  int64  // bytes in parts
	begun  bool

	found func(id string, line int) // if not nil, is called for each record with an id
}

// newSplitter reads the header of a file.
func newSplitter(f io.Reader, format string, maxRecords, maxBytes int) (*splitter, error) {
	s := &splitter{maxRecords: maxRecords, maxBytes: maxBytes}
	if format != formatCSV {
		s.read, s.idOf = readLines(f, maxBytes), idOfLine
		return s, nil
	}
	r, err := newCSVRecords(f, maxBytes)
	if err != nil {
		return nil, err
	}
	if s.header, err = r.read(); err != nil && !errors.Is(err, io.EOF) { // the server says that an empty file is wrong
		return nil, err
	}
	s.header = slices.Clone(s.header)
	column := slices.Index(r.values, "id")
	s.idOf = func([]byte) string {
		if column < 0 || column >= len(r.values) {
			return ""
		}
		return r.values[column]
	}
	s.read, s.line, s.bytes = r.read, bytes.Count(s.header, []byte("\n")), int64(len(s.header))
	r.max -= len(s.header)
	return s, nil
}

// idOfLine returns the id of a line of JSON. The server reports lines that are wrong.
func idOfLine(raw []byte) string {
	var r struct {
		ID string `json:"id"`
	}
	_ = json.Unmarshal(raw, &r)
	return r.ID
}

// skip leaves out the records that begin before a line.
func (s *splitter) skip(line int) error {
	for s.line+1 < line {
		raw, err := s.read()
		if errors.Is(err, io.EOF) {
			return verb.Usagef("--from: the file has only %s", verb.Plural(s.line, "line"))
		}
		if err != nil {
			return err
		}
		s.took(raw)
	}
	return nil
}

// took counts what was read.
func (s *splitter) took(raw []byte) {
	s.bytes += int64(len(raw))
	s.line += max(1, bytes.Count(raw, []byte("\n")))
}

// part returns the next part, and io.EOF after the last one. There is at least one, which may have no records.
func (s *splitter) part() (part, error) {
	t := part{body: slices.Clone(s.header), header: bytes.Count(s.header, []byte("\n")), first: s.line + 1}
	for {
		if s.next == nil {
			raw, err := s.read()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return t, err
			}
			s.next = raw
		}
		if s.line >= t.first && (t.records == s.maxRecords || len(t.body)+len(s.next) > s.maxBytes) {
			t.last = s.line
			return t, nil
		}
		t.body = append(t.body, s.next...)
		if len(bytes.TrimSpace(s.next)) > 0 {
			t.records++
			if s.found != nil {
				if id := s.idOf(s.next); id != "" {
					s.found(id, s.line+1)
				}
			}
		}
		s.took(s.next)
		s.next = nil
	}
	if s.line < t.first && s.begun {
		return t, io.EOF
	}
	t.last, s.begun = s.line, true
	return t, nil
}

// readLines returns a function that returns the next line of a file, which is valid until the next call.
func readLines(f io.Reader, most int) func() ([]byte, error) {
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, most)
	lines.Split(func(data []byte, atEOF bool) (int, []byte, error) {
		if i := bytes.IndexByte(data, '\n'); i >= 0 {
			return i + 1, data[:i+1], nil
		}
		if !atEOF || len(data) == 0 {
			return 0, nil, nil
		}
		return len(data), data, nil
	})
	line := 0
	return func() ([]byte, error) {
		line++
		switch {
		case lines.Scan():
			return lines.Bytes(), nil
		case errors.Is(lines.Err(), bufio.ErrTooLong):
			return nil, malformed{records.Mistake{Line: line, Detail: "the line is longer than " + verb.FormatSize(int64(most))}}
		case lines.Err() != nil:
			return nil, lines.Err()
		}
		return nil, io.EOF
	}
}

// malformed is the error of a file whose records cannot be separated from each other.
type malformed struct{ records.Mistake }

func (m malformed) Error() string { return m.String() }

var errLongRecord = errors.New("cli: a record is too long")

// csvRecords separates the records of a file of CSV.
type csvRecords struct {
	from  io.Reader
	max   int          // bytes of a record
	ahead bytes.Buffer // what csv has read after the last record
	csv   *csv.Reader
	at    int64 // where ahead begins
	line  int   // lines before it

	values []string // of the record that was read last
}

func newCSVRecords(f io.Reader, most int) (*csvRecords, error) {
	const mark = "\ufeff"
	from := bufio.NewReader(f)
	if begin, err := from.Peek(len(mark)); string(begin) == mark {
		if _, err := from.Discard(len(mark)); err != nil {
			return nil, err
		}
	} else if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	r := &csvRecords{from: from, max: most}
	r.csv = csv.NewReader(r)
	r.csv.FieldsPerRecord, r.csv.ReuseRecord = -1, true // the server checks the number of values
	return r, nil
}

// Read implements io.Reader for csv.
func (r *csvRecords) Read(p []byte) (int, error) {
	if r.ahead.Len() > r.max {
		return 0, errLongRecord
	}
	n, err := r.from.Read(p)
	r.ahead.Write(p[:n])
	return n, err
}

// read returns the next record with the blank lines before it, valid until the next call.
func (r *csvRecords) read() ([]byte, error) {
	var err error
	r.values, err = r.csv.Read()
	wrong, is := errors.AsType[*csv.ParseError](err)
	switch {
	case errors.Is(err, errLongRecord) || err == nil && r.csv.InputOffset()-r.at > int64(r.max):
		return nil, malformed{records.Mistake{Line: r.line + 1, Detail: fmt.Sprintf("the record that begins here is longer than %s; a quotation mark may be missing", verb.FormatSize(int64(r.max)))}}
	case is:
		return nil, malformed{records.Mistake{Line: wrong.Line, Column: wrong.Column, Detail: wrong.Err.Error()}}
	case err != nil:
		return nil, err
	}
	raw := r.ahead.Next(int(r.csv.InputOffset() - r.at))
	r.at += int64(len(raw))
	r.line += bytes.Count(raw, []byte("\n"))
	return raw, nil
}
