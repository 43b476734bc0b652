package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/skerrydb/skerry/archive"
	"github.com/skerrydb/skerry/cli/serve"
	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
)

var restoreVerb = verb.Verb{
	Name: "restore", Short: "create a data folder from a backup or from any point of an archive",
	Long: `The whole backup is verified before anything is written. The folder must be missing or
empty: restore never overwrites anything. With --spill, long values are written while the
backup is read. A restore that fails or is stopped removes what it has written.

From an archive (serve --archive), --at selects the state: latest, a position (of the
last transaction to restore), or a time like 2026-11-21T12:00:00Z (up to the last
transaction that is not later). The archive may be in use.`,
	Start: func(verb.App) verb.Action {
		var from, at, dir string
		var spill int64
		var asJSON bool
		settings := append(verb.Data(&dir, nil, ""),
			verb.Setting{Name: "from", Arg: "PATH", Help: "backup file or archive folder", Set: verb.Text(&from)},
			verb.Setting{Name: "at", Arg: "WHEN", Help: "time, position or latest; for archives only (default latest)", Set: verb.Text(&at)},
			verb.Setting{Name: "spill", Arg: "SIZE", Help: "write values longer than this to files while reading, as serve --spill keeps them: the data may be larger than memory (default all values are in memory)", Set: verb.Size(&spill, serve.MinSpill)},
			verb.JSON(&asJSON),
		)
		check := func(rest []string) error {
			var when error
			if at != "" {
				if _, err := archive.ParseTarget(at); err != nil {
					when = fmt.Errorf("--at: %w", err)
				}
			}
			return verb.Mistakes(verb.NoArguments(rest), verb.Needs("from", from), when, verb.Needs("data", dir))
		}
		return verb.Action{Settings: settings, Check: check, Do: func(ctx context.Context, p verb.Process, _ []string) error {
			info, err := os.Stat(from)
			if err != nil {
				return err
			}
			if info.IsDir() {
				return restoreArchive(ctx, p, from, cmp.Or(at, "latest"), dir, spill, asJSON)
			}
			if at != "" {
				return verb.Usagef("--at: %s is a backup, which has only one state; --at selects from an archive", from)
			}
			return restore(ctx, p, from, dir, spill, asJSON)
		}}
	},
}

func restore(ctx context.Context, p verb.Process, from, dir string, spill int64, asJSON bool) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	sum, err := embedded.Restore(ctx, f, dir, embedded.Options{SpillBytes: spill, Logger: verb.Quiet(p.Stderr)})
	if errors.Is(err, engine.ErrCorrupt) || errors.Is(err, engine.ErrFormatNewer) {
		return fmt.Errorf("%s: %w", from, err)
	}
	if err != nil {
		return err
	}
	return printSummary(p.Stdout, asJSON, dir, sum)
}

// restoreArchive creates a data folder with the state that at selects.
func restoreArchive(ctx context.Context, p verb.Process, from, at, dir string, spill int64, asJSON bool) error {
	target, err := archive.ParseTarget(at)
	if err != nil {
		return err
	}
	plan, err := archive.Find(nil, from, target)
	if err != nil {
		return err
	}
	if !asJSON {
		fmt.Fprintf(p.Stdout, "%s: from %s, position %d of %s\n", target, plan.BaseFile, plan.Base, plan.BaseTime.UTC().Format(time.RFC3339Nano))
	}
	sum, err := serve.RestoreArchive(ctx, plan, dir, embedded.Options{SpillBytes: spill, Logger: verb.Quiet(p.Stderr)})
	if err != nil {
		return err
	}
	if plan.Note != "" {
		fmt.Fprintln(p.Stderr, "note:", plan.Note)
	}
	return printSummary(p.Stdout, asJSON, dir, sum)
}
