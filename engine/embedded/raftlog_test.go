package embedded

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/journal"
	"github.com/skerrydb/skerry/journal/memfs"
	"github.com/skerrydb/skerry/raft"
)

// TestReadBesideTruncation: the end of the log is replaced while its beginning is
// being read, for a follower or to be applied. That is no reason to stop.
func TestReadBesideTruncation(t *testing.T) {
	log, err := journal.Open(filepath.Join(t.TempDir(), "log"), journal.Options{SegmentBytes: 8 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	l := newRaftLog(log, nil)
	put := func(from, to, term uint64) {
		t.Helper()
		for i := from; i <= to; i++ {
			if err := l.Append([]raft.Entry{{Index: i, Term: term, Data: make([]byte, 3000)}}); err != nil {
				t.Fatal(err)
			}
			if err := l.Sync(); err != nil {
				t.Fatal(err)
			}
		}
	}
	put(1, 12, 1)
	for replaced := uint64(9); replaced > 4; replaced-- {
		want := uint64(1)
		for e, err := range l.Read(1) {
			if err != nil {
				t.Fatalf("after entry %d, while %d is replaced: %v", want-1, replaced, err)
			}
			if e.Index != want {
				t.Fatalf("entry %d, want %d", e.Index, want)
			}
			if want == 3 {
				put(replaced, replaced, 20-replaced)
			}
			if want++; want == replaced { // what follows is being replaced, and nobody asks for it
				break
			}
		}
		if want != replaced {
			t.Errorf("read up to entry %d of %d", want-1, replaced-1)
		}
	}
}

// TestRaftLogTooManyFiles: a log whose files cannot be opened now reports a temporary
// error, continues when the call is repeated, and is read to the end.
func TestRaftLogTooManyFiles(t *testing.T) {
	fs := memfs.New(1)
	log, err := journal.Open("log", journal.Options{FS: fs, SegmentBytes: 8 << 10, Inline: true})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	l, g := newRaftLog(log, nil), &group{}
	put := func(i, term uint64) (failures int) {
		for {
			err := l.Append([]raft.Entry{{Index: i, Term: term, Data: make([]byte, 3000)}})
			if err == nil {
				err = l.Sync()
			}
			if err == nil {
				return failures
			}
			if failures++; !errors.Is(err, engine.ErrFilesFull) || !g.Temporary(err) || failures > 10 {
				t.Fatalf("entry %d: %v", i, err)
			}
		}
	}
	for i := uint64(1); i <= 9; i++ {
		put(i, 1)
	}
	for _, i := range []uint64{8, 7, 6} { // what is kept has to be read, and a segment to be made
		fs.FailOpen(1, 1)
		if put(i, 10-i) == 0 {
			t.Errorf("entry %d: nothing failed: the test does not test", i)
		}
	}
	fs.FailOpen(1, 3)
	want := uint64(1)
	for e, err := range l.Read(1) {
		if err != nil || e.Index != want || e.Term != 1 && e.Index != 6 {
			t.Fatalf("entry %d: %+v, %v", want, e, err)
		}
		want++
	}
	if want != 7 {
		t.Errorf("read up to entry %d, want 6", want-1)
	}
}

// TestRecoverNotOverNewer: what a newer program has written is not left out in
// silence when a cluster is begun again.
func TestRecoverNotOverNewer(t *testing.T) {
	dir := t.TempDir()
	if _, _, err := InitCluster(t.Context(), dir, "127.0.0.1:1", Options{Logger: quiet()}); err != nil {
		t.Fatal(err)
	}
	o, err := Options{Logger: quiet()}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	log, err := journal.Open(filepath.Join(dir, logDir), o.journal())
	if err != nil {
		t.Fatal(err)
	}
	data := newBatch(0, 0).buf
	data[0] = batchFormat + 1
	l := newRaftLog(log, nil)
	if err := errors.Join(l.Append([]raft.Entry{{Index: log.Last() + 1, Term: 1, Data: data}}), l.Sync(), log.Close()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := RecoverCluster(t.Context(), dir, "", Options{Logger: quiet()}); !errors.Is(err, engine.ErrFormatNewer) {
		t.Errorf("recovery over a batch of a newer program: %v", err)
	}
}
