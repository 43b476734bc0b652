package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/graph/value"
)

// maxSchemaBytes bounds a file with a schema.
const maxSchemaBytes = 16 << 20

// graphIndex are the options of `skerry graph index`.
type graphIndex struct {
	graphOptions
	label  string
	edges  bool
	unique bool
	remove bool
}

var graphIndexVerb = verb.Verb{
	Name: "graph index", Args: "[KEY…]", Short: "list the indexes of a graph, add one on properties, or remove one",
	Long: `An index has the vertices with a label, or with any, that have all the properties KEY.
Traversals find vertices by it: g.V().has('city', 'name', 'Oslo'). Without KEY, the indexes are
listed. If the command is stopped, run it again: it continues.

A client of a running server calls g.call('skerry.addIndex', [label: 'city', keys: ['name']]).`,
	Start: func(verb.App) verb.Action {
		o := &graphIndex{}
		settings := o.settings(
			verb.Setting{Name: "graph", Arg: "NAME", Default: graph.Default, Help: "name of the graph", Set: verb.Text(&o.graph)},
			verb.Setting{Name: "label", Arg: "LABEL", Help: "only elements with this label (default all)", Set: verb.Text(&o.label)},
			verb.Setting{Name: "edges", Help: "index edges, not vertices", Set: verb.Toggle(&o.edges)},
			verb.Setting{Name: "unique", Help: "refuse a second element with the same values", Set: verb.Toggle(&o.unique)},
			verb.Setting{Name: "remove", Help: "remove the index", Set: verb.Toggle(&o.remove)},
		)
		return verb.Action{Settings: settings, Check: o.check, Do: func(ctx context.Context, p verb.Process, keys []string) error {
			return o.run(ctx, p, keys)
		}}
	},
}

func (o *graphIndex) check(keys []string) error {
	var wrong []error
	if slices.Contains(keys, "") {
		wrong = append(wrong, errors.New("a KEY is empty"))
	}
	if len(keys) == 0 && (o.label != "" || o.edges || o.unique || o.remove) {
		wrong = append(wrong, errors.New("needs the KEY of a property; --label, --edges, --unique and --remove are about one index"))
	}
	if o.remove && o.unique {
		wrong = append(wrong, errors.New("--unique is for an index that is added: leave it out with --remove"))
	}
	return verb.Mistakes(wrong...)
}

func (o *graphIndex) run(ctx context.Context, p verb.Process, keys []string) (err error) {
	db, eng, err := o.open(ctx, p, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, eng.Close()) }()
	if len(keys) == 0 {
		return o.listIndexes(ctx, db, p.Stdout)
	}
	ix := graph.Index{On: value.KindVertex, Label: o.label, Keys: keys, Unique: o.unique}
	if o.edges {
		ix.On = value.KindEdge
	}
	do, done := db.AddIndex, "added"
	if o.remove {
		do, done = db.RemoveIndex, "removed"
		all, err := db.Indexes(ctx, o.graph)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(all, ix.Same) {
			return engine.Errorf(engine.CodeNotFound, "there is no index on %s", describeIndex(&ix))
		}
	}
	if err := do(ctx, o.graph, ix); err != nil {
		return err
	}
	if o.json {
		return verb.PrintJSON(p.Stdout, map[string]any{done: &ix})
	}
	_, err = fmt.Fprintf(p.Stdout, "%s the index on %s\n", done, describeIndex(&ix))
	return err
}

// describeIndex returns "name of vertices city".
func describeIndex(ix *graph.Index) string {
	of := "vertices"
	if ix.On == value.KindEdge {
		of = "edges"
	}
	return strings.TrimSuffix(strings.Join(ix.Keys, ", ")+" of "+of+" "+ix.Label, " ")
}

