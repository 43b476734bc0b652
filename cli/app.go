// Package cli is the command line of Skerry: all verbs for running and maintaining a server, for cmd/skerry
// and for any program with its own procedures.
//
// It knows which engines exist, and it and its subpackages are the only ones that read flags, the environment
// and signals; it must not know what a key or a request means.
package cli

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/skerrydb/skerry/cli/verb"
)

// App is a program: its name, version, procedures and web application. The zero value is skerry itself.
type App = verb.App

// Process is the part of the process that a program may use. Nil fields are empty or discarded.
type Process struct {
	Args           []string // without the program's name
	Environ        []string // NAME=VALUE
	Stdin          io.Reader
	Stdout, Stderr io.Writer

	// Exit ends the process immediately. It is called when ctx ends during work that ignores ctx and has
	// nothing to lose. If it is nil or returns, such work continues to its end.
	Exit func(code int)
}

// Main is the whole main function of a program: it runs the process's arguments and exits. SIGTERM and SIGINT
// stop it cleanly, the second signal immediately. The exit codes are in the help text.
func Main(app App) { start(app, engines()) }

// start is Main with the existing engines.
func start(app App, all verb.Engines) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		<-signals
		os.Exit(verb.ExitStopped)
	}()
	os.Exit(run(ctx, app, all, Process{os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr, os.Exit}))
}

// Run is Main without owning the process, for example in a test: it runs p.Args until ctx ends, and returns
// the exit code.
func Run(ctx context.Context, app App, p Process) int {
	return run(ctx, app, engines(), p)
}
