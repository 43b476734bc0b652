package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/skerrydb/skerry/bench/rig"
	"github.com/skerrydb/skerry/bench/rig/trio"
)

// The nodes that the connections of a spot go to.
const (
	toLeader    = "leader"
	toFollower  = "follower"  // one of them
	toFollowers = "followers" // all of them, by turns
)

// spot is one measurement of a face.
type spot struct {
	op, to string
	shape  rig.Shape
	http   bool // on HTTP; otherwise on the others
}

// spots are the measurements of every system in every round.
var spots = []spot{
	{"write", toLeader, rig.Shape{Conns: 1, Flight: 1}, false},
	{"write", toLeader, rig.Shape{Conns: 8, Flight: 64}, false},
	{"write", toFollower, rig.Shape{Conns: 1, Flight: 1}, false},
	{"write", toFollower, rig.Shape{Conns: 8, Flight: 64}, false},
	{"read", toLeader, rig.Shape{Conns: 1, Flight: 1}, false},
	{"read", toLeader, rig.Shape{Conns: 8, Flight: 64}, false},
	{"read", toFollower, rig.Shape{Conns: 1, Flight: 1}, false},
	{"read", toFollowers, rig.Shape{Conns: 8, Flight: 64}, false},
	{"write", toLeader, rig.Shape{Conns: 1, Flight: 1}, true},
	{"write", toLeader, rig.Shape{Conns: 512, Flight: 1}, true},
	{"write", toFollower, rig.Shape{Conns: 512, Flight: 1}, true},
	{"read", toLeader, rig.Shape{Conns: 512, Flight: 1}, true},
	{"read", toFollowers, rig.Shape{Conns: 512, Flight: 1}, true},
}

// sample is one measurement of a spot.
type sample struct {
	rate, p50, p99, max  float64 // operations a second; µs
	server, client, busy float64 // CPU µs per operation; share of one core that the client used
	fsyncs               float64 // per operation, all nodes
}

// cell is a row of the table: the samples of all rounds.
type cell struct {
	system, face string
	spot         spot
	samples      []sample
}

func cellKey(system, face string, s spot) string {
	return fmt.Sprintf("%s %s %s %s %s", system, face, s.to, s.op, s.shape)
}

// of returns one value of all samples.
func (c *cell) of(get func(sample) float64) []float64 {
	var all []float64
	for _, s := range c.samples {
		all = append(all, get(s))
	}
	return all
}

// handshakes is the additional warm-up where a node first opens hundreds of connections to another one, each
// with a TLS handshake.
const handshakes = 3 * time.Second

// errMoved means that the leader changed during a measurement.
var errMoved = errors.New("another node became the leader meanwhile")

// moves is how often a measurement is repeated because of errMoved.
const moves = 5

// measure takes one sample.
func measure(p *plan, c *trio.Cluster, f *trio.Face, s spot, keys, seed uint64) (one sample, err error) {
	for range moves {
		if one, err = attempt(p, c, f, s, keys, seed); !errors.Is(err, errMoved) {
			break
		}
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", cellKey(c.Name, f.Name, s), err)
	}
	return one, err
}

func attempt(p *plan, c *trio.Cluster, f *trio.Face, s spot, keys, seed uint64) (sample, error) {
	lead, others, err := c.Roles()
	if err != nil {
		return sample{}, err
	}
	j := rig.Job{Set: s.op == "write", Shape: s.shape, Keys: keys, Warm: p.warm, Window: p.window, Seed: seed}
	if s.to != toLeader && s.http {
		j.Warm += handshakes
	}
	switch s.to {
	case toLeader:
		j.Addrs = c.Addrs(f.Port, lead)
	case toFollower:
		j.Addrs = c.Addrs(f.Port, others[0])
	case toFollowers:
		j.Addrs = c.Addrs(f.Port, others...)
	}
	var a, b trio.Usage
	var own [2]float64
	var errs [2]error
	j.Begin = func() {
		a, errs[0] = c.Meter(true)
		own[0] = rig.Micros(rig.OwnCPU())
	}
	j.End = func() {
		own[1] = rig.Micros(rig.OwnCPU())
		b, errs[1] = c.Meter(false)
	}
	out, err := f.Run(j)
	if now, _, e := c.Roles(); e == nil && now != lead {
		return sample{}, errMoved
	}
	if err := errors.Join(err, errs[0], errs[1]); err != nil {
		return sample{}, err
	}
	if out.Ops == 0 {
		return sample{}, fmt.Errorf("no operation ended within %v", p.window)
	}
	n, secs := float64(out.Ops), out.Took.Seconds()
	return sample{
		rate: n / secs, p50: rig.Micros(out.Lat.Quantile(0.5)), p99: rig.Micros(out.Lat.Quantile(0.99)), max: rig.Micros(out.Lat.Max),
		server: rig.PerOp(b.CPU-a.CPU, out.Ops), client: (own[1] - own[0]) / n, busy: (own[1] - own[0]) / 1e6 / secs,
		fsyncs: (b.Fsyncs - a.Fsyncs) / n,
	}, nil
}

// visit is one system's turn in one round.
func (m *measurements) visit(p *plan, c *trio.Cluster, round int) error {
	for _, f := range c.Faces {
		for _, s := range spots {
			key := cellKey(c.Name, f.Name, s)
			if s.http == f.Piped || p.only != nil && !p.only.MatchString(key) {
				continue
			}
			one, err := measure(p, c, f, s, p.keys, uint64(round+2))
			if err != nil {
				return c.Explain(err)
			}
			if m.cells[key] == nil {
				m.cells[key] = &cell{system: c.Name, face: f.Name, spot: s}
			}
			m.cells[key].samples = append(m.cells[key].samples, one)
			fmt.Fprintf(m.w, "round %d  %-40s %10.0f /s   p50 %8.0f µs   p99 %8.0f µs   server %7.2f µs/op\n",
				round+1, key, one.rate, one.p50, one.p99, one.server)
		}
	}
	return nil
}
