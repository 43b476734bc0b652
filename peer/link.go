package peer

import (
	"bufio"
	"context"
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Pauses before reconnecting: doubled each time, with jitter. Retrying a refusal
// quickly is pointless.
const (
	firstPause   = 20 * time.Millisecond
	longestPause = time.Second
	refusedPause = 5 * time.Second
)

// link sends messages to one node: a queue, and a goroutine that keeps a
// connection and writes to it.
type link struct {
	p    *Port
	id   uint64
	addr string

	ctx   context.Context // ends with the link
	stop  context.CancelFunc
	wake  chan struct{} // one token: the queue is not empty
	hurry chan struct{} // one token: the node is up, try now

	mu     sync.Mutex // guards the fields below up to state
	urgent [][]byte
	queue  [][]byte
	head   int  // of queue: messages before it are gone
	bytes  int  // of both
	open   bool // messages are accepted: connected, or trying for the first time
	state  linkState

	sent, sentBytes, dropped atomic.Uint64
	rtt                      atomic.Int64 // nanoseconds; 0: not measured
}

// linkState is the state of a link that Peers reports.
type linkState struct {
	connected bool
	since     time.Time
	why       string // why it is not connected
}

func newLink(p *Port, id uint64, addr string) *link {
	ctx, stop := context.WithCancel(p.ctx)
	return &link{
		p: p, id: id, addr: addr, ctx: ctx, stop: stop, open: true,
		wake: make(chan struct{}, 1), hurry: make(chan struct{}, 1),
	}
}

// signal puts a token into a channel if there is none.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// send queues a message.
func (l *link) send(msg []byte, urgent bool) bool {
	if !l.enqueue(msg, urgent) {
		l.dropped.Add(1)
		return false
	}
	signal(l.wake)
	return true
}

func (l *link) enqueue(msg []byte, urgent bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	waiting := len(l.urgent) + len(l.queue) - l.head
	if !l.open || waiting >= l.p.o.Queue || waiting > 0 && l.bytes+len(msg) > l.p.o.QueueBytes {
		return false
	}
	if urgent {
		l.urgent = append(l.urgent, msg)
	} else {
		l.queue = append(l.queue, msg)
	}
	l.bytes += len(msg)
	return true
}

// take moves queued messages to batch: all urgent ones, then others until there are
// enough bytes for one write. If rest is false it takes only the urgent ones.
func (l *link) take(batch [][]byte, rest bool) [][]byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, m := range l.urgent {
		batch = append(batch, m)
		n += frameHead + len(m)
		l.bytes -= len(m)
	}
	clear(l.urgent)
	l.urgent = l.urgent[:0]
	for rest && l.head < len(l.queue) && n < pieceBytes {
		m := l.queue[l.head]
		l.queue[l.head] = nil
		l.head++
		batch = append(batch, m)
		n += frameHead + len(m)
		l.bytes -= len(m)
	}
	if l.head == len(l.queue) {
		l.queue, l.head = l.queue[:0], 0
	} else if l.head >= 1024 && l.head > len(l.queue)/2 {
		rest := copy(l.queue, l.queue[l.head:])
		clear(l.queue[rest:])
		l.queue, l.head = l.queue[:rest], 0
	}
	return batch
}

// drop empties the queue.
func (l *link) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dropped.Add(uint64(len(l.urgent) + len(l.queue) - l.head))
	l.urgent, l.queue, l.head, l.bytes = nil, nil, 0, 0
}

// set changes the state, and whether messages are accepted. It returns the previous
// state.
func (l *link) set(connected bool, why string) linkState {
	now := l.p.o.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.state
	l.open = connected
	l.state.why = why
	if connected != old.connected || old.since.IsZero() {
		l.state.connected, l.state.since = connected, now
	}
	return old
}

// run maintains the connection until the link is stopped.
func (l *link) run() {
	defer l.drop()
	pause := firstPause
	for {
		c, skew, err := l.p.connect(l.ctx, l.addr, l.id, ProtocolRaft)
		if err == nil {
			pause = firstPause
			if err = l.p.keep(c, false); err == nil && !l.p.met(c, skew) {
				err = refuse(CodeTwin, "two data folders run as node %d", l.id)
				c.kill()
			}
			if err == nil {
				l.set(true, "")
				l.p.log.Info("connected to node", "node", l.id, "addr", l.addr, "version", c.hello.Version)
				err = l.serve(c)
				c.kill()
			}
		}
		old := l.set(false, err.Error())
		l.drop()
		if l.ctx.Err() != nil {
			return
		}
		if old.connected || old.why != err.Error() {
			l.p.log.Warn("no connection to node", "node", l.id, "addr", l.addr, "err", err)
		}
		if (old.connected || old.since.IsZero()) && l.p.o.Down != nil {
			l.p.o.Down(l.id)
		}
		if !l.wait(pause, err) {
			return
		}
		pause = min(2*pause, longestPause)
	}
}

