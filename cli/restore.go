package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"

	"github.com/skerrydb/skerry/archive"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
)

// noLimit is a memory limit for verbs that only read: data that was accepted
// once is read whatever the limit was.
const noLimit = math.MaxInt64

// quiet is a logger for verbs whose result stands on the standard output.
func quiet(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

var restoreVerb = verb{
	name: "restore", short: "make a new data folder from a backup, or from an archive at any point",
	long: `The whole backup is verified before anything is written. The folder must be
missing or empty: nothing is ever overwritten.

From an archive (serve --archive), --at says which state: latest, a position (that
of the last transaction to be restored), or a time like 2026-11-21T12:00:00Z (the
last transaction that is not later). The archive may be in use.`,
	start: func(App) action {
		var from, at, dir string
		var asJSON bool
		settings := []setting{
			{"from", "PATH", "", "file that backup has written, or folder of an archive", false, text(&from)},
			{"at", "WHEN", "", "time, position or latest; of an archive only (default latest)", false, text(&at)},
			dataSetting(&dir, ""),
			jsonSetting(&asJSON),
		}
		check := func(rest []string) error {
			var when error
			if at != "" {
				if _, err := archive.ParseTarget(at); err != nil {
					when = fmt.Errorf("--at: %w", err)
				}
			}
			return mistakes(noArguments(rest), needs("from", from), when, needs("data", dir))
		}
		return action{settings, check, func(_ context.Context, p process, _ []string) error {
			info, err := os.Stat(from)
			if err != nil {
				return err
			}
			if info.IsDir() {
				return restoreArchive(p, from, cmp.Or(at, "latest"), dir, asJSON)
			}
			if at != "" {
				return usagef("--at: %s is a backup of one state; only an archive has others", from)
			}
			return restore(p, from, dir, asJSON)
		}, true}
	},
}

func restore(p process, from, dir string, asJSON bool) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	sum, err := embedded.Restore(f, dir, embedded.Options{Logger: quiet(p.Stderr)})
	if errors.Is(err, engine.ErrCorrupt) || errors.Is(err, engine.ErrFormatNewer) {
		return fmt.Errorf("%s: %w", from, err)
	}
	if err != nil {
		return err
	}
	return printSummary(p.Stdout, asJSON, dir, sum)
}
