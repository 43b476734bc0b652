package proc_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/proc"
)

// stat returns the Stat of one procedure.
func stat(t testing.TB, s *proc.Set, name string) proc.Stat {
	t.Helper()
	for st := range s.Stats() {
		if st.Name == name {
			return st
		}
	}
	t.Fatalf("there is no Stat of %s", name)
	return proc.Stat{}
}

// counted fails unless the counters of a procedure are as given: calls, errors, panics, replays.
func counted(t testing.TB, s *proc.Set, name string, want ...uint64) {
	t.Helper()
	st := stat(t, s, name)
	if got := []uint64{st.Calls, st.Errors, st.Panics, st.Replays}; !slices.Equal(got, want) {
		t.Errorf("%s: calls, errors, panics and replays are %d, want %d", name, got, want)
	}
}

// TestStats checks what counts as what, and that the totals are the sums.
func TestStats(t *testing.T) {
	inner := proc.Define("inner", count)
	s := newSet(t, proc.Options{}, inner, proc.Define("count", count), proc.Define("unused", count), proc.DefineRead("get", get),
		proc.Define("outer", func(tx *proc.Tx, in countIn) (int, error) {
			_, err := inner.Run(tx, in)
			if in.Size > 0 {
				err = nil
			}
			return 0, err
		}),
		proc.Define("goexit", func(*proc.Tx, struct{}) (int, error) { goexit(); return 0, nil }))
	want(t, `{"n":1}`)(call(t, s, "count", "a", "1"))
	for _, fail := range []string{"plain", "panic", "not_found"} {
		if _, err := call(t, s, "count", "a", "1", fail); err == nil {
			t.Errorf("%s: no error", fail)
		}
	}
	counted(t, s, "count", 4, 3, 1, 0)

	want(t, `"1"`)(call(t, s, "get", "a"))
	counted(t, s, "get", 1, 0, 0, 0)

	want(t, "0")(call(t, s, "outer", "a", "1"))
	want(t, "0")(call(t, s, "outer", "a", "1", "plain", "1")) // the failure within is forgiven
	_, err := call(t, s, "outer", "a", "1", "panic")
	fails(t, err, engine.CodeInternal, "outer")
	counted(t, s, "outer", 3, 1, 1, 0)
	counted(t, s, "inner", 0, 0, 0, 0)

	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = call(t, s, "goexit") // it ends this goroutine, or returns an error
	}()
	<-done
	counted(t, s, "goexit", 1, 1, 1, 0)

	c, err := s.Begin([]byte("unused"))
	if err != nil {
		t.Fatal(err)
	}
	if c.JSON([]byte(`{"wrong":1}`)) == nil {
		t.Error("a wrong argument is accepted")
	}
	c.End()
	counted(t, s, "unused", 0, 0, 0, 0)

	sum := map[string]float64{}
	for st := range s.Stats() {
		sum["proc_calls_total"] += float64(st.Calls)
		sum["proc_errors_total"] += float64(st.Errors)
		sum["proc_panics_total"] += float64(st.Panics)
		if st.Took.Count != st.Calls {
			t.Errorf("%s: %d calls, %d run times", st.Name, st.Calls, st.Took.Count)
		}
	}
	m := metrics(s)
	for name, n := range sum {
		if m[name] != n {
			t.Errorf("%s is %v, and its parts are %v together", name, m[name], n)
		}
	}
	for f := range s.Metrics() {
		if len(f.Labels) > 0 && (f.Labels[0].Name != "procedure" || f.Labels[0].Value == "unused" || f.Labels[0].Value == "inner") {
			t.Errorf("%s has the labels %v", f.Name, f.Labels)
		}
	}
}

// TestStatsOnce checks that a remembered error counts once, and remembered answers as replays that did not run.
func TestStatsOnce(t *testing.T) {
	s := counting(t, openEngine(t))
	for range 3 {
		want2 := func(text string, err error) {
			if !strings.HasSuffix(text, `{"n":1} {2 "n" 1 "text" ""`) || err != nil {
				t.Errorf("%s, %v", text, err)
			}
		}
		want2(once(t, s, "good", "count", "a", "1"))
		if _, err := once(t, s, "bad", "count", "a", "1", "own_code"); engine.CodeOf(err) != "own_code" {
			t.Errorf("%v", err)
		}
	}
	counted(t, s, "count", 6, 1, 0, 4)
	if _, err := once(t, s, "good", "count", "a", "2"); engine.CodeOf(err) != engine.CodeKeyReused {
		t.Errorf("%v", err)
	}
	if _, err := once(t, s, "panics", "count", "a", "2", "panic"); engine.CodeOf(err) != engine.CodeInternal {
		t.Errorf("%v", err)
	}
	counted(t, s, "count", 8, 3, 1, 4)
	if n := stat(t, s, "count").Took.Count; n != 4 {
		t.Errorf("%d run times, want 4", n)
	}
}

