package serve

import (
	"context"
	"runtime/debug"
	"testing"

	"github.com/skerrydb/skerry/ci/eventually"
)

func TestRoom(t *testing.T) {
	for _, c := range []struct {
		live, machine int64
		want          int
	}{
		{0, 24 << 30, 400},
		{100 << 20, 24 << 30, 400},
		{768 << 20, 24 << 30, 200}, // 1.5 GiB more
		{12 << 30, 24 << 30, 100},
		{64 << 20, 1 << 30, 100},
		{32 << 20, 1 << 30, 200},
		{1 << 40, 24 << 30, 100},
	} {
		if got := room(c.live, c.machine); got != c.want {
			t.Errorf("%d bytes live of %d: %d %%, want %d", c.live, c.machine, got, c.want)
		}
	}
}

// TestGiveRoom is not parallel: the setting is the process's.
func TestGiveRoom(t *testing.T) {
	before := debug.SetGCPercent(leastRoom)
	defer debug.SetGCPercent(before)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		giveRoom(ctx, 1<<50)
	}()
	eventually.True(t, "most room", func() bool {
		now := debug.SetGCPercent(leastRoom)
		debug.SetGCPercent(now)
		return now == mostRoom
	})
	cancel()
	<-ended
}
