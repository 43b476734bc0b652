package series

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine"
)

var rewrite = flag.Bool("rewrite", false, "write the keys in testdata anew: only for a format that is new, which must still read the old one")

// goldenFile has every key and value of two collections, as this version stores them. Each line has the kind of a key, the
// key and the value; a # begins a comment.
const goldenFile = "testdata/keys-1.txt"

// golden are the collections of goldenFile.
func golden() []Collection {
	return []Collection{{Name: "plant"}, {Name: "hours", Rollup: &Rollup{Of: "plant", Step: time.Hour, Aggregates: []Aggregate{Avg, Percentile(99)}}}}
}

// goldenNow is the clock of the golden file.
var goldenNow = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

// goldenOptions seal and merge small generations. A job begins only when a generation is full, so that the numbers of
// parts are always the same.
func goldenOptions() Options {
	return Options{
		generation: 20, age: math.MaxInt64, fanIn: 2, pause: time.Hour,
		Now: func() time.Time { return goldenNow }, Logger: slog.New(slog.DiscardHandler),
	}
}

// goldenBatches are what is written, one batch after the other: days before and after 1970 and now, times in any order
// and twice, and all kinds of values.
func goldenBatches(t *testing.T) (names []Labels, batches [][]killedSample) {
	names = []Labels{labels(t, "temp", "line", "a"), labels(t, "temp", "line", "ü\"\n", "site", "graz"), labels(t, "", "only", "label")}
	values := []float64{0, math.Copysign(0, -1), 1.5, -3, 1 << 60, math.Inf(1), math.Inf(-1), math.Float64frombits(0x7ff0000000000002), math.Pi, 40, 4000, 1e300}
	days := []time.Time{goldenNow.Add(-time.Hour), goldenNow.Add(-26 * time.Hour), time.Unix(0, 5), time.Unix(-1, 0)}
	for i := range 9 {
		var b []killedSample
		for j := range 10 {
			at := days[(i+j)%len(days)].UnixNano() + int64(j%3)*int64(time.Second)*int64(i%4-1)
			b = append(b, killedSample{names[(i*j)%len(names)], Sample{at, values[(3*i+j)%len(values)]}})
		}
		batches = append(batches, b)
	}
	return names, batches
}

// goldenModel is what must be read from goldenFile.
func goldenModel(t *testing.T) model {
	m := model{}
	_, batches := goldenBatches(t)
	for _, b := range batches {
		for _, s := range b {
			name := s.labels.String()
			if m[name] == nil {
				m[name] = map[int64]uint64{}
			}
			m[name][s.Time] = math.Float64bits(s.Value)
		}
	}
	return m
}

// idle waits until the worker has nothing to do for a collection.
func idle(t *testing.T, s *Store) {
	t.Helper()
	var left string
	defer func() {
		if t.Failed() {
			t.Logf("%+v %s", s.Stats(), left)
		}
	}()
	eventually.True(t, "all that is full is sealed and merged, and nothing is left over", func() bool {
		no, h := s.state()
		left = leftovers(t, s)
		return (no == 0 || (&worker{s: s}).next(h) == nil) && left == "" // in tables nothing is to be done
	})
}

