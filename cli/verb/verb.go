// Package verb defines the verbs of the command line. A verb is a value with a name, a usage text, settings
// and a function. The subpackages of cli export verbs, and cli lists them.
//
// It knows how settings are read from flags, the environment and a file, and how verbs print results and
// errors; it must not know which verbs there are.
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
	Args  string // the arguments besides flags
	Short string // one line for the list
	Long  string // for `skerry help VERB`

	Start func(app App) Action // app is the program of the verb
	Subs  []Verb               // subcommands, by the next argument; their names include the verb's
}

// Action is one run of a verb. Once the settings have their values, Check returns what contradicts; Do is
// called if there was no mistake. rest has the arguments that are not flags. Abrupt means that Do ignores ctx,
// and that nothing is lost if the process ends in the middle of it.
type Action struct {
	Settings []Setting
	Check    func(rest []string) error
	Do       func(ctx context.Context, p Process, rest []string) error
	Abrupt   bool
}

// Process is the part of the process that a verb may use.
type Process struct {
	App            App // the program of the verb
	Engines        Engines
	Environ        []string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// Own replaces skerry by the program's name in text where that shows commands. The text must not contain
// anything from a user.
func (p Process) Own(text string) string {
	return strings.ReplaceAll(text, DefaultName+" ", p.App.Name+" ")
}

// OwnError is Own for an error's text, which may contain words from users: there commands follow a backtick.
func (p Process) OwnError(err error) string {
	return strings.ReplaceAll(err.Error(), "`"+DefaultName+" ", "`"+p.App.Name+" ")
}

// Complain prints what is wrong, after the names of the program and of the verb.
func (p Process) Complain(verb, text string) {
	who := strings.TrimSpace(p.App.Name + " " + verb)
	fmt.Fprintf(p.Stderr, "%s %s\n", p.Paint(p.Stderr, Red, who+":"), text)
}

// Broken is the error of a verb that found damage or a broken promise.
type Broken string

func (b Broken) Error() string { return string(b) }

// Usagef returns an error about the arguments that are not flags.
func Usagef(format string, args ...any) error {
	return ConfigError{fmt.Errorf(format, args...)}
}
