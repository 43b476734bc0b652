package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/graph/files"
)

var graphVerb = verb.Verb{
	Name: "graph", Args: "list|import|export|index|schema …", Short: "list, import and export graphs, and declare indexes and schemas",
	Long: `These verbs open the data themselves: the folder --data, which no server may have open, or
the database that --engine names, whose servers may run. A running server on a data folder
changes its graphs through its listener for Gremlin drivers.`,
	Subs: []verb.Verb{graphListVerb, graphImportVerb, graphExportVerb, graphIndexVerb, graphSchemaVerb},
}

// Formats of files of graphs.
const (
	formatGraphSON = "graphson"
	formatGraphML  = "graphml"
)

// graphFormatOf returns the format that the extension of a file's name stands for, "" if it is another one.
func graphFormatOf(file string) string {
	switch strings.ToLower(filepath.Ext(file)) {
	case ".graphson", ".json", ".jsonl", ".ndjson":
		return formatGraphSON
	case ".graphml", ".xml":
		return formatGraphML
	case ".csv":
		return formatCSV
	}
	return ""
}

// graphExtensions lists what graphFormatOf knows.
const graphExtensions = ".graphson, .json, .jsonl, .graphml, .xml or .csv"

func graphFormat(name string) files.Format {
	return map[string]files.Format{formatGraphSON: files.GraphSON, formatGraphML: files.GraphML, formatCSV: files.CSV}[name]
}

// graphOptions are the options of the verbs about graphs.
type graphOptions struct {
	dir     string   // of the embedded engine
	engine  *url.URL // another engine, or nil
	graph   string
	format  string
	textIDs bool
	memory  int64
	json    bool
}

// settings returns where the data is, and more settings.
func (o *graphOptions) settings(more ...verb.Setting) []verb.Setting {
	return append(verb.Data(&o.dir, &o.engine, "./data"), append(more, verb.JSON(&o.json))...)
}

// graphSettings are the settings of verbs about one graph and its files.
func (o *graphOptions) graphSettings(otherwise string) []verb.Setting {
	return []verb.Setting{
		{Name: "graph", Arg: "NAME", Default: graph.Default, Help: "name of the graph", Set: verb.Text(&o.graph)},
		{Name: "format", Arg: "FORMAT", Help: "graphson (a vertex a line), graphml or csv (default by the extension of FILE" + otherwise + ")", Set: verb.Choice(&o.format, formatGraphSON, formatGraphML, formatCSV)},
		{Name: "text-ids", Help: "ids in GraphML and CSV are strings, also those that are whole numbers", Set: verb.Toggle(&o.textIDs)},
	}
}

// open opens the graphs. Only a verb that writes creates a folder that does not exist.
func (o *graphOptions) open(ctx context.Context, p verb.Process, writes bool) (*graph.DB, io.Closer, error) {
	u, options := o.engine, quiet(p)
	options.MemoryBytes = o.memory
	if u == nil {
		u = verb.FolderURL(o.dir)
		if !writes {
			options.MemoryBytes = verb.NoLimit
			if embedded.Unused(o.dir) {
				return nil, nil, engine.Errorf(engine.CodeNotFound, "there is no data in the folder %s", o.dir)
			}
		}
	}
	eng, err := p.Engines.Open(ctx, u, options)
	if errors.Is(err, engine.ErrLocked) {
		return nil, nil, fmt.Errorf("%w; this verb opens the folder itself: stop that process first", err)
	}
	if err != nil {
		return nil, nil, err
	}
	db, err := graph.New(eng)
	if err != nil {
		return nil, nil, errors.Join(err, eng.Close())
	}
	return db, eng, nil
}

var graphListVerb = verb.Verb{
	Name: "graph list", Short: "list the graphs, and count their vertices, edges and indexes",
	Long: `The graph g is always there. Each graph is read to count what it has.`,
	Start: func(verb.App) verb.Action {
		o := &graphOptions{}
		return verb.Action{Settings: o.settings(), Check: verb.NoArguments, Do: func(ctx context.Context, p verb.Process, _ []string) error {
			return o.list(ctx, p)
		}}
	},
}

// listedGraph is a graph in the output of `skerry graph list`.
type listedGraph struct {
	Name     string `json:"name"`
	Vertices int    `json:"vertices"`
	Edges    int    `json:"edges"`
	Indexes  int    `json:"indexes"`
}

func (o *graphOptions) list(ctx context.Context, p verb.Process) (err error) {
	db, eng, err := o.open(ctx, p, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, eng.Close()) }()
	names, err := db.Names(ctx)
	if err != nil {
		return err
	}
	bar := newProgress(p)
	defer bar.end()
	var all []listedGraph
	for _, name := range names {
		l := listedGraph{}
		_, err := db.View(ctx, engine.Read{}, name, func(t *graph.Tx) (err error) {
			l = listedGraph{Name: name}
			return l.count(ctx, t, bar)
		})
		if engine.CodeOf(err) == graph.CodeNoGraph { // somebody has just dropped it
			continue
		}
		if err != nil {
			return fmt.Errorf("graph %q: %w", name, err)
		}
		all = append(all, l)
	}
	bar.end()
	if o.json {
		return verb.PrintJSON(p.Stdout, map[string]any{"graphs": all})
	}
	w := tabwriter.NewWriter(p.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "GRAPH\tVERTICES\tEDGES\tINDEXES")
	for _, l := range all {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\n", l.Name, l.Vertices, l.Edges, l.Indexes)
	}
	return w.Flush()
}

// count counts what a graph has.
func (l *listedGraph) count(ctx context.Context, t *graph.Tx, bar *progress) error {
	one := func(n *int) error {
		*n++
		bar.show("counting %s: %s", l.Name, counted(int64(l.Vertices), int64(l.Edges)))
		return ctx.Err()
	}
	indexes, err := t.Indexes()
	if err != nil {
		return err
	}
	l.Indexes = len(indexes)
	if err := t.Vertices(func(*graph.Vertex) error { return one(&l.Vertices) }); err != nil {
		return err
	}
	return t.AllEdges(func(*graph.Edge) error { return one(&l.Edges) })
}

// counted returns "3 vertices and 2 edges".
func counted(vertices, edges int64) string {
	v := "1 vertex"
	if vertices != 1 {
		v = fmt.Sprint(vertices, " vertices")
	}
	return v + " and " + verb.Plural(int(edges), "edge")
}
