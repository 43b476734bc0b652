package meter_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skerrydb/skerry/examples/meter"
)

func TestCounts(t *testing.T) {
	t.Parallel()
	var m meter.Meter
	for range 5 {
		m.Begin()
	}
	m.End(meter.Done, time.Millisecond, nil)
	m.End(meter.Refused, time.Millisecond, errors.New("over the limit"))
	m.End(meter.Unknown, time.Millisecond, errors.New("cut off"))
	m.End(meter.Failed, time.Millisecond, nil)
	if m.InFlight() != 1 || m.Count(meter.Done) != 1 || m.Count(meter.Unknown) != 1 || m.LastError() != "cut off" {
		t.Errorf("%d in flight, %d done, %d unknown, last error %q", m.InFlight(), m.Count(meter.Done), m.Count(meter.Unknown), m.LastError())
	}
}

// TestReport makes 100 calls in each of two seconds, 2 ms long in the first and
// 500 ms long in the second: each line covers only its own second.
func TestReport(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var m meter.Meter
		var out bytes.Buffer
		ended := make(chan struct{})
		go func() {
			m.Report(ctx, &out, time.Second, func() int64 { return 7 })
			close(ended)
		}()
		synctest.Wait()
		for _, took := range []time.Duration{2 * time.Millisecond, 500 * time.Millisecond} {
			for range 100 {
				m.Begin()
				m.End(meter.Done, took, nil)
			}
			time.Sleep(time.Second + time.Millisecond)
			synctest.Wait()
		}
		cancel()
		<-ended
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 3 {
			t.Fatalf("%q", lines)
		}
		for i, p50 := range []string{"1.98", "491.52"} { // the lower ends of their buckets
			words := strings.Fields(lines[i+1])
			if words[1] != "100" || words[2] != p50 || words[3] != p50 || words[4] != "0" || words[8] != "7" {
				t.Errorf("second %d: %q", i+1, lines[i+1])
			}
		}
	})
}
