// Package verify has the verbs that verify an engine or procedures: bench, conform and vet.
// They are part of cmd/skerry only, as they would make every server larger.
//
// It knows workloads, the conformance suite and the analysis of procedures; it must not
// know which engines exist.
package verify

import (
	"context"
	"errors"

	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/proc/procvet"
)

// Verbs returns the verbs, for cli.App.Verbs.
func Verbs() []verb.Verb { return []verb.Verb{Bench, Conform, Vet} }

// Vet is `skerry vet`.
var Vet = verb.Verb{
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
