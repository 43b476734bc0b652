package client

import (
	"bytes"
	"net"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/skerrydb/skerry/resp/wire"
)

// batch is the maximum number of replies completed under one lock.
const batch = 128

// link is one connection to a node, with the calls that use it. It outlives the connection:
// unsent calls wait for the next connection or move to another link.
type link struct {
	c     *Client
	node  *node
	done  chan struct{} // closed when the link is closed
	wake  chan struct{} // wakes an idle writer that has something to write
	up    atomic.Bool   // connected and greeted
	heard atomic.Int64  // when something was last received, or first awaited, on the client's clock
	calls callbacks

	mu       sync.Mutex // guards the fields below
	q        queue
	idle     bool // the writer waits for wake
	closed   bool // no more calls are added
	nc       net.Conn
	tracks   bool       // the connection has CLIENT TRACKING on
	earliest int64      // lower bound of all deadlines
	recent   *procStats // statistics of the call that was added last
	tick     int64      // the client's time when the clock was last read
	sharing  int        // calls since then that used it as their start
	// The batch that is being written: its first call, and how many of its bytes have been
	// written to the socket.
	from     uint64
	written  int
	segments []segment

	// Owned by the reading goroutine.
	unreadable func() // ends the call whose reply could not be read; nil if there is none
	raws       [batch][]byte
	slots      [batch]slot
}

// add appends a call to the queue. It returns false if the link is closed.
func (l *link) add(r *request, args []any) bool {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return false
	}
	if r.start == 0 {
		l.stamp(r)
	}
	if l.recent == nil || l.recent.name != r.name {
		l.recent = l.node.procedure(r.name)
	}
	c := l.q.room(r.size)
	off := len(c.buf)
	c.buf = r.append(c.buf, args)
	s := l.q.add(c, off)
	s.done, s.w, s.proc = r.done, r.w, l.recent
	s.start, s.deadline, s.flags, s.tries, s.broke = r.start, r.deadline, r.flags, 0, 0
	if r.deadline != 0 && r.deadline < l.earliest {
		l.earliest = r.deadline
	}
	if r.w != nil {
		r.w.seq = l.q.tail - 1
		r.w.place.Store(l)
	}
	wake := l.idle
	l.idle = false
	l.mu.Unlock()
	if wake {
		l.signal()
	}
	return true
}

// maxSharing is how many calls may share one reading of the clock for statistics and
// timeouts. Reading the clock costs about a tenth of a call.
const maxSharing = 32

// stamp sets the start and the deadline of a call. An asynchronous call that is queued
// behind others uses the time that was last read by the writer, the reader or another call.
// As the writer is still busy with those calls, that was not long ago. The caller holds
// l.mu.
func (l *link) stamp(r *request) {
	if r.w == nil && !l.idle && l.q.head != l.q.tail && l.sharing < maxSharing {
		l.sharing++
	} else {
		l.looked(l.c.now())
	}
	r.start = l.tick
	if l.c.o.Timeout > 0 {
		at := max(r.start+int64(l.c.o.Timeout), 0) // 0 if it overflows
		if at != 0 && (r.deadline == 0 || at < r.deadline) {
			r.deadline = at
		}
	}
}

// looked records the current time. The caller holds l.mu.
func (l *link) looked(now int64) {
	if now > l.tick {
		l.tick, l.sharing = now, 0
	}
}

// adopt appends calls that were in flight elsewhere. It returns false if the link is
// closed.
func (l *link) adopt(list []slot) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	for i := range list {
		from := &list[i]
		c := l.q.room(int(from.n))
		off := len(c.buf)
		c.buf = append(c.buf, from.request()...)
		s := l.q.add(c, off)
		chunk, off32, n := s.chunk, s.off, s.n
		*s = *from
		s.chunk, s.off, s.n = chunk, off32, n
		s.flags &^= halfway | uncached | kept
		if s.proc != nil {
			s.proc = l.node.procedure(s.proc.name)
		}
		if s.deadline != 0 {
			l.earliest = min(l.earliest, s.deadline)
		}
		if s.w != nil {
			s.w.seq = l.q.tail - 1
			s.w.place.Store(l)
		}
	}
	if l.idle {
		l.idle = false
		l.signal()
	}
	return true
}

