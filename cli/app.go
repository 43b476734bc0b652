// Package cli is the command line of Skerry: every verb for running a server and looking
// after it, for cmd/skerry and for any program with procedures of its own.
//
// It knows which engines exist, and it and its rooms are the only packages that read
// flags, the environment and signals; it must not know what a key or a request means.
package cli

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/skerrydb/skerry/cli/verb"
)

// App is a program: its name, version, procedures and web application. The zero value
// is skerry itself.
type App = verb.App

// Process is what a program may use of the process that it runs in. What is nil is
// empty, or discarded.
type Process struct {
	Args           []string // without the program's name
	Environ        []string // NAME=VALUE
	Stdin          io.Reader
	Stdout, Stderr io.Writer

	// Exit ends the process at once, when ctx ends during work that has nothing
	// to lose and does not look at ctx. If it is nil or returns, such work goes
	// on to its end.
	Exit func(code int)
}

// Main is the whole main function of a program: it does what the process's
// arguments say and exits. SIGTERM and SIGINT stop it cleanly, the second of them
// at once. The exit codes are in the help text.
func Main(app App) { start(app, engines()) }

// start is Main with the engines that there are.
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

// Run is Main in a process that is not the program's own, as in a test: it does
// what p.Args say until ctx ends, and returns the exit code.
func Run(ctx context.Context, app App, p Process) int {
	return run(ctx, app, engines(), p)
}
