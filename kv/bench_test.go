package kv_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
)

// BenchmarkTx compares one operation on 100,000 keys with the engine operations that it
// uses, 1,000 of them in a transaction.
func BenchmarkTx(b *testing.B) {
	const keys = 100_000
	s, eng, _ := open(b)
	fill(b, s, 0, keys, kv.SetOptions{})
	name := make([][]byte, keys)
	raw := make([][]byte, keys)
	for i := range name {
		name[i] = fmt.Appendf(nil, "key %06d", i)
		raw[i] = append([]byte("k\x00"), name[i]...)
	}
	val, rec := make([]byte, 100), make([]byte, 109)
	var t kv.Tx
	for _, bm := range []struct {
		name string
		op   func(tx engine.Tx, i int) error
	}{
		{"get/engine", func(tx engine.Tx, i int) error { _, _, err := tx.Get(raw[i]); return err }},
		{"get/kv", func(_ engine.Tx, i int) error { _, _, err := t.Get(name[i]); return err }},
		{"set/engine", func(tx engine.Tx, i int) error {
			_, _, err := tx.Get(raw[i])
			return errors.Join(err, tx.Put(raw[i], rec))
		}},
		{"set/kv", func(_ engine.Tx, i int) error {
			_, err := t.Set(name[i], val, kv.SetOptions{SkipOld: true})
			return err
		}},
		{"set/kv old", func(_ engine.Tx, i int) error { _, err := t.Set(name[i], val, kv.SetOptions{}); return err }},
	} {
		b.Run(bm.name, func(b *testing.B) {
			b.ReportAllocs()
			for n := 0; n < b.N; n += 1000 {
				_, err := eng.Update(context.Background(), func(tx engine.Tx) error {
					t.Bind(tx, 0)
					for j := n; j < min(b.N, n+1000); j++ {
						if err := bm.op(tx, j*7919%keys); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkSetWhileExpiring measures a write during the deletion of 100,000 keys that
// expired at once, and without it.
func BenchmarkSetWhileExpiring(b *testing.B) {
	for _, expired := range []int{0, 100_000} {
		b.Run(fmt.Sprint(expired), func(b *testing.B) {
			s, eng, c := open(b)
			fill(b, s, 0, expired, kv.SetOptions{TTL: time.Minute})
			c.Add(time.Hour)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			ended := make(chan error)
			go func() { ended <- s.Run(ctx) }()
			var longest time.Duration
			for b.Loop() {
				from := time.Now()
				if _, _, err := s.Set(ctx, 1, []byte("k"), []byte("v"), kv.SetOptions{SkipOld: true}); err != nil {
					b.Fatal(err)
				}
				longest = max(longest, time.Since(from))
			}
			b.ReportMetric(float64(longest.Microseconds()), "longest-µs")
			b.ReportMetric(float64(stored(b, eng, "x")), "left")
			cancel()
			<-ended
		})
	}
}

// BenchmarkIdleWatchers measures one commit that matches no watcher, with n watchers of
// other keys. The time includes the cost of waking the watchers.
func BenchmarkIdleWatchers(b *testing.B) {
	for _, n := range []int{0, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s, _, _ := open(b)
			ctx, cancel := context.WithCancel(context.Background())
			var work sync.WaitGroup
			defer work.Wait()
			defer cancel()
			set(b, s, "busy", "", kv.SetOptions{})
			memory, routines := inUse()
			begun := make(chan struct{})
			for i := range n {
				work.Go(func() {
					next, stop := iter.Pull2(s.Watch(ctx, 0, fmt.Appendf(nil, "idle/%d/", i), 0))
					defer stop()
					if _, err, ok := next(); err != nil || !ok {
						b.Error("no event", err)
					}
					begun <- struct{}{}
					next()
				})
				set(b, s, fmt.Sprintf("idle/%d/k", i), "", kv.SetOptions{})
				<-begun
			}
			now, more := inUse()
			var before, after syscall.Rusage
			_ = syscall.Getrusage(syscall.RUSAGE_SELF, &before)
			for b.Loop() {
				set(b, s, "busy", "", kv.SetOptions{})
			}
			_ = syscall.Getrusage(syscall.RUSAGE_SELF, &after)
			cpu := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
			b.ReportMetric(float64(cpu)/float64(b.N), "cpu-ns/op")
			b.ReportMetric(float64(now-memory)/float64(max(n, 1)), "B/watcher")
			b.ReportMetric(float64(more-routines)/float64(max(n, 1)), "goroutines/watcher")
		})
	}
}

// inUse returns the memory and the goroutines in use.
func inUse() (memory int64, routines int) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse), runtime.NumGoroutine()
}
