package proc_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/proc"
)

// slowly is a procedure that waits for the test.
type slowly struct {
	step chan struct{} // the procedure continues when the test sends
	at   chan struct{} // the procedure sends at each step
}

func newSlowly() *slowly { return &slowly{make(chan struct{}), make(chan struct{})} }

func (s *slowly) wait() {
	s.at <- struct{}{}
	<-s.step
}

// run writes, waits, and continues as if no operation could fail.
func (s *slowly) run(tx *proc.Tx, in keyIn) (string, error) {
	if err := set(tx, in.Key, "before"); err != nil {
		return "", err
	}
	s.wait()
	_ = set(tx, in.Key, "after")
	_, _, err := tx.KV(0).Get([]byte(in.Key))
	if err == nil {
		return "went on", nil
	}
	raw := tx.Engine()
	if scanned(raw) == nil || raw.Put([]byte("x"), nil) == nil || raw.Delete([]byte("x")) == nil || countErr(raw) == nil {
		return "", errors.New("some operations go on")
	}
	if in.Key == "hide" {
		return "hidden", nil
	}
	return "", err
}

// TestMaxRun checks that a procedure that takes too long is reported at doubling intervals,
// and that all its operations are then rejected.
func TestMaxRun(t *testing.T) {
	for _, key := range []string{"tell", "hide"} {
		var l logs
		slow := newSlowly()
		s := newSet(t, proc.Options{Logger: l.logger(), SlowAfter: time.Second, MaxRun: 10 * time.Second}, proc.Define("slowly", slow.run), proc.DefineRead("get", get))
		now := time.Now()
		failed := make(chan error)
		run := func() {
			go func() { _, err := call(t, s, "slowly", key); failed <- err }()
			<-slow.at
		}
		after := func(d time.Duration, reports int, metric float64) {
			t.Helper()
			s.Look(now.Add(d))
			if n := strings.Count(l.String(), "is slow"); n != reports || metrics(s)["proc_running"] != 1 || metrics(s)["proc_slow_total"] != metric {
				t.Errorf("after %v: %d reports, %v", d, n, metrics(s))
			}
		}
		run()
		after(0, 0, 0) // the first look
		after(900*time.Millisecond, 0, 0)
		after(time.Second, 1, 1)
		after(1900*time.Millisecond, 1, 1)
		after(2*time.Second, 2, 2)
		after(9*time.Second, 3, 3) // there was no look at 4 and at 8 s
		after(9900*time.Millisecond, 3, 3)
		after(10*time.Second, 3, 3)
		if text := l.String(); !strings.Contains(text, "procedure=slowly") || !strings.Contains(text, "has run for too long") || !strings.Contains(text, "watch_test.go") {
			t.Errorf("log: %s", text)
		}
		slow.step <- struct{}{}
		fails(t, <-failed, engine.CodeLimit, "the procedure slowly has run for longer than the limit of 10s; nothing was written")
		want(t, "null")(call(t, s, "get", key))

		run() // the next one has its full time
		s.Look(now.Add(time.Minute))
		s.Look(now.Add(time.Minute + 9*time.Second))
		slow.step <- struct{}{}
		if err := <-failed; err != nil {
			t.Errorf("the next call: %v", err)
		}
		if m := metrics(s); m["proc_stopped_total"] != 1 || m["proc_running"] != 0 {
			t.Errorf("metrics: %v", m)
		}
	}
}

// TestMaxRunNested checks that the error of an inner call that was stopped cannot be
// ignored.
func TestMaxRunNested(t *testing.T) {
	slow := newSlowly()
	inside := proc.Define("inside", slow.run)
	s := newSet(t, proc.Options{MaxRun: time.Second}, proc.DefineRead("get", get), proc.Define("outer", func(tx *proc.Tx, _ struct{}) (int, error) {
		_, _ = inside.Run(tx, keyIn{"a"})
		return 1, nil
	}))
	failed := make(chan error)
	go func() { _, err := call(t, s, "outer"); failed <- err }()
	<-slow.at
	s.Look(time.Unix(0, 0))
	s.Look(time.Unix(1, 0))
	slow.step <- struct{}{}
	fails(t, <-failed, engine.CodeLimit, "the procedure outer has run for longer")
	want(t, "null")(call(t, s, "get", "a"))
}

// TestWatchdogRuns checks that Run looks by itself, and that a loop that uses its
// transaction ends.
func TestWatchdogRuns(t *testing.T) {
	var l logs
	s := newSet(t, proc.Options{Logger: l.logger(), SlowAfter: time.Millisecond, MaxRun: 20 * time.Millisecond},
		proc.DefineRead("endless", func(tx *proc.Tx, _ struct{}) (int, error) {
			for n := 0; ; n++ {
				if _, _, err := tx.KV(0).Get([]byte("a")); err != nil {
					return n, err
				}
			}
		}))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	_, err := call(t, s, "endless")
	fails(t, err, engine.CodeLimit, "the procedure endless has run for longer than the limit of 20ms")
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Run ended with %v", err)
	}
}

// TestUnusedTransactionsAreForgotten checks that the watchdog does not keep alive what the
// pool has released.
func TestUnusedTransactionsAreForgotten(t *testing.T) {
	s := putGet(t, proc.Options{})
	for range 200 {
		want(t, "null")(call(t, s, "get", "a"))
		runtime.GC()
		if proc.Live(s) > 200 {
			t.Fatalf("%d transactions are remembered", proc.Live(s))
		}
	}
	runtime.GC()
	runtime.GC()
	s.Look(time.Now())
	if n := proc.Live(s); n > 2 {
		t.Errorf("%d transactions are remembered after a look", n)
	}
}

func countErr(tx engine.Tx) error {
	_, err := tx.(engine.Ranker).Count(nil, nil)
	return err
}
