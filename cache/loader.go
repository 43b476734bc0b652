package cache

import (
	"context"
	"runtime/debug"
	"sync"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// endWithin is how long a cache that closes waits for a source that was cancelled.
const endWithin = 5 * time.Second

// loader runs loads of the source: at most Options.Loads calls at once, each for at most Options.Gather keys.
// Keys gather while all calls are under way.
type loader struct {
	ctx    context.Context // of all calls of the source
	cancel context.CancelFunc
	max    int // Options.Queued
	calls  sync.WaitGroup

	mu       sync.Mutex // guards the fields below
	reserved int        // loads that are queued, or may be
	queue    []*load
	active   int   // calls of the source under way
	closed   error // why no more begin
}

func (d *loader) init(most int) {
	d.ctx, d.cancel = context.WithCancel(context.Background())
	d.max = most
}

// reserve takes a place in the queue, and reports whether there was one.
func (d *loader) reserve() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.reserved >= d.max {
		return false
	}
	d.reserved++
	return true
}

// release gives a place back that was not used.
func (d *loader) release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reserved--
}

// take removes at most n loads from the queue for a goroutine that is free. With none, the goroutine ends.
func (d *loader) take(n int) []*load {
	d.mu.Lock()
	defer d.mu.Unlock()
	n = min(n, len(d.queue))
	if n == 0 {
		d.active--
		d.queue = nil
		return nil
	}
	batch := d.queue[:n:n]
	d.queue = d.queue[n:]
	d.reserved -= n
	return batch
}

// waiting returns how many loads wait for a call of the source.
func (d *loader) waiting() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.queue)
}

// running returns how many calls of the source are under way.
func (d *loader) running() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.active
}

// closeLoader fails what is queued, cancels the calls of the source, and waits for them for endWithin.
func (c *Cache) closeLoader() {
	d := &c.loader
	d.cancel()
	d.mu.Lock()
	left := d.queue
	d.reserved -= len(left)
	d.queue, d.closed = nil, c.errClosed()
	d.mu.Unlock()
	for _, l := range left {
		c.fail(l, d.closed)
	}
	ended := make(chan struct{})
	go func() {
		d.calls.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(endWithin):
		c.o.Logger.Warn("the source still loads although the cache is closed", "calls", d.running())
	}
}

// enqueue queues a load that has a place, and starts a goroutine for it, if one may start.
func (c *Cache) enqueue(l *load) {
	d := &c.loader
	d.mu.Lock()
	if d.closed != nil {
		d.reserved--
		d.mu.Unlock()
		c.fail(l, d.closed)
		return
	}
	d.queue = append(d.queue, l)
	if d.active < c.o.Loads {
		d.active++
		d.calls.Go(func() {
			for batch := d.take(c.o.Gather); batch != nil; batch = d.take(c.o.Gather) {
				c.ask(batch)
			}
		})
	}
	d.mu.Unlock()
}

func (c *Cache) errQueueFull() error {
	return engine.Errorf(engine.CodeQueueFull, "cache %s: %d keys are waiting to be loaded", c.o.Name, c.o.Queued)
}

// fail ends a load with an error.
func (c *Cache) fail(l *load, err error) {
	l.err = err
	c.finish(l, nil, false)
}

// ask loads a batch. If one key may be the reason why all failed, it loads each alone.
func (c *Cache) ask(batch []*load) {
	keys := make([]string, len(batch))
	var newest Position
	for i, l := range batch {
		s := c.shard(l.key)
		s.mu.Lock()
		l.begun = true // from here on, a change makes it dirty
		newest = max(newest, l.atLeast)
		s.mu.Unlock()
		keys[i] = l.key
	}
	c.count.loads.Add(1)
	c.count.loaded.Add(uint64(len(keys)))
	a, late := c.call(keys, newest)
	switch {
	case a.err == nil:
		for i, l := range batch {
			c.keep(l, a.entries[i])
		}
	case len(batch) > 1 && !engine.Retryable(a.err):
		for i := range batch {
			c.ask(batch[i : i+1])
		}
	default:
		c.count.failed.Add(uint64(len(batch)))
		for _, l := range batch {
			c.fail(l, a.err)
		}
	}
	if late != nil {
		<-late // no more than Options.Loads calls run
	}
}

// keep ends a load with what the source returned.
func (c *Cache) keep(l *load, e Entry) {
	if err := e.check(l.key); err != nil {
		c.o.Logger.Error("the source returned what a cache cannot keep", "err", err)
		c.count.failed.Add(1)
		c.fail(l, err)
		return
	}
	ttl := c.o.TTL
	if e.Missing {
		ttl = c.o.MissingTTL
	}
	if e.TTL > 0 && (ttl == 0 || e.TTL < ttl) {
		ttl = e.TTL
	}
	now, deadline := c.clock.now(), int64(0)
	if ttl > 0 {
		deadline = now + int64(ttl)
	}
	l.entry = e
	c.finish(l, e.append(nil, now, deadline), true)
}

// answer is what the source returned.
type answer struct {
	entries []Entry
	err     error
}

// call calls the source, and waits for Options.LoadTimeout at most. late is nil, or receives once when a source
// that took longer has returned; its answer is not used.
func (c *Cache) call(keys []string, newest Position) (a answer, late <-chan answer) {
	ctx, cancel := context.WithTimeout(context.WithValue(c.loader.ctx, atLeast{}, newest), c.o.LoadTimeout)
	defer cancel()
	answered := make(chan answer, 1)
	go func() {
		var a answer
		defer func() {
			if p := recover(); p != nil {
				c.o.Logger.Error("the source panicked", "panic", p, "stack", string(debug.Stack()))
				a = answer{err: engine.Errorf(engine.CodeInternal, "cache %s: the source panicked", c.o.Name)}
			}
			answered <- a
		}()
		a.entries, a.err = c.o.Source.Load(ctx, keys)
	}()
	select {
	case a = <-answered:
		if a.err == nil && len(a.entries) != len(keys) {
			a.err = engine.Errorf(engine.CodeInternal, "cache %s: the source returned %d entries for %d keys", c.o.Name, len(a.entries), len(keys))
		}
		return a, nil
	case <-ctx.Done():
	}
	a.err = engine.Errorf(engine.CodeUnavailable, "cache %s: the source did not answer within %v", c.o.Name, c.o.LoadTimeout)
	if c.loader.ctx.Err() != nil {
		a.err = c.errClosed()
	}
	return a, answered
}
