package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/skerrydb/skerry/bench/rig"
	"github.com/skerrydb/skerry/bench/rig/trio"
)

// writers write new keys, each writer one after another, whatever happens to nodes.
type writers struct {
	c     *trio.Cluster
	run   string // prefix of their keys
	start time.Time
	stop  context.CancelFunc
	done  sync.WaitGroup
	each  []*writer
}

type writer struct {
	client trio.Client
	mu     sync.Mutex // guards what follows
	acks   []ack
	failed int   // calls without a response
	last   error // of them
}

// ack is one acknowledged write; its key's number is its index.
type ack struct {
	key int
	end time.Duration // since the writers started
	lat time.Duration
}

// writerCount is how many writers run at once.
const writerCount = 16

// patience is how long a client waits for one response while nodes fail and return.
const patience = 300 * time.Millisecond

// retryPause is how long a writer waits after a failed call.
const retryPause = 5 * time.Millisecond

// startWriters spreads writers over all nodes.
func startWriters(c *trio.Cluster, run string) (*writers, error) {
	ctx, stop := context.WithCancel(context.Background())
	w := &writers{c: c, run: run, start: time.Now(), stop: stop}
	for i := range writerCount {
		addrs := c.Addrs(trio.PortData, i%trio.Size, (i+1)%trio.Size, (i+2)%trio.Size)
		cl, err := c.Client(addrs)
		if err != nil {
			stop()
			w.end()
			return nil, err
		}
		w.each = append(w.each, &writer{client: cl})
	}
	for i, one := range w.each {
		w.done.Go(func() { w.write(ctx, i, one) })
	}
	return w, nil
}

func (w *writers) key(writer, n int) string { return fmt.Sprintf("%s-%d-%d", w.run, writer, n) }

func (w *writers) write(ctx context.Context, id int, one *writer) {
	val := string(rig.AppendVal(nil, uint64(id)))
	for n := 0; ctx.Err() == nil; n++ {
		from := time.Now()
		call, cancel := context.WithTimeout(context.Background(), patience)
		err := one.client.Put(call, w.key(id, n), val)
		cancel()
		now := time.Now()
		one.mu.Lock()
		if err == nil {
			one.acks = append(one.acks, ack{n, now.Sub(w.start), now.Sub(from)})
		} else {
			one.failed, one.last = one.failed+1, err
		}
		one.mu.Unlock()
		if err != nil {
			time.Sleep(retryPause)
		}
	}
}

// now returns the time in the unit of acks.
func (w *writers) now() time.Duration { return time.Since(w.start) }

// end stops them.
func (w *writers) end() {
	w.stop()
	w.done.Wait()
	for _, one := range w.each {
		one.client.Close()
	}
}

// ackedSince counts the writes acknowledged after a time.
func (w *writers) ackedSince(t time.Duration) (n int) {
	for _, one := range w.each {
		one.mu.Lock()
		for i := len(one.acks) - 1; i >= 0 && one.acks[i].end > t; i-- {
			n++
		}
		one.mu.Unlock()
	}
	return n
}

// lastError returns the last error of some writer's call.
func (w *writers) lastError() (err error) {
	for _, one := range w.each {
		one.mu.Lock()
		if one.last != nil {
			err = one.last
		}
		one.mu.Unlock()
	}
	return err
}

// gap returns the longest time without an acknowledged write, of the gaps that ended between two times.
func (w *writers) gap(from, to time.Duration) time.Duration {
	var ends []time.Duration
	for _, one := range w.each {
		for _, a := range one.acks {
			ends = append(ends, a.end)
		}
	}
	slices.Sort(ends)
	longest := time.Duration(0)
	for i := 1; i < len(ends); i++ {
		if ends[i] > from && ends[i] <= to {
			longest = max(longest, ends[i]-ends[i-1])
		}
	}
	return longest
}

// between returns how many writes a second were acknowledged in a period and how long each took.
func (w *writers) between(from, to time.Duration) (rate float64, lat rig.Hist) {
	for _, one := range w.each {
		for _, a := range one.acks {
			if a.end > from && a.end <= to {
				lat.Add(a.lat)
			}
		}
	}
	return float64(lat.Count) / (to - from).Seconds(), lat
}

// readBack is how many writes of each writer before a fault are read back.
const readBack = 50

// lost returns how many of the last writes acknowledged before a fault are missing.
func (w *writers) lost(fault time.Duration) (n int, err error) {
	lead, _, err := w.c.Roles()
	if err != nil {
		return 0, err
	}
	cl, err := w.c.Client(w.c.Addrs(trio.PortData, lead))
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	for id, one := range w.each {
		before := slices.IndexFunc(one.acks, func(a ack) bool { return a.end > fault })
		if before < 0 {
			before = len(one.acks)
		}
		for _, a := range one.acks[max(0, before-readBack):before] {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			v, err := cl.Get(ctx, w.key(id, a.key))
			cancel()
			if err != nil {
				return n, err
			}
			if v == "" {
				n++
			}
		}
	}
	return n, nil
}

// writeBulk writes that many bytes in large values to one node, repeatedly to the same keys.
func writeBulk(c *trio.Cluster, lead int, bytes int64) error {
	const size, keys, workers = 16 << 10, 16 << 10, 32
	val := strings.Repeat(string(rig.AppendVal(nil, 1)), size/rig.ValBytes+1)[:size]
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for id := range workers {
		wg.Go(func() {
			cl, err := c.Client(c.Addrs(trio.PortData, lead))
			if err != nil {
				errs[id] = err
				return
			}
			defer cl.Close()
			for n := id; int64(n)*size < bytes && errs[id] == nil; n += workers {
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				errs[id] = cl.Put(ctx, fmt.Sprintf("bulk-%d", n%keys), val)
				cancel()
			}
		})
	}
	wg.Wait()
	return firstOf(errs)
}

func firstOf(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
