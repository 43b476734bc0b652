package journal_test

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/journal"
	"github.com/skerrydb/skerry/journal/memfs"
)

func memLog(t testing.TB, fs *memfs.FS) *journal.Log {
	t.Helper()
	return open(t, "log", journal.Options{FS: fs, SegmentBytes: 16 << 10, ReserveBytes: 4 << 10, MaxRecordBytes: 8 << 10, Inline: true})
}

// TestLimits: each limit holds to the byte, and going over it changes nothing.
func TestLimits(t *testing.T) {
	l := memLog(t, memfs.New(1))
	var limit *journal.LimitError
	if err := l.Append(1, make([]byte, 8<<10+1)); !errors.As(err, &limit) || limit.Limit != 8<<10 {
		t.Errorf("a record too large: %v", err)
	}
	if l.Last() != 0 {
		t.Errorf("a refused record is the last: %d", l.Last())
	}
	if err := l.Append(1, make([]byte, 8<<10)); err != nil {
		t.Errorf("a record of the largest size: %v", err)
	}
	for _, o := range []journal.Options{{SegmentBytes: 8<<10 - 1}, {MaxRecordBytes: journal.MaxFrameBytes + 1}, {MaxRecordBytes: -1}} {
		o.FS = memfs.New(1)
		if _, err := journal.Open("log", o); !errors.As(err, &limit) {
			t.Errorf("options %+v: %v", o, err)
		}
	}
}

// TestFrameLimit: what one Sync would write has a bound; a Sync makes room.
func TestFrameLimit(t *testing.T) {
	l := open(t, "log", journal.Options{FS: memfs.New(1), MaxRecordBytes: 1000, MaxFrameBytes: 1000, Inline: true})
	if err := l.Append(1, make([]byte, 1000)); err != nil {
		t.Fatalf("one record of the largest size: %v", err)
	}
	var limit *journal.LimitError
	if err := l.Append(2, nil); !errors.As(err, &limit) || limit.What != "frame" || l.Last() != 1 {
		t.Fatalf("a frame too large: %v, last %d", err, l.Last())
	}
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.Append(2, make([]byte, 496)), l.Append(3, make([]byte, 496))); err != nil {
		t.Fatalf("a frame of exactly the limit: %v", err)
	}
	if err := l.Append(4, nil); !errors.As(err, &limit) {
		t.Fatalf("one record more: %v", err)
	}
}

func TestIndexes(t *testing.T) {
	l := memLog(t, memfs.New(1))
	var e *journal.IndexError
	if err := l.Append(0, nil); !errors.As(err, &e) {
		t.Errorf("append 0: %v", err)
	}
	appendSync(t, l, 7, 9, "a")
	for _, i := range []uint64{0, 9, 11} {
		if err := l.Append(i, nil); !errors.As(err, &e) || e.Want != 10 {
			t.Errorf("append %d: %v", i, err)
		}
	}
	if err := l.TruncateAfter(5); !errors.As(err, &e) {
		t.Errorf("truncate after 5: %v", err)
	}
	if err := l.Reset(0); !errors.As(err, &e) {
		t.Errorf("reset to 0: %v", err)
	}
	if err := l.TruncateAfter(100); err != nil || l.Last() != 9 {
		t.Errorf("truncate after 100: %v, last %d", err, l.Last())
	}
	if err := l.TruncateAfter(6); err != nil || l.Last() != 6 || l.First() != 7 {
		t.Errorf("truncate after 6: %v, records %d to %d", err, l.First(), l.Last())
	}
	appendSync(t, l, 7, 7, "b")
	if got := read(t, l, 7); len(got) != 1 || got[0] != "b-7" {
		t.Errorf("records %q", got)
	}
	for _, err := range l.Read(6) {
		if !errors.Is(err, journal.ErrGone) {
			t.Errorf("read from 6: %v", err)
		}
	}
	if got := read(t, l, 8); len(got) != 0 {
		t.Errorf("records from 8 on: %q", got)
	}
}

