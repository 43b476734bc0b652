package disk

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/logbuf"
	"github.com/skerrydb/skerry/journal/memfs"
)

// TestSlowDisk: while the disk hangs, Get and Delete work, and Put does until the queue
// is full.
func TestSlowDisk(t *testing.T) {
	fsys := newGate(memfs.New(1))
	defer fsys.release()
	o := options(fsys)
	o.MaxBytes, o.BatchEntries = 128<<10, 2
	s := open(t, o)
	put(t, s, "a", "1")
	put(t, s, "b", "2")
	<-fsys.arrived // the batch is being written
	want(t, s, "a", "1", "b", "2")
	s.Delete("a")
	put(t, s, "b", "22")
	want(t, s, "a", "-", "b", "22")
	n := 0
	for ; s.Put(fmt.Sprint(n), nil); n++ {
	}
	st := s.Stats()
	if st.QueuedBytes > o.MaxBytes/8 || st.QueuedBytes < o.MaxBytes/9 || st.Refused != 1 || st.Written != 0 {
		t.Errorf("with a full queue: %+v", st)
	}
	want(t, s, "0", "", fmt.Sprint(n), "-", "b", "22")
	if s.Put("b", []byte("222")) {
		t.Error("a full queue takes a value")
	}
	want(t, s, "b", "-") // never the older one
	fsys.release()
	syncStore(t, s)
	want(t, s, "a", "-", "b", "-", "0", "", fmt.Sprint(n-1), "")
	put(t, s, "b", "2222")
	want(t, s, "b", "2222")
}

// TestTooManyDeletions: deletions beyond the queue empty the store.
func TestTooManyDeletions(t *testing.T) {
	fsys := newGate(memfs.New(1))
	defer fsys.release()
	o := options(fsys)
	o.MaxBytes, o.BatchEntries = 128<<10, 1
	log := &logbuf.Buffer{}
	o.Logger = slog.New(slog.NewTextHandler(log, nil))
	s := open(t, o)
	put(t, s, "a", "1")
	<-fsys.arrived
	n := 0
	for ; s.Put(fmt.Sprint(n), nil); n++ {
	}
	for i := 0; i < n && s.Stats().Flushes == 0; i++ {
		s.Delete(fmt.Sprint(i))
		if st := s.Stats(); st.QueuedBytes > o.MaxBytes/4+100 {
			t.Fatalf("%+v", st)
		}
	}
	if st := s.Stats(); st.Flushes != 1 || st.Entries != 0 {
		t.Errorf("after %d puts and deletions: %+v", n, st)
	}
	fsys.release()
	put(t, s, "b", "2")
	syncStore(t, s)
	want(t, s, "a", "-", "b", "2", fmt.Sprint(n-1), "-")
	closeStore(t, s)
	if !strings.Contains(log.String(), "too slow") {
		t.Errorf("the log is %q", log)
	}
}

func TestTooLong(t *testing.T) {
	s := open(t, options(memfs.New(1)))
	put(t, s, strings.Repeat("k", MaxKeyBytes), "1")
	for _, c := range []struct {
		key   string
		value int
	}{
		{strings.Repeat("k", MaxKeyBytes+1), 1},
		{"a", 1<<20/16 - recordBytes},
	} {
		if s.Put(c.key, make([]byte, c.value)) {
			t.Errorf("a key of %d bytes with a value of %d is kept", len(c.key), c.value)
		}
		if _, ok := s.Get(nil, c.key); ok {
			t.Errorf("a key of %d bytes is found", len(c.key))
		}
	}
	put(t, s, "a", strings.Repeat("v", 1<<20/16-recordBytes-1))
	if s.Put("a", make([]byte, 1<<20/16)) {
		t.Error("a long value is kept")
	}
	want(t, s, "a", "-")
	s.Mark("p1")
	s.Mark("")
	s.Mark(strings.Repeat("p", MaxPositionBytes+1))
	syncStore(t, s)
	if st := s.Stats(); st.Mark != "p1" {
		t.Errorf("the mark is %.20q", st.Mark)
	}
	s.Mark(strings.Repeat("p", MaxPositionBytes))
	syncStore(t, s)
	if st := s.Stats(); len(st.Mark) != MaxPositionBytes || st.Failed != nil {
		t.Errorf("the longest mark: %+v", st)
	}
}

// TestLargestValue writes values of the largest size and finds them after a restart.
func TestLargestValue(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 100 MiB of memory")
	}
	o := options(memfs.New(1))
	o.MaxBytes = 1 << 30
	s := open(t, o)
	for _, n := range []int{MaxValueBytes, 0, MaxValueBytes - 1} {
		put(t, s, fmt.Sprint(n), strings.Repeat("v", n))
	}
	if s.Put("more", make([]byte, MaxValueBytes+1)) {
		t.Error("a value beyond the limit is kept")
	}
	s.Mark("p1")
	closeStore(t, s)
	s = open(t, o)
	for _, n := range []int{MaxValueBytes, 0, MaxValueBytes - 1} {
		if got := get(s, fmt.Sprint(n)); got != strings.Repeat("v", n) {
			t.Errorf("the value of %d bytes has %d", n, len(got))
		}
	}
}

func TestBatchIsWritten(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"at its entries": func(o *Options) { o.BatchEntries = 10 },
		"at its bytes":   func(o *Options) { o.BatchBytes = 10 * (recordBytes + 1 + 100) },
	} {
		o := options(memfs.New(1))
		change(&o)
		s := open(t, o)
		for i := range 9 {
			put(t, s, fmt.Sprint(i), strings.Repeat("v", 100))
		}
		if st := s.Stats(); st.Queued != 9 || st.Written != 0 {
			t.Errorf("%s: before it is full: %+v", name, st)
		}
		put(t, s, "9", strings.Repeat("v", 100))
		eventually.True(t, name, func() bool { return s.Stats().Written == 10 })
	}
}

func TestBatchAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := options(memfs.New(1))
		o.BatchAge = 0 // 1 s
		s := open(t, o)
		written := func(after time.Duration, records uint64, mark string) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			if st := s.Stats(); st.Written != records || st.Mark != mark {
				t.Errorf("%d records written, mark %q; want %d, %q", st.Written, st.Mark, records, mark)
			}
		}
		put(t, s, "a", "1")
		written(999*time.Millisecond, 0, "")
		put(t, s, "b", "1") // does not begin another second
		written(2*time.Millisecond, 2, "")
		s.Mark("p1")
		written(900*time.Millisecond, 2, "")
		written(200*time.Millisecond, 2, "p1")
		s.Delete("a")
		s.Mark("p2")
		written(1001*time.Millisecond, 3, "p1") // the deletion must be durable first
		written(time.Second, 3, "p2")
		written(time.Hour, 3, "p2")
		if n := s.Stats().Batches; n != 4 {
			t.Errorf("%d batches", n)
		}
		closeStore(t, s)
	})
}

// TestMarksAreNotStarved: with a change and a mark for every batch, marks still become
// durable.
func TestMarksAreNotStarved(t *testing.T) {
	fsys := newGate(memfs.New(1))
	defer fsys.release()
	o := options(fsys)
	o.BatchEntries = 1
	s := open(t, o)
	fsys.release()
	for i := range 5 {
		put(t, s, "a", "1")
		s.Delete("a")
		s.Mark(fmt.Sprint(i))
		eventually.True(t, "a batch", func() bool { return s.Stats().Queued == 0 })
	}
	if m := s.Stats().Mark; m < "3" {
		t.Errorf("after five batches the mark is %q", m)
	}
}