// writeGolden writes goldenBatches, and then lets the second collection summarize them.
func writeGolden(t *testing.T, eng engine.Engine) {
	t.Helper()
	names, batches := goldenBatches(t)
	stores, stop := openUntil(t, eng, goldenOptions(), golden()[:1]...)
	ids, err := stores[0].Define(t.Context(), names)
	if err != nil {
		t.Fatal(err)
	}
	for _, samples := range batches {
		var b Batch
		for _, s := range samples {
			b.Add(ids[slices.IndexFunc(names, func(l Labels) bool { return l.String() == s.labels.String() })], s.Time, s.Value)
		}
		if _, err := stores[0].Append(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
		idle(t, stores[0])
	}
	checkLease(t, eng, stores[0])
	stop()
	o := goldenOptions()
	o.pause, o.generation = time.Millisecond, 1000 // so that the summaries are not sealed
	stores, stop = openUntil(t, eng, o, golden()...)
	eventually.True(t, "all is summarized", func() bool {
		return stores[1].rolledUntil() == windowOf(goldenNow.Add(-defaultRollupDelay).UnixNano(), int64(time.Hour))
	})
	stop()
}

// checkLease checks the only value that is different each time: the process that has worked, and until when it may.
func checkLease(t *testing.T, eng engine.Engine, s *Store) {
	t.Helper()
	no, _ := s.state()
	_, err := eng.View(t.Context(), engine.Read{}, func(tx engine.Tx) error {
		val, ok, err := tx.Get([]byte{'s', 'w', 0, 0, 0, byte(no)})
		if err == nil && (!ok || len(val) != 24) {
			err = fmt.Errorf("the lease is %x", val)
		}
		if err != nil {
			return err
		}
		until := time.Unix(0, int64(binary.BigEndian.Uint64(val[16:])))
		if left := until.Sub(tx.Now()); left < -eventually.Limit || left > leaseFor {
			err = fmt.Errorf("the lease ends in %s", left)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// goldenText returns the keys and values of series, but those of leases.
func goldenText(t *testing.T, eng engine.Engine) string {
	t.Helper()
	var b strings.Builder
	_, err := eng.View(t.Context(), engine.Read{}, func(tx engine.Tx) error {
		b.Reset()
		for p, err := range tx.Scan([]byte("s"), []byte("t")) {
			if err != nil {
				return err
			}
			if p.Key[1] != 'w' {
				fmt.Fprintf(&b, "%c %x %x\n", p.Key[1], p.Key, p.Val)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestGoldenKeys: what is stored has the keys and values of the first version.
func TestGoldenKeys(t *testing.T) {
	eng := testengine.Open(t, testengine.Options{})
	writeGolden(t, eng)
	got := goldenText(t, eng)
	if *rewrite {
		const head = "# The keys and values of two collections. See golden_test.go.\n"
		if err := os.WriteFile(goldenFile, []byte(head+got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(goldenFile)
	if err != nil {
		t.Fatal(err)
	}
	_, want, _ := strings.Cut(string(text), "\n")
	if got == want {
		return
	}
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(g), len(w)) {
		if i >= len(g) || i >= len(w) || g[i] != w[i] {
			t.Fatalf("the layout on disk has changed: of %d keys, want %d, number %d is\n%s\nwant\n%s",
				len(g)-1, len(w)-1, i, strings.Join(g[min(i, len(g)):min(i+1, len(g))], ""), strings.Join(w[min(i, len(w)):min(i+1, len(w))], ""))
		}
	}
}

// TestGoldenRead: the keys and values of the first version are read, also after they were sealed and merged again, and
// more can be written.
func TestGoldenRead(t *testing.T) {
	eng := testengine.Open(t, testengine.Options{})
	kinds := loadGolden(t, eng)
	for _, kind := range "bcmnopr" {
		if kinds[byte(kind)] == 0 {
			t.Errorf("%s has no key of kind %c", goldenFile, kind)
		}
	}
	m := goldenModel(t)
	names, _ := goldenBatches(t)
	o := goldenOptions()
	var summarized map[string]map[int64]uint64
	for round := range 3 { // the first reads only, the others write enough to seal and merge
		stores, stop := openUntil(t, eng, o, golden()...)
		eventually.True(t, "the keys are read", func() bool { return stores[0].Stats().Series > 0 })
		m.check(t, stores[0], Query{}, nil)
		for _, at := range []time.Time{goldenNow, goldenNow.Add(-26 * time.Hour), time.Unix(0, 0)} { // by the buckets
			m.check(t, stores[0], Query{From: at.Add(-2 * time.Hour), To: at.Add(time.Hour)}, nil)
		}
		got := summaries(t, stores[1])
		if round == 0 {
			summarized = expected(t, stores[0], *golden()[1].Rollup, time.Unix(0, stores[1].rolledUntil()))
		}
		if len(got) != 6 || !sameSummaries(got, summarized) {
			t.Errorf("round %d: the summaries are %v, want %v", round, got, summarized)
		}
		ids, err := stores[0].Define(t.Context(), append(names, labels(t, "new", "round", fmt.Sprint(round))))
		if err != nil || !slices.Equal(ids[:3], []ID{1, 2, 3}) || ids[3] != ID(4+round) {
			t.Fatalf("the ids are %v: %v", ids, err)
		}
		for i := range 30 {
			var b Batch
			at := time.Unix(int64(round), int64(i)).UnixNano()
			b.Add(ids[0], at, float64(i))
			m[names[0].String()][at] = math.Float64bits(float64(i))
			if _, err := stores[0].Append(t.Context(), &b); err != nil {
				t.Fatal(err)
			}
		}
		idle(t, stores[0])
		m.check(t, stores[0], Query{}, nil)
		stop()
	}
}

// loadGolden stores the keys of goldenFile, and returns how many there are of each kind.
func loadGolden(t *testing.T, eng engine.Engine) map[byte]int {
	t.Helper()
	text, err := os.ReadFile(goldenFile)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[byte]int{}
	_, err = eng.Update(t.Context(), func(tx engine.Tx) error {
		clear(kinds)
		for line := range bytes.Lines(text) {
			fields := bytes.Fields(line)
			if line[0] == '#' {
				continue
			}
			if len(fields) != 3 {
				return fmt.Errorf("the line %q", line)
			}
			k, errK := hex.DecodeString(string(fields[1]))
			v, errV := hex.DecodeString(string(fields[2]))
			if err := errors.Join(errK, errV, tx.Put(k, v)); err != nil {
				return err
			}
			kinds[fields[0][0]]++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return kinds
}
