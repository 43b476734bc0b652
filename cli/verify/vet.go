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
	Name: "vet", Args: "[PACKAGES]", Short: "report code that does not belong in procedures: I/O, goroutines, clocks, randomness",
	Long: `PACKAGES are patterns as for the go command, which must be installed (default ./...).
Vet prints one line per finding; the exit code is 1 if there are any. docs/vet.md lists
the rules and explains how to allow exceptions.`,
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
