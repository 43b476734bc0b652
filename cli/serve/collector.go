package serve

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// The garbage collector walks all keys and values each time it runs, by default when as much garbage has
// accumulated as there is live data. Data that takes up little of the machine's memory gets more room, which
// makes writes cheaper.
const (
	leastRoom   = 100 // percent of the live bytes, Go's default
	mostRoom    = 400
	roomShare   = 16 // more than leastRoom only up to one 16th of the machine's memory
	roomEvery   = time.Second
	roomStep    = 10 // percentage points; smaller changes are not worth it
	liveHeap    = "/gc/heap/live:bytes"
	minLiveHeap = 4 << 20 // the minimum: the runtime's own smallest heap
)

// room returns how much garbage may accumulate before the collector runs, in percent of the live bytes.
func room(live, machine int64) int {
	spare := machine / roomShare
	return int(min(mostRoom, max(leastRoom, spare*100/max(live, minLiveHeap))))
}

// giveRoom adjusts the collector to the live bytes, until ctx ends. The limit of the whole process still
// applies.
func giveRoom(ctx context.Context, machine int64) {
	sample := []metrics.Sample{{Name: liveHeap}}
	set := leastRoom
	tick := time.NewTicker(roomEvery)
	defer tick.Stop()
	for {
		metrics.Read(sample)
		want := room(int64(sample[0].Value.Uint64()), machine)
		if want-set >= roomStep || set-want >= roomStep || want != set && want == leastRoom {
			debug.SetGCPercent(want)
			set = want
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