// signal wakes the writer. It never blocks.
func (l *link) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// write writes queued calls to the socket until stop is closed or the socket fails. Then it
// closes the connection, which ends the reader too.
func (l *link) write(nc net.Conn, stop <-chan struct{}) {
	for {
		runtime.Gosched() // lets goroutines that are about to add calls do so now
		l.mu.Lock()
		l.from, l.written = l.q.handed, 0
		l.segments = l.q.gather(l.segments[:0])
		if len(l.segments) == 0 {
			l.idle = true
			l.mu.Unlock()
			select {
			case <-l.wake:
				continue
			case <-stop:
				return
			}
		}
		now := l.c.now()
		l.looked(now)
		if l.q.head == l.from { // nothing was awaited, so the preceding silence does not count
			l.heard.Store(now)
		}
		segs := l.segments
		l.mu.Unlock()
		n, err := writeAll(nc, segs)
		l.node.bytesOut.Add(uint64(n))
		l.mu.Lock()
		if err != nil {
			l.written = n
			l.mu.Unlock()
			nc.Close()
			return
		}
		l.q.release(segs)
		l.segments = l.segments[:0]
		l.from = l.q.handed
		l.mu.Unlock()
	}
}

func writeAll(nc net.Conn, segs []segment) (total int, err error) {
	for _, s := range segs {
		n, err := nc.Write(s.bytes)
		total += n
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// read completes calls with the replies that arrive until the connection fails, and returns
// the reason.
func (l *link) read(r *wire.Replies) error {
	for {
		n, push, err := l.nextReplies(r)
		if n > 0 {
			if e := l.complete(l.raws[:n]); e != nil {
				return e
			}
		}
		if push != nil {
			l.push(push)
		}
		switch {
		case err != nil:
			l.unread(err)
			return err
		case n > 0 || push != nil:
			continue
		}
		if err := r.Fill(); err != nil {
			return err
		}
		l.heard.Store(l.c.now())
	}
}

// nextReplies collects the replies that have arrived, up to the next push.
func (l *link) nextReplies(r *wire.Replies) (n int, push []byte, err error) {
	for n < batch {
		raw, ok, err := r.NextRaw()
		if err != nil || !ok {
			return n, nil, err
		}
		for raw[0] == wire.KindAttribute {
			raw = behindAttribute(raw)
		}
		if raw[0] == wire.KindPush {
			return n, raw, nil
		}
		l.raws[n] = raw
		n++
	}
	return n, nil, nil
}

// behindAttribute returns the value that follows an attribute.
func behindAttribute(raw []byte) []byte {
	it, rest, _ := wire.Cut(raw)
	for range it.Len {
		rest, _ = wire.Skip(rest) // cannot fail: the reply is complete
	}
	return rest
}

// complete ends the oldest calls with their replies, in order.
func (l *link) complete(raws [][]byte) error {
	l.mu.Lock()
	n, freed := l.match(raws)
	now := l.c.now() // not before the start of any of these calls
	l.looked(now)
	l.mu.Unlock()
	l.c.inFlight.release(freed)
	l.count(raws[:n], now)
	in := 0
	l.calls.begin()
	for i, raw := range raws[:n] {
		s := &l.slots[i]
		in += len(raw)
		if s.flags&(void|dropped) == 0 {
			l.finish(s, raw, now)
		}
	}
	l.calls.end()
	clear(l.slots[:min(n+1, batch)]) // match may have used one more
	l.node.bytesIn.Add(uint64(in))
	if n < len(raws) {
		return errorf(CodeInvalid, "%s sent a reply without a request", l.node.addr)
	}
	return nil
}

// count adds the calls of l.slots with these replies to the statistics. Adjacent calls
// mostly share the same counters, which are then updated once.
func (l *link) count(raws [][]byte, now int64) {
	var p *procStats
	at, n := 0, uint64(0)
	for i, raw := range raws {
		s := &l.slots[i]
		if s.proc == nil {
			continue
		}
		b := bucket(now - s.start)
		if s.proc != p || b != at {
			if n > 0 {
				p.took[at].Add(n)
			}
			p, at, n = s.proc, b, 0
		}
		n++
		if bad(raw) && s.flags&(void|dropped) == 0 {
			p.errors.Add(1)
		}
	}
	if n > 0 {
		p.took[at].Add(n)
	}
}

// bad reports whether a reply is an error.
func bad(raw []byte) bool { return raw[0] == wire.KindError || raw[0] == wire.KindBlobError }

// match moves the slot of each reply from the queue to l.slots. It returns how many replies
// had a slot, and how many permits became free.
func (l *link) match(raws [][]byte) (n, freed int) {
	q := &l.q
	for i, raw := range raws {
		for q.head != q.handed && q.at(q.head).flags&void != 0 {
			q.pop(&l.slots[i])
			freed++
		}
		if q.head == q.handed {
			return i, freed
		}
		s := q.at(q.head)
		if s.flags&(twofold|halfway) == twofold {
			s.flags |= halfway
			if raw[0] == wire.KindError {
				s.flags |= uncached
			}
			l.slots[i] = slot{flags: void}
			continue
		}
		var keep *chunk
		if raw[0] == wire.KindError && s.fits(raw[:len(raw)-2]) {
			keep = &chunk{buf: append([]byte(nil), s.request()...)}
		}
		q.pop(&l.slots[i])
		if keep != nil {
			l.slots[i].chunk, l.slots[i].off = keep, 0
			l.slots[i].flags |= kept
		}
		freed++
	}
	return len(raws), freed
}

// kindUnknown is the kind of an outcome_unknown error of a node that is still running, so
// the call did not crash it. Servers that lost the connection to the leader send another
// kind; older servers never send this one.
const kindUnknown = "UNKNOWN"

// fits reports whether a call that got this error is sent again: either nothing was done,
// or repeating it has no further effect.
func (s *slot) fits(text []byte) bool {
	if bytes.HasPrefix(text, []byte("-MOVED ")) && s.tries > 2 {
		return false // a Redis cluster, with many leaders
	}
	switch {
	case saysNotLeader(text[1:]):
		return true
	case !s.again() || !bytes.HasSuffix(text, []byte("["+CodeOutcomeUnknown+"]")):
		return false
	}
	return bytes.HasPrefix(text, []byte("-"+kindUnknown+" ")) || !s.breaks()
}

// finish ends one call with its reply.
func (l *link) finish(s *slot, raw []byte, now int64) {
	if !bad(raw) {
		if s.w == nil {
			if s.done != nil {
				s.done(Result{raw}, nil)
			}
		} else if s.w.take() {
			s.w.kept = s.flags&(twofold|uncached) == twofold
			s.w.end(Result{raw}, nil)
		}
		return
	}
	it, _ := Result{raw}.item()
	e := replyError(it.Str, l.node.addr)
	if s.flags&reader != 0 && s.proc != nil {
		e.mayWrite(s.proc.name)
	}
	if s.flags&kept != 0 && l.c.later(s, now) {
		return
	}
	s.end(Result{}, e)
}

// end ends a call that is no longer in a queue, unless someone else has ended it.
func (s *slot) end(res Result, err error) {
	switch {
	case s.w != nil:
		if s.w.take() {
			s.w.end(res, err)
		}
	case s.done != nil:
		s.done(res, err)
	}
}

// unread ends the oldest call if the connection ends because the call's reply exceeded the
// limit. The length could also be garbage, so a call that writes may or may not have run.
// unread is called when nothing more is written to the connection, because whatever the
// caller does next must not be sent there.
func (l *link) unread(err error) {
	l.mu.Lock()
	var s slot
	found, freed := false, 0
	for ; !found && l.q.head != l.q.handed; freed++ {
		l.q.pop(&s)
		found = s.flags&void == 0
	}
	l.mu.Unlock()
	l.c.inFlight.release(freed)
	if !found || s.flags&dropped != 0 {
		return
	}
	e := errorf(CodeLimit, "%s sent a reply that is over the limit of %d bytes or cannot be parsed: %w", l.node.addr, l.c.o.MaxReplyBytes, err)
	if s.flags&readsOnly == 0 {
		e = l.c.unknown(e, l.node.addr)
	}
	l.unreadable = func() { l.c.notifier.notify(s, e) }
}

// broken empties the queue after the connection is closed and the writer has ended. The
// calls in sent may have reached the server; those in unsent have not.
func (l *link) broken() (sent, unsent []slot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	from, handed, written := l.from, l.q.handed, l.written
	head := l.q.head
	l.segments, l.idle = nil, false
	list := l.q.drain()
	for i := range list {
		seq := head + uint64(i)
		s := &list[i]
		if s.w != nil {
			s.w.place.Store(nil)
		}
		if seq < from {
			sent = append(sent, *s)
			continue
		}
		if seq < handed && s.flags&void == 0 {
			written -= int(s.n)
			if written >= 0 {
				sent = append(sent, *s)
				continue
			}
		}
		unsent = append(unsent, *s)
	}
	l.from = l.q.tail
	return sent, unsent
}