// TestTruncateBuffered removes records that no Sync has written.
func TestTruncateBuffered(t *testing.T) {
	fs := memfs.New(1)
	l := memLog(t, fs)
	appendSync(t, l, 1, 2, "a")
	for i := uint64(3); i <= 6; i++ {
		if err := l.Append(i, fmt.Appendf(nil, "b-%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.TruncateAfter(4); err != nil || l.Last() != 4 || l.Durable() != 2 {
		t.Fatalf("%v, last %d, durable %d", err, l.Last(), l.Durable())
	}
	appendSync(t, l, 5, 5, "c")
	if got := fmt.Sprint(read(t, l, 1)); got != "[a-1 a-2 b-3 b-4 c-5]" {
		t.Fatal(got)
	}
	if err := l.Append(6, nil); err != nil {
		t.Fatal(err)
	}
	if err := l.TruncateAfter(5); err != nil || l.Last() != 5 {
		t.Fatalf("%v, last %d", err, l.Last())
	}
	if n := fs.Stats().Syncs; l.Sync() != nil || fs.Stats().Syncs != n {
		t.Fatal("a Sync of nothing reached the disk")
	}
}

// TestFailedSync: after any fsync of any call has failed, for any reason, every later call
// fails too, and none of them accesses the disk.
func TestFailedSync(t *testing.T) {
	ops := map[string]func(l *journal.Log) error{
		"sync":            func(l *journal.Log) error { return errors.Join(l.Append(12, []byte("x")), l.Sync()) },
		"sync and roll":   func(l *journal.Log) error { return errors.Join(l.Append(12, make([]byte, 8000)), l.Sync()) },
		"truncate after":  func(l *journal.Log) error { return l.TruncateAfter(8) },
		"truncate before": func(l *journal.Log) error { return l.TruncateBefore(11) },
		"reset":           func(l *journal.Log) error { return l.Reset(5) },
	}
	for name, op := range ops {
		for _, why := range []error{syscall.EIO, syscall.ENOSPC} {
			t.Run(fmt.Sprintf("%s/%v", name, why), func(t *testing.T) {
				n := 1
				for failSync(t, n, why, op) {
					n++
				}
				if n == 1 {
					t.Error("no fsync failed: the test does not test")
				}
			})
		}
	}
}

// failSync runs op with its nth fsync failing, and returns false if it has fewer.
func failSync(t *testing.T, n int, why error, op func(l *journal.Log) error) bool {
	fs := memfs.New(1)
	l := memLog(t, fs)
	appendSync(t, l, 1, 9, "a")
	for i := uint64(10); i <= 11; i++ { // two segments
		if err := errors.Join(l.Append(i, make([]byte, 8000)), l.Sync()); err != nil {
			t.Fatal(err)
		}
	}
	fs.FailSyncAs(n, why)
	err := op(l)
	if err == nil {
		return false
	}
	var failed *journal.FailedError
	if !errors.As(err, &failed) || errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("fsync %d: %v", n, err)
	}
	stats := fs.Stats()
	for what, err := range map[string]error{
		"append": l.Append(l.Last()+1, nil), "sync": l.Sync(), "truncate after": l.TruncateAfter(1),
		"truncate before": l.TruncateBefore(2), "reset": l.Reset(3), "err": l.Err(), "close": l.Close(),
	} {
		if !errors.As(err, &failed) {
			t.Errorf("%s after failed fsync %d: %v", what, n, err)
		}
	}
	if fs.Stats() != stats {
		t.Errorf("after failed fsync %d the disk was used", n)
	}
	return true
}

// TestBackgroundFails: a failed fsync stops the log even when no call waits for it.
func TestBackgroundFails(t *testing.T) {
	fs := memfs.New(1)
	l := open(t, "log", journal.Options{FS: fs, ReserveBytes: 8 << 10})
	appendSync(t, l, 1, 1, "a")
	eventually.True(t, "the background is at rest", func() bool { return fs.Stats().Syncs == 4 }) // zeros, header, frame, zeros
	fs.FailSync(2)                                                                                // the first is Sync's own
	if err := errors.Join(l.Append(2, make([]byte, 12<<10)), l.Sync()); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the log fails", func() bool { return l.Err() != nil })
	var failed *journal.FailedError
	if err := l.Append(3, nil); !errors.As(err, &failed) {
		t.Fatalf("append: %v", err)
	}
}

// gateFS holds the background's fsyncs of a segment back until the writer's next
// one, which waits for one of them to end.
type gateFS struct {
	*memfs.FS
	armed       atomic.Bool
	begin, done chan struct{}
}

type gateFile struct {
	journal.File
	sync func() error
}

func (f gateFile) Sync() error { return f.sync() }

func (g *gateFS) OpenFile(path string, flag int) (journal.File, error) {
	f, err := g.FS.OpenFile(path, flag)
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(path, ".tmp") { // it becomes the segment that the writer has
		return gateFile{f, func() error {
			if g.armed.CompareAndSwap(true, false) {
				close(g.begin)
				<-g.done
			}
			return f.Sync()
		}}, nil
	}
	return gateFile{f, func() error {
		<-g.begin
		defer close(g.done)
		return f.Sync()
	}}, nil
}

// TestBackgroundFailsMeanwhile: the background's failed fsync may take away a
// frame that is written but not synced yet. The fsync of that frame then has
// nothing to write, and must not pass for a success.
func TestBackgroundFailsMeanwhile(t *testing.T) {
	fs := &gateFS{FS: memfs.New(1), begin: make(chan struct{}), done: make(chan struct{})}
	l := open(t, "log", journal.Options{FS: fs, ReserveBytes: 8 << 10})
	appendSync(t, l, 1, 1, "a")
	eventually.True(t, "the background waits", func() bool { return fs.Stats().Writes == 4 }) // zeros, header, frame, zeros
	fs.armed.Store(true)
	fs.FailSync(1)
	err := errors.Join(l.Append(2, []byte("a")), l.Sync())
	var failed *journal.FailedError
	if !errors.As(err, &failed) {
		t.Errorf("the frame that went with the background's failed fsync: %v", err)
	}
	l.Close()
	fs.Crash()
	l = open(t, "log", journal.Options{FS: fs.FS})
	if last := l.Last(); last != 1 {
		t.Errorf("the last record is %d", last)
	}
}

// TestBackgroundWithoutRoom: where there is no room for the next segment, the
// background does not try for it again at every Sync.
func TestBackgroundWithoutRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := memfs.New(1)
		fs.LimitSpace(140 << 10) // one segment and a little
		l := open(t, "log", journal.Options{FS: fs, SegmentBytes: 128 << 10, ReserveBytes: 64 << 10})
		const n = 300
		for i := uint64(1); i <= n; i++ {
			appendSync(t, l, i, i, "a")
			synctest.Wait() // until the background is idle
		}
		if w := fs.Stats().Writes; w > n+50 {
			t.Errorf("%d writes for %d Syncs", w, n)
		}
		for i := uint64(n + 1); ; i++ {
			if err := errors.Join(l.Append(i, make([]byte, 1000)), l.Sync()); errors.Is(err, syscall.ENOSPC) {
				break
			} else if err != nil || i > 1000 {
				t.Fatalf("record %d: %v", i, err)
			}
		}
		fs.LimitSpace(-1)
		appendSync(t, l, l.Last()+1, l.Last()+300, "with room again")
	})
}

