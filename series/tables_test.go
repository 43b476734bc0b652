package series

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/logbuf"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine"
)

// memory is an engine with tables in memory, which fail when they are told to.
type memory struct {
	engine.Engine

	mu      sync.Mutex // guards the fields below
	series  []engine.SampleSeries
	samples map[[16]byte]map[int64]float64
	fail    error // of the next call
}

func newMemory(t *testing.T) *memory {
	return &memory{Engine: testengine.Open(t, testengine.Options{}), samples: map[[16]byte]map[int64]float64{}}
}

func (m *memory) Samples(context.Context, string, time.Duration) (engine.SampleTables, error) {
	return m, m.failure()
}

// failure returns the error of a call.
func (m *memory) failure() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	err := m.fail
	m.fail = nil
	return err
}

func (m *memory) Define(_ context.Context, list []engine.SampleSeries) error {
	if err := m.failure(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.series = append(m.series, list...)
	return nil
}

func (m *memory) Defined(context.Context, time.Time) iter.Seq2[engine.SampleSeries, error] {
	return func(yield func(engine.SampleSeries, error) bool) {
		if err := m.failure(); err != nil {
			yield(engine.SampleSeries{}, err)
			return
		}
		m.mu.Lock()
		all := slices.Clone(m.series)
		m.mu.Unlock()
		for _, d := range all {
			if !yield(d, nil) {
				return
			}
		}
	}
}

func (m *memory) Append(_ context.Context, list []engine.SampleRun) error {
	if err := m.failure(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, run := range list {
		if m.samples[run.ID] == nil {
			m.samples[run.ID] = map[int64]float64{}
		}
		for i, at := range run.Times {
			m.samples[run.ID][at] = run.Values[i]
		}
	}
	return nil
}

func (m *memory) Read(_ context.Context, id [16]byte, from, to int64, limit int, _ engine.Read) (run engine.SampleRun, err error) {
	if err := m.failure(); err != nil {
		return run, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, at := range slices.Sorted(maps.Keys(m.samples[id])) {
		if at >= from && at <= to && len(run.Times) <= limit {
			run.Times, run.Values = append(run.Times, at), append(run.Values, m.samples[id][at])
		}
	}
	return run, nil
}

func (m *memory) Last(ctx context.Context, id [16]byte, from, to int64, r engine.Read) (engine.SampleRun, error) {
	run, err := m.Read(ctx, id, from, to, math.MaxInt, r)
	n := max(0, len(run.Times)-1)
	return engine.SampleRun{ID: id, Times: run.Times[n:], Values: run.Values[n:]}, err
}

// TestTables: two processes on the same tables find each other's series and samples, under ids of their own, and each sees its
// own in a watch.
func TestTables(t *testing.T) {
	eng := newMemory(t)
	c := Collection{Name: "c"}
	s, other := open(t, eng, Options{}, c)[0], open(t, eng, Options{}, c)[0]
	define := func(s *Store, names ...string) (ids []ID) {
		t.Helper()
		for _, name := range names {
			more, err := s.Define(t.Context(), []Labels{labels(t, name, "k", "v")})
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, more...)
		}
		return ids
	}
	define(other, "theirs")
	match, err := ParseSelector("theirs")
	if err != nil {
		t.Fatal(err)
	}
	if n, _, err := s.Delete(t.Context(), match); n != 0 || !errors.Is(err, engine.ErrUnsupported) {
		t.Errorf("a deletion of rows: %d, %v", n, err)
	}
	mine, theirs := define(s, "a", "b"), define(other, "b", "a")
	w, err := s.Watch(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for i, node := range []*Store{s, other} {
		var b Batch
		for j, id := range [][]ID{mine, theirs}[i] {
			b.Add(id, now.UnixNano()+int64(i), float64(10*i+j))
		}
		if _, err := node.Append(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
	}
	for batch, err := range w.All(t.Context()) {
		if err != nil || len(batch) != 2 || batch[0].Labels.Get(NameLabel) != "a" {
			t.Errorf("the watch has %v, %v", batch, err)
		}
		break
	}
	for _, node := range []*Store{s, other, open(t, eng, Options{}, c)[0]} {
		list, err := node.Select(t.Context(), Query{})
		if err != nil || len(list) != 2 {
			t.Fatalf("%d series have samples: %v", len(list), err)
		}
		for _, x := range list {
			want := map[string][]float64{"a": {0, 11}, "b": {1, 10}}[x.Labels.Get(NameLabel)]
			if !slices.Equal(x.Values, want) {
				t.Errorf("%s has %v, want %v", x.Labels, x.Values, want)
			}
		}
		if names, err := node.LabelValues(t.Context(), NameLabel, nil, engine.Read{}); err != nil || !slices.Equal(names, []string{"a", "b", "theirs"}) {
			t.Errorf("the names are %q, %v", names, err)
		}
	}
	if _, err := s.Select(t.Context(), Query{Read: engine.Read{AtLeast: 1}}); !errors.Is(err, engine.ErrUnsupported) {
		t.Errorf("a read at a position: %v", err)
	}
}

// TestTablesFail: each failure of the tables is that of the call, and what failed can be done again. Rows that make no sense are
// ignored and logged.
func TestTablesFail(t *testing.T) {
	eng := newMemory(t)
	wrong := errors.New("the tables fail")
	fail := func() {
		eng.mu.Lock()
		defer eng.mu.Unlock()
		eng.fail = wrong
	}
	eng.series = []engine.SampleSeries{{ID: [16]byte{1}, Labels: map[string]string{"a": "b"}}, {ID: [16]byte{2}}}
	var log logbuf.Buffer
	fail() // the start, which is tried again
	s := open(t, eng, Options{pause: time.Millisecond, Logger: slog.New(slog.NewTextHandler(&log, nil))}, Collection{Name: "c"})[0]
	eventually.True(t, "the series are loaded", func() bool { return s.db.wait(t.Context(), 0) == nil })
	one := []Labels{labels(t, "m")}
	fail()
	if _, err := s.Define(t.Context(), one); !errors.Is(err, wrong) {
		t.Errorf("define: %v", err)
	}
	if s.Stats().Series != 0 {
		t.Errorf("%d series are known", s.Stats().Series)
	}
	ids, err := s.Define(t.Context(), one)
	if err != nil {
		t.Fatal(err)
	}
	var b Batch
	b.Add(ids[0], now.UnixNano(), 1)
	fail()
	if _, err := s.Append(t.Context(), &b); !errors.Is(err, wrong) {
		t.Errorf("append: %v", err)
	}
	if _, err := s.Append(t.Context(), &b); err != nil {
		t.Errorf("append: %v", err)
	}
	fail()
	if _, err := s.Select(t.Context(), Query{Read: engine.Read{Level: engine.Session}}); !errors.Is(err, wrong) {
		t.Errorf("select: %v", err)
	}
	if n := count(t, s, Query{}); n != 1 {
		t.Errorf("%d samples, want 1", n)
	}
	if text := log.String(); !strings.Contains(text, "ignored") || !strings.Contains(text, wrong.Error()) {
		t.Errorf("the log is %s", text)
	}
	db, err := New(eng, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Use(Collection{Name: "c"}); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Use(Collection{Name: "hours", Rollup: &Rollup{Of: "c", Step: time.Hour, Aggregates: []Aggregate{Avg}}}); !errors.Is(err, engine.ErrUnsupported) {
		t.Errorf("a summary: %v", err)
	}
}
