package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/skerrydb/skerry/bench/rig"
	"github.com/skerrydb/skerry/bench/tsbs"
)

// overHTTP measures how fast a server takes line protocol.
func (p *plan) overHTTP(ctx context.Context, dir string, w io.Writer) error {
	path, err := rig.Skerry(p.skerry, dir)
	if err != nil {
		return err
	}
	ports, err := rig.FreePorts(1)
	if err != nil {
		return err
	}
	cmd := exec.Command(path, "serve", "--data", filepath.Join(dir, "data"), "--http", ports[0], "--series", "bench", "--spill", "32KiB", "--log-level", "warn")
	process, err := p.fleet.Start(cmd, filepath.Join(dir, "log"))
	if err != nil {
		return err
	}
	for from := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		if _, err = rig.MetricsPage(ports[0]); err == nil {
			break
		}
		if time.Since(from) > rig.StartLimit {
			return fmt.Errorf("the server does not serve: %w", err)
		}
	}
	fmt.Fprintf(w, "\nIngest over HTTP: cpu-only, %d lines a request, fsync before each reply\n%-12s %12s %16s %16s\n", batchLines, "connections", "values/s", "server ns/value", "client ns/value")
	g := tsbs.CPUOnly(tsbs.Options{Hosts: p.hosts, Duration: 8760 * time.Hour})
	rates, server, client := map[int][]float64{}, map[int][]float64{}, map[int][]float64{}
	if err := send(ctx, ports[0], [][]byte{g.Append(nil, batchLines)}, 1); err != nil { // defines the series
		return err
	}
	for range p.Rounds {
		for _, conns := range []int{1, 4} {
			bodies := make([][]byte, p.batches)
			for i := range bodies {
				bodies[i] = g.Append(nil, batchLines)
			}
			values := float64(p.batches * batchLines * 10)
			before, err := rig.CPUTime(process.PID())
			if err != nil {
				return err
			}
			own, from := rig.OwnCPU(), time.Now()
			if err := send(ctx, ports[0], bodies, conns); err != nil {
				return err
			}
			took := time.Since(from)
			own = rig.OwnCPU() - own
			after, err := rig.CPUTime(process.PID())
			if err != nil {
				return err
			}
			rates[conns] = append(rates[conns], values/took.Seconds())
			server[conns] = append(server[conns], float64(after-before)/values)
			client[conns] = append(client[conns], float64(own)/values)
		}
	}
	best := 0.0
	for _, conns := range []int{1, 4} {
		rate := rig.Median(rates[conns])
		best = max(best, rate)
		fmt.Fprintf(w, "%-12d %12.0f %16.1f %16.1f\n", conns, rate, rig.Median(server[conns]), rig.Median(client[conns]))
	}
	p.targets = append(p.targets, rig.AtLeast("ingest over HTTP with fsync, million values/s", best/1e6, 3, ""))
	return nil
}

// send posts bodies over some connections. A reply that asks to wait is tried again after a moment.
func send(ctx context.Context, addr string, bodies [][]byte, conns int) error {
	c := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: conns}}
	defer c.CloseIdleConnections()
	work, ctx := errgroup.WithContext(ctx)
	for n := range conns {
		work.Go(func() error {
			for i := n; i < len(bodies); i += conns {
				if err := post(ctx, c, "http://"+addr+"/write?db=bench", bodies[i]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return work.Wait()
}

func post(ctx context.Context, c *http.Client, url string, body []byte) error {
	for {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
		if err != nil {
			return err
		}
		reply, err := c.Do(r)
		if err != nil {
			return err
		}
		text, _ := io.ReadAll(io.LimitReader(reply.Body, 500))
		reply.Body.Close()
		switch {
		case reply.StatusCode == http.StatusNoContent:
			return nil
		case reply.Header.Get("Retry-After") == "":
			return fmt.Errorf("%s: %s", reply.Status, text)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
