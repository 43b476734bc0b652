package embedded

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// clock is the time of transactions and of the expiry of keys. It never goes back.
// While this node is the leader, or is alone, the machine's clock drives it. If the two
// differ (the machine's clock was set back, or the previous leader had a different one),
// the difference shrinks by a tenth of the elapsed time, so that the time neither
// stands still nor jumps. While the node follows, the time is the leader's last
// reported time plus the elapsed monotonic time.
type clock struct {
	now   func() time.Time
	mono  func() time.Time // monotonic
	last  atomic.Int64     // the newest time returned or received, in microseconds
	ahead atomic.Int64     // how far the time is ahead of now, in microseconds
	known atomic.Bool      // this node is the leader, or has received the leader's time
	leads atomic.Bool      // this node drives the time: it is the leader, or alone

	mu      sync.Mutex   // guards changes of ahead and shrunk, and the fields below
	shrunk  atomic.Int64 // reading of now up to which ahead has been shrunk
	heard   int64        // the leader's last reported time
	heardAt time.Time    // by mono
}

const (
	slew      = 10     // ahead shrinks by the elapsed time divided by slew
	slewEvery = 1000   // microseconds
	backStep  = 10_000 // microseconds; if now is behind by more, it was set back
)

// micros returns the time in microseconds since the Unix epoch. It advances the time
// only on a leader or a node that is alone.
func (c *clock) micros() int64 {
	t := c.reading()
	for {
		last := c.last.Load()
		if t <= last {
			if last-t > backStep {
				c.goOn()
			}
			return last
		}
		if c.last.CompareAndSwap(last, t) {
			return t
		}
	}
}

// reading returns the time according to the machine's clock. It may be behind last.
func (c *clock) reading() int64 {
	now := c.now().UnixMicro()
	ahead := c.ahead.Load()
	if passed := now - c.shrunk.Load(); ahead == 0 || 0 <= passed && passed < slewEvery {
		return now + ahead
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	ahead = c.ahead.Load()
	part := max(0, now-c.shrunk.Load()) / slew // none if now was set back
	ahead = max(0, ahead-part) + min(0, ahead+part)
	c.set(ahead, now)
	return now + ahead
}

// set changes both. The caller holds mu.
func (c *clock) set(ahead, now int64) {
	c.ahead.Store(ahead)
	c.shrunk.Store(now)
}

// goOn makes the time continue from last, which the machine's clock has not reached.
func (c *clock) goOn() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now().UnixMicro()
	if ahead := c.last.Load() - now; ahead-c.ahead.Load() > backStep {
		c.set(ahead, now)
	}
}

// raise makes sure that the time is never again before t.
func (c *clock) raise(t int64) {
	for last := c.last.Load(); t > last && !c.last.CompareAndSwap(last, t); last = c.last.Load() {
	}
}

// lead makes this node drive the time from now on.
func (c *clock) lead() {
	if c.leads.Load() {
		return
	}
	t := c.estimate()
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now().UnixMicro()
	if c.known.Swap(true) {
		c.set(t-now, now)
	}
	c.leads.Store(true)
}

// stepDown is called when this node stops being the leader. Changes of its machine's
// clock from now on must not matter if it becomes the leader again.
func (c *clock) stepDown() {
	if c.leads.Load() {
		c.follow(c.estimate())
	}
}

// follow sets the leader's time; 0: it was not reported.
func (c *clock) follow(t int64) {
	c.leads.Store(false)
	c.raise(t)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard, c.heardAt = t, c.mono()
	c.known.Store(t != 0)
}

// estimate returns the time as far as this node knows it, without driving it.
func (c *clock) estimate() int64 {
	if c.leads.Load() || !c.known.Load() {
		return max(c.last.Load(), c.reading())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(c.last.Load(), c.heard+c.mono().Sub(c.heardAt).Microseconds())
}

// flight records the start of transactions that have run but are not visible to readers
// yet. The time of a read must not be after theirs: it could see a key as expired that
// a transaction committed later has seen alive.
type flight struct {
	running atomic.Int64 // not after any transaction of the open batch; 0: it has none
	pending atomic.Int64 // the same for the batch being committed
	held    atomic.Int64 // the same for a batch in flight at a Hold, until it arrives in the log
}

const beginning = -1 // running is being set

// begin returns the time for a call that runs now.
func (f *flight) begin(c *clock) int64 {
	if f.running.Load() != 0 {
		return c.micros()
	}
	f.running.Store(beginning) // so that bound either comes before this or waits
	now := c.micros()
	f.running.Store(max(1, now))
	return now
}

// seal, land and drop follow the open batch: it is being committed, it is visible to
// readers, or it and the batch being committed are lost.
func (f *flight) seal() {
	f.pending.Store(f.running.Load())
	f.running.Store(0) // in this order; bound reads them in the reverse order
}
func (f *flight) land() { f.pending.Store(0) }
func (f *flight) drop() {
	f.running.Store(0)
	f.pending.Store(0)
}

// hold is called before drop if the batch in flight may still be committed while this
// node remains the leader. settled is called once that has happened or can no longer
// happen.
func (f *flight) hold(at int64) { f.held.Store(max(1, at)) }
func (f *flight) settled()      { f.held.Store(0) }

// bound returns the time of a read that sees everything visible now. It is not before
// that of any earlier read and not after that of anything that becomes visible later.
func (f *flight) bound(c *clock) int64 {
	t := c.micros()
	r := f.running.Load()
	for ; r == beginning; r = f.running.Load() {
		runtime.Gosched()
	}
	if r != 0 {
		t = min(t, r)
	}
	if p := f.pending.Load(); p != 0 {
		t = min(t, p)
	}
	if h := f.held.Load(); h != 0 { // after pending, which is dropped after held is set
		t = min(t, h)
	}
	return t
}