// TestStatsLate checks that a call counts whose client did not wait for the answer.
func TestStatsLate(t *testing.T) {
	at, on := make(chan struct{}), make(chan struct{})
	s := newSet(t, proc.Options{}, proc.Define("slow", func(*proc.Tx, struct{}) (int, error) { close(at); <-on; return 1, nil }))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		c := begin(t, s, "slow")
		defer c.End()
		_, err := c.Do(ctx, engine.Read{}, func(*proc.Call) error { return nil })
		done <- err
	}()
	<-at
	counted(t, s, "slow", 0, 0, 0, 0) // it runs
	if m := metrics(s); m["proc_running"] != 1 {
		t.Errorf("metrics: %v", m)
	}
	cancel()
	close(on)
	if err := <-done; err != nil && !errors.Is(err, context.Canceled) && engine.CodeOf(err) != engine.CodeOutcomeUnknown {
		t.Error(err)
	}
	counted(t, s, "slow", 1, 0, 0, 0)
}

// repeats is an engine that runs each transaction several times, as optimistic engines do after conflicts.
type repeats struct {
	engine.Engine
	n int
}

func (e repeats) Update(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
	conflict := errors.New("conflict")
	for range e.n {
		if _, err := e.Engine.Update(ctx, func(tx engine.Tx) error {
			_ = fn(tx) // what it did is undone
			return conflict
		}); !errors.Is(err, conflict) {
			return 0, err
		}
	}
	return e.Engine.Update(ctx, fn)
}

// TestStatsRepeated checks that each run counts if the engine repeats a transaction, while its effects are those of one.
func TestStatsRepeated(t *testing.T) {
	s := setOn(t, repeats{openEngine(t), 2}, proc.Options{}, proc.Define("count", count))
	want(t, `{"n":1}`)(call(t, s, "count", "a", "1"))
	counted(t, s, "count", 3, 0, 0, 0)
	if _, err := call(t, s, "count", "a", "1", "plain"); err == nil {
		t.Error("no error")
	}
	counted(t, s, "count", 6, 3, 0, 0)
}

// TestStatsTimes checks the run times, on a clock of the test.
func TestStatsTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t, proc.Options{MaxRun: time.Minute}, proc.DefineRead("sleep", func(_ *proc.Tx, in struct{ For int64 }) (int, error) {
			time.Sleep(time.Duration(in.For))
			return 0, nil
		}))
		var sum time.Duration
		for _, d := range []time.Duration{0, 3 * time.Millisecond, 5 * time.Millisecond, 40 * time.Millisecond, 5 * time.Second, 6 * time.Second} {
			want(t, "0")(call(t, s, "sleep", fmt.Sprint(int64(d))))
			sum += d
			time.Sleep(time.Second)
		}
		h := stat(t, s, "sleep").Took
		got := map[float64]uint64{}
		for i, n := range h.Counts {
			if n > 0 {
				got[h.Bounds[i]] = n
			}
		}
		if want := map[float64]uint64{1e-6: 1, 5e-3: 2, 50e-3: 1, 5: 1}; !maps.Equal(got, want) || h.Count != 6 || h.Sum != sum.Seconds() {
			t.Errorf("%d run times of %v seconds: %v, want 6 of %v: %v", h.Count, h.Sum, got, sum.Seconds(), want)
		}
		if !slices.IsSorted(h.Bounds) {
			t.Errorf("bounds: %v", h.Bounds)
		}
	})
}

