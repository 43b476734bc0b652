package series

import (
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine"
)

// TestAge: samples that come slowly are compressed after a day, whatever their times are, and expire like others. A new
// process takes the age of the first sample that it finds.
func TestAge(t *testing.T) {
	var at clock
	at.at.Store(now.UnixNano())
	o := Options{lease: time.Nanosecond, Now: at.now}
	c := Collection{Name: "c", Retention: 100 * 24 * time.Hour}
	eng := testengine.Open(t, testengine.Options{})
	s := openIdle(t, eng, o, c)[0]
	w := &worker{s: s, id: [16]byte{1}}
	want := func(w *worker, what string, unsealed, sealed, parts int) {
		t.Helper()
		count(t, w.s, Query{}) // the series are read
		if !w.looked.IsZero() {
			w.looked = time.Unix(0, 0) // as if it had been a minute ago
		}
		if err := w.work(t.Context()); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		st := w.s.Stats()
		if st.Unsealed != unsealed || st.Samples != uint64(sealed) || st.Parts != parts {
			t.Errorf("%s: %d unsealed, %d in %d parts; want %d, %d in %d", what, st.Unsealed, st.Samples, st.Parts, unsealed, sealed, parts)
		}
		if n := count(t, w.s, Query{}); n != unsealed+sealed {
			t.Errorf("%s: %d samples are read, want %d", what, n, unsealed+sealed)
		}
	}
	add := func(s *Store, before time.Duration) {
		t.Helper()
		ids, err := s.Define(t.Context(), []Labels{labels(t, "m")})
		if err != nil {
			t.Fatal(err)
		}
		var b Batch
		b.Add(ids[0], nanos(at.now().Add(-before)), 1)
		if _, err := s.Append(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
	}

	if _, err := s.Define(t.Context(), []Labels{labels(t, "m")}); err != nil {
		t.Fatal(err)
	}
	want(w, "nothing", 0, 0, 0)
	add(s, 50*24*time.Hour)
	want(w, "a first sample, of an old time", 1, 0, 0)
	at.forward(generationAge - time.Hour)
	add(s, 0)
	want(w, "before a day", 2, 0, 0)
	at.forward(time.Hour)
	want(w, "a day", 0, 2, 2)
	add(s, 40*24*time.Hour)
	want(w, "a new generation", 1, 2, 2)
	at.forward(generationAge - 1)
	want(w, "almost a day later", 1, 2, 2)

	again := successor(t, w, eng, o, c)
	want(again, "a new process that finds an old sample", 0, 3, 3)
	add(again.s, 0)
	third := successor(t, again, eng, o, c)
	want(third, "a new process that finds a new sample", 1, 3, 3)
	at.forward(generationAge)
	want(third, "a day after that sample", 0, 4, 4)

	at.forward(99 * 24 * time.Hour)
	want(third, "when all but that have expired", 0, 1, 1)
	at.forward(2 * 24 * time.Hour)
	want(third, "when all have expired", 0, 0, 0)
	if left := leftovers(t, s); left != "" {
		t.Error(left)
	}
}

// successor returns the worker of the next process, once w has given its lease back: where transactions share a time, the
// lease has not ended by itself yet.
func successor(t *testing.T, w *worker, eng engine.Engine, o Options, c Collection) *worker {
	t.Helper()
	w.release()
	return &worker{s: openIdle(t, eng, o, c)[0], id: [16]byte{w.id[0] + 1}}
}
