// Command lane compares keys over HTTP with and without the lane of package web/lane, on one node with its data on disk.
//
// It knows how to start, load and measure `skerry serve`; it must not know how a request is answered. Linux only (epoll,
// /proc).
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/skerrydb/skerry/bench/rig"
)

// plan is the measurements of one run.
type plan struct {
	rig.Plan
	skerry string
	shapes string
	keys   uint64
}

func main() {
	p := plan{Plan: rig.Plan{Name: "lane", Systems: "on,off", Rounds: 3, Window: 4 * time.Second, Warm: time.Second}}
	p.Flags("10,000 keys")
	flag.StringVar(&p.skerry, "skerry", "", "skerry `program` to measure (default: built from this repository)")
	flag.StringVar(&p.shapes, "shapes", "512x1,64x1", "connections and requests in flight on each")
	flag.Uint64Var(&p.keys, "keys", 100_000, "keys loaded beforehand, of 16 bytes with values of 100 bytes")
	flag.Parse()
	if p.Quick {
		p.keys = 10_000
	}
	p.Main(p.compare)
}

// server is `skerry serve` with the lane on or off.
type server struct {
	lane       string
	http, resp string // addresses
	process    *rig.Process
}

func (s *server) String() string { return "lane " + s.lane }

// cell is the samples of one operation in one shape.
type cell struct{ rate, p99, cpu []float64 }

// compare runs the whole plan and prints the report.
func (p *plan) compare(dir string, w io.Writer) (err error) {
	shapes, err := rig.ParseShapes(p.shapes)
	if err != nil {
		return err
	}
	path, err := rig.Skerry(p.skerry, dir)
	if err != nil {
		return err
	}
	makers := map[string]func() (*server, error){}
	for _, lane := range []string{"on", "off"} {
		makers[lane] = func() (*server, error) { return p.start(path, dir, lane) }
	}
	servers, err := rig.Open(&p.Plan, makers)
	defer func() {
		for _, s := range servers {
			err = errors.Join(err, s.process.Stop(syscall.SIGTERM))
		}
	}()
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%s\n%s; load %s\n%d keys; each write is on disk before it is acknowledged; %d rounds of %v\n\n", time.Now().Format("2006-01-02 15:04"), rig.Machine(), rig.LoadAverage(), p.keys, p.Rounds, p.Window)
	fmt.Fprintf(w, "%-9s %-4s %-6s %10s %8s %8s\n", "server", "op", "shape", "requests/s", "p99 ms", "CPU µs")
	cells := map[string]*cell{}
	err = rig.Turns(&p.Plan, servers, func(s *server, round int) error {
		for _, shape := range shapes {
			for _, set := range []bool{false, true} {
				if err := p.sample(w, cells, s, shape, set, round); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err == nil {
		report(w, cells, servers, shapes)
	}
	return err
}

// start starts a server and loads its keys.
func (p *plan) start(path, dir, lane string) (*server, error) {
	ports, err := rig.FreePorts(2)
	if err != nil {
		return nil, err
	}
	s := &server{lane: lane, http: ports[0], resp: ports[1]}
	cmd := exec.Command(path, "serve", "--data", filepath.Join(dir, "data-"+lane), "--http", s.http, "--resp", s.resp, "--lane", lane, "--log-level", "warn")
	if s.process, err = rig.Start(cmd, filepath.Join(dir, lane+".log")); err != nil {
		return nil, err
	}
	for from := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		if _, err = rig.MetricsPage(s.http); err == nil {
			break
		}
		if time.Since(from) > rig.StartLimit {
			return nil, fmt.Errorf("%v does not serve: %w", s, err)
		}
	}
	_, err = rig.Run(rig.Job{Addrs: []string{s.resp}, Codec: rig.RESP{}, Set: true, Shape: rig.Shape{Conns: 8, Flight: 512}, Keys: p.keys, Load: true, Seed: 1})
	return s, err
}

func key(s *server, set bool, shape rig.Shape) string { return fmt.Sprint(s.lane, set, shape) }

// sample measures one operation in one shape.
func (p *plan) sample(w io.Writer, cells map[string]*cell, s *server, shape rig.Shape, set bool, round int) error {
	var before, after time.Duration
	var failed error
	cpu := func(into *time.Duration) func() {
		return func() {
			t, err := rig.CPUTime(s.process.PID())
			*into, failed = t, errors.Join(failed, err)
		}
	}
	out, err := rig.Run(rig.Job{Addrs: []string{s.http}, Codec: rig.PlainHTTP{}, Set: set, Shape: shape, Keys: p.keys, Warm: p.Warm, Window: p.Window,
		Seed: uint64(round) + 2, Begin: cpu(&before), End: cpu(&after)})
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	c := cells[key(s, set, shape)]
	if c == nil {
		c = &cell{}
		cells[key(s, set, shape)] = c
	}
	c.rate = append(c.rate, float64(out.Ops)/out.Took.Seconds())
	c.p99 = append(c.p99, rig.Micros(out.Lat.Quantile(0.99))/1000)
	c.cpu = append(c.cpu, rig.PerOp(after-before, out.Ops))
	n := len(c.rate) - 1
	fmt.Fprintf(w, "%-9v %-4s %-6v %10.0f %8.2f %8.1f\n", s, op(set), shape, c.rate[n], c.p99[n], c.cpu[n])
	return nil
}

func op(set bool) string {
	if set {
		return "SET"
	}
	return "GET"
}

// report prints medians and how they compare with the goals.
func report(w io.Writer, cells map[string]*cell, servers []*server, shapes []rig.Shape) {
	fmt.Fprintf(w, "\nmedians\n")
	var targets []rig.Target
	for _, shape := range shapes {
		for _, set := range []bool{false, true} {
			rate, cpu := map[string]float64{}, map[string]float64{}
			for _, s := range servers {
				c := cells[key(s, set, shape)]
				rate[s.lane], cpu[s.lane] = rig.Median(c.rate), rig.Median(c.cpu)
				fmt.Fprintf(w, "%-9v %-4s %-6v %10.0f %8.2f %8.1f\n", s, op(set), shape, rate[s.lane], rig.Median(c.p99), cpu[s.lane])
			}
			aim, most := 1.4, 0.0
			if shape.Conns == 512 {
				aim, most = 1.5, 13
				if set {
					aim, most = 2.3, 21
				}
			}
			targets = append(targets, rig.AtLeast(fmt.Sprintf("%s %v with the lane over without", op(set), shape), rate["on"]/rate["off"], aim, "×"))
			if most > 0 {
				targets = append(targets, rig.AtMost(fmt.Sprintf("%s %v with the lane, CPU of the server", op(set), shape), cpu["on"], most, " µs"))
			}
		}
	}
	fmt.Fprintf(w, "\nTargets:\n")
	for _, t := range targets {
		fmt.Fprintln(w, t)
	}
}