// TestLargeRecord: a record larger than a segment, and then small ones.
func TestLargeRecord(t *testing.T) {
	dir := t.TempDir()
	o := journal.Options{SegmentBytes: 1 << 20}
	l := open(t, dir, o)
	large := bytes.Repeat([]byte("large"), 4<<20)
	if err := errors.Join(l.Append(1, []byte("a")), l.Sync(), l.Append(2, large), l.Sync()); err != nil {
		t.Fatal(err)
	}
	appendSync(t, l, 3, 3, "b")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	got := read(t, open(t, dir, o), 1)
	if len(got) != 3 || got[1] != string(large) || got[2] != "b-3" {
		t.Fatalf("%d records", len(got))
	}
}

// TestReadDuringChanges: a reader gets an error if its records are removed.
func TestReadDuringChanges(t *testing.T) {
	for want, change := range map[error]func(l *journal.Log) error{
		journal.ErrChanged: func(l *journal.Log) error { return l.TruncateAfter(500) },
		journal.ErrGone:    func(l *journal.Log) error { return l.TruncateBefore(1000) },
	} {
		l := memLog(t, memfs.New(1))
		for i := uint64(1); i <= 1000; i++ {
			appendSync(t, l, i, i, "a longer record so that there are several segments of them")
		}
		var last error
		for r, err := range l.Read(1) {
			if last = err; r.Index == 3 {
				if err := change(l); err != nil {
					t.Fatal(err)
				}
			}
		}
		if !errors.Is(last, want) {
			t.Errorf("reading ended with %v, want %v", last, want)
		}
	}
}

