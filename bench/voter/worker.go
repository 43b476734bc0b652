package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/skerrydb/skerry/bench/rig"
	"github.com/skerrydb/skerry/examples/voter"
)

// job is one measurement, as passed to the process that makes it.
type job struct {
	Driver string        `json:"driver"`
	Addr   string        `json:"addr"`
	Dir    string        `json:"dir"` // of the engine in process
	Server int           `json:"server"`
	Conns  int           `json:"conns"`
	Flight int           `json:"flight"`
	Phones uint64        `json:"phones"`
	Warm   time.Duration `json:"warm"`
	Window time.Duration `json:"window"`
	Seed   uint64        `json:"seed"`
}

// outcome is the output of a worker.
type outcome struct {
	Votes      int64         `json:"votes"` // acknowledged in the window
	Cast       int64         `json:"cast"`  // acknowledged in total
	Doubt      int64         `json:"doubt"` // sent, but not acknowledged
	Took       time.Duration `json:"took"`
	P50        time.Duration `json:"p50"`
	P99        time.Duration `json:"p99"`
	Server     time.Duration `json:"server"` // CPU time in the window
	Client     time.Duration `json:"client"`
	Allocs     float64       `json:"allocs"`      // of the client, per call
	CallMemory float64       `json:"call_memory"` // resident bytes above the idle client, per call in flight; 0: not measured
	Err        string        `json:"err"`
}

// drivers are the ways to call the procedure.
func drivers() map[string]func(*meter) error {
	return map[string]func(*meter) error{
		"raw":        driveRaw,
		"rueidis":    driveRueidis,
		"async":      driveAsync,
		"blocking":   driveBlocking,
		"sql":        driveSQL,
		"pgx":        drivePgx,
		"pgbench":    drivePgbench,
		"in-process": driveEngine,
	}
}

// meter counts for a driver, and controls when it counts. Votes may be counted from any goroutine; a latency
// histogram belongs to one.
type meter struct {
	job
	out   outcome
	votes atomic.Int64 // acknowledged so far
	doubt atomic.Int64
	done  atomic.Bool // no more calls
	count atomic.Bool // within the window
	start time.Time
	hists []*rig.Hist

	before, after figures
}

// figures are read at both ends of the window.
type figures struct {
	at             time.Duration
	votes          int64
	server, client time.Duration
	mallocs        uint64
	err            error
}

// work makes one measurement and prints its outcome; it returns the exit code.
func work(text string, w io.Writer) int {
	m := &meter{}
	err := json.Unmarshal([]byte(text), &m.job)
	if drive := drivers()[m.Driver]; err == nil && drive != nil {
		err = drive(m)
	} else if err == nil {
		err = errors.New("no such driver: " + m.Driver)
	}
	m.finish(err)
	if err := json.NewEncoder(w).Encode(m.out); err != nil {
		return 1
	}
	return 0
}

// measure makes a worker process run a job.
func measure(j job) (outcome, error) {
	self, err := os.Executable()
	if err != nil {
		return outcome{}, err
	}
	text, err := json.Marshal(j)
	if err != nil {
		return outcome{}, err
	}
	cmd := exec.Command(self, "-worker", string(text))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if j.Driver == "in-process" {
		cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	}
	b, err := cmd.Output()
	if err != nil {
		return outcome{}, fmt.Errorf("the load generator: %w", err)
	}
	var out outcome
	if err := json.Unmarshal(b, &out); err != nil {
		return outcome{}, fmt.Errorf("the load generator printed %q: %w", b, err)
	}
	if out.Err != "" {
		return outcome{}, errors.New(out.Err)
	}
	return out, nil
}

// window sleeps through the warm-up and the counted time while a driver's goroutines work, and then stops
// them.
func (m *meter) window() {
	time.Sleep(time.Until(m.start.Add(m.Warm)))
	m.begin()
	time.Sleep(time.Until(m.start.Add(m.before.at + m.Window)))
	m.end()
	m.done.Store(true)
}

func (m *meter) begin() {
	m.before = m.read()
	m.count.Store(true)
}

func (m *meter) end() {
	m.count.Store(false)
	m.after = m.read()
}

func (m *meter) read() (f figures) {
	f.votes = m.votes.Load()
	f.at = time.Since(m.start)
	f.client = rig.OwnCPU()
	if m.Server != 0 {
		f.server, f.err = rig.CPUTree(m.Server)
	}
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	f.mallocs = mem.Mallocs
	return f
}

// hist returns a histogram for one goroutine.
func (m *meter) hist() *rig.Hist {
	h := &rig.Hist{}
	m.hists = append(m.hists, h)
	return h
}

// finish computes the outcome from the counts.
func (m *meter) finish(err error) {
	for _, e := range []error{err, m.before.err, m.after.err} {
		if e != nil && m.out.Err == "" {
			m.out.Err = e.Error()
		}
	}
	m.out.Cast, m.out.Doubt = m.votes.Load(), m.doubt.Load()
	if m.out.Took != 0 { // the driver measured the time itself
		return
	}
	var all rig.Hist
	for _, h := range m.hists {
		all.Merge(h)
	}
	m.out.Votes, m.out.Took = m.after.votes-m.before.votes, m.after.at-m.before.at
	m.out.P50, m.out.P99 = all.Quantile(0.5), all.Quantile(0.99)
	m.out.Server, m.out.Client = m.after.server-m.before.server, m.after.client-m.before.client
	m.out.Allocs = float64(m.after.mallocs-m.before.mallocs) / float64(max(m.out.Votes, 1))
}

// ballot generates the calls of one goroutine.
type ballot struct {
	rnd    *rand.PCG
	phones uint64
}

func (m *meter) ballot(id int) *ballot {
	return &ballot{rand.NewPCG(m.Seed, uint64(id)), m.Phones}
}

// next returns one of the calling phones, and a contestant.
func (b *ballot) next() (phone int64, contestant int) {
	r := b.rnd.Uint64()
	return voter.Phone(r >> 8 % b.phones), 1 + int(r&0xff)%voter.MaxContestants
}

// idle minimises the client's memory, and returns it.
func idle() int64 {
	debug.FreeOSMemory()
	n, err := rig.RSS(os.Getpid())
	if err != nil {
		return 0
	}
	return n
}

// callMemory monitors the resident memory until the window is over, and sets the memory per call in flight
// above base. It is the median, because the collector makes it rise and fall.
func (m *meter) callMemory(base int64) {
	var seen []int64
	for !m.done.Load() {
		time.Sleep(20 * time.Millisecond)
		if n, err := rig.RSS(os.Getpid()); err == nil && m.count.Load() {
			seen = append(seen, n)
		}
	}
	if len(seen) > 0 {
		slices.Sort(seen)
		m.out.CallMemory = float64(seen[len(seen)/2]-base) / float64(m.Flight)
	}
}
