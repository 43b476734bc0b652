package disk

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/journal"
)

// filled returns a store with n values of 1.8 kB on the machine's disk.
func filled(b *testing.B, dir string, n int) *Store {
	o := realOptions(dir)
	o.MaxBytes, o.BatchEntries = 4<<30, 0
	s := open(b, o)
	value := []byte(strings.Repeat("v", 1800))
	for i := range n {
		for !s.Put(fmt.Sprint("department/", i), value) {
			if err := s.Sync(); err != nil {
				b.Fatal(err)
			}
		}
	}
	s.Mark("p")
	if err := s.Sync(); err != nil {
		b.Fatal(err)
	}
	return s
}

// BenchmarkGet reads random values of 1.8 kB from 100,000.
func BenchmarkGet(b *testing.B) {
	const n = 100_000
	s := filled(b, b.TempDir(), n)
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprint("department/", i)
	}
	buf := make([]byte, 0, 4<<10)
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := s.Get(buf, keys[rand.IntN(n)]); !ok {
			b.Fatal("not found")
		}
	}
}

// BenchmarkPut writes values of 1.8 kB, durable in batches of the default size.
func BenchmarkPut(b *testing.B) {
	s := filled(b, b.TempDir(), 0)
	value := []byte(strings.Repeat("v", 1800))
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if i++; !s.Put(fmt.Sprint("department/", i), value) {
			if err := s.Sync(); err != nil {
				b.Fatal(err)
			}
		}
	}
	if err := s.Sync(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkOpen reads a log of 100,000 values of 1.8 kB.
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	if err := filled(b, dir, 100_000).Close(); err != nil {
		b.Fatal(err)
	}
	o := realOptions(dir)
	o.MaxBytes, o.FS = 4<<30, journal.OS()
	for b.Loop() {
		s, err := Open(o)
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkIndex reports the memory of an entry of the index.
func BenchmarkIndex(b *testing.B) {
	const n = 1_000_000
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		index := map[uint64]location{}
		for i := range n {
			index[rand.Uint64()] = location{number: uint32(i)}
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		runtime.KeepAlive(index)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, "B/entry")
	}
}