// TestConcurrent appends, syncs, reads and truncates at the same time.
func TestConcurrent(t *testing.T) {
	l := open(t, t.TempDir(), journal.Options{SegmentBytes: 32 << 10, ReserveBytes: 8 << 10})
	const n = 3000
	var wg sync.WaitGroup
	done := make(chan struct{})
	for range 2 {
		wg.Go(func() {
			for {
				if err := l.Sync(); err != nil {
					t.Error(err)
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	wg.Go(func() {
		for l.Durable() < n {
			from := l.First()
			for r, err := range l.Read(from) {
				if errors.Is(err, journal.ErrGone) {
					break
				}
				if err != nil || string(r.Data) != fmt.Sprintf("r-%d", r.Index) {
					t.Errorf("record %d is %q, %v", r.Index, r.Data, err)
				}
			}
			if err := l.TruncateBefore(l.Durable() / 2); err != nil {
				t.Error(err)
			}
		}
	})
	for i := uint64(1); i <= n; i++ {
		if err := l.Append(i, fmt.Appendf(nil, "r-%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	close(done)
	// The others may have ended before the last Append; the reader waits until it is durable.
	err := l.Sync()
	wg.Wait()
	if err != nil || l.Durable() != n {
		t.Fatalf("%v, durable %d", err, l.Durable())
	}
}

// TestVerify checks the report and the progress of Verify.
func TestVerify(t *testing.T) {
	fs := memfs.New(1)
	l := memLog(t, fs)
	for i := uint64(1); i <= 300; i++ {
		appendSync(t, l, i, i, "a record of some length, so that there are segments")
	}
	if err := l.TruncateBefore(150); err != nil {
		t.Fatal(err)
	}
	if err := l.TruncateAfter(250); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.Close(), journal.WriteSnapshot(fs, "log/a.snap", nil, zerosTo(600<<10))); err != nil {
		t.Fatal(err)
	}
	fs.WriteFile("log/b.tmp", []byte("left"))
	fs.WriteFile("log/LOCK", nil)
	var at journal.Progress
	rep, err := journal.Verify(fs, "log", func(p journal.Progress) {
		if p.Done < at.Done || p.Done > p.Total || p.File == "" {
			t.Errorf("progress %+v after %+v", p, at)
		}
		at = p
	})
	if err != nil || len(rep.Problems) > 0 {
		t.Fatalf("%v, %v", rep.Problems, err)
	}
	if rep.First != l.First() || rep.Last != 250 || rep.Records != int(251-rep.First) || rep.Files < 3 || rep.Blocks != 4 || len(rep.Leftover) != 1 {
		t.Errorf("%+v, the log has %d to %d", rep, l.First(), l.Last())
	}
	next := l.First()
	rep, err = journal.VerifyRecords(fs, "log", nil, func(r journal.Record) error {
		if r.Index != next || string(r.Data) != fmt.Sprintf("a record of some length, so that there are segments-%d", next) {
			t.Fatalf("record %d is %q, want %d", r.Index, r.Data, next)
		}
		if next++; r.Index == 200 {
			return errors.New("not to my taste")
		}
		return nil
	})
	if err != nil || next != 251 || len(rep.Problems) != 1 || rep.Problems[0].Why != "not to my taste" {
		t.Errorf("records up to %d, %+v, %v", next-1, rep.Problems, err)
	}
	if at.File != filepath.Join("log", "a.snap") {
		t.Errorf("progress ended with %+v", at)
	}
}

// TestMemLock: the file system for tests locks as the real one does.
func TestMemLock(t *testing.T) {
	fs := memfs.New(1)
	unlock, err := journal.LockDir(fs, "dir")
	if err != nil {
		t.Fatal(err)
	}
	var locked *journal.LockedError
	if _, err := journal.LockDir(fs, "dir"); !errors.As(err, &locked) || locked.Pid == 0 {
		t.Errorf("second lock: %v", err)
	}
	fs.Kill()
	if _, err = journal.LockDir(fs, "dir"); err != nil {
		t.Errorf("after a kill: %v", err)
	}
	if err := unlock(); err != nil {
		t.Error(err)
	}
	if _, err := journal.LockDir(fs, "dir"); !errors.As(err, &locked) {
		t.Errorf("the dead process's unlock released the lock: %v", err)
	}
}
