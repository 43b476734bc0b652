package resp_test

import (
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/engine/enginetest"
	"github.com/skerrydb/skerry/resp"
)

// TestTrackingSharedTimes checks that if transactions share times, NOLOOP hides no write of
// another client. The connection's own writes are then reported too.
func TestTrackingSharedTimes(t *testing.T) {
	l := loopback(t)
	serve(t, enginetest.Coarse(openEngine(t, embedded.Options{}), 1000*time.Hour), l, resp.Options{})
	a, b := newAsker(t, l.Addr().String()), newAsker(t, l.Addr().String())
	a.want("OK", "CLIENT", "TRACKING", "ON", "NOLOOP")
	a.want("OK", "SET", "other", "1") // its own write, at the time of all others
	a.want("nil", "GET", "k")
	b.want("OK", "SET", "k", "1")
	if v := show(t, a.next()); v != "[invalidate [k]]" {
		t.Errorf("push: %s", v)
	}
}
