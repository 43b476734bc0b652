package serve

import (
	"context"
	"math"
	"runtime/debug"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
)

// heap is a process as the collector's policy sees it: it allocates at a rate, and a run costs CPU time.
type heap struct {
	now     reading
	percent int
	rate    int64   // bytes a second
	cost    float64 // CPU seconds of a run

	garbage, most int64 // bytes since the last run; the most of live bytes and garbage
}

// second lets a second pass.
func (h *heap) second() {
	const steps = 1000
	for range steps {
		h.now.allocated += h.rate / steps
		h.garbage += h.rate / steps
		h.most = max(h.most, h.now.live+h.garbage)
		if h.garbage >= h.now.live/100*int64(h.percent) {
			h.garbage = 0
			h.now.runs++
			h.now.collecting += h.cost
		}
	}
	h.now.at = h.now.at.Add(time.Second)
}

// TestCollector: the policy follows the cost of a run, and settles.
func TestCollector(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		name       string
		live, rate int64
		cost       float64
		percent    int     // in the end
		share      float64 // of the CPU time at most
	}{
		{"empty and idle", 2 * mib, 0, 0, 400, 0},
		{"small and idle", 50 * mib, 0, 0, 32, 0},
		{"small and cheap", 50 * mib, 100 * mib, 0.003, 32, 0.012},
		{"small, and a run costs as with many pointers", 50 * mib, 100 * mib, 0.015, 60, 0.026},
		{"small and expensive", 50 * mib, 400 * mib, 0.05, 80, 0.26},
		{"10 M keys", 1600 * mib, 100 * mib, 0.2, 25, 0.028},
		{"10 M keys, cheap", 1600 * mib, 50 * mib, 0.2, 20, 0.02},
		{"10 M keys, expensive", 1600 * mib, 300 * mib, 0.5, 30, 0.16},
	} {
		h := &heap{now: reading{at: time.Unix(0, 0), processors: 2, live: c.live}, rate: c.rate, cost: c.cost}
		policy, changes := collector{}, 0
		for i := range 120 {
			was := h.percent
			if h.percent = policy.next(h.now); i > 60 && h.percent != was {
				changes++
			}
			if i == 60 {
				h.now.collecting = 0 // judge what is settled
				policy.last.collecting = 0
			}
			h.second()
		}
		if diff := h.percent - c.percent; diff*diff > c.percent*c.percent/64 {
			t.Errorf("%s: GOGC is %d, want about %d", c.name, h.percent, c.percent)
		}
		if share := h.now.collecting / (2 * 60); share > c.share+1e-9 {
			t.Errorf("%s: the collector takes %.3f of the CPU time, want at most %.3f", c.name, share, c.share)
		}
		if bound := max(c.live+mostRoom, c.live/100*(100+mostShare)); h.most > bound+h.rate/500 {
			t.Errorf("%s: %d MiB, of which %d live; want at most %d", c.name, h.most/mib, c.live/mib, bound/mib)
		}
		if changes > 5 {
			t.Errorf("%s: the setting changed %d times in the last minute of a steady load", c.name, changes)
		}
	}
}

// TestCollectorFollows: the setting follows growing data and a load that ends.
func TestCollectorFollows(t *testing.T) {
	h := &heap{now: reading{at: time.Unix(0, 0), processors: 2, live: 4 << 20}, rate: 200 << 20, cost: 0.002}
	policy := collector{}
	settle := func() int {
		for range 60 {
			h.percent = policy.next(h.now)
			h.second()
		}
		return h.percent
	}
	if got := settle(); got != mostPercent {
		t.Errorf("with little data GOGC is %d", got)
	}
	h.now.live, h.cost = 1<<30, 0.5
	if got := settle(); got < mostShare-2 || got > mostShare {
		t.Errorf("with much data and expensive runs GOGC is %d", got)
	}
	h.rate = 1 << 20
	if got := settle(); got < leastShare-1 || got > leastShare+1 {
		t.Errorf("after the load GOGC is %d", got)
	}
}

// TestSteer: the setting is changed only when the policy changes its mind, and no more once the context has ended.
func TestSteer(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	tick, sets := make(chan time.Time), []int(nil)
	now := reading{at: time.Unix(0, 0), processors: 2, live: 100 << 20}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		steer(ctx, tick, func() reading { return now }, func(percent int) { sets = append(sets, percent) })
	}()
	for range 3 {
		tick <- time.Time{}
	}
	end()
	<-ended
	if len(sets) != 1 || sets[0] != 20 {
		t.Errorf("GOGC was set to %v", sets)
	}
}

// TestSteerRuntime is not parallel: the setting is the process's.
func TestSteerRuntime(t *testing.T) {
	before := debug.SetGCPercent(math.MaxInt32)
	defer debug.SetGCPercent(before)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		steerRuntime(ctx)
	}()
	eventually.True(t, "a setting within the bounds", func() bool {
		now := debug.SetGCPercent(math.MaxInt32)
		if now != math.MaxInt32 {
			debug.SetGCPercent(now)
		}
		return now > 0 && now <= mostPercent
	})
	cancel()
	<-ended
}
