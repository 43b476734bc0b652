package resp

import (
	"sync"
	"sync/atomic"
	"time"
)

// pause blocks clients for CLIENT PAUSE.
type pause struct {
	active atomic.Bool // there may be a pause; check under mu

	mu      sync.Mutex // guards the fields below
	until   time.Time
	all     bool
	changed chan struct{} // closed when a pause begins or ends
}

func (p *pause) init() { p.changed = make(chan struct{}) }

// set begins a pause or extends the present one. As in Redis, the end does not become
// earlier, and the scope does not shrink from all commands to writes.
func (p *pause) set(until time.Time, all bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	running := time.Now().Before(p.until)
	if !running || until.After(p.until) {
		p.until = until
	}
	p.all = all || running && p.all
	p.wake()
	p.active.Store(true)
}

func (p *pause) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.until, p.all = time.Time{}, false
	p.active.Store(false)
	p.wake()
}

func (p *pause) wake() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// remaining returns how long a command has to wait, or 0, and a channel that reports changes of
// the pause.
func (p *pause) remaining(write bool) (time.Duration, chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := time.Until(p.until)
	if d <= 0 {
		p.active.Store(false)
		return 0, nil
	}
	if !p.all && !write {
		return 0, nil
	}
	return d, p.changed
}

func (c *conn) setPaused(on bool) {
	c.mu.Lock()
	c.paused = on
	c.mu.Unlock()
}

// waitPaused finishes the commands before cmd and waits while cmd is blocked.
func (c *conn) waitPaused(cmd *command, args [][]byte) {
	write := c.writes(cmd, args) || cmd.kind == kindExec && c.multi.count >= 0 && c.multi.write
	for first := true; ; first = false {
		d, changed := c.srv.pause.remaining(write)
		if d <= 0 {
			return
		}
		if first {
			c.runOps()
			c.flush()
			c.setPaused(true)
			defer c.setPaused(false)
			c.pushes.idle(c)
			defer c.barrier()
			defer c.pushes.busy()
		}
		t := time.NewTimer(d)
		select {
		case <-t.C:
		case <-changed:
		case <-c.done:
			c.closing = true
			t.Stop()
			return
		}
		t.Stop()
	}
}
