package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/skerrydb/skerry/cli/serve"
	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/graph/files"
)

// defaultGraphBatch is the default of --batch.
const defaultGraphBatch = 500

// graphImport are the options of `skerry graph import`.
type graphImport struct {
	graphOptions
	batch    int
	edgeIDs  string
	dangling bool
	dryRun   bool
	noCheck  bool
}

var graphImportVerb = verb.Verb{
	Name: "graph import", Args: "FILE…", Short: "add the vertices and edges of GraphSON, GraphML or CSV files to a graph",
	Long: `A FILE - is standard input. GraphSON has a vertex a line; CSV is that of Amazon Neptune's bulk
loader, with files of vertices and of edges in any order: their headers say which they are.
The graph and the data folder are created if they do not exist. The files are streamed, so
they may have any size.

The files are checked first; if one is malformed, nothing is written. Vertices and edges are
then written in batches, and keep their ids. If the import is stopped or fails, run it again
with the same files: it continues. An element that the graph already has with the same labels,
properties and vertices is left as it is; another one with its id is an error.

Edges of GraphML without ids get the name of the file and their number in it, like
roads.graphml#17.`,
	Start: func(verb.App) verb.Action {
		o := &graphImport{}
		settings := o.settings(append(o.graphSettings(""),
			verb.Setting{Name: "dry-run", Help: "check the files and write nothing", Set: verb.Toggle(&o.dryRun)},
			verb.Setting{Name: "no-check", Help: "write without checking the files first, which is faster", Set: verb.Toggle(&o.noCheck)},
			verb.Setting{Name: "skip-dangling", Help: "leave out edges whose vertices are neither in the files nor in the graph", Set: verb.Toggle(&o.dangling)},
			verb.Setting{Name: "edge-ids", Arg: "PREFIX", Help: "what the ids of edges without one begin with, before their number, if FILE is GraphML (default the name of the file and #)", Set: verb.Text(&o.edgeIDs)},
			verb.Setting{Name: "batch", Arg: "N", Default: strconv.Itoa(defaultGraphBatch), Help: "vertices or edges in one transaction", Set: verb.Whole(&o.batch, 1, files.MaxBatch)},
			serve.MemorySetting(&o.memory),
		)...)
		return verb.Action{Settings: settings, Check: o.check, Do: func(ctx context.Context, p verb.Process, rest []string) error {
			return o.load(ctx, p, rest)
		}}
	},
}

func (o *graphImport) check(rest []string) error {
	if len(rest) == 0 || slices.Contains(rest, "") {
		return verb.Mistakes(errors.New("needs a file"))
	}
	var wrong []error
	for _, name := range rest {
		is := graphFormatOf(name)
		switch {
		case o.format != "":
		case is == "" && name == "-":
			wrong = append(wrong, errors.New("needs --format for standard input"))
		case is == "":
			wrong = append(wrong, fmt.Errorf("needs --format: the name of %s does not end with %s", name, graphExtensions))
		case is != graphFormatOf(rest[0]):
			wrong = append(wrong, fmt.Errorf("%s and %s have different formats: import one after the other", rest[0], name))
		}
	}
	if o.format == "" {
		o.format = graphFormatOf(rest[0])
	}
	if i := slices.Index(rest, "-"); i >= 0 && slices.Contains(rest[i+1:], "-") {
		wrong = append(wrong, errors.New("standard input (-) can be read only once"))
	}
	if o.edgeIDs != "" && (len(rest) > 1 || o.format != formatGraphML) {
		wrong = append(wrong, errors.New("--edge-ids is for one file of GraphML"))
	}
	if o.dryRun && o.noCheck {
		wrong = append(wrong, errors.New("--dry-run only checks: it cannot be combined with --no-check"))
	}
	return verb.Mistakes(wrong...)
}

// load checks the files and then imports them.
func (o *graphImport) load(ctx context.Context, p verb.Process, names []string) (err error) {
	in := &graphInputs{stdin: p.Stdin}
	defer func() { err = errors.Join(err, in.close()) }()
	src, err := o.source(ctx, in, names)
	if err != nil {
		return err
	}
	x := &graphImporting{o: o, p: p, src: src, began: time.Now()}
	if o.dryRun {
		return x.check(ctx)
	}
	db, eng, err := o.open(ctx, p, true) // first: a locked folder is noticed before a long check
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, eng.Close()) }()
	if !o.noCheck {
		if err := x.check(ctx); err != nil {
			return err
		}
	}
	return x.write(ctx, db)
}

