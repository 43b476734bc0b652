package cli

import (
	"context"
	"errors"

	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/proc/procvet"
)

var vetVerb = verb.Verb{
	Name: "vet", Args: "[PACKAGES]", Short: "look for what has no place in a procedure: I/O, goroutines, clocks, randomness",
	Long: `PACKAGES are named as for the go command, which must be there; without any it is
./..., all below this folder. A line is printed for each finding, and the exit code
is 1 if there is one. docs/vet.md has the rules, and how to allow an exception.`,
	Start: func(verb.App) verb.Action {
		check := func([]string) error { return nil }
		return verb.Action{Check: check, Do: func(_ context.Context, p verb.Process, rest []string) error {
			n, err := procvet.Run(".", rest, p.Stdout)
			if err == nil && n > 0 {
				err = errors.New(verb.Plural(n, "finding"))
			}
			return err
		}, Abrupt: true}
	},
}
