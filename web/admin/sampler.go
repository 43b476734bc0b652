package admin

import (
	"context"
	"iter"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/engine"
)

const (
	sampleEvery = 2 * time.Second
	maxSamples  = 450 // 15 minutes
)

// sample is what the overview shows of one moment. Rates are per second since the sample before.
type sample struct {
	At       int64   `json:"at"` // Unix milliseconds
	Requests float64 `json:"requests"`
	Errors   float64 `json:"errors"` // responses with status 5xx
	Writes   float64 `json:"writes"` // transactions
	Calls    float64 `json:"calls"`  // of procedures
	P50      float64 `json:"p50"`    // milliseconds of HTTP requests since the sample before
	P99      float64 `json:"p99"`
	CPU      float64 `json:"cpu"` // of one core
	Memory   float64 `json:"memory"`
	Data     float64 `json:"data"`
	Keys     float64 `json:"keys"`
	Position float64 `json:"position"`
	Clients  float64 `json:"clients"` // of the Redis protocol
	Log      float64 `json:"log"`     // bytes on disk since the last snapshot
}

// totals are the counters that rates are computed from.
type totals struct {
	requests, errors, writes, calls, cpu float64
	bounds                               []float64
	took                                 []uint64
	count                                uint64
}

// sampler keeps the newest samples of the metrics. While nobody looks it takes one of ten, so that the overview begins with a
// picture and costs next to nothing.
type sampler struct {
	a        *Admin
	watchers atomic.Int64

	mu   sync.Mutex // guards the fields below
	ring []sample
	last totals
	at   time.Time
	next chan struct{} // closed when there is a new sample
}

func newSampler(a *Admin) *sampler { return &sampler{a: a, next: make(chan struct{})} }

// idleEvery is how many ticks pass between samples that nobody watches.
const idleEvery = 10

func (s *sampler) run(ctx context.Context) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for n := 0; ; n++ {
		s.a.announce(ctx)
		if n%idleEvery == 0 || s.watchers.Load() > 0 {
			s.take()
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// take adds a sample.
func (s *sampler) take() {
	now := s.a.o.Now()
	if s.a.procs != nil {
		s.a.procs.sample()
	}
	var metrics iter.Seq[engine.Metric] = func(func(engine.Metric) bool) {}
	if s.a.o.Metrics != nil {
		metrics = s.a.o.Metrics()
	}
	next, sum := read(metrics)
	sum.cpu, next.Memory = process("/proc/self/stat")
	s.mu.Lock()
	defer s.mu.Unlock()
	next.At = now.UnixMilli()
	if took := now.Sub(s.at).Seconds(); !s.at.IsZero() && took > 0 {
		rate := func(now, before float64) float64 { return max(0, now-before) / took }
		next.Requests, next.Errors = rate(sum.requests, s.last.requests), rate(sum.errors, s.last.errors)
		next.Writes, next.Calls = rate(sum.writes, s.last.writes), rate(sum.calls, s.last.calls)
		next.CPU = rate(sum.cpu, s.last.cpu)
		next.P50, next.P99 = quantile(sum, s.last, 0.5)*1000, quantile(sum, s.last, 0.99)*1000
	}
	s.last, s.at = sum, now
	s.ring = append(s.ring, next)
	if len(s.ring) > maxSamples {
		s.ring = append(s.ring[:0], s.ring[len(s.ring)-maxSamples:]...)
	}
	close(s.next)
	s.next = make(chan struct{})
}

// read reads what a sample is made of.
func read(metrics iter.Seq[engine.Metric]) (next sample, sum totals) {
	for m := range metrics {
		switch m.Name {
		case "http_request_seconds", "web_request_seconds":
			sum.add(m.Histogram)
		case "http_requests_total", "web_requests_total":
			sum.requests += m.Value
			for _, l := range m.Labels {
				if l.Value == "5xx" {
					sum.errors += m.Value
				}
			}
		case "engine_transactions_total":
			sum.writes += m.Value
		case "proc_calls_total":
			sum.calls += m.Value
		case "engine_data_bytes":
			next.Data = m.Value
		case "engine_keys":
			next.Keys = m.Value
		case "engine_position":
			next.Position = m.Value
		case "resp_clients":
			next.Clients = m.Value
		case "engine_log_since_snapshot_bytes":
			next.Log = m.Value
		}
	}
	return next, sum
}

// ticksPerSecond is the unit of times of /proc/self/stat. Source: proc_pid_stat(5); the kernel gives programs 100 ticks a
// second on all machines that Skerry runs on.
const ticksPerSecond = 100

// process returns the CPU seconds and the resident memory of a process, 0 where the system does not tell.
func process(file string) (cpu, memory float64) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, 0
	}
	_, rest, _ := strings.Cut(string(text), ") ") // the name of the program may contain anything
	f := strings.Fields(rest)
	if len(f) < 22 {
		return 0, 0
	}
	number := func(i int) float64 { n, _ := strconv.ParseFloat(f[i], 64); return n } // counted from the state, field 3
	return (number(11) + number(12)) / ticksPerSecond, number(21) * float64(os.Getpagesize())
}

// add adds the observations of a histogram. All histograms of requests have the same bounds.
func (t *totals) add(h *engine.Histogram) {
	if h == nil {
		return
	}
	if t.bounds == nil {
		t.bounds, t.took = h.Bounds, make([]uint64, len(h.Bounds))
	}
	for i := range min(len(t.took), len(h.Counts)) {
		t.took[i] += h.Counts[i]
	}
	t.count += h.Count
}

// quantile returns the upper bound, in seconds, of the bucket that has the q-th of the observations between two totals; 0 if
// there are none.
func quantile(now, before totals, q float64) float64 {
	n := float64(now.count) - float64(before.count)
	if n <= 0 {
		return 0
	}
	var seen float64
	for i, c := range now.took {
		if i < len(before.took) {
			c -= before.took[i]
		}
		if seen += float64(c); seen >= q*n {
			return now.bounds[i]
		}
	}
	return now.bounds[len(now.bounds)-1]
}

// all returns the samples, the newest last, and a channel that is closed when there is another.
func (s *sampler) all() ([]sample, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]sample(nil), s.ring...), s.next
}
