package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/graph/files"
)

// graphExport are the options of `skerry graph export`.
type graphExport struct {
	graphOptions
	to, edges string
	leaveOut  bool
}

var graphExportVerb = verb.Verb{
	Name: "graph export", Short: "write a graph as GraphSON, GraphML or CSV",
	Long: `The export is a snapshot: it has no changes made after it began. GraphSON keeps everything.
GraphML keeps one value of a property, and CSV no properties of properties; what a format
cannot hold is an error, unless --leave-out is set. CSV has a file of vertices (--to) and one
of edges (--edges). Files are created or replaced only when the export is complete.`,
	Start: func(verb.App) verb.Action {
		o := &graphExport{}
		settings := o.settings(append(o.graphSettings(", or graphson for standard output"),
			verb.Setting{Name: "to", Arg: "FILE", Help: "file to write or replace (default standard output, also -)", Set: verb.Text(&o.to)},
			verb.Setting{Name: "edges", Arg: "FILE", Help: "file to write or replace with the edges of CSV", Set: verb.Text(&o.edges)},
			verb.Setting{Name: "leave-out", Help: "leave out what the format cannot hold, and say how much that is", Set: verb.Toggle(&o.leaveOut)},
		)...)
		return verb.Action{Settings: settings, Check: o.check, Do: func(ctx context.Context, p verb.Process, _ []string) error {
			return o.export(ctx, p)
		}}
	},
}

func (o *graphExport) check(rest []string) error {
	wrong := []error{verb.NoArguments(rest)}
	if o.to == "-" {
		o.to = ""
	}
	switch {
	case o.format != "":
	case o.to == "":
		o.format = formatGraphSON
	default:
		if o.format = graphFormatOf(o.to); o.format == "" {
			wrong = append(wrong, fmt.Errorf("needs --format: the name of %s does not end with %s", o.to, graphExtensions))
		}
	}
	csv := o.format == formatCSV
	switch {
	case csv && (o.to == "" || o.edges == "" || o.edges == "-"):
		wrong = append(wrong, errors.New("CSV needs two files: --to FILE for the vertices and --edges FILE for the edges"))
	case csv && filepath.Clean(o.to) == filepath.Clean(o.edges):
		wrong = append(wrong, errors.New("--to and --edges name the same file"))
	case !csv && o.edges != "" && o.format != "":
		wrong = append(wrong, fmt.Errorf("--edges is for CSV only: a file of %v has vertices and edges", graphFormat(o.format)))
	}
	return verb.Mistakes(wrong...)
}

func (o *graphExport) export(ctx context.Context, p verb.Process) (err error) {
	began := time.Now()
	db, eng, err := o.open(ctx, p, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, eng.Close()) }()
	bar := newProgress(p)
	if o.to == "" && verb.Terminal(p.Stdout) {
		bar = &progress{} // it would be in the middle of the graph
	}
	defer bar.end()
	opt := files.ExportOptions{LeaveOut: o.leaveOut, TextIDs: o.textIDs, Progress: func(n files.Stats) {
		bar.show("exported %s, %s", counted(n.Vertices, n.Edges), verb.FormatSize(n.Bytes))
	}}
	n, err := o.write(ctx, db, p.Stdout, opt)
	bar.end()
	if err != nil {
		return err
	}
	return o.summary(p, n, time.Since(began))
}

// write writes the files, which appear when they are complete.
func (o *graphExport) write(ctx context.Context, db *graph.DB, stdout io.Writer, opt files.ExportOptions) (n files.Stats, err error) {
	to := func(w io.Writer) (err error) {
		n, err = files.Export(ctx, db, o.graph, w, graphFormat(o.format), opt)
		return err
	}
	vertices := func() error {
		if o.to == "" {
			return to(stdout)
		}
		return createWhole(o.to, to)
	}
	if o.format == formatCSV {
		err = createWhole(o.edges, func(w io.Writer) error {
			opt.Edges = w
			return vertices()
		})
		return n, err
	}
	err = vertices()
	return n, err
}

// graphExported is the output of --json.
type graphExported struct {
	Graph    string        `json:"graph"`
	Vertices int64         `json:"vertices"`
	Edges    int64         `json:"edges"`
	LeftOut  int64         `json:"left_out"` // values
	Bytes    int64         `json:"bytes"`
	Elapsed  time.Duration `json:"elapsed_ns"`
}

// summary prints what was done: on standard error if the graph is on standard output.
func (o *graphExport) summary(p verb.Process, n files.Stats, took time.Duration) error {
	w, where := p.Stdout, o.to
	if o.to == "" {
		w, where = p.Stderr, "standard output"
	}
	if o.edges != "" {
		where += " and " + o.edges
	}
	if o.json {
		return verb.PrintJSON(w, graphExported{o.graph, n.Vertices, n.Edges, n.LeftOut, n.Bytes, took})
	}
	more := ""
	if n.LeftOut > 0 {
		more = "; left out " + verb.Plural(int(n.LeftOut), "value") + " that the format cannot hold"
	}
	_, err := fmt.Fprintf(w, "%s: %s of graph %s, %s in %v%s\n", where, counted(n.Vertices, n.Edges), o.graph, verb.FormatSize(n.Bytes), took.Round(time.Millisecond), more)
	return err
}
