package prometheus

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/prometheus/prompb"

	"github.com/skerrydb/skerry/series"
	"github.com/skerrydb/skerry/web"
)

// TestMovingBounds: samples that become too old, or are no longer too new, while their request is handled are stored.
func TestMovingBounds(t *testing.T) {
	var late atomic.Bool
	now := func() time.Time { // is later from the second call on
		if late.Swap(true) {
			return start.Add(5 * time.Second)
		}
		return start
	}
	everyone := func(*web.Context, string, bool) error { return nil }
	s := open(t, series.Options{Now: now}, Options{Allow: everyone}, series.Collection{Name: "c", Window: time.Hour, Ahead: time.Minute})
	s.write(of(values(1), "__name__", "n")).is(204)
	for _, c := range []struct {
		after  time.Duration
		status int
	}{{-time.Hour, 204}, {time.Minute + 2*time.Second, 204}} {
		late.Store(false)
		at := start.Add(c.after).UnixMilli()
		s.write(of([]prompb.Sample{{Timestamp: at, Value: 2}, {Timestamp: start.UnixMilli() + 1, Value: 3}}, "__name__", "n")).is(c.status)
		s.get("query", "query", "n", "time", "1700000000.001").is(200, `"3"`)
		s.write(of([]prompb.Sample{{Timestamp: start.UnixMilli() + 1, Value: 0}}, "__name__", "n")).is(204)
	}
	s.get("query", "query", "n", "time", "1700000062").is(200, `"2"`)
}
