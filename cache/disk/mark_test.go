package disk

import (
	"bytes"
	"testing"

	"github.com/skerrydb/skerry/journal/memfs"
)

// TestMarkOutlivesItsSegment: the mark is found although the segment in which it was
// written has been dropped.
func TestMarkOutlivesItsSegment(t *testing.T) {
	o := smallest(memfs.New(1))
	s := open(t, o)
	s.Mark("p1")
	fill(t, s, 5)
	closeStore(t, s)
	s = open(t, o)
	if st := s.Stats(); s.Marked() != "p1" || st.Mark != "p1" || st.Entries == 0 {
		t.Errorf("found the mark %q, %+v", s.Marked(), st)
	}
}

// TestMarkFollowsItsDeletions: the bytes of a mark go to the disk after the deletions
// before it are durable.
func TestMarkFollowsItsDeletions(t *testing.T) {
	fsys := memfs.New(1)
	s := open(t, smallest(fsys))
	put(t, s, "a", "1")
	s.Mark("mark-1")
	syncStore(t, s)
	s.Delete("a")
	s.Mark("mark-2")
	fsys.StopAfter(1) // only the write of the first frame
	if s.Sync() == nil {
		t.Error("no error")
	}
	b, err := fsys.ReadFile(segment1)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(b, []byte("mark-1")) || bytes.Contains(b, []byte("mark-2")) {
		t.Errorf("the mark is on its way before the deletion is durable: %q", b)
	}
}

// TestSyncIsDurable: what Sync has written outlives a power failure.
func TestSyncIsDurable(t *testing.T) {
	for seed := range uint64(20) {
		fsys := memfs.New(seed)
		s := open(t, smallest(fsys))
		put(t, s, "a", "1")
		s.Mark("p1")
		syncStore(t, s)
		fsys.StopAfter(0)
		s.Close() // fails
		fsys.Crash()
		s = open(t, smallest(fsys))
		if want(t, s, "a", "1"); s.Marked() != "p1" || s.Stats().Mark != "p1" {
			t.Errorf("seed %d: found the mark %q, %+v", seed, s.Marked(), s.Stats())
		}
	}
}
