package series

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
)

// openEmbedded opens an engine that has series in keys, whichever engine the tests run on.
func openEmbedded(t *testing.T) engine.Engine {
	t.Helper()
	eng, err := embedded.Open(filepath.Join(t.TempDir(), "data"), embedded.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { eng.Close() })
	return eng
}

// readAll returns the Read of a Loader on an engine.
func readAll(eng engine.Engine) func(ctx context.Context, lo, hi []byte) iter.Seq2[engine.Pair, error] {
	return func(ctx context.Context, lo, hi []byte) iter.Seq2[engine.Pair, error] {
		return func(yield func(engine.Pair, error) bool) {
			var all []engine.Pair
			_, err := eng.View(ctx, engine.Read{}, func(tx engine.Tx) error {
				all = nil
				for p, err := range tx.Scan(lo, hi) {
					if err != nil {
						return err
					}
					all = append(all, engine.Pair{Key: append([]byte{}, p.Key...), Val: append([]byte{}, p.Val...)})
				}
				return nil
			})
			for _, p := range all {
				if !yield(p, nil) {
					return
				}
			}
			if err != nil {
				yield(engine.Pair{}, err)
			}
		}
	}
}

// fillLoaded appends random samples, of which most are sealed, in parts of several generations and levels, and some are not.
func fillLoaded(t *testing.T, eng engine.Engine) (want map[[16]byte]map[int64]uint64) {
	t.Helper()
	rng := seed.Rand(t)
	s, stop := openUntil(t, eng, Options{generation: 500, fanIn: 4}, Collection{Name: "c"})
	defer stop()
	var all []Labels
	for i := range 30 {
		all = append(all, labels(t, fmt.Sprintf("m%d", i%5), "host", fmt.Sprint(i)))
	}
	ids, err := s[0].Define(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	want = map[[16]byte]map[int64]uint64{}
	for range 60 {
		var b Batch
		for range rng.IntN(200) {
			i := rng.IntN(len(ids) - 3)
			at := now.Add(-time.Duration(rng.IntN(1000)) * 10 * time.Minute).UnixNano()
			v := value(rng)
			b.Add(ids[i], at, v)
			of := hashOf(all[i].encode())
			if want[of] == nil {
				want[of] = map[int64]uint64{}
			}
			want[of][at] = math.Float64bits(v)
		}
		if _, err := s[0].Append(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
	}
	eventually.True(t, "samples are sealed", func() bool { return s[0].Stats().Parts > 5 })

	match, err := ParseSelector(`m0{host="0"}`) // it is deleted, and written again
	if err != nil {
		t.Fatal(err)
	}
	if n, _, err := s[0].Delete(t.Context(), match); n != 1 || err != nil {
		t.Fatalf("%d series are deleted: %v", n, err)
	}
	again, err := s[0].Define(t.Context(), all[:1])
	if err != nil {
		t.Fatal(err)
	}
	var b Batch
	b.Add(again[0], now.UnixNano(), 1)
	if _, err := s[0].Append(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	want[hashOf(all[0].encode())] = map[int64]uint64{now.UnixNano(): math.Float64bits(1)}
	return want
}

// TestLoader copies a collection, is interrupted after each day, and compares.
func TestLoader(t *testing.T) {
	src := openEmbedded(t)
	want := fillLoaded(t, src)
	to := newMemory(t)
	l := &Loader{Read: readAll(src), To: to, Now: func() time.Time { return now }}
	if err := l.Check(t.Context()); engine.CodeOf(err) != engine.CodeInvalid {
		t.Errorf("a collection whose retention is not known: %v", err)
	}
	l.Collections = []Collection{{Name: "c"}}
	if err := l.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.Compare(t.Context(), func(int) {}); engine.CodeOf(err) != engine.CodeCorrupt {
		t.Errorf("compare with empty tables: %v", err)
	}
	errStop := errors.New("stop")
	var cursor []byte
	items, err := 0, errStop
	for calls := 0; errors.Is(err, errStop); calls++ {
		err = l.Load(t.Context(), cursor, func(at []byte, n int) error {
			cursor = append([]byte{}, at...)
			items += n
			return errStop
		})
		if calls > 1000 {
			t.Fatal("it does not end")
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	got := map[[16]byte]map[int64]uint64{}
	for id, samples := range to.samples {
		got[id] = map[int64]uint64{}
		for at, v := range samples {
			got[id][at] = math.Float64bits(v)
		}
	}
	n := 0
	for id, samples := range want {
		if n += len(samples); !maps.Equal(got[id], samples) {
			t.Errorf("series %x has %d samples, want %d, or other values", id, len(got[id]), len(samples))
		}
	}
	compared := 0
	if err := l.Compare(t.Context(), func(n int) { compared += n }); err != nil || compared != n+30 {
		t.Errorf("compared %d series and samples, want %d: %v", compared, n+30, err)
	}
	if len(got) != len(want) {
		t.Errorf("%d series have samples, want %d", len(got), len(want))
	}
	checkDamage(t, l, to)
}

// checkDamage: Compare notices one sample that is missing, another value, and other labels.
func checkDamage(t *testing.T, l *Loader, to *memory) {
	t.Helper()
	damaged := func(what string) {
		t.Helper()
		if err := l.Compare(t.Context(), func(int) {}); engine.CodeOf(err) != engine.CodeCorrupt {
			t.Errorf("%s: %v", what, err)
		}
	}
	for id, samples := range to.samples {
		for at, v := range samples {
			delete(samples, at)
			damaged("a sample is missing")
			samples[at] = math.Float64frombits(math.Float64bits(v) ^ 1) // v+1 may be v
			damaged("a sample has another value")
			samples[at] = v
			break
		}
		_ = id
		break
	}
	to.series[0].Labels = map[string]string{"a": "b"}
	damaged("a series has other labels")
}

// TestLoaderRetention: samples that have expired are not copied.
func TestLoaderRetention(t *testing.T) {
	src := openEmbedded(t)
	fillLoaded(t, src)
	to := newMemory(t)
	const kept = 40 * time.Hour
	l := &Loader{Read: readAll(src), To: to, Collections: []Collection{{Name: "c", Retention: kept}}, Now: func() time.Time { return now }}
	if err := l.Load(t.Context(), nil, func([]byte, int) error { return nil }); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, samples := range to.samples {
		for at := range samples {
			if n++; at < now.Add(-kept).UnixNano() {
				t.Errorf("a sample of %v is copied", time.Unix(0, at))
			}
		}
	}
	if n == 0 {
		t.Error("nothing is copied")
	}
	if err := l.Compare(t.Context(), func(int) {}); err != nil {
		t.Error(err)
	}
}
