// Command series compares time series with Prometheus's tsdb package in one run: ingest, space and reads.
//
// It knows how to start and load `skerry serve --series`, and how to call both stores in this process; it must not know
// how either stores samples, except for a table of Cassandra that it writes by hand, to compare. Linux only (/proc).
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/pprof"
	"time"

	"github.com/skerrydb/skerry/bench/rig"
)

// plan is the measurements of one run.
type plan struct {
	rig.Plan
	skerry, profile string
	batches         int // of each measurement of ingest
	hosts, series   int
	hours           int
	settle          time.Duration
	fleet           *rig.Fleet
	targets         []rig.Target
}

// batchLines is the lines of one request, and of one commit.
const batchLines = 10_000

func main() {
	p := plan{Plan: rig.Plan{Name: "series", Systems: "http,ingest,space,labels,cassandra", Rounds: 3}}
	p.Flags("fewer batches, hours and series")
	flag.BoolVar(&p.Quick, "short", false, "the same as -quick")
	flag.StringVar(&p.skerry, "skerry", "", "skerry `program` to measure (default: built from this repository)")
	flag.StringVar(&p.profile, "cpuprofile", "", "`file` for a CPU profile of the parts in this process")
	flag.IntVar(&p.batches, "batches", 20, "batches of 10,000 lines in each measurement of ingest")
	flag.IntVar(&p.hosts, "hosts", 200, "hosts of the data")
	flag.IntVar(&p.series, "series", 1_000_000, "series for the latency of matchers")
	flag.IntVar(&p.hours, "hours", 24, "hours of data for space and reads")
	flag.DurationVar(&p.settle, "settle", 40*time.Second, "longest wait for sealing and merging")
	flag.Parse()
	if p.Quick {
		p.batches, p.series, p.hours, p.settle = 4, 50_000, 2, 4*time.Second
	}
	p.fleet = rig.NewFleet()
	p.Main(p.compare)
}

// compare runs the whole plan and prints the report.
func (p *plan) compare(dir string, w io.Writer) error {
	defer p.fleet.End()
	fmt.Fprintf(w, "%s\n%s; load %s\nSkerry: each write is on disk before it is acknowledged; %d rounds, medians\n", time.Now().Format("2006-01-02 15:04"), rig.Machine(), rig.LoadAverage(), p.Rounds)
	parts := map[string]func() (func() error, error){}
	for name, run := range map[string]func(context.Context, string, io.Writer) error{"http": p.overHTTP, "ingest": p.inProcess, "space": p.spaceAndReads, "labels": p.matchers, "cassandra": p.onCassandra} {
		parts[name] = func() (func() error, error) {
			sub := filepath.Join(dir, name)
			return func() error { return run(context.Background(), sub, w) }, os.MkdirAll(sub, 0o755)
		}
	}
	runs, err := rig.Open(&p.Plan, parts)
	if err != nil {
		return err
	}
	if p.profile != "" {
		f, err := os.Create(p.profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	for _, run := range runs {
		if err := run(); err != nil {
			return err
		}
	}
	fmt.Fprintf(w, "\nTargets:\n")
	for _, t := range p.targets {
		fmt.Fprintln(w, t)
	}
	return nil
}
