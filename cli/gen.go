package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"

	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/proc"
	"github.com/skerrydb/skerry/proc/typescript"
	"github.com/skerrydb/skerry/record/schema"
)

var genVerb = verb.Verb{
	Name: "gen", Args: "WHAT", Short: "generate client code for procedures and records",
	Long: `The code has a function, argument types and a result type for each procedure, and types and
functions for each collection of records, so that the compiler reports calls that do not
match. Generate it again when they have changed: the same procedures and collections always
give the same code.`,
	Subs: []verb.Verb{genTSVerb},
}

// genOptions are the options of `skerry gen ts`.
type genOptions struct {
	remote
	out  string
	only string // "", procedures or records
}

var genTSVerb = verb.Verb{
	Name: "gen ts", Short: "generate a TypeScript module that calls procedures and uses records over HTTP",
	Long: `A program with its own procedures needs no server for this. With --url, the procedures
and collections of a running server are used instead: of its admin address, all of them; of
the address of a web application, the procedures that the application opens to its users.
The module imports nothing.`,
	Start: func(verb.App) verb.Action {
		o := &genOptions{}
		settings := append([]verb.Setting{
			urlSetting(&o.url, ""),
			{Name: "only", Arg: "WHAT", Help: "procedures or records (default both)", Set: verb.Text(&o.only)},
			{Name: "out", Arg: "FILE", Help: "file to write or replace (default standard output)", Set: verb.Text(&o.out)},
		}, o.accessSettings()...)
		check := func(rest []string) error {
			return verb.Mistakes(verb.NoArguments(rest), o.remote.check("url"), o.checkOnly())
		}
		return verb.Action{Settings: settings, Check: check, Do: func(ctx context.Context, p verb.Process, _ []string) error {
			return o.generate(ctx, p)
		}}
	},
}

func (o *genOptions) generate(ctx context.Context, p verb.Process) error {
	var list listing
	var err error
	source, options := o.url, typescript.Options{}
	switch {
	case o.url != "":
		list, options.Collections, err = o.offered(ctx)
	case len(p.App.Procedures) == 0:
		return verb.Usagef("needs --url: this program has no procedures of its own")
	default:
		source = p.App.Name
		list, err = ownListing(ctx, p)
	}
	if err != nil {
		return err
	}
	options.Source = source
	var code bytes.Buffer
	if err := typescript.Generate(&code, list.Procedures, options); err != nil {
		return err
	}
	if o.out != "" {
		return os.WriteFile(o.out, code.Bytes(), 0o644)
	}
	_, err = p.Stdout.Write(code.Bytes())
	return err
}

// checkOnly refuses values that only does not have.
func (o *genOptions) checkOnly() error {
	switch {
	case o.only != "" && o.only != "procedures" && o.only != "records":
		return fmt.Errorf("only must be procedures or records, not %q", o.only)
	case o.only == "records" && o.url == "":
		return errors.New("only records needs --url: a program without its engine does not know its collections")
	}
	return nil
}

// offered asks a server for what the module is to have. A web application's address has no list of collections.
func (o *genOptions) offered(ctx context.Context) (list listing, collections []schema.Collection, err error) {
	if o.only != "records" {
		if list, err = o.procedures(ctx); err != nil {
			return list, nil, err
		}
	}
	if o.only == "procedures" {
		return list, nil, nil
	}
	collections, err = o.collections(ctx)
	if no, refused := errors.AsType[*refusal](err); refused && no.Status == http.StatusNotFound && o.only == "" {
		err = nil
	}
	return list, collections, err
}

// ownListing lists the procedures of the program as a server would, including the refusal of invalid ones. It
// opens an engine for that.
func ownListing(ctx context.Context, p verb.Process) (list listing, err error) {
	dir, err := os.MkdirTemp("", "skerry-")
	if err != nil {
		return list, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	eng, err := p.Engines.Open(ctx, verb.FolderURL(dir), verb.EngineOptions{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return list, fmt.Errorf("list the procedures: %w", err)
	}
	defer func() { err = errors.Join(err, eng.Close()) }()
	set, err := proc.New(eng, proc.Options{}, p.App.Procedures...)
	if err != nil {
		return list, err
	}
	return listing{set.Schemas()}, nil
}
