// Package cli is the command line of Skerry: every verb that a server and those who
// look after it need, for cmd/skerry and for any program with procedures of its own.
//
// It is the only package that knows which engines exist, and the only one that reads
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

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/proc"
)

// DefaultName is App.Name if that is empty.
const DefaultName = "skerry"

// App is one program. Its zero value is skerry itself.
type App struct {
	// Name is the word that starts the program: help and messages show commands
	// with it. "" is DefaultName. The names of variables (SKERRY_DATA) stay.
	Name string

	// Version is the program's, as its nodes and clients are told it. "": that
	// of its main module, as the Go command has put it into the program.
	Version string

	// Procedures are what clients of its servers can call; see package proc.
	// Those of `NAME serve` and of the nodes of `NAME dev` are the same.
	Procedures []proc.Procedure

	// Web makes the web application that HTTP serves, instead of keys and
	// procedures. Nil: there is none. See skerry.Services.
	Web skerry.Application
}

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
		os.Exit(exitStopped)
	}()
	os.Exit(Run(ctx, app, Process{os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr, os.Exit}))
}

// Run is Main in a process that is not the program's own, as in a test: it does
// what p.Args say until ctx ends, and returns the exit code.
func Run(ctx context.Context, app App, p Process) int {
	app.Name = cmp.Or(app.Name, DefaultName)
	if p.Stdin == nil {
		p.Stdin = strings.NewReader("")
	}
	if p.Stdout == nil {
		p.Stdout = io.Discard
	}
	if p.Stderr == nil {
		p.Stderr = io.Discard
	}
	return run(ctx, process{p, app})
}

// process is what a verb gets: the process, and which program it is part of.
type process struct {
	Process
	app App
}

// own puts the program's name into text, where that shows commands of skerry.
// Only text without anything of a user's may be given.
func (p process) own(text string) string {
	return strings.ReplaceAll(text, DefaultName+" ", p.app.Name+" ")
}

// ownError is own for an error's text, which may have users' words in it: there
// a command stands behind a backtick.
func (p process) ownError(err error) string {
	return strings.ReplaceAll(err.Error(), "`"+DefaultName+" ", "`"+p.app.Name+" ")
}
