package cassandra

import (
	"testing"
	"time"
)

// TestTTL: a key stays until its time and a little longer, and for ever if that is further than Cassandra's longest.
func TestTTL(t *testing.T) {
	now := time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)
	grace := int(expiryGrace / time.Second)
	for until, want := range map[time.Time]int{
		{}:                            0,
		now.Add(time.Hour):            3600 + grace,
		now.Add(time.Hour + 1):        3601 + grace,
		now.Add(-time.Hour):           1,
		now.Add(maxTTL - expiryGrace): 0,
		now.Add(maxTTL - expiryGrace - time.Second): int(maxTTL/time.Second) - 1,
		now.AddDate(250, 0, 0):                      0,
		now.AddDate(292, 0, 0):                      0, // with the grace it is further than a time.Duration
		now.AddDate(600, 0, 0):                      0,
		now.AddDate(-600, 0, 0):                     1,
	} {
		x := tx{now: now, keys: map[string]*used{"k": {val: []byte("v"), wrote: true, until: until}}}
		if got := x.list(); len(got) != 1 || got[0].ttl != want {
			t.Errorf("until %s: %+v, want %d s", until, got, want)
		}
	}
}
