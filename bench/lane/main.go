// Command lane compares keys over HTTP with and without the lane of package web/lane, on one node and on three, with
// their data on disk.
//
// It knows how to start, load and measure `skerry serve`; it must not know how a request is answered. Linux only (epoll,
// /proc).
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/skerrydb/skerry/bench/rig"
)

// plan is the measurements of one run.
type plan struct {
	rig.Plan
	skerry string
	shapes string
	keys   uint64
	fleet  *rig.Fleet
}

func main() {
	p := plan{Plan: rig.Plan{Name: "lane", Systems: "on,off,three-on,three-off", Rounds: 3, Window: 4 * time.Second, Warm: time.Second}}
	p.Flags("10,000 keys")
	flag.StringVar(&p.skerry, "skerry", "", "skerry `program` to measure (default: built from this repository)")
	flag.StringVar(&p.shapes, "shapes", "512x1,64x1", "connections and requests in flight on each")
	flag.Uint64Var(&p.keys, "keys", 100_000, "keys loaded beforehand, of 16 bytes with values of 100 bytes")
	flag.Parse()
	if p.Quick {
		p.keys = 10_000
	}
	p.fleet = rig.NewFleet()
	p.Main(p.compare)
}

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
	makers := map[string]func() (*system, error){}
	for _, lane := range []string{"on", "off"} {
		makers[lane] = func() (*system, error) { return p.alone(path, dir, lane) }
		makers["three-"+lane] = func() (*system, error) { return p.three(path, dir, lane) }
	}
	defer p.fleet.End()
	systems, err := rig.Open(&p.Plan, makers)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%s\n%s; load %s\n%d keys; each write is on disk before it is acknowledged; %d rounds of %v\n", time.Now().Format("2006-01-02 15:04"), rig.Machine(), rig.LoadAverage(), p.keys, p.Rounds, p.Window)
	fmt.Fprintf(w, "three nodes share the machine, and the CPU time is that of all three\n\n%-4s %-10s %-4s %-6s %10s %8s %8s\n", "lane", "asked", "op", "shape", "requests/s", "p99 ms", "CPU µs")
	cells := map[string]*cell{}
	err = rig.Turns(&p.Plan, systems, func(s *system, round int) error {
		for _, place := range s.places {
			for i, shape := range shapes {
				if i > 0 && s.three {
					break
				}
				for _, set := range []bool{false, true} {
					if err := p.sample(w, cells, s, place, shape, set, round); err != nil {
						return err
					}
				}
			}
		}
		return nil
	})
	if err == nil {
		report(w, cells, systems, shapes)
	}
	return err
}

func key(lane, place string, set bool, shape rig.Shape) string {
	return fmt.Sprint(lane, place, set, shape)
}

// sample measures one operation in one shape.
func (p *plan) sample(w io.Writer, cells map[string]*cell, s *system, place place, shape rig.Shape, set bool, round int) error {
	var before, after time.Duration
	var failed error
	cpu := func(into *time.Duration) func() {
		return func() {
			*into = 0
			for _, pid := range s.pids {
				t, err := rig.CPUTime(pid)
				*into += t
				failed = errors.Join(failed, err)
			}
		}
	}
	out, err := rig.Run(rig.Job{Addrs: place.addrs, Codec: rig.PlainHTTP{}, Set: set, Shape: shape, Keys: p.keys, Warm: p.Warm, Window: p.Window,
		Seed: uint64(round) + 2, Begin: cpu(&before), End: cpu(&after)})
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	at := key(s.lane, place.name, set, shape)
	c := cells[at]
	if c == nil {
		c = &cell{}
		cells[at] = c
	}
	c.rate = append(c.rate, float64(out.Ops)/out.Took.Seconds())
	c.p99 = append(c.p99, rig.Micros(out.Lat.Quantile(0.99))/1000)
	c.cpu = append(c.cpu, rig.PerOp(after-before, out.Ops))
	n := len(c.rate) - 1
	line(w, s.lane, place.name, set, shape, c.rate[n], c.p99[n], c.cpu[n])
	return nil
}

func line(w io.Writer, lane, place string, set bool, shape rig.Shape, rate, p99, cpu float64) {
	fmt.Fprintf(w, "%-4s %-10s %-4s %-6v %10.0f %8.2f %8.1f\n", lane, place, op(set), shape, rate, p99, cpu)
}

func op(set bool) string {
	if set {
		return "SET"
	}
	return "GET"
}

// report prints medians and how they compare with the goals.
func report(w io.Writer, cells map[string]*cell, systems []*system, shapes []rig.Shape) {
	fmt.Fprintf(w, "\nmedians\n")
	var targets []rig.Target
	places := []string{"alone", "leader", "all three"}
	for _, place := range places {
		for _, shape := range shapes {
			for _, set := range []bool{false, true} {
				rate, cpu := map[string]float64{}, map[string]float64{}
				for _, lane := range []string{"on", "off"} {
					if c := cells[key(lane, place, set, shape)]; c != nil {
						rate[lane], cpu[lane] = rig.Median(c.rate), rig.Median(c.cpu)
						line(w, lane, place, set, shape, rate[lane], rig.Median(c.p99), cpu[lane])
					}
				}
				if rate["on"] == 0 || rate["off"] == 0 {
					continue
				}
				aim, most := 1.4, 0.0
				if shape.Conns == 512 && place == "alone" {
					aim, most = 1.5, 13
					if set {
						aim, most = 2.3, 21
					}
				}
				what := fmt.Sprintf("%s %s %v", place, op(set), shape)
				targets = append(targets, rig.AtLeast(what+", with the lane over without", rate["on"]/rate["off"], aim, "×"))
				if most > 0 {
					targets = append(targets, rig.AtMost(what+", CPU of the server with the lane", cpu["on"], most, " µs"))
				}
			}
		}
	}
	fmt.Fprintf(w, "\nTargets:\n")
	for _, t := range targets {
		fmt.Fprintln(w, t)
	}
}
