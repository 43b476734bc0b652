package journal_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/skerrydb/skerry/journal"
	"github.com/skerrydb/skerry/journal/memfs"
)

// segmented returns a log of 12 records in 12 segments, or in 6 of two each.
func segmented(t testing.TB, fs *memfs.FS, each int) *journal.Log {
	t.Helper()
	l := memLog(t, fs)
	for i := uint64(1); i <= 12; i++ {
		if err := errors.Join(l.Append(i, fmt.Appendf(make([]byte, 8000/each), "%d", i)), l.Sync()); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// TestTruncateEdges: TruncateBefore drops whole segments, and never the record at its index
// or a later one. TruncateAfter is exact to the record. Both hold after a restart.
func TestTruncateEdges(t *testing.T) {
	for _, each := range []int{1, 2} {
		for index := range uint64(14) {
			fs := memfs.New(index)
			l := segmented(t, fs, each)
			before := l.Stats().Segments
			if err := l.TruncateBefore(index); err != nil {
				t.Fatal(err)
			}
			first, perSegment := l.First(), 12/uint64(before)
			if first > max(index, 1) || first+perSegment <= index && first+perSegment <= 12 {
				t.Errorf("%d segments, TruncateBefore(%d): the first record is %d", before, index, first)
			}
			if got := read(t, l, first); uint64(len(got)) != 13-first {
				t.Errorf("TruncateBefore(%d) left %d records from %d on", index, len(got), first)
			}
			if _, err := one(l, first-1); first > 1 && !errors.Is(err, journal.ErrGone) {
				t.Errorf("a read of the record before the first: %v", err)
			}
			after := index + 1
			err := l.TruncateAfter(after)
			if gone := after+1 < first; gone != (err != nil) {
				t.Errorf("TruncateAfter(%d) of a log from %d on: %v", after, first, err)
			}
			if want := min(max(after, first-1), 12); l.Last() != want {
				t.Errorf("TruncateAfter(%d) left records up to %d, want %d", after, l.Last(), want)
			}
			last := l.Last()
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			fs.Crash()
			if l = memLog(t, fs); l.First() != first || l.Last() != last || uint64(len(read(t, l, first))) != last+1-first {
				t.Errorf("after a restart: records %d to %d, want %d to %d", l.First(), l.Last(), first, last)
			}
		}
	}
}

// one reads one record.
func one(l *journal.Log, index uint64) (journal.Record, error) {
	for r, err := range l.Read(index) {
		return r, err
	}
	return journal.Record{}, nil
}

// TestPowerLossWhileTruncating: whenever the power fails while segments are removed, the
// rest has no gap.
func TestPowerLossWhileTruncating(t *testing.T) {
	seeds := uint64(8)
	if testing.Short() {
		seeds = 2
	}
	for name, truncate := range map[string]func(l *journal.Log) error{
		"before": func(l *journal.Log) error { return l.TruncateBefore(12) },
		"after":  func(l *journal.Log) error { return l.TruncateAfter(1) },
		"reset":  func(l *journal.Log) error { return l.Reset(100) },
	} {
		for seed := range seeds {
			for stop := 1; ; stop++ {
				fs := memfs.New(seed*100 + uint64(stop))
				l := segmented(t, fs, 1)
				fs.StopAfter(stop)
				err := truncate(l)
				_ = l.Close()
				fs.StopAfter(-1)
				fs.Crash()
				again := memLog(t, fs)
				first, last := again.First(), again.Last()
				if got := read(t, again, first); uint64(len(got)) != last+1-first {
					t.Fatalf("%s, power lost after %d changes, seed %d: %d records of %d to %d", name, stop, seed, len(got), first, last)
				}
				if whole := last == 12 && first == 1; err == nil && whole {
					t.Fatalf("%s: it returned, and a loss of power brought all records back", name)
				}
				if err == nil {
					break
				}
			}
		}
	}
}
