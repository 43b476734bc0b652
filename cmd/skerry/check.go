package main

import (
	"context"
	"fmt"
	"io"

	"github.com/skerrydb/skerry/engine/embedded"
)

var checkVerb = verb{
	name: "check", short: "read a whole data folder and verify it, without changing it",
	long: `The folder must not be in use. Every checksum, the chain from snapshot to the end
of the log and the state that a start would build are verified. A torn end of the
log is no damage: it was never acknowledged, and the next start cuts it.`,
	start: func() action {
		var dir string
		var asJSON bool
		settings := []setting{dataSetting(&dir, "./data"), jsonSetting(&asJSON)}
		return action{settings, noArguments, func(_ context.Context, p process, _ []string) error {
			return check(p, dir, asJSON)
		}, true}
	},
}

func check(p process, dir string, asJSON bool) error {
	var progress func(string)
	if !asJSON {
		progress = func(file string) { fmt.Fprintln(p.stdout, "reading", file) }
	}
	rep, err := embedded.Check(dir, embedded.Options{}, progress)
	if err != nil {
		return err
	}
	if asJSON {
		err = printJSON(p.stdout, rep)
	} else {
		err = printReport(p.stdout, rep)
	}
	if err == nil && len(rep.Problems) > 0 {
		err = broken(fmt.Sprintf("%s is damaged: %s", dir, plural(len(rep.Problems), "problem")))
	}
	return err
}

// plural writes a number of things.
func plural(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprint(n, " ", thing)
}

func printReport(w io.Writer, rep embedded.Report) error {
	for _, problem := range rep.Problems {
		fmt.Fprintln(w, "DAMAGED:", problem)
	}
	if rep.TornBytes > 0 {
		fmt.Fprintf(w, "torn end of the log: %d bytes that were never acknowledged; the next start cuts them\n", rep.TornBytes)
	}
	if len(rep.Problems) > 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "sound: position %d, %s, %d bytes of keys and values, %s, %s\n",
		rep.Position, plural(rep.Keys, "key"), rep.Bytes, plural(rep.Records, "log record"), plural(rep.Snapshots, "snapshot"))
	return err
}
