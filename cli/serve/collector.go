package serve

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// The garbage collector runs when so much garbage has accumulated: the room. More room means fewer runs, but more
// memory, and memory that is new to the process costs a page fault on its first use. So the room is what keeps the
// measured cost of the collector at goalShare, within bounds that depend on the live bytes.
const (
	goalShare = 0.025 // of the CPU time of all processors

	leastRoom  = 16 << 20 // bytes, for a small store
	mostRoom   = 40 << 20 // if runs are expensive
	leastShare = 20       // percent of the live bytes, for a large store
	mostShare  = 30

	mostPercent = 400 // GOGC with few live bytes: the runtime's smallest heap grows with it
	openPercent = 60  // GOGC while the data folder is read: more costs page faults, and memory afterwards

	roomEvery = time.Second
	roomStep  = 10  // percent of the setting; each change stops the world for a moment
	newWeight = 0.3 // of a new measurement in an average
)

// reading is what the runtime has measured since the start of the process.
type reading struct {
	at         time.Time
	processors int
	live       int64   // bytes that the last run found alive
	allocated  int64   // bytes
	runs       uint64  // of the collector
	collecting float64 // CPU seconds that they took
}

// collector chooses GOGC.
type collector struct {
	last    reading
	cost    float64 // CPU seconds of one run
	rate    float64 // bytes allocated in a second
	percent int
}

// next returns the setting after a new reading.
func (c *collector) next(r reading) int {
	last := c.last
	c.last = r
	if last.at.IsZero() {
		c.percent = percentOf(r.live, bounded(r.live, 0))
		return c.percent
	}
	if passed := r.at.Sub(last.at).Seconds(); passed > 0 {
		blend(&c.rate, float64(r.allocated-last.allocated)/passed)
	}
	if runs := r.runs - last.runs; runs > 0 {
		blend(&c.cost, (r.collecting-last.collecting)/float64(runs))
	} else {
		c.last.collecting = last.collecting // the runtime counts at the end of a run
	}
	want := percentOf(r.live, bounded(r.live, c.cost*c.rate/(goalShare*float64(r.processors))))
	if diff := max(want-c.percent, c.percent-want); diff*100 >= roomStep*c.percent {
		c.percent = want
	}
	return c.percent
}

// blend moves an average towards a new value.
func blend(average *float64, v float64) {
	if *average == 0 {
		*average = v
	}
	*average += newWeight * (v - *average)
}

// bounded returns the room nearest to want.
func bounded(live int64, want float64) int64 {
	least, most := max(leastRoom, live/100*leastShare), max(mostRoom, live/100*mostShare)
	return int64(min(float64(most), max(float64(least), want)))
}

func percentOf(live, room int64) int { return int(min(mostPercent, room*100/max(live, 1))) }

// steer sets GOGC at each tick until ctx ends. The limit of the whole process still applies.
func steer(ctx context.Context, tick <-chan time.Time, read func() reading, set func(percent int)) {
	c, now := collector{}, 0
	for {
		if percent := c.next(read()); percent != now {
			set(percent)
			now = percent
		}
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
	}
}

// steerRuntime is steer for this process.
func steerRuntime(ctx context.Context) {
	tick := time.NewTicker(roomEvery)
	defer tick.Stop()
	samples := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"},
		{Name: "/gc/cycles/total:gc-cycles"}, {Name: "/cpu/classes/gc/total:cpu-seconds"},
	}
	steer(ctx, tick.C, func() reading {
		metrics.Read(samples)
		return reading{
			at: time.Now(), processors: runtime.GOMAXPROCS(0),
			live: int64(samples[0].Value.Uint64()), allocated: int64(samples[1].Value.Uint64()),
			runs: samples[2].Value.Uint64(), collecting: samples[3].Value.Float64(),
		}
	}, func(percent int) { debug.SetGCPercent(percent) })
}
