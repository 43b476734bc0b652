package embedded

import (
	"context"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerrydb/skerry/btree"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/journal"
)

// recoveryFolder makes a data folder with a snapshot of keys, each with a value of 100
// bytes, and a log of random overwrites after it.
func recoveryFolder(b *testing.B, keys, writes int) string {
	b.Helper()
	dir, fs := b.TempDir(), journal.OS()
	if err := makeFolders(fs, dir); err != nil {
		b.Fatal(err)
	}
	h := (&snapshot{tree: btree.NewPairs(), pos: 1, time: 1, applied: applied{index: 1}}).head()
	binary.LittleEndian.PutUint64(h[snapshotHead-8:], uint64(keys))
	val := make([]byte, 100)
	err := journal.WriteSnapshot(fs, snapshotName(dir, 1), h, func(w io.Writer) error {
		var line []byte
		for i := range keys {
			line = appendPair(line[:0], pair{sortedKey(i), btree.Value{Bytes: val}}, false)
			if _, err := w.Write(line); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	log, err := journal.Open(filepath.Join(dir, logDir), journal.Options{MaxRecordBytes: maxRecordBytes})
	if err != nil {
		b.Fatal(err)
	}
	rng, pos := rand.New(rand.NewPCG(1, 2)), engine.Position(1)
	for index := uint64(2); writes > 0; index++ {
		batch := newBatch(pos, 64<<10)
		for range min(writes, 512) {
			batch.add(int64(batch.last)+2, 1)
			batch.put(sortedKey(rng.IntN(keys)), val)
			writes--
		}
		pos = batch.last
		if err := log.Append(index, batch.buf); err != nil {
			b.Fatal(err)
		}
		if index%16 == 0 {
			if err := log.Sync(); err != nil {
				b.Fatal(err)
			}
		}
	}
	if err := log.Sync(); err != nil {
		b.Fatal(err)
	}
	if err := log.Close(); err != nil {
		b.Fatal(err)
	}
	return dir
}

// sortedKey is a key of 16 bytes.
func sortedKey(i int) []byte {
	return strconv.AppendInt([]byte("key:"), 100_000_000_000+int64(i)*10, 10)
}

// BenchmarkRecovery opens a folder whose log has overwrites of a fifth of the keys.
// SKERRY_BENCH_KEYS and SKERRY_BENCH_WRITES set other numbers.
func BenchmarkRecovery(b *testing.B) {
	keys, writes := 100_000, 20_000
	for name, n := range map[string]*int{"SKERRY_BENCH_KEYS": &keys, "SKERRY_BENCH_WRITES": &writes} {
		if text := os.Getenv(name); text != "" {
			var err error
			if *n, err = strconv.Atoi(text); err != nil {
				b.Fatal(err)
			}
		}
	}
	dir := recoveryFolder(b, keys, writes)
	load, cpu := time.Duration(0), time.Duration(0)
	for b.Loop() {
		before := cpuTime(b)
		db, err := Open(dir, Options{Logger: quiet(), SnapshotBytes: 1 << 40, MemoryBytes: 1 << 40})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		load += time.Duration(db.counts.loadNanos.Load())
		cpu += cpuTime(b) - before
		if n := db.exec.size.keys; n != keys {
			b.Fatalf("%d keys, want %d", n, keys)
		}
		if err := db.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(load.Seconds()/float64(b.N), "load-s/op")
	b.ReportMetric(cpu.Seconds()/float64(b.N), "cpu-s/op")
}

// BenchmarkPutBesideSnapshot compares the latency of writes without a snapshot, beside a
// paced one and beside one without pauses, in turn. Each caller has 64 transactions at a
// time.
func BenchmarkPutBesideSnapshot(b *testing.B) {
	keys := 100_000
	if text := os.Getenv("SKERRY_BENCH_KEYS"); text != "" {
		var err error
		if keys, err = strconv.Atoi(text); err != nil {
			b.Fatal(err)
		}
	}
	db, err := Open(recoveryFolder(b, keys, 0), Options{Logger: quiet(), SnapshotBytes: 1 << 40, MemoryBytes: 1 << 40})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	paces := []struct {
		name string
		save func()
	}{
		{"none", func() { time.Sleep(2 * time.Second) }},
		{"paced", func() { _ = db.savePaced() }},
		{"fast", func() { _, _ = db.saveSnapshot() }},
	}
	took := make([][]time.Duration, len(paces))
	var spent [3]time.Duration
	for b.Loop() {
		for i, p := range paces {
			began := time.Now()
			took[i] = append(took[i], putUntil(b, db, keys, p.save)...)
			spent[i] += time.Since(began)
		}
	}
	for i, p := range paces {
		slices.Sort(took[i])
		n := len(took[i])
		b.ReportMetric(float64(took[i][n/2].Microseconds())/1e3, p.name+"-p50-ms")
		b.ReportMetric(float64(took[i][n*99/100].Microseconds())/1e3, p.name+"-p99-ms")
		b.ReportMetric(float64(n)*64/spent[i].Seconds()/1e3, p.name+"-k/s")
		b.ReportMetric(spent[i].Seconds()/float64(b.N), p.name+"-s")
	}
}

// putUntil has 8 callers write until save has returned, and returns how long their calls
// took.
func putUntil(b *testing.B, db *DB, keys int, save func()) (took []time.Duration) {
	b.Helper()
	var callers sync.WaitGroup
	var ended atomic.Bool
	all := make([][]time.Duration, 8)
	for c := range all {
		callers.Go(func() {
			rng, val := rand.New(rand.NewPCG(1, uint64(c))), make([]byte, 100)
			for !ended.Load() {
				began := time.Now()
				if _, err := db.UpdateEach(context.Background(), 64, func(tx engine.Tx, _ int) error {
					return tx.Put(sortedKey(rng.IntN(keys)), val)
				}); err != nil {
					b.Error(err)
					return
				}
				all[c] = append(all[c], time.Since(began))
			}
		})
	}
	save()
	ended.Store(true)
	callers.Wait()
	return slices.Concat(all...)
}
