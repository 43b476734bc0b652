package eventually_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
)

func TestWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if calls := 0; !eventually.Within(time.Second, func() bool { calls++; return calls == 3 }) {
			t.Error("a condition that comes to hold is not seen")
		}
		if took := time.Since(began); took == 0 || took > 100*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		began = time.Now()
		if eventually.Within(time.Second, func() bool { return false }) {
			t.Error("a condition that never holds is reported")
		}
		if took := time.Since(began); took < time.Second || took > 2*time.Second {
			t.Errorf("it gave up after %v", took)
		}
		eventually.True(t, "an hour of nothing", func() bool { return time.Since(began) > 30*time.Second })
	})
}
