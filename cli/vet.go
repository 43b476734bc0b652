package cli

import (
	"context"
	"errors"

	"github.com/skerrydb/skerry/proc/procvet"
)

var vetVerb = verb{
	name: "vet", args: "[PACKAGES]", short: "look for what has no place in a procedure: I/O, goroutines, clocks, randomness",
	long: `PACKAGES are named as for the go command, which must be there; without any it is
./..., all below this folder. A line is printed for each finding, and the exit code
is 1 if there is one. docs/vet.md has the rules, and how to allow an exception.`,
	start: func(App) action {
		check := func([]string) error { return nil }
		return action{nil, check, func(_ context.Context, p process, rest []string) error {
			n, err := procvet.Run(".", rest, p.Stdout)
			if err == nil && n > 0 {
				err = errors.New(plural(n, "finding"))
			}
			return err
		}, true}
	},
}
