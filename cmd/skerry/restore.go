package main

import (
	"context"
	"io"
	"log/slog"
	"math"
	"os"

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
	name: "restore", short: "make a new data folder from a backup",
	long: `The whole backup is verified before anything is written. The folder must be
missing or empty: nothing is ever overwritten.`,
	start: func() action {
		var from, dir string
		var asJSON bool
		settings := []setting{
			{"from", "FILE", "", "file that backup has written", false, text(&from)},
			dataSetting(&dir, ""),
			jsonSetting(&asJSON),
		}
		check := func(rest []string) error {
			return mistakes(noArguments(rest), needs("from", from), needs("data", dir))
		}
		return action{settings, check, func(_ context.Context, p process, _ []string) error {
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
	sum, err := embedded.Restore(f, dir, embedded.Options{Logger: quiet(p.stderr)})
	if err != nil {
		return err
	}
	return printSummary(p.stdout, asJSON, dir, sum)
}
