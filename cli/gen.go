package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/proc"
	"github.com/skerrydb/skerry/proc/typescript"
)

var genVerb = verb{
	name: "gen", args: "WHAT", short: "write code that calls procedures",
	long: `The code has a function and the types of arguments and result for each procedure,
so that a compiler finds calls that do not fit. Write it again when the procedures
have changed: the same procedures give the same code.`,
	subs: []verb{genTSVerb},
}

// genOptions is what `skerry gen ts` takes.
type genOptions struct {
	remote
	out string
}

var genTSVerb = verb{
	name: "gen ts", short: "write a TypeScript module that calls procedures over HTTP",
	long: `A program with procedures of its own writes them without a server. --url asks a
running one for those of its program instead. The module imports nothing.`,
	start: func(App) action {
		o := &genOptions{}
		settings := append([]setting{
			urlSetting(&o.url, ""),
			{"out", "FILE", "", "file to write, also over an old one (default the standard output)", false, text(&o.out)},
		}, o.accessSettings()...)
		check := func(rest []string) error { return mistakes(noArguments(rest), o.remote.check("url")) }
		return action{settings, check, func(ctx context.Context, p process, _ []string) error {
			return o.generate(ctx, p)
		}, false}
	},
}

func (o *genOptions) generate(ctx context.Context, p process) error {
	var list listing
	var err error
	source := o.url
	switch {
	case o.url != "":
		list, err = o.procedures(ctx)
	case len(p.app.Procedures) == 0:
		return usagef("needs --url: this program has no procedures of its own")
	default:
		source = p.app.Name
		list, err = p.app.listing()
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

// listing lists the procedures of the program as a server of it would, which
// refuses those that it could not serve. It opens an engine for that.
func (app App) listing() (list listing, err error) {
	dir, err := os.MkdirTemp("", "skerry-")
	if err != nil {
		return list, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	eng, err := openEmbedded(dir, embedded.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return list, fmt.Errorf("look at the procedures: %w", err)
	}
	defer func() { err = errors.Join(err, eng.Close()) }()
	set, err := proc.New(eng, proc.Options{}, app.Procedures...)
	if err != nil {
		return list, err
	}
	return listing{set.Schemas()}, nil
}
