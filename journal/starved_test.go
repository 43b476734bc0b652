package journal_test

import (
	"errors"
	"fmt"
	"io"
	"syscall"
	"testing"

	"github.com/skerrydb/skerry/journal"
	"github.com/skerrydb/skerry/journal/memfs"
)

// TestStarved lets each opening of a file or folder fail in its turn, for one try or
// for three, as where the process has too many files open: the call reports an error
// that is Passing and succeeds when it is made again, and nothing is lost.
func TestStarved(t *testing.T) {
	for _, more := range []int{0, 2} {
		failed := 0
		for n := 1; ; n++ {
			fs := memfs.New(uint64(n))
			l := memLog(t, fs)
			fs.FailOpen(n, more)
			life := starvedLife{t: t, fs: fs, l: l}
			life.run()
			left := fs.Opens()
			fs.FailOpen(0, 0)
			life.check(fmt.Sprintf("opening %d and %d more", n, more))
			failed += life.failures
			if t.Failed() || left > 0 {
				if n < 10 || failed < n-2 {
					t.Errorf("%d openings, %d errors: the test does not test", n, failed)
				}
				break
			}
		}
	}
}

// starvedLife is all that a log and its snapshots go through, and what must be there
// in the end.
type starvedLife struct {
	t        *testing.T
	fs       *memfs.FS
	l        *journal.Log
	failures int
}

// insist makes a call until it succeeds.
func (s *starvedLife) insist(what string, call func() error) {
	s.t.Helper()
	for range 10 {
		err := call()
		if err == nil {
			return
		}
		s.failures++
		if !journal.Passing(err) || !errors.Is(err, syscall.EMFILE) {
			s.t.Fatalf("%s: %v", what, err)
		}
		if s.l.Err() != nil {
			s.t.Fatalf("%s: the log has stopped: %v", what, s.l.Err())
		}
	}
	s.t.Fatalf("%s: still fails", what)
}

func (s *starvedLife) add(from, to uint64, what string) {
	for i := from; i <= to; i++ {
		s.insist("append", func() error {
			return errors.Join(s.l.Append(i, fmt.Appendf(make([]byte, 0, 4000), "%s %0*d", what, 3000, i)), s.l.Sync())
		})
	}
}

func (s *starvedLife) run() {
	s.add(1, 12, "a") // three segments
	s.insist("truncate after", func() error { return s.l.TruncateAfter(7) })
	s.add(8, 20, "b")
	s.insist("snapshot", func() error {
		return journal.WriteSnapshot(s.fs, "snap/a.snap", nil, func(w io.Writer) error {
			_, err := io.WriteString(w, "state")
			return err
		})
	})
	s.insist("truncate before", func() error { return s.l.TruncateBefore(6) })
	s.insist("read", func() error { return s.read(7, 20) })
}

// read expects the records from first to last.
func (s *starvedLife) read(first, last uint64) error {
	next := first
	for r, err := range s.l.Read(first) {
		if err != nil {
			return err
		}
		what := "a"
		if next > 7 {
			what = "b"
		}
		if want := fmt.Sprintf("%s %0*d", what, 3000, next); r.Index != next || string(r.Data) != want {
			s.t.Errorf("record %d is %d, %.10q", next, r.Index, r.Data)
		}
		next++
	}
	if next != last+1 {
		s.t.Errorf("the log ends before %d, not after %d", next, last)
	}
	return nil
}

// check loses the power and looks at what is left.
func (s *starvedLife) check(when string) {
	s.fs.Crash()
	s.l = memLog(s.t, s.fs)
	if err := s.read(7, 20); err != nil {
		s.t.Errorf("%s: %v", when, err)
	}
	r, err := journal.ReadSnapshot(s.fs, "snap/a.snap")
	if err != nil {
		s.t.Fatalf("%s: %v", when, err)
	}
	if b, err := io.ReadAll(r); err != nil || string(b) != "state" {
		s.t.Errorf("%s: the snapshot has %q, %v", when, b, err)
	}
	if err := errors.Join(r.Close(), s.l.Close()); err != nil {
		s.t.Errorf("%s: %v", when, err)
	}
}
