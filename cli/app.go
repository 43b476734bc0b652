// Package cli is the command line of Skerry: every verb for running a server and looking
// after it, for cmd/skerry and for any program with procedures of its own.
//
// It knows which engines exist, and it and its rooms are the only packages that read
// flags, the environment and signals; it must not know what a key or a request means.
package cli

import (
	"cmp"
	"context"
	"io"
	"os"
	"os/signal"
	"strings"
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
func Main(app App) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		<-signals
		os.Exit(verb.ExitStopped)
	}()
	os.Exit(Run(ctx, app, Process{os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr, os.Exit}))
}

// Run is Main in a process that is not the program's own, as in a test: it does
// what p.Args say until ctx ends, and returns the exit code.
func Run(ctx context.Context, app App, p Process) int {
	app.Name = cmp.Or(app.Name, verb.DefaultName)
	if p.Stdin == nil {
		p.Stdin = strings.NewReader("")
	}
	if p.Stdout == nil {
		p.Stdout = io.Discard
	}
	if p.Stderr == nil {
		p.Stderr = io.Discard
	}
	return run(ctx, app, p)
}
