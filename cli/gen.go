package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/proc"
	"github.com/skerrydb/skerry/proc/typescript"
)

var genVerb = verb.Verb{
	Name: "gen", Args: "WHAT", Short: "generate client code for procedures",
	Long: `The code has a function, argument types and a result type for each procedure, so that
the compiler reports calls that do not match. Generate it again when the procedures have
changed: the same procedures always give the same code.`,
	Subs: []verb.Verb{genTSVerb},
}

// genOptions are the options of `skerry gen ts`.
type genOptions struct {
	remote
	out string
}

var genTSVerb = verb.Verb{
	Name: "gen ts", Short: "generate a TypeScript module that calls procedures over HTTP",
	Long: `A program with its own procedures needs no server for this. With --url, the procedures
of a running server are used instead. The module imports nothing.`,
	Start: func(verb.App) verb.Action {
		o := &genOptions{}
		settings := append([]verb.Setting{
			urlSetting(&o.url, ""),
			{Name: "out", Arg: "FILE", Help: "file to write or replace (default standard output)", Set: verb.Text(&o.out)},
		}, o.accessSettings()...)
		check := func(rest []string) error { return verb.Mistakes(verb.NoArguments(rest), o.remote.check("url")) }
		return verb.Action{Settings: settings, Check: check, Do: func(ctx context.Context, p verb.Process, _ []string) error {
			return o.generate(ctx, p)
		}}
	},
}

func (o *genOptions) generate(ctx context.Context, p verb.Process) error {
	var list listing
	var err error
	source := o.url
	switch {
	case o.url != "":
		list, err = o.procedures(ctx)
	case len(p.App.Procedures) == 0:
		return verb.Usagef("needs --url: this program has no procedures of its own")
	default:
		source = p.App.Name
		list, err = ownListing(ctx, p)
	}
	if err != nil {
		return err
	}
	var code bytes.Buffer
	if err := typescript.Generate(&code, list.Procedures, typescript.Options{Source: source}); err != nil {
		return err
	}
	if o.out != "" {
		return os.WriteFile(o.out, code.Bytes(), 0o644)
	}
	_, err = p.Stdout.Write(code.Bytes())
	return err
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
