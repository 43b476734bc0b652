package client

import (
	"math"
	"time"
)

// tick is the resolution of timeouts.
const tick = 10 * time.Millisecond

// sweep runs every tick while anything is in flight. It ends calls that timed out, sends
// delayed calls again, and closes dead connections.
func (c *Client) sweep() {
	t := time.NewTicker(tick)
	defer t.Stop()
	quiet := 0
	for {
		select {
		case <-t.C:
		case <-c.closing:
			return
		}
		now := c.now()
		c.resend(now)
		stranded := false
		for _, n := range *c.nodes.Load() {
			for _, l := range n.links {
				stranded = l.sweep(now) || stranded
			}
			if n.leaving.Load() {
				c.mu.Lock()
				c.dismiss(n)
				c.mu.Unlock()
			}
		}
		if stranded {
			c.rescue()
		}
		if c.inFlight.waiting.Load() > 0 {
			c.inFlight.wake()
		}
		if c.inFlight.used.Load() > 0 {
			quiet = 0
			continue
		}
		if quiet++; quiet < 100 {
			continue
		}
		t.Stop()
		if !c.sleep() {
			return
		}
		t.Reset(tick)
		quiet = 0
	}
}

// sleep waits until something is in flight. It returns false if the client is closed.
func (c *Client) sleep() bool {
	c.asleep.Store(true)
	defer c.asleep.Store(false)
	if c.inFlight.used.Load() > 0 {
		return true
	}
	select {
	case <-c.roused:
		return true
	case <-c.closing:
		return false
	}
}

// rouse ends sleep.
func (c *Client) rouse() {
	select {
	case c.roused <- struct{}{}:
	default:
	}
}

// resend queues the calls whose pause is over.
func (c *Client) resend(now int64) {
	var due []slot
	var over []slot
	c.delayedMu.Lock()
	keep := c.delayed[:0]
	for _, d := range c.delayed {
		switch {
		case d.at <= now:
			due = append(due, d.s)
		case d.s.deadline != 0 && d.s.deadline <= now:
			over = append(over, d.s)
		default:
			keep = append(keep, d)
		}
	}
	clear(c.delayed[len(keep):])
	c.delayed = keep
	c.delayedMu.Unlock()
	for _, s := range over {
		c.inFlight.release(1)
		c.notifier.notify(s, contextError(errTime))
	}
	if len(due) > 0 {
		c.move(due)
	}
}

// sweep ends the calls of one link that timed out. It reports whether there are calls
// without a connection.
func (l *link) sweep(now int64) (stranded bool) {
	l.mu.Lock()
	l.looked(now)
	q := &l.q
	var list []ending
	if now >= l.earliest {
		l.earliest = math.MaxInt64
		for seq := q.head; seq != q.tail; seq++ {
			s := q.at(seq)
			if s.deadline == 0 || s.flags&(void|dropped) != 0 {
				continue
			}
			if s.deadline > now {
				l.earliest = min(l.earliest, s.deadline)
				continue
			}
			list = append(list, l.giveUp(seq, s))
		}
	}
	freed := 0
	for q.head != q.handed && q.at(q.head).flags&void != 0 {
		var s slot
		q.pop(&s)
		freed++
	}
	for l.nc == nil && l.segments == nil && q.head == q.handed && q.head != q.tail && q.at(q.head).flags&void != 0 {
		var s slot
		q.pop(&s) // it will not be sent, because there is no connection
		q.handed = q.head
		freed++
	}
	dead := false
	if after := int64(l.c.o.DeadAfter); after > 0 && q.head != q.handed && l.nc != nil {
		dead = now-l.heard.Load() > after
	}
	nc := l.nc
	up := l.up.Load()
	stranded = q.tail != q.handed && !up
	q.shrink()
	l.mu.Unlock()
	l.c.inFlight.release(freed)
	if dead {
		nc.Close()
	}
	for i := range list {
		l.c.counts.timedOut.Add(1)
		l.c.notifier.notify(list[i].s, l.c.endError(l, &list[i], errTime, up))
	}
	return stranded
}

// strand takes the calls of a link that has no connection.
func (l *link) strand() []slot {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.up.Load() || l.q.head == l.q.tail || l.segments != nil || l.q.head != l.q.handed {
		return nil
	}
	list := l.q.drain()
	for i := range list {
		if list[i].w != nil {
			list[i].w.place.Store(nil)
		}
	}
	return list
}
