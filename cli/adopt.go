package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/postgres"
	"github.com/skerrydb/skerry/engine/postgres/adopt"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
)

// adoptOptions are the options of `skerry adopt`.
type adoptOptions struct {
	from       *url.URL
	table      string
	collection string
	skip       []string
	release    bool
	dry, json  bool
}

var adoptVerb = verb.Verb{
	Name: "adopt", Short: "put a table of PostgreSQL under records, while its programs go on using it",
	Long: `The table stays where it is. Its rows also become the records of a collection, with history, rules and
a REST API. From then on, triggers keep both the same: what programs write to the table is a
change of a record, and what clients of Skerry write to a record is in the table when the
transaction commits.

The primary key becomes the id. The collection has no rules, so that only superadmins can
use it; the verb prints its description for your program, which gives it rules. If the verb
is stopped, run it again. --release ends the adoption: the table and the records
stay as they are.`,
	Start: func(verb.App) verb.Action {
		o := &adoptOptions{}
		settings := []verb.Setting{
			{Name: "from", Arg: "URL", Help: "database, which is also the engine, like postgres://user@host/database", Set: engineURL(&o.from)},
			{Name: "table", Arg: "NAME", Help: "table, or SCHEMA.TABLE", Set: verb.Text(&o.table)},
			{Name: "collection", Arg: "NAME", Help: "collection; by default it has the name of the table", Set: verb.Text(&o.collection)},
			{Name: "skip", Arg: "COLUMNS", Help: "columns that do not become fields, separated by commas", Set: verb.List(&o.skip)},
			{Name: "release", Help: "end an adoption", Set: verb.Toggle(&o.release)},
			{Name: "dry-run", Help: "only show what the collection would be", Set: verb.Toggle(&o.dry)},
			verb.JSON(&o.json),
		}
		return verb.Action{Settings: settings, Check: o.check, Do: func(ctx context.Context, p verb.Process, _ []string) error { return o.run(ctx, p) }}
	},
}

func (o *adoptOptions) check(rest []string) error {
	var what, which error
	if o.from == nil || o.from.Scheme != "postgres" && o.from.Scheme != "postgresql" {
		what = errors.New("needs --from postgres://…")
	}
	if o.table == "" {
		which = errors.New("needs --table NAME")
	}
	return verb.Mistakes(verb.NoArguments(rest), what, which)
}

func (o *adoptOptions) run(ctx context.Context, p verb.Process) (err error) {
	_, bare := postgres.Cut(o.from, "records")
	s, err := adopt.Open(ctx, bare)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	read := func() (*adopt.Table, error) { return s.Read(ctx, o.table, o.skip) }
	if o.release {
		read = func() (*adopt.Table, error) { return s.Find(ctx, o.table) }
	}
	t, err := read()
	if err != nil {
		return err
	}
	name := cmp.Or(o.collection, t.Name)
	if o.release {
		if err := s.Link(t, name).Release(ctx); err != nil {
			return err
		}
		_, err = fmt.Fprintf(p.Stdout, "table %s is released: changes of it and of collection %s are no longer copied\n", o.table, name)
		return err
	}
	c := t.Collection(name)
	if _, err := c.Compile(); err != nil {
		return engine.Errorf(engine.CodeInvalid, "table %s cannot be collection %s: %w; choose a name with --collection", o.table, name, err)
	}
	if o.dry {
		return o.print(p, t, c, "would be adopted")
	}
	rows, err := o.adopt(ctx, p, s.Link(t, name), c)
	if err != nil {
		return err
	}
	return o.print(p, t, c, "is adopted, with "+verb.Plural(rows, "row"))
}

// adopt returns how many rows the table has.
func (o *adoptOptions) adopt(ctx context.Context, p verb.Process, l *adopt.Link, c schema.Collection) (rows int, err error) {
	_, u := postgres.Cut(o.from, "records")
	u.RawQuery = strings.TrimPrefix(u.RawQuery+"&records=tables", "&")
	eng, err := p.Engines.Open(ctx, u, quiet(p))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, eng.Close()) }()
	db, err := record.Open(eng, record.Options{Logger: verb.Quiet(p.Stderr)})
	if err != nil {
		return 0, err
	}
	if c, err = extended(ctx, db, c); err == nil {
		err = db.Define(c)
	}
	if err == nil {
		_, err = db.Migrate(ctx, record.MigrateOptions{Collections: []string{c.Name}})
	}
	if err == nil {
		err = l.Connect(ctx)
	}
	if err != nil {
		return 0, err
	}
	if rows, err = copyRows(ctx, newProgress(p), l, db); err != nil && ctx.Err() == nil {
		// Half an adoption must not get into the way of the table's programs.
		return 0, errors.Join(fmt.Errorf("the table is released again: %w", err), l.Release(context.WithoutCancel(ctx)))
	}
	return rows, err
}