// TestStatsSampled checks that runs in quick succession are not all timed, and that all are again when they become few.
func TestStatsSampled(t *testing.T) {
	const runs = 1000
	shards := uint64(min(2*runtime.GOMAXPROCS(0), 32))
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t, proc.Options{}, proc.DefineRead("nothing", func(*proc.Tx, struct{}) (int, error) { return 0, nil }))
		for range runs {
			want(t, "0")(call(t, s, "nothing"))
		}
		busy := stat(t, s, "nothing")
		if busy.Calls != runs || busy.Took.Count < runs/16 || busy.Took.Count > runs/16+16*shards {
			t.Errorf("busy: %d of %d runs are timed", busy.Took.Count, busy.Calls)
		}
		for range runs {
			time.Sleep(200 * time.Microsecond)
			want(t, "0")(call(t, s, "nothing"))
		}
		calm := stat(t, s, "nothing")
		if n := calm.Took.Count - busy.Took.Count; calm.Calls != 2*runs || n > runs || n < runs-16*shards {
			t.Errorf("calm: %d of %d runs are timed", n, calm.Calls-busy.Calls)
		}
	})
}

// TestStatsConcurrent checks that no run is lost or counted twice, while others read the numbers.
func TestStatsConcurrent(t *testing.T) {
	const callers, each = 8, 150
	s := counting(t, openEngine(t))
	ctx, cancel := context.WithCancel(t.Context())
	var watching, calling sync.WaitGroup
	watching.Go(func() {
		for ctx.Err() == nil {
			for st := range s.Stats() {
				if st.Errors > st.Calls || st.Panics > st.Errors+callers || st.Took.Count+st.Replays > st.Calls {
					t.Errorf("%+v", st)
				}
			}
			metrics(s)
		}
	})
	for g := range callers {
		calling.Go(func() {
			for i := range each {
				fail := []string{"", "plain", "panic"}[i%3]
				if _, err := call(t, s, "count", "sum", "1", fail); (err != nil) != (fail != "") {
					t.Error(err)
				}
				if _, err := call(t, s, "seen", "sum"); err != nil {
					t.Error(err)
				}
				if _, err := once(t, s, fmt.Sprint(g/2, " ", i), "count2", "sum", "1"); err != nil { // two callers per key
					t.Error(err)
				}
			}
		})
	}
	calling.Wait()
	cancel()
	watching.Wait()
	counted(t, s, "count", callers*each, callers*each/3*2, callers*each/3, 0)
	counted(t, s, "seen", callers*each, 0, 0, 0)
	counted(t, s, "count2", callers*each, 0, 0, callers*each/2)
}

// TestStatsMany checks that there is one Stat for each procedure, in order, and no metric of those that nobody has called.
func TestStatsMany(t *testing.T) {
	for _, n := range []int{0, 1, 1000} {
		var all []proc.Procedure
		for i := range n {
			all = append(all, proc.Define(fmt.Sprintf("p%04d", n-i), get))
		}
		s := newSet(t, proc.Options{}, all...)
		var names []string
		for st := range s.Stats() {
			names = append(names, st.Name)
			if len(st.Took.Counts) != len(st.Took.Bounds) || st.Calls != 0 {
				t.Fatalf("%+v", st)
			}
		}
		for range s.Stats() {
			break
		}
		if len(names) != n || !slices.IsSorted(names) {
			t.Errorf("%d procedures have %d Stats: %.100q", n, len(names), names)
		}
		if m := metrics(s); len(m) != 3 {
			t.Errorf("metrics of %d procedures before the first call: %v", n, m)
		}
	}
}

var metricRow = regexp.MustCompile("(?m)^\\| `skerry_(proc_\\w+)(\\{procedure\\})?` \\| (.+) \\|$")

// TestMetricsDocumented compares docs/procedures.md with the metrics.
func TestMetricsDocumented(t *testing.T) {
	s := putGet(t, proc.Options{})
	want(t, "null")(call(t, s, "get", "a"))
	text, err := os.ReadFile("../docs/procedures.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	for _, row := range metricRow.FindAllStringSubmatch(string(text), -1) {
		documented[row[1]+row[2]] = row[3]
	}
	have := map[string]string{}
	for m := range s.Metrics() {
		name := m.Name
		for _, l := range m.Labels {
			name += "{" + l.Name + "}"
		}
		have[name] = m.Help
	}
	for name, help := range have {
		if documented[name] != strings.TrimSuffix(help, ".") {
			t.Errorf("docs/procedures.md says about %s %q; its help is %q", name, documented[name], help)
		}
	}
	if len(documented) != len(have) {
		t.Errorf("docs/procedures.md has %d metrics; there are %d", len(documented), len(have))
	}
}
