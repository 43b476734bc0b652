package journal_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/skerrydb/skerry/journal"
)

// percentiles reports where the durations lie.
func percentiles(b *testing.B, d []time.Duration) {
	slices.Sort(d)
	for _, p := range []int{50, 99} {
		b.ReportMetric(float64(d[len(d)*p/100].Nanoseconds())/1000, fmt.Sprintf("p%d-µs", p))
	}
	b.ReportMetric(float64(d[len(d)-1].Nanoseconds())/1000, "max-µs")
}

var benchSizes = []int{128, 4 << 10, 64 << 10}

// BenchmarkSync is one Append and Sync at a time. Compare with BenchmarkBare.
func BenchmarkSync(b *testing.B) {
	for _, n := range benchSizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			l := open(b, b.TempDir(), journal.Options{})
			rec := make([]byte, n)
			appendSync(b, l, 1, 1, "")
			time.Sleep(100 * time.Millisecond) // a server, too, has begun before its first write
			before := l.Stats()
			d := make([]time.Duration, 0, b.N)
			b.ReportAllocs()
			for b.Loop() {
				begin := time.Now()
				if err := l.Append(l.Last()+1, rec); err != nil {
					b.Fatal(err)
				}
				if err := l.Sync(); err != nil {
					b.Fatal(err)
				}
				d = append(d, time.Since(begin))
			}
			percentiles(b, d)
			b.ReportMetric(float64(l.Stats().Waits-before.Waits), "waits")
		})
	}
}

// BenchmarkBare is the same write to a file that is all zeros beforehand, and
// fdatasync: the floor.
func BenchmarkBare(b *testing.B) {
	for _, n := range benchSizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			f, err := journal.OS().OpenFile(filepath.Join(b.TempDir(), "f"), os.O_RDWR|os.O_CREATE)
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			const size = 64 << 20
			if _, err := f.WriteAt(make([]byte, size), 0); err != nil {
				b.Fatal(err)
			}
			if err := f.Sync(); err != nil {
				b.Fatal(err)
			}
			rec := make([]byte, n)
			for i := range rec {
				rec[i] = byte(i) | 1
			}
			off := int64(0)
			d := make([]time.Duration, 0, b.N)
			for b.Loop() {
				begin := time.Now()
				if _, err := f.WriteAt(rec, off); err != nil {
					b.Fatal(err)
				}
				if err := f.Sync(); err != nil {
					b.Fatal(err)
				}
				d = append(d, time.Since(begin))
				off = (off + int64(n)) % (size - 64<<10)
			}
			percentiles(b, d)
		})
	}
}

// BenchmarkRead is the recovery of a log of 100-byte records, 64 a frame.
func BenchmarkRead(b *testing.B) {
	dir := b.TempDir()
	l := open(b, dir, journal.Options{})
	rec := make([]byte, 100)
	const n = 200_000
	for i := uint64(1); i <= n; i++ {
		if err := l.Append(i, rec); err != nil {
			b.Fatal(err)
		}
		if i%64 == 0 {
			if err := l.Sync(); err != nil {
				b.Fatal(err)
			}
		}
	}
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(n * 104)
	for b.Loop() {
		l := open(b, dir, journal.Options{Inline: true})
		if got := len(read(b, l, 1)); got != n {
			b.Fatal(got)
		}
		if err := l.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// TestNoAllocation: in the steady state a Sync allocates nothing.
func TestNoAllocation(t *testing.T) {
	l := open(t, t.TempDir(), journal.Options{})
	rec := make([]byte, 100)
	one := func() {
		if err := l.Append(l.Last()+1, rec); err != nil {
			t.Fatal(err)
		}
		if err := l.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	one()
	time.Sleep(50 * time.Millisecond) // the background reserves space meanwhile
	if n := testing.AllocsPerRun(500, one); n >= 1 {
		t.Errorf("%v allocations a Sync", n)
	}
}
