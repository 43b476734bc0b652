package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/skerrydb/skerry/bench/rig"
	"github.com/skerrydb/skerry/bench/tsbs"
)

// inProcess measures ingest through the Go APIs of both stores.
func (p *plan) inProcess(ctx context.Context, dir string, w io.Writer) error {
	d, err := read(tsbs.CPUOnly(tsbs.Options{Hosts: p.hosts, Duration: 8760 * time.Hour}), p.batches)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "\nIngest in process: cpu-only, %d lines a batch; Skerry syncs each batch, Prometheus does not sync its log at commit\n", batchLines)
	names := []string{"skerry", "prometheus", "prometheus with fsync"}
	rates := map[string][]float64{}
	for round := range p.Rounds {
		for i := range names {
			if round%2 == 1 {
				i = len(names) - 1 - i
			}
			at := filepath.Join(dir, fmt.Sprint(i, "-", round))
			took, err := ingest(ctx, at, d, names[i])
			if err != nil {
				return fmt.Errorf("%s: %w", names[i], err)
			}
			rates[names[i]] = append(rates[names[i]], float64(d.values())/took.Seconds())
		}
	}
	own := rig.Median(rates[names[0]])
	for _, name := range names {
		rate := rig.Median(rates[name])
		fmt.Fprintf(w, "%-24s %12.0f values/s, Skerry has %.2f× as many\n", name, rate, own/rate)
	}
	p.targets = append(p.targets, rig.AtLeast("ingest in process with fsync, million values/s", own/1e6, 3, ""))
	for _, name := range names[1:] {
		p.targets = append(p.targets, rig.AtLeast("ingest in process, over "+name, own/rig.Median(rates[name]), 3, "×"))
	}
	return nil
}

func ingest(ctx context.Context, dir string, d *data, name string) (time.Duration, error) {
	if name == "skerry" {
		s, err := openSkerry(dir)
		if err != nil {
			return 0, err
		}
		defer s.close()
		return s.write(ctx, d)
	}
	db, err := openProm(dir)
	if err != nil {
		return 0, err
	}
	defer db.Close()
	return writeProm(ctx, db, d, name != "prometheus")
}