// wait waits for a pause, or less if the node connects. It returns false when the
// link is stopped.
func (l *link) wait(pause time.Duration, err error) bool {
	hurry := l.hurry
	if isRefusal(err) {
		pause, hurry = refusedPause, nil
	}
	t := time.NewTimer(pause/2 + rand.N(pause))
	defer t.Stop()
	select {
	case <-l.ctx.Done():
		return false
	case <-hurry:
	case <-t.C:
	}
	return true
}

// serve writes messages to a connection until it breaks.
func (l *link) serve(c *Conn) error {
	idle := l.p.o.IdleTimeout
	c.wire.widen(idle, idle)
	broken := make(chan error, 1)
	defer context.AfterFunc(l.ctx, c.kill)()
	go func() {
		broken <- l.listen(c)
		c.kill() // ends a blocked write
	}()
	defer func() {
		c.kill()
		if broken != nil {
			<-broken //nolint:errcheck // that it has ended is all
		}
	}()
	tick := time.NewTicker(idle / 6)
	defer tick.Stop()
	w := writer{l: l, c: c, out: l.ping(nil)}
	if err := w.flushAll(); err != nil {
		return err
	}
	for {
		select {
		case <-l.wake:
		case <-tick.C:
			w.out = l.ping(w.out)
		case err := <-broken:
			broken = nil
			return err
		}
		if err := w.flushAll(); err != nil {
			select {
			case why := <-broken: // a better reason
				broken = nil
				if !lost(why) {
					err = why
				}
			default:
			}
			return err
		}
	}
}

func (l *link) ping(to []byte) []byte {
	return appendFrame(to, framePing, binary.LittleEndian.AppendUint64(nil, l.p.stamp()))
}

// listen reads the other side's beats until the connection ends.
func (l *link) listen(c *Conn) error {
	f := frames{r: bufio.NewReaderSize(c.Conn, 1<<10), beat: func(b [3]uint64) {
		now, wall := l.p.stamp(), l.p.o.Now()
		if b[0] == 0 || b[0] > now || b[1] > now-b[0] {
			return // no ping has arrived there yet
		}
		rtt := time.Duration(now - b[0] - b[1])
		l.rtt.Store(max(int64(rtt), 1))
		l.p.clock(l.id, time.Unix(0, int64(b[2])).Add(rtt/2).Sub(wall))
	}}
	_, err := f.next()
	if err == nil {
		err = &CorruptError{"unexpected message from the receiver"}
	}
	return err
}

// writer turns a link's queue into frames.
type writer struct {
	l     *link
	c     *Conn
	batch [][]byte // taken but not yet written
	extra [][]byte // urgent, taken between the pieces of a long message
	out   []byte
	count int // messages whose end is in out
	bytes int
}

// flushAll writes until the queue is empty. Messages that are queued during a write
// go out with the next one.
func (w *writer) flushAll() error {
	for {
		w.batch = w.l.take(w.batch[:0], true)
		for i, m := range w.batch {
			if err := w.add(m); err != nil {
				w.l.dropped.Add(uint64(len(w.batch) - i + w.count))
				return err
			}
		}
		if len(w.out) == 0 {
			return nil
		}
		if err := w.flush(); err != nil {
			w.l.dropped.Add(uint64(w.count))
			return err
		}
		if written := w.l.p.o.Written; written != nil {
			for _, m := range w.batch {
				written(m)
			}
		}
		clear(w.batch)
	}
}

// add appends one message. It writes a long one piece by piece.
func (w *writer) add(m []byte) error {
	if len(m) <= pieceBytes {
		w.out = appendFrame(w.out, frameMessage, m)
		w.count, w.bytes = w.count+1, w.bytes+len(m)
		return nil
	}
	w.out = appendFirst(w.out, m, pieceBytes)
	for rest := m[pieceBytes:]; len(rest) > 0; {
		if err := w.flush(); err != nil {
			return err
		}
		w.extra = w.l.take(w.extra[:0], false)
		for _, u := range w.extra {
			w.out = appendFrame(w.out, frameMessage, u)
			w.count, w.bytes = w.count+1, w.bytes+len(u)
		}
		clear(w.extra)
		n := min(len(rest), pieceBytes)
		w.out = appendFrame(w.out, frameMore, rest[:n])
		rest = rest[n:]
	}
	w.count, w.bytes = w.count+1, w.bytes+len(m)
	return nil
}

// flush writes the added frames.
func (w *writer) flush() error {
	if err := w.c.writeAll(w.out); err != nil {
		return err
	}
	w.l.sent.Add(uint64(w.count))
	w.l.sentBytes.Add(uint64(w.bytes))
	w.out, w.count, w.bytes = w.out[:0], 0, 0
	return nil
}
