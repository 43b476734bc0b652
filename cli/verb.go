package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/workload"
)

// Exit codes. They are part of the interface: do not change.
const (
	exitOK      = 0
	exitFailed  = 1   // the work was not done; the message says why
	exitUsage   = 2   // the command line, the environment or the file is wrong
	exitBroken  = 3   // stored data is damaged or a promise was broken
	exitLocked  = 4   // another process has the data folder open
	exitStopped = 130 // a signal ended the program before its work was done
)

// verb is one thing that the program does.
type verb struct {
	name  string
	args  string // what stands on the command line besides flags
	short string // one line for the list
	long  string // for `skerry help VERB`

	start func(app App) action // app is the program that the verb is part of
	subs  []verb               // what it does instead, by its next argument; their names have both
}

// action is one use of a verb. Once the settings have their values, check finds
// what does not fit together; do is called if there was no mistake. rest holds
// the arguments that are not flags. abrupt says that do does not look at ctx, and
// that nothing is lost if the process ends in the middle of it.
type action struct {
	settings []setting
	check    func(rest []string) error
	do       func(ctx context.Context, p process, rest []string) error
	abrupt   bool
}

func verbs() []verb {
	return []verb{
		serveVerb, initVerb, devVerb, clusterVerb, proceduresVerb, callVerb, usersVerb, genVerb, vetVerb,
		checkVerb, backupVerb, restoreVerb, systemdVerb, benchVerb, conformVerb, versionVerb,
	}
}

// run does what the arguments say until ctx ends and returns the exit code.
func run(ctx context.Context, p process) int {
	name := ""
	if len(p.Args) > 0 {
		name = p.Args[0]
	}
	switch name {
	case "":
		printHelp(p.Stderr, p)
		return exitUsage
	case "help", "-h", "-help", "--help":
		return help(p, p.Args[1:])
	case "--version", "-version":
		name = "version"
	}
	v, args, err := find(verbs(), append([]string{name}, p.Args[1:]...))
	if err != nil {
		p.complain("", p.ownError(err))
		return exitUsage
	}
	if v.subs != nil {
		printVerbs(p, v)
		return exitOK
	}
	a := v.start(p.app)
	if slices.ContainsFunc(args, wantsHelp) {
		printUsage(p, v, a.settings)
		return exitOK
	}
	rest, err := configure(a.settings, args, p.Environ)
	if err = mistakes(err, a.check(rest)); err == nil {
		if a.abrupt && p.Exit != nil {
			defer context.AfterFunc(ctx, func() { p.Exit(exitStopped) })()
		}
		err = a.do(ctx, p, rest)
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		fmt.Fprintf(p.Stderr, "%s %s: stopped by a signal before it was done\n", p.app.Name, v.name)
		return exitStopped
	}
	return p.report(v, err)
}

// find returns the verb that the first arguments name, and the arguments after
// them. A verb with subs is returned itself only if help is wanted.
func find(of []verb, args []string) (v verb, rest []string, err error) {
	i := slices.IndexFunc(of, func(v verb) bool { return v.name == args[0] })
	if i < 0 {
		return v, nil, fmt.Errorf("there is no verb %q%s", args[0], cmp.Or(meant(args[0], verbNames(of)), "; `skerry help` lists them"))
	}
	v, rest = of[i], args[1:]
	switch {
	case v.subs == nil:
		return v, rest, nil
	case len(rest) == 0:
		return v, nil, fmt.Errorf("%s needs to be told what to do; `skerry help %s` lists it", v.name, v.name)
	case wantsHelp(rest[0]):
		return v, nil, nil
	}
	name := v.name + " " + rest[0]
	if i = slices.IndexFunc(v.subs, func(v verb) bool { return v.name == name }); i < 0 {
		return v, nil, fmt.Errorf("there is no verb %q%s", name, cmp.Or(meant(name, verbNames(v.subs)), "; `skerry help "+v.name+"` lists them"))
	}
	return v.subs[i], rest[1:], nil
}

func verbNames(of []verb) (names []string) {
	for _, v := range of {
		names = append(names, v.name)
	}
	return names
}

// complain prints what is wrong, after the names of the program and of the verb.
func (p process) complain(verb, text string) {
	who := strings.TrimSpace(p.app.Name + " " + verb)
	fmt.Fprintf(p.Stderr, "%s %s\n", p.paint(p.Stderr, red, who+":"), text)
}

// report prints an error and returns the exit code for it.
func (p process) report(v verb, err error) int {
	if err == nil {
		return exitOK
	}
	if wrong, ok := errors.AsType[configError](err); ok {
		for _, e := range wrong {
			p.complain(v.name, strings.ReplaceAll(p.ownError(e), "\n", "\n\t"))
		}
		fmt.Fprintf(p.Stderr, "`%s help %s` explains what it takes\n", p.app.Name, v.name)
		return exitUsage
	}
	p.complain(v.name, p.ownError(err))
	switch {
	case errors.Is(err, engine.ErrLocked):
		return exitLocked
	case errors.Is(err, engine.ErrCorrupt), errors.As(err, new(broken)), errors.As(err, new(*workload.Violation)):
		return exitBroken
	}
	return exitFailed
}

// broken is what a verb says that found damage or a promise that does not hold.
type broken string

func (b broken) Error() string { return string(b) }

// usagef is a mistake in the arguments that are not flags.
func usagef(format string, args ...any) error {
	return configError{fmt.Errorf(format, args...)}
}