// copyRows copies the rows, and gives each its place in the history.
func copyRows(ctx context.Context, bar *progress, l *adopt.Link, db *record.DB) (rows int, err error) {
	defer bar.end()
	of := l.Rows(ctx)
	for last := ""; ; {
		n, key, err := l.Copy(ctx, last)
		for more := true; more && err == nil; {
			more, err = db.TakeIn(ctx)
		}
		if err != nil || n == 0 {
			return rows, err
		}
		rows, last = rows+n, key
		bar.show("copied %d of about %d rows", rows, max(of, int64(rows)))
	}
}

// extended returns the stored description of a collection with the fields that it lacks.
func extended(ctx context.Context, db *record.DB, c schema.Collection) (schema.Collection, error) {
	all, err := db.Collections(ctx, engine.Read{})
	for _, old := range all {
		if old.Name != c.Name {
			continue
		}
		has := map[string]bool{}
		for _, f := range old.Fields {
			has[f.Name] = true
		}
		for _, f := range c.Fields {
			if !has[f.Name] {
				old.Fields = append(old.Fields, f)
			}
		}
		return old, err
	}
	return c, err
}

func (o *adoptOptions) print(p verb.Process, t *adopt.Table, c schema.Collection, state string) error {
	if o.json {
		return verb.PrintJSON(p.Stdout, map[string]any{"table": t.Schema + "." + t.Name, "skipped": t.Skipped, "collection": c})
	}
	if _, err := fmt.Fprintf(p.Stdout, "table %s.%s %s. Its collection in your program, to which you add rules:\n\n", t.Schema, t.Name, state); err != nil {
		return err
	}
	for _, x := range t.Skipped {
		if _, err := fmt.Fprintf(p.Stdout, "// column %s\n", x); err != nil {
			return err
		}
	}
	return printStruct(p.Stdout, c)
}

// goTypes are the Go types of the fields of an adopted table.
var goTypes = map[schema.Type]string{
	schema.Int: "int64", schema.Float: "float64", schema.Bool: "bool", schema.Time: "time.Time", schema.JSON: "json.RawMessage",
}

// printStruct prints a collection as a Go struct.
func printStruct(w io.Writer, c schema.Collection) error {
	name := goName(c.Name)
	text := "type " + name + " struct {\n\trecord.Meta\n"
	for _, f := range c.Fields {
		typ := goTypes[f.Type]
		if typ == "" {
			typ = "string"
		}
		if !f.Required && f.Type != schema.JSON {
			typ = "*" + typ // nil is null
		}
		text += fmt.Sprintf("\t%s %s `record:%q`\n", goName(f.Name), typ, tag(c, f))
	}
	text += fmt.Sprintf("}\n\nvar %ss = record.Of[%s](schema.Collection{\n\tName: %q,\n\tHint: %q,\n", name, name, c.Name, c.Hint)
	more := ""
	for _, x := range c.Indexes {
		if strings.HasPrefix(x.Name, "by_") {
			continue // the tag of its field says so
		}
		var fields []string
		for _, f := range x.Fields {
			fields = append(fields, fmt.Sprintf("{Name: %q, Desc: %v}", f.Name, f.Desc))
		}
		more += fmt.Sprintf("\t\t{Name: %q, Unique: %v, Fields: []schema.IndexField{%s}},\n", x.Name, x.Unique, strings.Join(fields, ", "))
	}
	if more != "" {
		text += "\tIndexes: []schema.Index{\n" + more + "\t},\n"
	}
	_, err := io.WriteString(w, text+"})\n")
	return err
}

// tag returns the tag of a field.
func tag(c schema.Collection, f schema.Field) string {
	all := []string{f.Name}
	option := func(set bool, text string) {
		if set && strings.ContainsAny(text, ",'") {
			name, val, _ := strings.Cut(text, "=")
			text = name + "='" + strings.ReplaceAll(val, "'", "''") + "'"
		}
		if set {
			all = append(all, text)
		}
	}
	option(f.Type == schema.Decimal && f.Scale == 0, "type=decimal")
	option(f.Scale > 0, fmt.Sprintf("scale=%d", f.Scale))
	option(f.Type == schema.Select, "options="+strings.Join(f.Options, "|"))
	option(f.Required, "required")
	option(f.Max != "", "max="+f.Max)
	for _, x := range c.Indexes {
		option(x.Name == "by_"+f.Name && x.Unique, "unique")
		option(x.Name == "by_"+f.Name && !x.Unique, "index")
	}
	option(f.Hint != "", "hint="+f.Hint)
	return strings.Join(all, ",")
}

// goName returns an exported Go name.
func goName(name string) string {
	text := ""
	for _, part := range strings.Split(name, "_") {
		if part != "" {
			text += strings.ToUpper(part[:1]) + part[1:]
		}
	}
	return text
}
