package client_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/skerrydb/skerry/ci/redisserver"
	"github.com/skerrydb/skerry/client"
)

// cpu returns the CPU time of this process.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// measured runs fn and reports the CPU time of this process, which runs only the client.
func measured(b *testing.B, fn func()) {
	b.ReportAllocs()
	b.ResetTimer()
	before := cpu()
	fn()
	used := cpu() - before
	b.StopTimer()
	b.ReportMetric(float64(used)/float64(b.N), "cpu-ns/op")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
}

// blocked runs n goroutines, which share b.N calls of do.
func blocked(b *testing.B, n int, do func() error) {
	measured(b, func() {
		var all sync.WaitGroup
		for i := range n {
			mine := b.N / n
			if i < b.N%n {
				mine++
			}
			all.Go(func() {
				for range mine {
					if err := do(); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
	})
}

// BenchmarkClients compares clients on the same redis-server, a separate process.
func BenchmarkClients(b *testing.B) {
	if testing.Short() {
		b.Skip("it takes minutes")
	}
	addr := redisserver.InMemory(b)
	const goroutines = 512
	b.Run("own/async", func(b *testing.B) {
		c := open(b, client.Options{Addrs: []string{addr}, MaxInFlight: 4096})
		if err := c.Ping(background); err != nil {
			b.Fatal(err)
		}
		var all sync.WaitGroup
		all.Add(b.N)
		done := func(_ client.Result, err error) {
			if err != nil {
				b.Error(err)
			}
			all.Done()
		}
		measured(b, func() {
			for i := range b.N {
				if err := c.DoAsync(background, done, "SET", "key", i); err != nil {
					b.Fatal(err)
				}
			}
			all.Wait()
		})
	})
	b.Run("own/blocking", func(b *testing.B) {
		c := open(b, client.Options{Addrs: []string{addr}})
		blocked(b, goroutines, func() error {
			_, err := c.Do(background, "SET", "key", 12345)
			return err
		})
	})
	b.Run("rueidis", func(b *testing.B) {
		c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true, AlwaysPipelining: true})
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		blocked(b, goroutines, func() error {
			return c.Do(background, c.B().Set().Key("key").Value("12345").Build()).Error()
		})
	})
	b.Run("go-redis", func(b *testing.B) {
		c := redis.NewClient(&redis.Options{Addr: addr, PoolSize: 16, PoolTimeout: time.Minute})
		defer c.Close()
		blocked(b, goroutines, func() error { return c.Set(background, "key", 12345, 0).Err() })
	})
	b.Run("go-redis/pipeline", func(b *testing.B) {
		c := redis.NewClient(&redis.Options{Addr: addr, PoolSize: 16})
		defer c.Close()
		measured(b, func() {
			for left := b.N; left > 0; left -= 512 {
				_, err := c.Pipelined(background, func(p redis.Pipeliner) error {
					for range min(left, 512) {
						p.Set(background, "key", 12345, 0)
					}
					return nil
				})
				if err != nil && !errors.Is(err, context.Canceled) {
					b.Fatal(err)
				}
			}
		})
	})
	runtime.KeepAlive(addr)
}
