package embedded

import "time"

// lull lets the callers of a batch that was committed come back before the next batch is
// sealed. Callers that wait for answers before they call again would otherwise split in
// two groups that take turns, and every batch would hold only half of their calls. A batch
// costs three nodes as much as hundreds of writes: messages, fsyncs and wake-ups.
//
// A lull ends when as many calls have gathered as waited when the batch was committed, so
// a lone caller waits for nobody. It also ends when it has lasted as long as a commit
// takes. Then the callers do not come back soon: lulls that end so become rare.
//
// executor.mu guards it.
type lull struct {
	alarm alarm // runs raftCommitter.lullOver
	armed bool  // a batch waits for the alarm
	want  int   // calls for which the next batch waits; 0: it does not
	until time.Time
	took  time.Duration // a commit, on average
	vain  int           // lulls in a row that ended without enough calls, up to lullVain
	skip  int           // batches until the next lull
}

// alarm is the part of time.Timer that a lull needs. Simulations implement it too.
type alarm interface {
	Reset(d time.Duration) bool
	Stop() bool
}

const (
	lullMost = 2 * time.Millisecond
	lullVain = 6 // then one batch in 64 has a lull
)

// begin begins a lull after a batch whose commit took so long. waiting is how many calls
// wait, including those of that batch.
func (l *lull) begin(now time.Time, took time.Duration, waiting int) {
	if l.took == 0 {
		l.took = took
	}
	if l.took += (took - l.took) / 8; l.skip > 0 {
		l.skip--
		return
	}
	l.want, l.until = waiting, now.Add(min(l.took, lullMost))
}

// end ends the lull. gathered is how many calls are in the next batch: three quarters of
// those that waited are enough for lulls to go on.
func (l *lull) end(gathered int) {
	if gathered >= l.want-l.want/4 {
		l.vain = 0
	} else {
		l.vain = min(l.vain+1, lullVain)
		l.skip = 1 << l.vain
	}
	l.cancel()
}

// cancel ends the lull, if there is one.
func (l *lull) cancel() {
	if l.armed {
		l.alarm.Stop()
	}
	l.want, l.armed = 0, false
}

// gathers implements committer.
func (c *raftCommitter) gathers(b *batch) bool {
	l := &c.lull
	if l.want == 0 {
		return false
	}
	switch now := c.x.opts.mono(); {
	case len(b.calls) >= l.want || b.full() || !now.Before(l.until):
		l.end(len(b.calls))
		return false
	case !l.armed:
		l.armed = true
		l.alarm.Reset(l.until.Sub(now))
	}
	return true
}

// lullOver seals the batch for which the alarm was set.
func (c *raftCommitter) lullOver() {
	x := c.x
	x.mu.Lock()
	armed := c.lull.armed
	c.lull.armed = false
	var b *batch
	if !x.running { // a runner seals when it has run the queued calls, and looks at the time
		if armed {
			c.lull.end(len(x.open.calls))
		}
		b = x.sealIfFree()
	}
	x.mu.Unlock()
	if b != nil {
		x.hand(b)
	}
}
