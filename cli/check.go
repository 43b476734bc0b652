package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/archive"
	"github.com/skerrydb/skerry/cli/serve"
	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/workload/history"
)

var checkVerb = verb.Verb{
	Name: "check", Short: "verify a data folder, an archive or a recorded history of operations",
	Long: `The folder must not be in use. Check verifies every checksum, the chain from the
snapshot to the end of the log, and the state that a start would build. It changes
nothing. A torn end of the log is not damage: it was never acknowledged, and the next
start removes it. An archive's folder may be in use; check also lists what can be
restored from it.

With --history, check reads FILE instead: the requests of clients and the responses they
got, one JSON object per line (docs/histories.md). It decides whether a single store that
executes one operation at a time could have given these responses. If not, it shows the
first response that cannot be explained, and the exit code is 3. If it cannot decide in
time, the exit code is 1.`,
	Start: func(verb.App) verb.Action {
		var dir string
		var asJSON bool
		var h historyOptions
		settings := slices.Concat(verb.Data(&dir, nil, "./data"), []verb.Setting{verb.JSON(&asJSON)}, h.settings())
		return verb.Action{Settings: settings, Check: h.mistake, Do: func(ctx context.Context, p verb.Process, _ []string) error {
			if h.file != "" {
				return checkHistory(ctx, p, h, asJSON)
			}
			return check(p, dir, asJSON)
		}, Abrupt: true}
	},
}

// historyOptions are the options of `skerry check --history`.
type historyOptions struct {
	file, html string
	timeout    time.Duration
}

func (h *historyOptions) settings() []verb.Setting {
	return []verb.Setting{
		{Name: "history", Arg: "FILE", Help: "check this recorded history instead of a folder; - is standard input", Set: verb.Text(&h.file)},
		{Name: "timeout", Arg: "TIME", Help: "how long to search a history (default no limit)", Set: verb.Duration(&h.timeout, time.Millisecond, maxTimeout)},
		{Name: "html", Arg: "FILE", Help: "write an HTML page that draws the decisive part of the history", Set: verb.Text(&h.html)},
	}
}

func (h *historyOptions) mistake(rest []string) error {
	var err error
	if h.file == "" && (h.timeout != 0 || h.html != "") {
		err = errors.New("--timeout and --html need --history")
	}
	return verb.Mistakes(err, verb.NoArguments(rest))
}

// maxTimeout bounds --timeout.
const maxTimeout = 30 * 24 * time.Hour

// historyReport is the output of --json for a history.
type historyReport struct {
	Verdict     history.Verdict `json:"verdict"`
	Operations  int             `json:"operations"` // including those that say nothing
	Checked     int             `json:"checked"`
	Partitions  int             `json:"partitions"`
	Explanation string          `json:"explanation,omitempty"`
}

func checkHistory(ctx context.Context, p verb.Process, h historyOptions, asJSON bool) error {
	name, in := "standard input", io.Reader(os.Stdin)
	if h.file != "-" {
		name = h.file
		f, err := os.Open(name)
		if err != nil {
			return fmt.Errorf("open history: %w", err)
		}
		defer f.Close()
		in = f
	}
	ops, err := history.Read(in)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	progress, stop := reportProgress(p.Stderr)
	r := history.Check(ctx, ops, history.Options{Timeout: h.timeout, Progress: progress})
	stop()
	if asJSON {
		err = verb.PrintJSON(p.Stdout, historyReport{r.Verdict, len(ops), r.Operations, r.Partitions, r.Explanation})
	} else {
		_, err = fmt.Fprintf(p.Stdout, "%s: %s, %d checked in %s\n%s", r.Verdict,
			verb.Plural(len(ops), "operation"), r.Operations, verb.Plural(r.Partitions, "partition"), r.Explanation)
	}
	if h.html != "" {
		err = errors.Join(err, drawHistory(h.html, &r))
	}
	switch r.Verdict {
	case history.Violation:
		err = errors.Join(verb.Broken(name+" is not linearizable: no single store could have given these responses"), err)
	case history.Undecided:
		err = errors.Join(fmt.Errorf("%s: undecided", name), err)
	}
	return err
}

// progressEvery is how often a long check reports its progress.
const progressEvery = 2 * time.Second

// reportProgress reports the progress of a check from time to time, until stop is called.
func reportProgress(w io.Writer) (progress func(done, all int), stop func()) {
	var done, all atomic.Int64
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
				if n := all.Load(); n > 0 {
					fmt.Fprintf(w, "checked %d of %d operations\n", done.Load(), n)
				} else {
					fmt.Fprintln(w, "searching")
				}
			}
		}
	}()
	return func(d, a int) { done.Store(int64(d)); all.Store(int64(a)) }, func() { close(quit); <-ended }
}

func drawHistory(name string, r *history.Result) error {
	f, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("draw history: %w", err)
	}
	if err := errors.Join(r.WriteHTML(f), f.Close()); err != nil {
		return errors.Join(err, os.Remove(name))
	}
	return nil
}

func check(p verb.Process, dir string, asJSON bool) error {
	if archive.IsArchive(nil, dir) {
		return checkArchive(p, dir, asJSON)
	}
	var progress func(string)
	if !asJSON {
		progress = func(file string) { fmt.Fprintln(p.Stdout, "reading", file) }
	}
	rep, err := embedded.Check(dir, embedded.Options{}, progress)
	if err != nil {
		return err
	}
	if asJSON {
		err = verb.PrintJSON(p.Stdout, rep)
	} else {
		err = printReport(p.Stdout, rep)
	}
	if err == nil && len(rep.Problems) > 0 {
		err = verb.Broken(fmt.Sprintf("%s is damaged: %s", dir, verb.Plural(len(rep.Problems), "problem")))
	}
	return err
}

func printReport(w io.Writer, rep embedded.Report) error {
	for _, problem := range rep.Problems {
		fmt.Fprintln(w, "DAMAGED:", problem)
	}
	if rep.TornBytes > 0 {
		fmt.Fprintf(w, "torn end of the log: %d bytes that were never acknowledged; the next start removes them\n", rep.TornBytes)
	}
	if rep.Node != 0 {
		fmt.Fprintf(w, "node %d of cluster %s, term %d; %s at the end of the log may not be acknowledged\n",
			rep.Node, rep.Cluster, rep.Term, verb.Plural(rep.Unsure, "record"))
	}
	if len(rep.Problems) > 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "sound: position %d, %s, %d bytes of keys and values, %s, %s\n",
		rep.Position, verb.Plural(rep.Keys, "key"), rep.Bytes, verb.Plural(rep.Records, "log record"), verb.Plural(rep.Snapshots, "snapshot"))
	return err
}

func checkArchive(p verb.Process, dir string, asJSON bool) error {
	var progress func(string)
	if !asJSON {
		progress = func(file string) { fmt.Fprintln(p.Stdout, "reading", file) }
	}
	rep, err := archive.Check(nil, dir, serve.VerifyBase, progress)
	if err != nil {
		return err
	}
	if asJSON {
		err = verb.PrintJSON(p.Stdout, rep)
	} else {
		err = printArchive(p.Stdout, rep)
	}
	if err == nil && !rep.OK() {
		err = verb.Broken(fmt.Sprintf("%s is damaged: %s", dir, verb.Plural(len(rep.Problems), "problem")))
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
			verb.Plural(rep.Bases, "base"), rep.BaseBytes, verb.Plural(rep.Parts, "part"), rep.LogBytes)
	}
	return err
}