// source returns the files that names are.
func (o *graphImport) source(ctx context.Context, in *graphInputs, names []string) (files.Source, error) {
	src := files.Source{Format: graphFormat(o.format)}
	seen := map[string]bool{}
	for _, name := range names {
		f, err := in.file(ctx, name)
		if err != nil {
			return src, err
		}
		if seen[f.EdgeIDs] {
			f.EdgeIDs = "" // edges of two files would get the same ids
		}
		seen[f.EdgeIDs] = true
		f.EdgeIDs = cmp.Or(o.edgeIDs, f.EdgeIDs)
		edges := false
		if src.Format == files.CSV {
			if edges, err = f.EdgesOfCSV(); err != nil {
				return src, err
			}
		}
		if edges {
			src.Edges = append(src.Edges, f)
		} else {
			src.Vertices = append(src.Vertices, f)
		}
	}
	return src, nil
}

// graphImporting is the import of some files.
type graphImporting struct {
	o     *graphImport
	p     verb.Process
	src   files.Source
	began time.Time
}

// check reads the files without writing.
func (x *graphImporting) check(ctx context.Context) error {
	bar := newProgress(x.p)
	defer bar.end()
	var n files.Stats
	look := files.ReadOptions{TextIDs: x.o.textIDs}
	for _, f := range x.src.Vertices {
		for _, err := range f.Vertices(x.src.Format, look) {
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return x.unwritten(err)
			}
			n.Vertices++
			bar.show("checked %s", counted(n.Vertices, n.Edges))
		}
	}
	edges := x.src.Vertices
	if x.src.Format == files.CSV {
		edges = x.src.Edges
	}
	for _, f := range edges {
		for e, err := range f.Edges(x.src.Format, look) {
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return x.unwritten(err)
			}
			if e.ID == nil && f.EdgeIDs == "" {
				return x.unwritten(engine.Errorf(engine.CodeInvalid, "%v: the edge has no id, which an import needs to be continued: --edge-ids PREFIX gives ids to the edges of one file", e.At))
			}
			n.Edges++
			bar.show("checked %s", counted(n.Vertices, n.Edges))
		}
	}
	bar.end()
	if !x.o.dryRun {
		return nil
	}
	return x.summary(n)
}

func (x *graphImporting) unwritten(err error) error {
	if x.o.dryRun {
		return err
	}
	return fmt.Errorf("%w; nothing was written", err)
}

// write imports the files.
func (x *graphImporting) write(ctx context.Context, db *graph.DB) error {
	if err := db.Create(ctx, x.o.graph); err != nil {
		return err
	}
	bar, began := newProgress(x.p), time.Now()
	n, err := files.Import(ctx, db, x.o.graph, x.src, files.ImportOptions{
		ReadOptions: files.ReadOptions{TextIDs: x.o.textIDs},
		Batch:       x.o.batch, Resume: true, SkipDangling: x.o.dangling,
		Progress: func(n files.Stats) { bar.show("imported %s", importState(n, time.Since(began))) },
	})
	bar.end()
	if err == nil {
		return x.summary(n)
	}
	before := "nothing was imported before that"
	if n.Vertices+n.Edges > 0 {
		before = counted(n.Vertices, n.Edges) + " were imported before that; repeat the command to continue"
	}
	if ctx.Err() != nil { // its text is not printed
		fmt.Fprintln(x.p.Stderr, before)
	}
	return fmt.Errorf("%w; %s", err, before)
}

// importState says how far an import is after some time.
func importState(n files.Stats, took time.Duration) string {
	text := counted(n.Vertices, n.Edges)
	if n.Present > 0 {
		text += fmt.Sprintf(", %d were there already", n.Present)
	}
	if n.Total > 0 {
		text += fmt.Sprintf(", %d%%", 100*n.Bytes/n.Total)
	}
	return fmt.Sprintf("%s, %.0f/s", text, float64(n.Vertices+n.Edges+n.Present)/max(took.Seconds(), 1e-3))
}

// graphImported is the output of --json.
type graphImported struct {
	Graph    string        `json:"graph"`
	Vertices int64         `json:"vertices"`
	Edges    int64         `json:"edges"`
	Present  int64         `json:"present"`  // elements that the graph had already
	Dangling int64         `json:"dangling"` // edges that were left out
	DryRun   bool          `json:"dry_run,omitempty"`
	Elapsed  time.Duration `json:"elapsed_ns"`
}

// summary prints what was done.
func (x *graphImporting) summary(n files.Stats) error {
	took := time.Since(x.began)
	if x.o.json {
		return verb.PrintJSON(x.p.Stdout, graphImported{x.o.graph, n.Vertices, n.Edges, n.Present, n.Dangling, x.o.dryRun, took})
	}
	did, more := "imported", ""
	if x.o.dryRun {
		did = "would import"
	}
	if n.Present > 0 {
		more += fmt.Sprintf("; %d were there already", n.Present)
	}
	if n.Dangling > 0 {
		more += "; left out " + verb.Plural(int(n.Dangling), "edge") + " without a vertex"
	}
	_, err := fmt.Fprintf(x.p.Stdout, "graph %s: %s %s in %v%s\n", x.o.graph, did, counted(n.Vertices, n.Edges), took.Round(time.Millisecond), more)
	return err
}