func (o *graphIndex) listIndexes(ctx context.Context, db *graph.DB, to io.Writer) error {
	all, err := db.Indexes(ctx, o.graph)
	if err != nil {
		return err
	}
	if o.json {
		return verb.PrintJSON(to, map[string]any{"indexes": all})
	}
	w := tabwriter.NewWriter(to, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "ON\tLABEL\tKEYS\tUNIQUE\tSTATE")
	for _, ix := range all {
		on, unique, state := "vertices", "no", "ready"
		if ix.On == value.KindEdge {
			on = "edges"
		}
		if ix.Unique {
			unique = "yes"
		}
		if ix.Filling {
			state = "not filled: add it again"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", on, ix.Label, strings.Join(ix.Keys, ", "), unique, state)
	}
	return w.Flush()
}

// graphSchema are the options of `skerry graph schema`.
type graphSchema struct {
	graphOptions
	remove bool
}

var graphSchemaVerb = verb.Verb{
	Name: "graph schema", Args: "[FILE]", Short: "print the schema of a graph, or set it to that of a file",
	Long: `A schema says which labels and properties a graph has; docs/graph.md explains it. FILE is JSON, as
this verb prints it; - is standard input. All elements are checked: if one is not as the
schema says, the error names it, and the old schema stays. If the command is stopped, run it
again: it continues.

A client of a running server calls g.call('skerry.schema') and g.call('skerry.setSchema', …).`,
	Start: func(verb.App) verb.Action {
		o := &graphSchema{}
		settings := o.settings(
			verb.Setting{Name: "graph", Arg: "NAME", Default: graph.Default, Help: "name of the graph", Set: verb.Text(&o.graph)},
			verb.Setting{Name: "remove", Help: "remove the schema, so that everything is allowed", Set: verb.Toggle(&o.remove)},
		)
		return verb.Action{Settings: settings, Check: o.check, Do: func(ctx context.Context, p verb.Process, rest []string) error {
			return o.run(ctx, p, rest)
		}}
	},
}

func (o *graphSchema) check(rest []string) error {
	switch {
	case len(rest) > 1:
		return verb.Mistakes(errors.New("takes one file"))
	case len(rest) == 1 && o.remove:
		return verb.Mistakes(errors.New("--remove needs no file"))
	}
	return nil
}

func (o *graphSchema) run(ctx context.Context, p verb.Process, rest []string) (err error) {
	var s graph.Schema
	if len(rest) == 1 {
		if s, err = readSchema(p.Stdin, rest[0]); err != nil {
			return err
		}
	}
	db, eng, err := o.open(ctx, p, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, eng.Close()) }()
	if len(rest) == 1 || o.remove {
		if err := db.SetSchema(ctx, o.graph, s); err != nil {
			return err
		}
	}
	now, _, err := db.Schema(ctx, o.graph)
	if err != nil {
		return err
	}
	if now == nil {
		now = &graph.Schema{}
	}
	if o.json {
		return verb.PrintJSON(p.Stdout, now)
	}
	text, err := json.MarshalIndent(now, "", "  ")
	if err == nil {
		_, err = fmt.Fprintf(p.Stdout, "%s\n", text)
	}
	return err
}

// readSchema reads a schema from a file; - is standard input.
func readSchema(stdin io.Reader, name string) (s graph.Schema, err error) {
	from := stdin
	if name == "-" {
		name = "standard input"
	} else {
		f, err := os.Open(name)
		if err != nil {
			return s, err
		}
		defer f.Close()
		from = f
	}
	text, err := io.ReadAll(io.LimitReader(from, maxSchemaBytes+1))
	switch {
	case err != nil:
		return s, fmt.Errorf("read %s: %w", name, err)
	case len(text) > maxSchemaBytes:
		return s, engine.Errorf(engine.CodeLimit, "%s is larger than %d bytes", name, maxSchemaBytes)
	}
	if s, err = graph.ParseSchema(text); err != nil {
		return s, fmt.Errorf("%s: %w", name, err)
	}
	return s, nil
}
