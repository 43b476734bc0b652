package files

import (
	"bufio"
	"encoding/csv"
	"io"
	"strings"

	"github.com/skerrydb/skerry/graph/value"
)

// csvWriter writes a file of vertices and one of edges.
type csvWriter struct {
	k               *keeper
	vertices, edges *csvFile
	writing         bool
}

// csvFile is one of the files, with its columns in the order in which they occur first.
type csvFile struct {
	fixed []string
	buf   *bufio.Writer
	w     *csv.Writer
	at    map[column]int // of columns without many
	cols  []column
}

func newCSVFile(w io.Writer, fixed ...string) *csvFile {
	buf := bufio.NewWriterSize(w, 64<<10)
	return &csvFile{fixed: fixed, buf: buf, w: csv.NewWriter(buf), at: map[column]int{}}
}

func newCSVWriter(vertices *bufio.Writer, edges io.Writer, k *keeper) *csvWriter {
	return &csvWriter{
		k:        k,
		vertices: newCSVFile(vertices, columnID, columnLabel),
		edges:    newCSVFile(edges, columnID, columnFrom, columnTo, columnLabel),
	}
}

// unfit returns why CSV cannot hold a value.
func (w *csvWriter) unfit(c column, text string) string {
	switch {
	case c.header() == "":
		return "named so that it cannot be a column"
	case text == "":
		return "an empty string"
	case strings.Contains(text, "\r\n"):
		return "text with CR LF, which a reader takes for LF"
	}
	return ""
}

// names checks texts that cannot be left out.
func (w *csvWriter) names(what string, texts ...string) error {
	for _, s := range texts {
		if strings.Contains(s, "\r\n") {
			return w.k.refuse(what, "an id or a label with CR LF")
		}
	}
	return nil
}

func (w *csvWriter) vertex(v *Vertex) error {
	what := named("vertex", v.ID)
	id, err := w.k.id(what, v.ID)
	if err != nil {
		return err
	}
	labels := strings.Join(v.Labels, ";")
	if strings.Count(labels, ";") >= len(v.Labels) {
		if err := w.k.leave(what, "a label with a semicolon"); err != nil {
			return err
		}
	}
	if err := w.names(what, id, labels); err != nil {
		return err
	}
	cells, err := w.k.cells(what, v.Properties, true, w.unfit)
	if err != nil {
		return err
	}
	return w.add(w.vertices, what, cells, id, labels)
}

func (w *csvWriter) edge(e *Edge) error {
	what := named("edge", e.ID)
	id, err := w.k.id(what, e.ID)
	if err != nil {
		return err
	}
	if err := w.names(what, id, e.Label); err != nil {
		return err
	}
	cells, err := w.k.cells(what, e.Properties, false, w.unfit)
	if err != nil {
		return err
	}
	return w.add(w.edges, what, cells, id, value.Text(e.Out), value.Text(e.In), e.Label) // the vertices were checked
}

// add adds the columns of an element, or writes its record.
func (w *csvWriter) add(f *csvFile, what string, cells []cell, fixed ...string) error {
	if !w.writing {
		for _, c := range cells {
			i, ok := f.at[c.column]
			if !ok {
				i = len(f.cols)
				f.at[c.column] = i
				f.cols = append(f.cols, c.column)
			}
			f.cols[i].many = f.cols[i].many || len(c.texts) > 1
		}
		return columnLimit(len(f.cols) + len(f.fixed))
	}
	rec := append(make([]string, 0, len(fixed)+len(f.cols)), fixed...)[:len(fixed)+len(f.cols)]
	for _, c := range cells {
		i := f.at[c.column]
		if !f.cols[i].many {
			rec[len(fixed)+i] = c.texts[0]
			continue
		}
		var texts []string
		for _, s := range c.texts {
			if !strings.HasSuffix(s, `\`) {
				texts = append(texts, s)
			} else if err := w.k.leave(what, "the property %q, which is one of several values and ends with a backslash", clip(c.name)); err != nil {
				return err
			}
		}
		rec[len(fixed)+i] = joinItems(texts)
	}
	size := 0
	for _, s := range rec {
		size += len(s) + strings.Count(s, `"`) + len(`"",`)
	}
	if err := recordLimit(what, size); err != nil {
		return err
	}
	return f.w.Write(rec)
}

func (w *csvWriter) begin() error {
	w.writing = true
	for _, f := range []*csvFile{w.vertices, w.edges} {
		rec := f.fixed
		for _, c := range f.cols {
			rec = append(rec, c.header())
		}
		if err := f.w.Write(rec); err != nil {
			return err
		}
	}
	return nil
}

func (w *csvWriter) end() error {
	for _, f := range []*csvFile{w.vertices, w.edges} {
		f.w.Flush()
		if err := f.buf.Flush(); err != nil {
			return err
		}
	}
	return nil
}
