package cli

import (
	"context"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"slices"
	"time"

	"github.com/skerrydb/skerry/archive"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
)

// archiveOptions is where a server archives itself.
type archiveOptions struct {
	dir  string
	keep time.Duration
}

// maxKeep bounds --archive-keep to what a time can hold.
const maxKeep = 100 * 365 * 24 * time.Hour

func (o *archiveOptions) settings() []setting {
	return []setting{
		{"archive", "DIR", "", "folder in which a base and every change are archived, for restore --at", true, text(&o.dir)},
		{"archive-keep", "TIME", "", "how far back each state in the archive can be restored, like 168h (default for ever)", true, duration(&o.keep, time.Minute, maxKeep)},
	}
}

// start archives eng in the background, if that is wanted. A folder that cannot
// be an archive is an error now; what fails later is logged and tried again.
func (o *archiveOptions) start(eng engine.Engine, log *slog.Logger) (figures func() iter.Seq[engine.Metric], stop func() error, err error) {
	if o.dir == "" {
		return nil, func() error { return nil }, nil
	}
	src, ok := eng.(archive.Source)
	if !ok {
		return nil, nil, engine.Errorf(engine.CodeUnsupported, "this engine cannot be archived: it has no backup")
	}
	a, err := archive.Open(o.dir, archive.Options{Verify: verifyBase, Keep: o.keep, Logger: log})
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := a.Run(ctx, src); err != nil {
			log.Error("archiving has ended", "archive", o.dir, "err", err)
		}
	}()
	stop = func() error {
		cancel()
		<-ended
		return a.Close()
	}
	return func() iter.Seq[engine.Metric] { return archiveFigures(a.Status()) }, stop, nil
}

// archiveFigures are what /metrics shows of an archive.
func archiveFigures(s archive.Status) iter.Seq[engine.Metric] {
	failing := 0.0
	if s.Err != nil {
		failing = 1
	}
	return slices.Values([]engine.Metric{
		{Name: "archive_position", Help: "Position up to which everything is archived.", Value: float64(s.Position)},
		{Name: "archive_time_seconds", Help: "Time of that transaction, since the Unix epoch.", Value: float64(s.Time.UnixMicro()) / 1e6},
		{Name: "archive_bases_total", Help: "Bases taken since the start.", Counter: true, Value: float64(s.Bases)},
		{Name: "archive_lost_total", Help: "Times that changes are missing because the history did not reach back.", Counter: true, Value: float64(s.Lost)},
		{Name: "archive_failing", Help: "1 while archiving does not get on; the log says why.", Value: failing},
	})
}

// verifyBase reads a base of an archive, which is a backup.
func verifyBase(r io.Reader) (archive.Summary, error) {
	sum, err := embedded.VerifyBackup(r)
	return archive.Summary(sum), err
}

func checkArchive(p process, dir string, asJSON bool) error {
	var progress func(string)
	if !asJSON {
		progress = func(file string) { fmt.Fprintln(p.Stdout, "reading", file) }
	}
	rep, err := archive.Check(nil, dir, verifyBase, progress)
	if err != nil {
		return err
	}
	if asJSON {
		err = printJSON(p.Stdout, rep)
	} else {
		err = printArchive(p.Stdout, rep)
	}
	if err == nil && !rep.OK() {
		err = broken(fmt.Sprintf("%s is damaged: %s", dir, plural(len(rep.Problems), "problem")))
	}
	return err
}

func printArchive(w io.Writer, rep archive.Report) (err error) {
	for _, problem := range rep.Problems {
		fmt.Fprintln(w, "DAMAGED:", problem)
	}
	if rep.TornBytes > 0 {
		fmt.Fprintf(w, "unfinished end of the log: %d bytes; the archiver ships them again\n", rep.TornBytes)
	}
	for _, r := range rep.Ranges {
		fmt.Fprintln(w, "can be restored:", r)
	}
	if rep.OK() {
		_, err = fmt.Fprintf(w, "sound: %s of %d bytes, %s of log of %d bytes\n",
			plural(rep.Bases, "base"), rep.BaseBytes, plural(rep.Parts, "part"), rep.LogBytes)
	}
	return err
}

// restoreArchive makes a data folder of the state that at names.
func restoreArchive(p process, from, at, dir string, asJSON bool) (err error) {
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
	base, err := plan.OpenBase()
	if err != nil {
		return err
	}
	defer base.Close()
	sum, err := embedded.RestoreChanges(base, plan.Changes(), dir, embedded.Options{Logger: quiet(p.Stderr)})
	if err != nil {
		return fmt.Errorf("restore %s from %s, %s: %w", target, from, plan.BaseFile, err)
	}
	if plan.Note != "" {
		fmt.Fprintln(p.Stderr, "note:", plan.Note)
	}
	return printSummary(p.Stdout, asJSON, dir, sum)
}
