package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/skerrydb/skerry/cli/cluster"
	"github.com/skerrydb/skerry/cli/dev"
	"github.com/skerrydb/skerry/cli/serve"
	"github.com/skerrydb/skerry/cli/size"
	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/engine"
)

// verbs returns the verbs of every program and those of app.
func verbs(app App) []verb.Verb {
	return append([]verb.Verb{
		serve.Verb, dev.Init, dev.Verb, cluster.Verb, proceduresVerb, callVerb, usersVerb, adminVerb, cacheVerb, topVerb, exportVerb, importVerb, graphVerb, migrateVerb, rulesVerb, undoVerb,
		verifyVerb, genVerb, checkVerb, backupVerb, restoreVerb, moveVerb, adoptVerb, size.Verb, serve.Systemd, versionVerb,
	}, app.Verbs...)
}

// onlySkerry lists the verbs of package verify, which other programs do not have.
func onlySkerry() []string { return []string{"bench", "conform", "vet"} }

// run runs the arguments until ctx ends and returns the exit code.
func run(ctx context.Context, app App, all verb.Engines, in Process) int {
	app.Name = cmp.Or(app.Name, verb.DefaultName)
	if in.Stdin == nil {
		in.Stdin = strings.NewReader("")
	}
	if in.Stdout == nil {
		in.Stdout = io.Discard
	}
	if in.Stderr == nil {
		in.Stderr = io.Discard
	}
	p := verb.Process{App: app, Engines: all, Environ: in.Environ, Stdin: in.Stdin, Stdout: in.Stdout, Stderr: in.Stderr}
	name := ""
	if len(in.Args) > 0 {
		name = in.Args[0]
	}
	switch name {
	case "":
		printHelp(p.Stderr, p)
		return verb.ExitUsage
	case "help", "-h", "-help", "--help":
		return help(p, in.Args[1:])
	case "--version", "-version":
		name = "version"
	}
	v, args, err := find(verbs(app), append([]string{name}, in.Args[1:]...))
	if err != nil {
		p.Complain("", p.OwnError(err))
		return verb.ExitUsage
	}
	if v.Subs != nil {
		printVerbs(p, v)
		return verb.ExitOK
	}
	a := v.Start(p.App)
	if slices.ContainsFunc(args, wantsHelp) {
		printUsage(p, v, a.Settings)
		return verb.ExitOK
	}
	rest, err := verb.Configure(a.Settings, (&serve.Options{}).Settings(), args, p.Environ)
	if err = verb.Mistakes(err, a.Check(rest)); err == nil {
		if a.Abrupt && in.Exit != nil {
			defer context.AfterFunc(ctx, func() { in.Exit(verb.ExitStopped) })()
		}
		err = a.Do(ctx, p, rest)
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		fmt.Fprintf(p.Stderr, "%s %s: stopped by a signal before it was done\n", p.App.Name, v.Name)
		return verb.ExitStopped
	}
	return report(p, v, err)
}

// find returns the verb that the first arguments name, and the remaining arguments. It returns a verb with
// subcommands only for help.
func find(of []verb.Verb, args []string) (v verb.Verb, rest []string, err error) {
	i := slices.IndexFunc(of, func(v verb.Verb) bool { return v.Name == args[0] })
	switch {
	case i < 0 && slices.Contains(onlySkerry(), args[0]):
		return v, nil, fmt.Errorf("only the skerry command has the verb %[1]s: run skerry %[1]s", args[0])
	case i < 0:
		return v, nil, fmt.Errorf("unknown verb %q%s", args[0], cmp.Or(verb.DidYouMean(args[0], verbNames(of)), "; `skerry help` lists them"))
	}
	v, rest = of[i], args[1:]
	switch {
	case v.Subs == nil:
		return v, rest, nil
	case len(rest) == 0:
		return v, nil, fmt.Errorf("%s needs a verb; `skerry help %s` lists them", v.Name, v.Name)
	case wantsHelp(rest[0]):
		return v, nil, nil
	}
	name := v.Name + " " + rest[0]
	if i = slices.IndexFunc(v.Subs, func(v verb.Verb) bool { return v.Name == name }); i < 0 {
		return v, nil, fmt.Errorf("unknown verb %q%s", name, cmp.Or(verb.DidYouMean(name, verbNames(v.Subs)), "; `skerry help "+v.Name+"` lists them"))
	}
	return v.Subs[i], rest[1:], nil
}

func verbNames(of []verb.Verb) (names []string) {
	for _, v := range of {
		names = append(names, v.Name)
	}
	return names
}

// report prints an error and returns the exit code for it.
func report(p verb.Process, v verb.Verb, err error) int {
	if err == nil {
		return verb.ExitOK
	}
	if wrong, ok := errors.AsType[verb.ConfigError](err); ok {
		for _, e := range wrong {
			p.Complain(v.Name, strings.ReplaceAll(p.OwnError(e), "\n", "\n\t"))
		}
		fmt.Fprintf(p.Stderr, "Run `%s help %s` for its usage.\n", p.App.Name, v.Name)
		return verb.ExitUsage
	}
	p.Complain(v.Name, p.OwnError(err))
	switch {
	case errors.Is(err, engine.ErrLocked):
		return verb.ExitLocked
	case errors.Is(err, engine.ErrCorrupt), errors.As(err, new(verb.Broken)):
		return verb.ExitBroken
	}
	return verb.ExitFailed
}
