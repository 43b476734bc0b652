package series

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine"
)

// now is the clock of the tests: noon of today, since Cassandra counts by its own clock how
// long it keeps samples.
var now = time.Now().UTC().Truncate(24 * time.Hour).Add(12 * time.Hour)

// open returns a running DB with some collections on an engine.
func open(t testing.TB, eng engine.Engine, o Options, cs ...Collection) []*Store {
	t.Helper()
	stores, _ := openUntil(t, eng, o, cs...)
	return stores
}

// openUntil is open with a function that stops it.
func openUntil(t testing.TB, eng engine.Engine, o Options, cs ...Collection) (stores []*Store, stop func()) {
	t.Helper()
	return openRun(t, eng, o, (*DB).Run, cs...)
}

// openIdle is open without maintenance.
func openIdle(t testing.TB, eng engine.Engine, o Options, cs ...Collection) []*Store {
	t.Helper()
	stores, _ := openRun(t, eng, o, func(db *DB, ctx context.Context) error {
		var work sync.WaitGroup
		defer work.Wait()
		work.Go(func() { _ = db.feed.Run(ctx) })
		return db.follow(ctx)
	}, cs...)
	return stores
}

func openRun(t testing.TB, eng engine.Engine, o Options, run func(*DB, context.Context) error, cs ...Collection) (stores []*Store, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	if o.Now == nil {
		o.Now = func() time.Time { return now }
	}
	db, err := New(eng, o)
	if err != nil {
		t.Fatal(err)
	}
	stores = make([]*Store, len(cs))
	for i, c := range cs {
		if stores[i], err = db.Use(c); err != nil {
			t.Fatal(err)
		}
	}
	work.Go(func() { _ = run(db, ctx) })
	stop = func() { cancel(); work.Wait() }
	t.Cleanup(stop)
	return stores, stop
}

