// Package verb is what the verbs of the command line are made of: a verb is a value with
// a name, a usage text, settings and a function, which a room of cli exports and cli lists.
//
// It knows how settings are read from flags, the environment and a file, and how verbs
// print results and errors; it must not know which verbs there are.
package verb

import (
	"context"
	"fmt"
	"io"
	"strings"
)

// Exit codes. They are part of the interface: do not change.
const (
	ExitOK      = 0
	ExitFailed  = 1   // the work was not done; the message says why
	ExitUsage   = 2   // the command line, the environment or the file is wrong
	ExitBroken  = 3   // stored data is damaged or a promise was broken
	ExitLocked  = 4   // another process has the data folder open
	ExitStopped = 130 // a signal ended the program before its work was done
)

// Verb is one thing that the program does.
type Verb struct {
	Name  string
	Args  string // what stands on the command line besides flags
	Short string // one line for the list
	Long  string // for `skerry help VERB`

	Start func(app App) Action // app is the program that the verb is part of
	Subs  []Verb               // what it does instead, by its next argument; their names have both
}

// Action is one use of a verb. Once the settings have their values, check finds
// what does not fit together; do is called if there was no mistake. rest holds
// the arguments that are not flags. abrupt says that do does not look at ctx, and
// that nothing is lost if the process ends in the middle of it.
type Action struct {
	Settings []Setting
	Check    func(rest []string) error
	Do       func(ctx context.Context, p Process, rest []string) error
	Abrupt   bool
}

// Process is what a verb may use of the process that it runs in.
type Process struct {
	App            App // the program that the verb is part of
	Engines        Engines
	Environ        []string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// Own puts the program's name into text, where that shows commands of skerry.
// Only text without anything of a user's may be given.
func (p Process) Own(text string) string {
	return strings.ReplaceAll(text, DefaultName+" ", p.App.Name+" ")
}

// OwnError is own for an error's text, which may have users' words in it: there
// a command stands behind a backtick.
func (p Process) OwnError(err error) string {
	return strings.ReplaceAll(err.Error(), "`"+DefaultName+" ", "`"+p.App.Name+" ")
}

// Complain prints what is wrong, after the names of the program and of the verb.
func (p Process) Complain(verb, text string) {
	who := strings.TrimSpace(p.App.Name + " " + verb)
	fmt.Fprintf(p.Stderr, "%s %s\n", p.Paint(p.Stderr, Red, who+":"), text)
}

// Broken is what a verb says that found damage or a promise that does not hold.
type Broken string

func (b Broken) Error() string { return string(b) }

// Usagef is a mistake in the arguments that are not flags.
func Usagef(format string, args ...any) error {
	return ConfigError{fmt.Errorf(format, args...)}
}
