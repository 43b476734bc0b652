package serve

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// The collector walks all keys and values each time it runs, and by default runs
// when as much garbage has gathered as there is data. Data that takes up little
// of the machine gets more room: then a write costs less.
const (
	leastRoom   = 100 // percent of what lives, Go's own default
	mostRoom    = 400
	roomShare   = 16 // more than leastRoom is given only up to one 16th of the machine's memory
	roomEvery   = time.Second
	roomStep    = 10 // percent points that are not worth a change
	liveHeap    = "/gc/heap/live:bytes"
	minLiveHeap = 4 << 20 // less is taken for this: the runtime's own least heap
)

// room returns how much garbage may gather before the collector runs, in percent
// of the live bytes.
func room(live, machine int64) int {
	spare := machine / roomShare
	return int(min(mostRoom, max(leastRoom, spare*100/max(live, minLiveHeap))))
}

// giveRoom sets the collector's room by what lives, until ctx ends. The limit of
// the whole process stays above it.
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
