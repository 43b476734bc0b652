package feed_test

import (
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine"
	"github.com/skerrydb/skerry/feed"
)

// TestReached: a subscription reaches every position without waiting for a heartbeat, and whatever matched
// before is in the channel by then.
func TestReached(t *testing.T) {
	t.Parallel()
	eng := testengine.Open(t, testengine.Options{Memory: true})
	before := put(t, eng, "quiet")
	f := start(t, eng, feed.Options{Heartbeat: time.Hour})
	for name, after := range map[string]engine.Position{"replayed": 0, "live": before} {
		s := subscribe(t, f, after, name)
		for range 20 {
			other := put(t, eng, "other")
			eventually.True(t, name+" reaches a change that does not match", func() bool { return s.Reached() >= other })
			if len(s.C) > 0 {
				t.Fatalf("%s: a change that does not match is in the channel", name)
			}
			match := put(t, eng, name)
			eventually.True(t, name+" reaches a change that matches", func() bool { return s.Reached() >= match })
			if len(s.C) != 1 {
				t.Fatalf("%s: %d changes are in the channel, want 1", name, len(s.C))
			}
			<-s.C
		}
	}
}
