package cli

import (
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

// split returns the parts of a text, and the error at which they end.
func split(text, format string, maxRecords, maxBytes int) (all []part, err error) {
	s, err := newSplitter(strings.NewReader(text), format, maxRecords, maxBytes)
	for err == nil {
		var t part
		if t, err = s.part(); err == nil {
			all = append(all, t)
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return all, err
}

// TestParts: records stay whole, each part of CSV has the header, and lines are those of the file.
func TestParts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text, format   string
		maxRecords, maxBytes int
		want                 []string
		lines                [][2]int
		err                  string
	}{
		{"lines", "a\n\nb\r\nc", formatJSON, 2, 100, []string{"a\n\nb\r\n", "c"}, [][2]int{{1, 3}, {4, 4}}, ""},
		{"lines by bytes", "aa\nbb\ncc\n", formatJSON, 9, 6, []string{"aa\nbb\n", "cc\n"}, [][2]int{{1, 2}, {3, 3}}, ""},
		{"no lines", "", formatJSON, 9, 9, []string{""}, [][2]int{{1, 0}}, ""},
		{"a long line", "a\n" + strings.Repeat("b", 10), formatJSON, 1, 9, nil, nil, "line 2: the line is longer than 9B"},
		{"CSV", "\ufeffx,y\n1,\"a\n\"\"b\"\n\n2,c\r\n3,", formatCSV, 2, 100, []string{"x,y\n1,\"a\n\"\"b\"\n\n2,c\r\n", "x,y\n3,"}, [][2]int{{2, 5}, {6, 6}}, ""},
		{"a header of two lines", "x,\"y\nz\"\n1,2\n3,4\n", formatCSV, 1, 100, []string{"x,\"y\nz\"\n1,2\n", "x,\"y\nz\"\n3,4\n"}, [][2]int{{3, 3}, {4, 4}}, ""},
		{"CSV by bytes", "x\n1\n2\n3\n", formatCSV, 9, 6, []string{"x\n1\n2\n", "x\n3\n"}, [][2]int{{2, 3}, {4, 4}}, ""},
		{"only a header", "x", formatCSV, 9, 9, []string{"x"}, [][2]int{{1, 0}}, ""},
		{"a quotation mark", "x\n1\na\"\n", formatCSV, 1, 100, nil, nil, `line 3, column 2: bare " in non-quoted-field`},
		{"no end of a quotation", "x\n1\n\"2" + strings.Repeat("3\n", 1<<14), formatCSV, 1, 100, nil, nil, "line 3: the record that begins here is longer than 98B; a quotation mark may be missing"},
	} {
		parts, err := split(c.text, c.format, c.maxRecords, c.maxBytes)
		if c.err != "" {
			if err == nil || err.Error() != c.err {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		var got []string
		var lines [][2]int
		for _, p := range parts {
			got, lines = append(got, string(p.body)), append(lines, [2]int{p.first, p.last})
		}
		if err != nil || !slices.Equal(got, c.want) || !slices.Equal(lines, c.lines) {
			t.Errorf("%s: %q, lines %v, %v", c.name, got, lines, err)
		}
	}
	parts, _ := split("x,\"y\nz\"\n1,2\n3,4\n", formatCSV, 1, 100)
	for text, want := range map[string]string{"line 3, column 1 (x): no": "line 4, column 1 (x): no", "line 1: no": "line 1: no", "no": "no", "line x": "line x"} {
		if got := parts[1].shift(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

// FuzzParts: the parts have the records of the file, each once and at its line, and are within the limits.
func FuzzParts(f *testing.F) {
	for _, text := range []string{"x,y\n1,\"a\nb\"\n\n2,c\r\n3,", "x\n\"", "\ufeff\n\nx\r\n1\r\n", "{}\n\n{}", "\"\n", "x\n1\r", "\ufeff\ufeff\n0"} {
		f.Add(text, true, 1, 20)
		f.Add(text, false, 2, 9)
	}
	f.Fuzz(func(t *testing.T, text string, isCSV bool, maxRecords, maxBytes int) {
		maxRecords, maxBytes = max(1, maxRecords&7), max(8, maxBytes&63)
		format := formatJSON
		if isCSV {
			format = formatCSV
		}
		parts, err := split(text, format, maxRecords, maxBytes)
		if err != nil {
			return
		}
		var joined bytes.Buffer
		var rows [][]string
		for i, p := range parts {
			header := 0
			if isCSV {
				r := csv.NewReader(bytes.NewReader(p.body))
				r.FieldsPerRecord = -1
				all, err := r.ReadAll()
				if err != nil {
					t.Fatalf("part %d of %q is %q: %v", i, text, p.body, err)
				}
				if len(all) > 0 {
					rows = append(rows, all[1:]...)
				}
				header = len(linesOf(p.body, p.header))
			}
			if first := strings.Count(joined.String(), "\n"); i > 0 && !isCSV && p.first != first+1 {
				t.Fatalf("part %d of %q begins at line %d, not %d", i, text, p.first, first+1)
			}
			joined.Write(p.body[header:])
			if p.records > maxRecords || p.records > 1 && len(p.body) > maxBytes {
				t.Fatalf("part %d of %q is %q", i, text, p.body)
			}
		}
		if !isCSV {
			if joined.String() != text {
				t.Fatalf("%q becomes %q", text, joined.String())
			}
			return
		}
		whole := csv.NewReader(strings.NewReader(strings.TrimPrefix(text, "\ufeff")))
		whole.FieldsPerRecord = -1
		want, err := whole.ReadAll()
		if err != nil || len(want) > 0 && !slices.EqualFunc(rows, want[1:], slices.Equal) {
			t.Fatalf("%q has the rows %q, its parts %q (%v)", text, want, rows, err)
		}
	})
}

// linesOf returns the first n lines of b.
func linesOf(b []byte, n int) []byte {
	end := 0
	for range n {
		end += bytes.IndexByte(b[end:], '\n') + 1
	}
	return b[:end]
}
