package proc

import (
	"runtime"
	"sync/atomic"
	"time"
)

// counts are the numbers of one procedure in one shard. Few enough Txs share a shard to avoid contention on its cache lines.
// They are written without locks, and each run adds to one or two of them.
type counts struct {
	calls, errors, panics, replays atomic.Uint64

	timeFrom atomic.Uint64 // the number of the next run to time
	looked   atomic.Uint64 // the number of the run that last looked how busy the procedure is
	lookedAt atomic.Int64  // when that began

	took [tookBuckets + 1]atomic.Uint64 // the last bucket is above all bounds
	sum  atomic.Int64                   // nanoseconds of the runs in took

	_ [16]byte // padding to whole cache lines
}

const (
	tookBuckets = 21

	// maxShards is the maximum number of shards of a procedure.
	maxShards = 32

	// Two looks at the clock cost a fifth of a call that does nothing. Where timeEach runs begin less than dense apart on
	// average, one of the next timeEach is timed, and so on.
	dense    = 100 * time.Microsecond
	timeEach = 16
)

// tookBounds are the upper bounds of the buckets of run times.
func tookBounds() [tookBuckets]time.Duration {
	const µs, ms, s = time.Microsecond, time.Millisecond, time.Second
	return [...]time.Duration{
		µs, 2500 * time.Nanosecond, 5 * µs, 10 * µs, 25 * µs, 50 * µs, 100 * µs, 250 * µs, 500 * µs,
		ms, 2500 * µs, 5 * ms, 10 * ms, 25 * ms, 50 * ms, 100 * ms, 250 * ms, 500 * ms, s, 2500 * ms, 5 * s,
	}
}

// shards returns how many shards the procedures of a new Set have: two for each goroutine that can run at the same time.
func shards() int { return min(2*runtime.GOMAXPROCS(0), maxShards) }

// shard returns the counts of one shard. They are made at its first run, so that procedures that nobody calls need no memory.
func (p *procedure) shard(i int) *counts {
	c := p.counts[i].Load()
	if c == nil {
		p.counts[i].CompareAndSwap(nil, &counts{})
		c = p.counts[i].Load()
	}
	return c
}

// untimed is when a run began that is not timed.
const untimed = -1

// begin returns the time if the run that begins is to be timed, else untimed.
func (c *counts) begin(s *Set) time.Duration {
	n := c.calls.Load()
	if n < c.timeFrom.Load() {
		return untimed
	}
	now := time.Since(s.since)
	runs := n - c.looked.Load()
	if runs < timeEach {
		return now
	}
	if now-time.Duration(c.lookedAt.Load()) < time.Duration(runs)*dense {
		c.timeFrom.Store(n + timeEach)
	}
	c.looked.Store(n)
	c.lookedAt.Store(int64(now))
	return now
}

// end counts a run that has ended. Readers load in the opposite order, so that they never see more errors than calls.
func (c *counts) end(s *Set, began time.Duration, failed, replayed bool) {
	c.calls.Add(1)
	switch {
	case replayed:
		c.replays.Add(1)
		return
	case failed:
		c.errors.Add(1)
	}
	if began == untimed {
		return
	}
	took, bucket := time.Since(s.since)-began, 0
	for _, bound := range tookBounds() {
		if took <= bound {
			break
		}
		bucket++
	}
	c.took[bucket].Add(1)
	c.sum.Add(int64(took))
}
