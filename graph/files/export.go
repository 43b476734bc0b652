package files

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/graph/value"
)

// progressEvery is after how many elements an export reports its progress.
const progressEvery = 500

// ExportOptions are options of Export. The zero value works, but for CSV.
type ExportOptions struct {
	// Edges is where CSV's file of edges is written; other formats have one file.
	Edges io.Writer
	// LeaveOut leaves out what the format cannot hold, and counts it in Stats.LeftOut:
	// values of properties, and the types of ids, which become text. Otherwise it is
	// CodeNotKept.
	LeaveOut bool
	// TextIDs is as in the ReadOptions with which the file will be read.
	TextIDs bool
	// OutOnly leaves out the edges of GraphSON at the vertices that they enter. Import
	// does not need them, but TinkerPop's reader needs those and no others.
	OutOnly bool
	// Progress is called after some elements; nil: never.
	Progress func(Stats)
}

// Export writes the graph with a name from one snapshot. After an error, what was
// written is of no use. A snapshot may have to be read again, which is
// engine.CodeConflict if it has another content by then.
func Export(ctx context.Context, db *graph.DB, name string, w io.Writer, format Format, o ExportOptions) (Stats, error) {
	if (o.Edges != nil) != (format == CSV) {
		return Stats{}, engine.Errorf(engine.CodeInvalid, "CSV needs ExportOptions.Edges, and other formats must not have it")
	}
	ex := &exporter{ctx: ctx, format: format, o: o, files: []*replay{newReplay(w)}}
	if format == CSV {
		ex.files = append(ex.files, newReplay(o.Edges))
	}
	_, err := db.View(ctx, engine.Read{}, name, func(t *graph.Tx) error {
		ex.stats = Stats{}
		for _, f := range ex.files {
			f.again()
		}
		if err := ex.run(t); err != nil {
			return err
		}
		for _, f := range ex.files {
			if err := f.end(); err != nil {
				return err
			}
		}
		return nil
	})
	ex.count()
	return ex.stats, err
}

// exporter is a call of Export.
type exporter struct {
	ctx    context.Context
	format Format
	o      ExportOptions
	files  []*replay
	stats  Stats
}

func (ex *exporter) count() {
	ex.stats.Bytes = 0
	for _, f := range ex.files {
		ex.stats.Bytes += f.n
	}
}

// writer writes the elements of a graph: all vertices, and then all edges, twice. The
// first time it only looks what columns there are, until begin.
type writer interface {
	vertex(*Vertex) error
	edge(*Edge) error
	begin() error
	end() error
}

func (ex *exporter) run(t *graph.Tx) error {
	out := bufio.NewWriterSize(ex.files[0], 64<<10)
	k := &keeper{format: ex.format, o: ex.o}
	var w writer
	switch ex.format {
	case GraphSON:
		k.left = &ex.stats.LeftOut
		if err := ex.adjacency(t, &lineWriter{w: out, k: k}); err != nil {
			return err
		}
		return out.Flush()
	case GraphML:
		w = &xmlWriter{w: out, k: k}
	case CSV:
		w = newCSVWriter(out, ex.files[1], k)
	default:
		return engine.Errorf(engine.CodeInvalid, "there is no file format %v", ex.format)
	}
	if err := ex.each(t, w, func(*int64) error { return ex.ctx.Err() }); err != nil {
		return err
	}
	k.left = &ex.stats.LeftOut
	if err := w.begin(); err != nil {
		return err
	}
	if err := ex.each(t, w, ex.done); err != nil {
		return err
	}
	if err := w.end(); err != nil {
		return err
	}
	return out.Flush()
}

// done counts an element that was written.
func (ex *exporter) done(n *int64) error {
	*n++
	if (ex.stats.Vertices+ex.stats.Edges)%progressEvery == 0 && ex.o.Progress != nil {
		ex.count()
		ex.o.Progress(ex.stats)
	}
	return ex.ctx.Err()
}

// each gives all elements of the graph to w. done is called after each of them.
func (ex *exporter) each(t *graph.Tx, w writer, done func(*int64) error) error {
	if err := t.Vertices(func(v *graph.Vertex) error {
		rec, err := vertexOf(v)
		if err == nil {
			err = w.vertex(rec)
		}
		if err != nil {
			return err
		}
		return done(&ex.stats.Vertices)
	}); err != nil {
		return err
	}
	return t.AllEdges(func(e *graph.Edge) error {
		rec, err := edgeOf(e)
		if err == nil {
			err = w.edge(rec)
		}
		if err != nil {
			return err
		}
		return done(&ex.stats.Edges)
	})
}

