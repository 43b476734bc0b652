package disk

import (
	"fmt"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/journal/memfs"
)

// fill writes values until n more segments have been dropped.
func fill(t *testing.T, s *Store, n uint64) {
	t.Helper()
	n += s.Stats().DroppedSegments
	for i := 0; s.Stats().DroppedSegments < n; i++ {
		put(t, s, fmt.Sprint("fill", i%1000), strings.Repeat("v", 500))
		syncStore(t, s)
		if i > 1000 {
			t.Fatalf("nothing is dropped: %+v", s.Stats())
		}
	}
}

func TestSecondChance(t *testing.T) {
	o := smallest(memfs.New(1))
	s := open(t, o)
	put(t, s, "hot", "1")
	put(t, s, "cold", "2")
	put(t, s, "gone", "3")
	put(t, s, "new", "4")
	want(t, s, "hot", "1", "gone", "3", "new", "4")
	syncStore(t, s)
	s.Delete("gone")
	put(t, s, "new", "5")
	fill(t, s, 1)
	if st := s.Stats(); st.Kept != 1 {
		t.Errorf("%+v", st)
	}
	want(t, s, "cold", "-", "gone", "-")
	s.Mark("p1")
	closeStore(t, s) // which is not reading
	s = open(t, o)
	fill(t, s, 1)
	want(t, s, "new", "-")
	if st := s.Stats(); st.Kept != 0 {
		t.Errorf("%+v", st)
	}
	want(t, s, "hot", "1")
	fill(t, s, 80) // more than twice as many as there are: it is kept only once more
	want(t, s, "hot", "-")
}

// TestChangedDuringSecondChance: an entry that changes while it is read from a segment
// that goes does not come back.
func TestChangedDuringSecondChance(t *testing.T) {
	for name, change := range map[string]struct {
		do   func(s *Store)
		want string
	}{
		"delete": {func(s *Store) { s.Delete("hot") }, "-"},
		"put":    {func(s *Store) { s.Put("hot", []byte("2")) }, "2"},
		"flush":  {func(s *Store) { s.Flush() }, "-"},
		"again":  {func(s *Store) { s.Delete("hot"); s.Put("hot", []byte("3")) }, "3"},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := newGate(memfs.New(1))
			fsys.release()
			o := options(fsys)
			o.MaxBytes = minBytes
			s := open(t, o)
			put(t, s, "hot", "1")
			want(t, s, "hot", "1")
			syncStore(t, s)
			reads := 0
			fsys.reading = func() {
				if reads++; reads == 1 {
					change.do(s)
				}
			}
			fill(t, s, 1)
			if reads != 1 {
				t.Fatalf("%d reads", reads)
			}
			fsys.reading = nil
			want(t, s, "hot", change.want)
			if st := s.Stats(); st.Kept != 0 {
				t.Errorf("%+v", st)
			}
		})
	}
}

// TestSecondChanceIsBounded: not everything of a segment is kept, even if all of it was
// read.
func TestSecondChanceIsBounded(t *testing.T) {
	s := open(t, smallest(memfs.New(1)))
	for i := range 30 {
		put(t, s, fmt.Sprint(i), strings.Repeat("v", 50))
		s.Get(nil, fmt.Sprint(i))
	}
	syncStore(t, s)
	fill(t, s, 1)
	if st := s.Stats(); st.Kept < 5 || st.Kept > 20 {
		t.Errorf("%+v", st)
	}
}

// TestIndexFull: a full index gives up its oldest segments.
func TestIndexFull(t *testing.T) {
	const most = 100
	s := start(t, options(memfs.New(1)), func(s *Store) { s.maxEntries = most })
	kept := 0
	for i := range 1000 {
		if s.Put(fmt.Sprint(i), nil) {
			kept++
			want(t, s, fmt.Sprint(i), "")
		} else {
			want(t, s, fmt.Sprint(i), "-")
			syncStore(t, s) // drops a segment
		}
		if n := s.Stats().Entries; n > most {
			t.Fatalf("%d entries", n)
		}
	}
	if st := s.Stats(); kept < 500 || st.DroppedSegments == 0 || st.Failed != nil {
		t.Errorf("kept %d, %+v", kept, st)
	}
	put(t, s, "0", "1")
	want(t, s, "0", "1")
}

// TestSmallerAndLarger reopens a store with other sizes.
func TestSmallerAndLarger(t *testing.T) {
	fsys := memfs.New(1)
	for i, n := range []int64{1 << 20, minBytes, 256 << 10, 2 << 20, 128 << 10, minBytes, minBytes} {
		o := options(fsys)
		o.MaxBytes = n
		s := open(t, o)
		if st := s.Stats(); st.Bytes > n || i > 0 && st.Entries == 0 {
			t.Errorf("with %d bytes: %+v", n, st)
		}
		for j := range 1500 {
			put(t, s, fmt.Sprint(j), strings.Repeat("v", 500))
			if j%4 == 0 {
				syncStore(t, s)
			}
		}
		st := s.Stats()
		if st.Bytes > n || st.Segments > MaxSegments || st.Entries == 0 {
			t.Errorf("with %d bytes: %+v", n, st)
		}
		s.Mark(fmt.Sprint(i))
		closeStore(t, s)
	}
}

// start opens a store with other limits than Open derives.
func start(t *testing.T, o Options, change func(*Store)) *Store {
	t.Helper()
	s, err := newStore(o)
	if err != nil {
		t.Fatal(err)
	}
	change(s)
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() }) // the test closes what matters
	return s
}

// TestOpenFiles: the number of files is bounded, however short they are.
func TestOpenFiles(t *testing.T) {
	o := options(memfs.New(1))
	s := start(t, o, func(s *Store) { s.segmentBytes = headerBytes })
	for i := range 2 * MaxSegments {
		put(t, s, fmt.Sprint(i), "1")
		syncStore(t, s)
		if n := s.Stats().Segments; n != min(i+1, MaxSegments) {
			t.Fatalf("%d segments after %d batches", n, i+1)
		}
	}
	want(t, s, fmt.Sprint(MaxSegments-1), "-", fmt.Sprint(MaxSegments), "1")
	s.Mark("p1")
	closeStore(t, s)
	s = start(t, o, func(s *Store) { s.maxEntries = 10 })
	if st := s.Stats(); st.Entries != 10 || s.Marked() != "p1" {
		t.Errorf("with a smaller index: %+v", st)
	}
}

// TestFlushBeforeDrop: a flush comes after the writer has chosen the segment to be dropped.
func TestFlushBeforeDrop(t *testing.T) {
	s := open(t, smallest(memfs.New(1)))
	put(t, s, "a", "1")
	syncStore(t, s)
	s.mu.Lock()
	chosen := s.segments[0]
	s.mu.Unlock()
	s.Flush()
	syncStore(t, s) // the writer is idle then
	for range 2 {
		if err := s.drop(chosen); err != nil {
			t.Error(err)
		}
		put(t, s, "b", "2")
		syncStore(t, s)
		want(t, s, "b", "2")
	}
	if st := s.Stats(); st.DroppedSegments != 0 || st.Segments != 1 {
		t.Errorf("%+v", st)
	}
}
