package embedded

import (
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// BenchmarkClusterUpdate writes through the leader of three nodes in one process:
// what a write costs all of them together.
func BenchmarkClusterUpdate(b *testing.B) {
	for _, callers := range []int{1, 8, 64} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			c := newTrio(b, 3)
			db := c.leader()
			b.ResetTimer()
			putEach(b, callers, func(int) *DB { return db })
		})
	}
}

// BenchmarkGroups spreads the same callers over several clusters in one process:
// what it would cost to split the data over groups (docs/decisions/0015).
func BenchmarkGroups(b *testing.B) {
	for _, groups := range []int{1, 2, 4, 8} {
		b.Run(fmt.Sprint(groups), func(b *testing.B) {
			dbs := make([]*DB, groups)
			for g := range dbs {
				dbs[g] = newTrio(b, 3).leader()
			}
			const callers = 8
			start := cpuTime(b)
			b.ResetTimer()
			putEach(b, callers, func(w int) *DB { return dbs[w%groups] })
			b.StopTimer()
			b.ReportMetric(float64((cpuTime(b)-start).Nanoseconds())/float64(b.N), "cpu-ns/op")
			start = cpuTime(b)
			time.Sleep(time.Second)
			b.ReportMetric(float64((cpuTime(b)-start).Microseconds())/float64(groups), "idle-cpu-µs/s/group")
		})
	}
}

// putEach lets callers put b.N values of 100 bytes, 64 at a time.
func putEach(b *testing.B, callers int, db func(caller int) *DB) {
	const each = 64
	val := make([]byte, 100)
	var work sync.WaitGroup
	for w := range callers {
		work.Go(func() {
			key := fmt.Appendf(nil, "key%012d", w)
			for range b.N / callers / each {
				_, err := db(w).UpdateEach(b.Context(), each, func(tx engine.Tx, i int) error {
					key[4] = byte(i)
					return tx.Put(key, val)
				})
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	work.Wait()
}

// cpuTime is what the process has used.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
