package resp

import (
	"sync"
	"time"
)

// INFO's instantaneous metrics are the mean of the last ratesSpan, as in Redis.
const (
	ratesEvery  = 100 * time.Millisecond
	ratesKept   = 16
	ratesSpan   = ratesKept * ratesEvery
	peakEvery   = 10 // in units of ratesEvery: how often the memory is sampled
	kilobyte    = 1024
	ratesOldest = 2 * ratesSpan // older samples are ignored
)

// moment is one sample of the counters.
type moment struct {
	at                time.Duration // since the server's start
	commands, in, out int64
}

// rates samples the counters while the server is serving.
type rates struct {
	mu      sync.Mutex // guards the fields below
	running bool
	kept    [ratesKept]moment // a ring
	next    int
	peak    int64 // maximum bytes of data seen
}

func (s *Server) moment() moment {
	n := s.counted()
	return moment{s.clock(), n.processed.Load(), n.netIn.Load(), n.netOut.Load()}
}

// sample takes samples until done is closed, unless another call already does.
func (s *Server) sample(done <-chan struct{}) {
	r := &s.rates
	r.mu.Lock()
	other := r.running
	r.running = true
	r.mu.Unlock()
	if other {
		return
	}
	tick := time.NewTicker(ratesEvery)
	defer tick.Stop()
	for n := 0; ; n++ {
		now, data := s.moment(), int64(0)
		if n%peakEvery == 0 {
			data = s.engineMetrics().dataBytes()
		}
		r.mu.Lock()
		r.kept[r.next] = now
		r.next = (r.next + 1) % ratesKept
		r.peak = max(r.peak, data)
		r.mu.Unlock()
		select {
		case <-tick.C:
		case <-done:
			r.mu.Lock()
			r.running = false
			r.mu.Unlock()
			return
		}
	}
}

// lately returns the rates per second since the oldest sample.
func (s *Server) lately() (commands, in, out float64) {
	now := s.moment()
	s.rates.mu.Lock()
	defer s.rates.mu.Unlock()
	old := now
	for _, m := range s.rates.kept {
		// A sample from before CONFIG RESETSTAT has higher counts.
		if m.at > 0 && m.at < old.at && now.at-m.at < ratesOldest && m.commands <= now.commands && m.in <= now.in && m.out <= now.out {
			old = m
		}
	}
	span := (now.at - old.at).Seconds()
	if span <= 0 {
		return 0, 0, 0
	}
	return float64(now.commands-old.commands) / span, float64(now.in-old.in) / span, float64(now.out-old.out) / span
}

// peakOf returns the maximum bytes of data seen, including the present use.
func (r *rates) peakOf(used int64) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.peak = max(r.peak, used)
	return r.peak
}