// adjacency writes each vertex with its edges.
func (ex *exporter) adjacency(t *graph.Tx, w *lineWriter) error {
	return t.Vertices(func(v *graph.Vertex) error {
		rec, err := vertexOf(v)
		if err != nil {
			return err
		}
		if err := w.begin(rec); err != nil {
			return err
		}
		for _, dir := range []graph.Direction{graph.In, graph.Out} {
			if dir == graph.In && ex.o.OutOnly {
				continue
			}
			if err := t.Edges(v, dir, nil, func(e *graph.Edge) error {
				rec, err := edgeOf(e)
				if err == nil {
					err = w.edge(dir, rec)
				}
				if err == nil && dir == graph.Out {
					return ex.done(&ex.stats.Edges)
				}
				return err
			}); err != nil {
				return err
			}
			w.endEdges()
		}
		if err := w.end(rec); err != nil {
			return err
		}
		return ex.done(&ex.stats.Vertices)
	})
}

// keeper decides what becomes of what a format cannot hold.
type keeper struct {
	format Format
	o      ExportOptions
	left   *int64 // counts what is left out; nil: nothing is written yet
}

// leave counts a value that is left out, or returns CodeNotKept.
func (k *keeper) leave(what, format string, args ...any) error {
	if !k.o.LeaveOut {
		return k.refuse(what, format, args...)
	}
	if k.left != nil {
		*k.left++
	}
	return nil
}

func (k *keeper) refuse(what, format string, args ...any) error {
	return engine.Errorf(CodeNotKept, "%s: %v cannot hold %s", what, k.format, fmt.Sprintf(format, args...))
}

// id returns an id as text.
func (k *keeper) id(what string, id any) (string, error) {
	text := value.Text(id)
	if value.Equal((ReadOptions{TextIDs: k.o.TextIDs}).textID(text), id) {
		return text, nil
	}
	return text, k.leave(what, "the type of its id, which is %s", value.Describe(id))
}

// labels returns the labels of a vertex with a separator between them.
func (k *keeper) labels(what string, labels []string) (string, error) {
	text := strings.Join(labels, value.LabelSeparator)
	if slices.Equal(vertexLabels(text), labels) {
		return text, nil
	}
	return text, k.leave(what, "a label with %q", value.LabelSeparator)
}

// cell is what an element has in a column.
type cell struct {
	column
	texts []string
}

// cells returns the properties of an element as text, in the order in which their keys
// occur first. many: a property may have several values. unfit returns why a text
// cannot be written; "": it can.
func (k *keeper) cells(what string, props []Property, many bool, unfit func(c column, text string) string) ([]cell, error) {
	var out []cell
	at := map[column]int{}
	keys := map[string]bool{}
	for _, p := range props {
		if len(p.Properties) > 0 {
			if err := k.leave(what, "properties of the property %q", clip(p.Key)); err != nil {
				return nil, err
			}
		}
		typ, text := scalarText(p.Val)
		c := column{name: p.Key, typ: typ}
		why := value.Describe(p.Val)
		if typ != "" {
			why = unfit(c, text)
		}
		if why == "" && keys[p.Key] && !many {
			why = "one of several values"
		}
		if why != "" {
			if err := k.leave(what, "the property %q, which is %s", clip(p.Key), why); err != nil {
				return nil, err
			}
			continue
		}
		keys[p.Key] = true
		i, ok := at[c]
		if !ok {
			i = len(out)
			at[c] = i
			out = append(out, cell{column: c})
		}
		out[i].texts = append(out[i].texts, text)
	}
	return out, nil
}

// columnLimit returns an error if a file has n columns, and that is too many.
func columnLimit(n int) error {
	if n > MaxProperties {
		return engine.Errorf(engine.CodeLimit, "a file has at most %d columns or keys (MaxProperties)", MaxProperties)
	}
	return nil
}

// recordLimit returns an error if a record of n bytes is too long to be read.
func recordLimit(what string, n int) error {
	if n > MaxRecordBytes {
		return engine.Errorf(engine.CodeLimit, "%s: its record has more than %d bytes (MaxRecordBytes)", what, MaxRecordBytes)
	}
	return nil
}
