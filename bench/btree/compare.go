package main

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"syscall"
	"time"
)

// contender is a library: measure builds a map and returns the results of one round, in the order of ops.
type contender struct {
	name    string
	measure func(clock) []float64
}

// op is one row of the table. Its target is a factor of tidwall's result; 0: none.
type op struct {
	name   string
	target float64
}

var ops = []op{
	{"insert, random order", 1},
	{"get", 0.5},
	{"get miss", 0.35},
	{"overwrite", 0.55},
	{"delete", 0.55},
	{"reinsert", 0},
	{"full scan, per item", 0.7},
	{"clone + one write", 0.55},
	{"clone + 100 writes, per write", 0},
	{"bytes per entry", 1.1},
}

// compare runs all contenders by turns, rounds times, prints the table and returns the number of missed
// targets.
func compare(w io.Writer, now clock, name string, rounds int, list []contender) (missed int) {
	figures := make([][][]float64, len(list)) // contender, op, round
	for c := range list {
		figures[c] = make([][]float64, len(ops))
	}
	for round := range rounds {
		for i := range list {
			c := (i + round) % len(list)
			for o, ns := range list[c].measure(now) {
				figures[c][o] = append(figures[c][o], ns)
			}
		}
	}
	fmt.Fprintf(w, "\n%s\n%-31s", name, "")
	for _, c := range list {
		fmt.Fprintf(w, "%10s", c.name)
	}
	fmt.Fprintf(w, "%12s%12s%9s\n", "x google", "x tidwall", "target")
	for o, row := range ops {
		fmt.Fprintf(w, "%-31s", row.name)
		var med []float64
		for c := range list {
			med = append(med, median(figures[c][o]))
			fmt.Fprintf(w, "%10.1f", med[c])
		}
		ratio := med[2] / med[1]
		fmt.Fprintf(w, "%12.2f%12.2f", med[2]/med[0], ratio)
		switch {
		case row.target == 0:
		case ratio <= row.target:
			fmt.Fprintf(w, "%9.2f  met", row.target)
		default:
			fmt.Fprintf(w, "%9.2f  MISSED", row.target)
			missed++
		}
		fmt.Fprintln(w)
	}
	return missed
}

func median(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	n := len(list)
	return (list[(n-1)/2] + list[n/2]) / 2
}

// contend makes a contender of a map. kept returns the keys for the map to keep; it is called before the clock
// starts, but its result counts as the map's memory.
func contend[K any](name string, keys keySet[K], make func() ordered[K], kept func([]K) []K) contender {
	return contender{name, func(now clock) []float64 {
		before := heap()
		t, own := make(), kept(keys.insert)
		n := len(own)
		insert := now.timed(n, func() {
			for i, k := range own {
				t.set(k, i)
			}
		})
		own = nil
		bytes := float64(heap()-before) / float64(n)
		return append(measure(now, t, keys, n, insert), bytes)
	}}
}

// measure times everything but the first inserts, whose result is an argument.
func measure[K any](now clock, t ordered[K], keys keySet[K], n int, insert float64) []float64 {
	count := func(list []K, fn func(K) bool) (found int) {
		for _, k := range list {
			if fn(k) {
				found++
			}
		}
		return found
	}
	writes := func(list []K, per int) func() {
		return func() {
			for i, k := range list {
				if per > 0 && i%per == 0 {
					t.clone()
				}
				t.set(k, i)
			}
		}
	}
	some, single := keys.lookup[:n/4], keys.lookup[:min(n, 100_000)]
	return []float64{
		insert,
		now.timed(n, func() { must(count(keys.lookup, t.get) == n) }),
		now.timed(len(keys.miss), func() { must(count(keys.miss, t.get) == 0) }),
		now.timed(n, writes(keys.lookup, 0)),
		now.timed(len(some), func() { must(count(some, t.remove) == len(some)) }),
		now.timed(len(some), writes(some, 0)),
		now.timed(n, func() { must(t.scan() != 0) }),
		now.timed(len(single), writes(single, 1)),
		now.timed(n, writes(keys.lookup, 100)),
	}
}

// timed returns the nanoseconds per operation of fn, which does n operations.
func (c clock) timed(n int, fn func()) float64 {
	runtime.GC()
	start := c()
	fn()
	return float64(c()-start) / float64(n)
}

// clock returns nanoseconds since an arbitrary point in time.
type clock func() int64

// cpuClock measures the CPU time of this process. It includes each library's garbage collection in the
// background, and is less disturbed by other processes.
func cpuClock() int64 {
	var u syscall.Rusage
	must(syscall.Getrusage(syscall.RUSAGE_SELF, &u) == nil)
	return u.Utime.Nano() + u.Stime.Nano()
}

func wallClock() int64 { return time.Now().UnixNano() }

// heap returns the bytes of live objects.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func must(ok bool) {
	if !ok {
		panic("BUG: a contender gave a wrong answer")
	}
}