// TestStart: a read of any level waits until a new process has loaded the series; otherwise it would find nothing.
func TestStart(t *testing.T) {
	eng := testengine.Open(t, testengine.Options{})
	c := Collection{Name: "c"}
	s := open(t, eng, Options{}, c)[0]
	ids, err := s.Define(t.Context(), []Labels{labels(t, "m")})
	if err != nil {
		t.Fatal(err)
	}
	var b Batch
	b.Add(ids[0], now.UnixNano(), 1)
	if _, err := s.Append(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	load := make(chan struct{})
	stores, _ := openRun(t, eng, Options{}, func(db *DB, ctx context.Context) error {
		<-load
		return db.Run(ctx)
	}, c)
	soon, cancel := context.WithTimeout(t.Context(), time.Second) // enough for a database elsewhere to say its position
	defer cancel()
	var reads sync.WaitGroup
	for _, level := range []engine.Level{engine.Linearizable, engine.Session, engine.Local} {
		reads.Go(func() {
			if list, err := stores[0].Select(soon, Query{Read: engine.Read{Level: level}}); !errors.Is(err, engine.ErrPositionTimeout) {
				t.Errorf("level %v before the series are loaded: %v, %v", level, list, err)
			}
		})
	}
	reads.Wait()
	close(load)
	if n := count(t, stores[0], Query{Read: engine.Read{Level: engine.Local}}); n != 1 {
		t.Errorf("%d samples, want 1", n)
	}
}

func labels(t testing.TB, name string, pairs ...string) Labels {
	t.Helper()
	var l []Label
	for i := 0; i < len(pairs); i += 2 {
		l = append(l, Label{pairs[i], pairs[i+1]})
	}
	out, err := NewLabels(name, l...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// model is what a collection must have.
type model map[string]map[int64]uint64 // labels → time → bits of the value

func (m model) check(t *testing.T, s *Store, q Query, pick func(Labels) bool) {
	t.Helper()
	got, err := s.Select(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	within := func(at int64) bool {
		return (q.From.IsZero() || at >= q.From.UnixNano()) && (q.To.IsZero() || at <= q.To.UnixNano())
	}
	want := 0
	for _, samples := range m {
		for at := range samples {
			if within(at) {
				want++
				break
			}
		}
	}
	have := map[string]bool{}
	for _, x := range got {
		name := x.Labels.String()
		have[name] = true
		samples := m[name]
		times := slices.Sorted(maps.Keys(samples))
		times = slices.DeleteFunc(times, func(at int64) bool { return !within(at) })
		if !slices.Equal(x.Times, times) {
			t.Fatalf("%s has %d times, want %d", name, len(x.Times), len(times))
		}
		for i, at := range x.Times {
			if math.Float64bits(x.Values[i]) != samples[at] {
				t.Fatalf("%s at %s is %v, want %v", name, stamp(at), x.Values[i], math.Float64frombits(samples[at]))
			}
		}
	}
	if pick == nil && len(have) != want {
		t.Fatalf("%d series, want %d", len(have), want)
	}
}

// TestModel: random batches, sealed in small generations and merged, read back as a map would have them, also by a
// second process that starts in between.
func TestModel(t *testing.T) {
	rng := seed.Rand(t)
	eng := testengine.Open(t, testengine.Options{})
	o := Options{generation: 500, fanIn: 3}
	s := open(t, eng, o, Collection{Name: "c"})[0]
	m := model{}
	var all []Labels
	for i := range 30 {
		all = append(all, labels(t, fmt.Sprintf("m%d", i%5), "host", fmt.Sprint(i)))
	}
	var ids []ID
	for round := range 60 {
		if round%20 == 0 {
			var err error
			if ids, err = s.Define(t.Context(), all[:10+round/2]); err != nil {
				t.Fatal(err)
			}
		}
		var b Batch
		for range rng.IntN(200) {
			i := rng.IntN(len(ids))
			at := now.Add(-time.Duration(rng.IntN(1000)) * 10 * time.Minute).UnixNano()
			v := value(rng)
			b.Add(ids[i], at, v)
			name := all[i].String()
			if m[name] == nil {
				m[name] = map[int64]uint64{}
			}
			m[name][at] = math.Float64bits(v)
		}
		if _, err := s.Append(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
		if round%7 == 0 {
			from := now.Add(-time.Duration(rng.IntN(7*24)) * time.Hour)
			m.check(t, s, Query{}, nil)
			m.check(t, s, Query{From: from, To: from.Add(time.Duration(rng.IntN(48)) * time.Hour)}, nil)
		}
		if round%25 == 24 {
			m.check(t, open(t, eng, o, Collection{Name: "c"})[0], Query{}, nil)
		}
	}
	eventually.True(t, "full generations are sealed, and parts merged", func() bool {
		st := s.Stats()
		return st.Unsealed < 1000 && st.Parts < 60
	})
	m.check(t, s, Query{}, nil)
	noOrphans(t, s)
}

// noOrphans: in the end each block belongs to a part, and sealed batches are gone.
func noOrphans(t *testing.T, s *Store) {
	t.Helper()
	var last string
	defer func() {
		if t.Failed() {
			t.Log(last)
		}
	}()
	eventually.True(t, "only what is named is left", func() bool {
		last = leftovers(t, s)
		return last == ""
	})
}

// leftovers names something that nothing needs any longer, "" if there is nothing.
func leftovers(t *testing.T, s *Store) (what string) {
	t.Helper()
	if s.db.own != nil {
		return ""
	}
	no, _ := s.state()
	_, err := s.db.eng.View(t.Context(), engine.Read{}, func(tx engine.Tx) error {
		what = ""
		named := map[uint64]bool{}
		for p, err := range tx.Scan(keyOf(keyPart, no), keyOf(keyPart, no+1)) {
			if err != nil {
				return err
			}
			named[numbersOf(p.Key)[1]] = true
		}
		for p, err := range tx.Scan(keyOf(keyBlock, no), keyOf(keyBlock, no+1)) {
			if err != nil {
				return err
			}
			if n := numbersOf(p.Key)[0]; !named[n] {
				what = fmt.Sprintf("a block of part %d, which is none", n)
			}
		}
		m, err := readMeta(tx, no)
		if err != nil {
			return err
		}
		for p, err := range tx.Scan(keyOf(keyBatch, no), keyOf(keyBatch, no+1)) {
			if err != nil {
				return err
			}
			if n := numbersOf(p.Key)[0]; n <= m.sealed {
				what = fmt.Sprintf("a batch of generation %d, but %d is sealed", n, m.sealed)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return what
}

func value(rng *rand.Rand) float64 {
	switch rng.IntN(8) {
	case 0:
		return []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1), 0, math.MaxFloat64, math.SmallestNonzeroFloat64, 1 << 60}[rng.IntN(8)]
	case 1:
		return rng.NormFloat64()
	case 2:
		return float64(rng.IntN(10000)) / 100
	}
	return float64(rng.IntN(100))
}
