// Package meter counts the calls of a load program and prints a line of statistics every second.
//
// It knows how calls end, how long they take and how much CPU time they cost; it must not know what is called,
// nor with which client.
package meter

import (
	"context"
	"fmt"
	"io"
	"math/bits"
	"sync/atomic"
	"time"
)

// Outcome is how a call ended.
type Outcome int

// Outcomes.
const (
	Done    Outcome = iota // it succeeded
	Refused                // by the procedure's own rules; nothing was changed
	Failed                 // it failed for another reason; nothing was changed
	Unknown                // it may have been executed or not
	outcomes
)

// quarters is the number of buckets for each doubling of the latency.
const quarters = 16

// Meter counts calls. Its zero value works; it is safe for concurrent use.
type Meter struct {
	begun atomic.Int64
	ended [outcomes]atomic.Int64
	took  [64 * quarters]atomic.Int64 // by latency
	last  atomic.Value                // of errText
}

type errText struct{ text string }

// Begin counts the beginning of a call.
func (m *Meter) Begin() { m.begun.Add(1) }

// End counts the end of a call. It keeps err, which may be nil, for the report unless the call was only
// refused.
func (m *Meter) End(o Outcome, took time.Duration, err error) {
	m.ended[o].Add(1)
	if o == Done || o == Refused {
		m.took[bucket(took)].Add(1)
	} else if err != nil {
		m.last.Store(errText{err.Error()})
	}
}

// Count returns how many calls ended with an outcome.
func (m *Meter) Count(o Outcome) int64 { return m.ended[o].Load() }

// InFlight returns how many calls have begun and not ended.
func (m *Meter) InFlight() int64 {
	n := m.begun.Load()
	for i := range m.ended {
		n -= m.ended[i].Load()
	}
	return max(n, 0)
}

// LastError returns the text of the last error of a call that failed or whose
// outcome is unknown, "" if there was none.
func (m *Meter) LastError() string {
	e, _ := m.last.Load().(errText)
	return e.text
}

// bucket returns the bucket of a latency: quarters for each doubling from 1 µs.
func bucket(d time.Duration) int {
	us := uint64(max(d, 0)) / 1000
	if us < quarters {
		return int(us)
	}
	shift := bits.Len64(us) - bits.Len64(quarters)
	return shift*quarters + int(us>>shift)
}

// lowest returns the smallest latency of a bucket.
func lowest(i int) time.Duration {
	if i < 2*quarters {
		return time.Duration(i) * time.Microsecond
	}
	shift := i/quarters - 1
	return time.Duration(i%quarters+quarters) << shift * time.Microsecond
}

// sample is the state that Report compares from second to second.
type sample struct {
	at    time.Time
	cpu   time.Duration
	ended [outcomes]int64
	took  [64 * quarters]int64
}

func (m *Meter) sample() *sample {
	s := &sample{at: time.Now(), cpu: cpuTime()}
	for i := range m.ended {
		s.ended[i] = m.ended[i].Load()
	}
	for i := range m.took {
		s.took[i] = m.took[i].Load()
	}
	return s
}

// Report prints a line to w at every interval until ctx ends. retried returns how many calls were repeated so
// far.
func (m *Meter) Report(ctx context.Context, w io.Writer, every time.Duration, retried func() int64) {
	fmt.Fprintf(w, "%8s%10s%10s%10s%10s%10s%10s%10s%10s%12s\n", "second", "calls/s", "p50 ms", "p99 ms", "in flight", "refused", "failed", "unknown", "retried", "CPU µs/call")
	tick := time.NewTicker(every)
	defer tick.Stop()
	from := time.Now()
	for last := m.sample(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := m.sample()
		calls := now.ended[Done] + now.ended[Refused] - last.ended[Done] - last.ended[Refused]
		fmt.Fprintf(w, "%8.0f%10.0f%10.2f%10.2f%10d%10d%10d%10d%10d%12.2f\n", now.at.Sub(from).Seconds(),
			float64(calls)/now.at.Sub(last.at).Seconds(), millis(now.quantile(last, 0.5)), millis(now.quantile(last, 0.99)), m.InFlight(),
			now.ended[Refused], now.ended[Failed], now.ended[Unknown], retried(), float64(now.cpu-last.cpu)/1000/float64(max(calls, 1)))
		last = now
	}
}

// quantile returns the latency that a share q of the calls since last does not exceed.
func (s *sample) quantile(last *sample, q float64) time.Duration {
	total := int64(0)
	for i := range s.took {
		total += s.took[i] - last.took[i]
	}
	rest := int64(q * float64(total))
	for i := range s.took {
		if rest -= s.took[i] - last.took[i]; rest < 0 {
			return lowest(i)
		}
	}
	return 0
}

func millis(d time.Duration) float64 { return float64(d) / 1e6 }
