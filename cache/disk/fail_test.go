package disk

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/skerrydb/skerry/ci/logbuf"
	"github.com/skerrydb/skerry/journal/memfs"
)

// TestDiskFails: whatever fails switches the store off, and a restart never finds a mark
// from before.
func TestDiskFails(t *testing.T) {
	for name, fail := range map[string]func(fsys *memfs.FS){
		"full":              func(fsys *memfs.FS) { fsys.LimitSpace(10) },
		"write cut short":   func(fsys *memfs.FS) { fsys.ShortWrite(1, 5) },
		"sync":              func(fsys *memfs.FS) { fsys.FailSync(1) },
		"sync, full":        func(fsys *memfs.FS) { fsys.FailSyncAs(1, syscall.ENOSPC) },
		"next file":         func(fsys *memfs.FS) { fsys.FailOpen(1, 0) },
		"sync of next file": func(fsys *memfs.FS) { fsys.FailSync(2) },
		"sync of folder":    func(fsys *memfs.FS) { fsys.FailSync(3) },
	} {
		t.Run(name, func(t *testing.T) {
			fsys, log := memfs.New(1), &logbuf.Buffer{}
			o := smallest(fsys)
			o.Logger = slog.New(slog.NewTextHandler(log, nil))
			s := open(t, o)
			g := newGenerator(1)
			g.calls(s, "P1P2P3m-s-") // fills the first segment
			fail(fsys)
			var err error
			for range 3 {
				put(t, s, "a", strings.Repeat("v", 3000))
				s.Delete("k1")
				if err = s.Sync(); err != nil {
					break
				}
			}
			if err == nil {
				t.Fatal("no error")
			}
			st := s.Stats()
			if st.Failed == nil || st.Entries != 0 || st.Bytes != 0 || st.Mark != "" || !strings.Contains(log.String(), "switched off") {
				t.Errorf("%+v\n%s", st, log)
			}
			want(t, s, "k2", "-", "a", "-")
			if s.Put("b", nil) || s.Sync() == nil {
				t.Error("a store that is switched off still works")
			}
			s.Delete("k2")
			s.Mark("p9")
			s.Flush()
			if names, err := fsys.List("cache"); err != nil || slices.ContainsFunc(names, func(n string) bool { return strings.HasSuffix(n, suffix) }) {
				t.Errorf("the files are %v, %v", names, err)
			}
			if s.Close() == nil {
				t.Error("close does not report the failure")
			}
			fsys.Crash() // undoes what is not durable
			s = open(t, o)
			if s.Marked() != "" || s.Stats().Entries != 0 {
				t.Errorf("found %q, %+v", s.Marked(), s.Stats())
			}
			put(t, s, "a", "1")
			syncStore(t, s)
		})
	}
}

// TestReadOnly: files that can be neither removed nor emptied have an earlier state, for
// which the rule holds.
func TestReadOnly(t *testing.T) {
	fsys := memfs.New(1)
	s := open(t, smallest(fsys))
	g := newGenerator(1)
	g.calls(s, "p1p2p3d1m-s-")
	fsys.SetReadOnly(true)
	g.calls(s, "d2m-s-p4m-s-")
	if s.Stats().Failed == nil {
		t.Error("no error")
	}
	s.Close() // fails
	fsys.Crash()
	s = open(t, smallest(fsys))
	if g.check(t, s); s.Marked() != "4" || s.Stats().Entries != 2 {
		t.Errorf("the mark is %q, %+v", s.Marked(), s.Stats())
	}
}

// TestOpenFails: a store that cannot be emptied is not opened.
func TestOpenFails(t *testing.T) {
	g, fsys := history(t, short)
	for n := 1; n <= 3; n++ {
		c := fsys.Clone(1)
		c.FailOpen(n, 0)
		o := smallest(c)
		if s, err := Open(o); err == nil { // this many are not needed
			g.check(t, s)
			closeStore(t, s)
		}
		c.FailOpen(0, 0)
		s := open(t, o) // it was unlocked
		g.check(t, s)
	}
	o := smallest(fsys)
	o.Identity = "other"
	fsys.SetReadOnly(true)
	if s, err := Open(o); err == nil {
		t.Errorf("opened with %+v", s.Stats())
	}
	fsys.SetReadOnly(false)
	open(t, o)
}

// TestFailsAnywhere makes every change of the disk fail in turn and checks the rule.
func TestFailsAnywhere(t *testing.T) {
	for n := range 60 {
		fsys := memfs.New(uint64(n))
		s := reopen(t, smallest(fsys))
		g := newGenerator(1)
		fsys.StopAfter(n)
		g.calls(s, long)
		failed := s.Stats().Failed != nil
		fsys.StopAfter(0)
		s.Close() // fails
		fsys.Crash()
		s = reopen(t, smallest(fsys))
		g.check(t, s)
		if t.Failed() {
			t.Fatal(fmt.Sprint("after ", n, " changes"))
		}
		closeStore(t, s)
		if !failed {
			return
		}
	}
	t.Error("the history never ends")
}
