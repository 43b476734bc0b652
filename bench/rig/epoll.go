package rig

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"syscall"
	"time"
)

// Shape is a number of connections and of requests in flight on each.
type Shape struct{ Conns, Flight int }

// ParseShapes parses "1x1,8x64".
func ParseShapes(list string) ([]Shape, error) {
	var all []Shape
	for word := range strings.SplitSeq(list, ",") {
		var s Shape
		if n, err := fmt.Sscanf(word+"\n", "%dx%d\n", &s.Conns, &s.Flight); n != 2 || err != nil || s.Conns < 1 || s.Flight < 1 || s.Flight > maxLeanConcurrent {
			return nil, fmt.Errorf("%q is no shape such as 8x64, with at most %d in flight", word, maxLeanConcurrent)
		}
		all = append(all, s)
	}
	return all, nil
}

func (s Shape) String() string { return fmt.Sprintf("%d×%d", s.Conns, s.Flight) }

// Job is one measurement: what to send, where and for how long.
type Job struct {
	Addrs []string // used by the connections by turns
	Codec Codec
	Lane  func() Codec // if set, returns the codec of a connection, which may keep state of it, instead of Codec
	Set   bool
	Shape Shape
	Keys  uint64
	// Warm is the time before counting, Window the time of counting.
	Warm, Window time.Duration
	// Load, if set, writes every key once instead of running for a time.
	Load  bool
	First uint64 // where Load begins; Keys is where it ends
	Seed  uint64
	// Begin and End are called at the beginning and end of the window.
	Begin, End func()
	// Slice, if set, also gathers the replies of the window by pieces of that length, for Outcome.Slices.
	Slice time.Duration
}

// Outcome is the result of one measurement.
type Outcome struct {
	Ops  int64 // replies within the window
	Lat  Hist  // of replies whose request was also sent within it
	Took time.Duration

	Slices []*Hist // latencies of the replies within each whole Job.Slice of the window
}

// link is one connection of the load generator.
type link struct {
	fd       int
	codec    Codec
	in, out  []byte // in: received, not yet parsed; out: not yet sent
	sent     []time.Duration
	at, wait int // sent is a ring: wait requests are in flight, the oldest at at
	blocked  bool
}

// engine runs all connections of a job in one thread with epoll: the same code and the same cost per request
// for every compared server. It is written only for that.
type engine struct {
	Job
	links []*link
	ep    int
	rnd   *rand.PCG
	seq   uint64
	next  uint64 // the next key of a load
	start time.Time
	stop  bool // nothing more is sent
	out   Outcome
	count bool          // inside the window
	from  time.Duration // its beginning
}

// drainTime is how long replies may take after the last request.
const drainTime = 20 * time.Second

// Run runs the job.
func Run(j Job) (Outcome, error) {
	e := &engine{Job: j, next: j.First, rnd: rand.NewPCG(j.Seed, 1), seq: j.Seed << 32}
	var err error
	if e.ep, err = syscall.EpollCreate1(0); err != nil {
		return Outcome{}, err
	}
	defer syscall.Close(e.ep)
	defer func() {
		for _, l := range e.links {
			syscall.Close(l.fd)
		}
	}()
	for i := range j.Shape.Conns {
		if err := e.connect(j.Addrs[i%len(j.Addrs)]); err != nil {
			return Outcome{}, err
		}
	}
	e.start = time.Now()
	err = e.loop()
	return e.out, err
}

func (e *engine) connect(addr string) error {
	c, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	f, err := c.(*net.TCPConn).File() // a duplicate that Go's own poller does not watch
	if err != nil {
		return err
	}
	defer f.Close()
	fd, err := syscall.Dup(int(f.Fd()))
	if err != nil {
		return err
	}
	l := &link{fd: fd, codec: e.Codec, in: make([]byte, 0, 64<<10), sent: make([]time.Duration, e.Shape.Flight)}
	if e.Lane != nil {
		l.codec = e.Lane()
	}
	e.links = append(e.links, l)
	if err := syscall.SetNonblock(fd, true); err != nil {
		return err
	}
	return e.watch(l, syscall.EPOLL_CTL_ADD)
}

func (e *engine) watch(l *link, op int) error {
	ev := syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(len(e.links) - 1)}
	if op == syscall.EPOLL_CTL_MOD {
		for i, k := range e.links {
			if k == l {
				ev.Fd = int32(i)
			}
		}
	}
	if l.blocked {
		ev.Events |= syscall.EPOLLOUT
	}
	return syscall.EpollCtl(e.ep, op, l.fd, &ev)
}

// loop runs until the window is over (or all keys are loaded) and every reply is in.
func (e *engine) loop() error {
	for _, l := range e.links {
		if err := e.fill(l, 0); err != nil {
			return err
		}
	}
	events := make([]syscall.EpollEvent, 512)
	for {
		n, err := syscall.EpollWait(e.ep, events, 100)
		if err != nil && err != syscall.EINTR {
			return err
		}
		now := time.Since(e.start)
		switch {
		case e.Load:
		case !e.count && !e.stop && now >= e.Warm:
			e.Begin()
			e.count, e.from = true, time.Since(e.start)
		case e.count && now >= e.from+e.Window:
			e.count, e.stop, e.out.Took = false, true, now-e.from
			e.wholeSlices()
			e.End()
		}
		for _, ev := range events[:max(n, 0)] {
			if err := e.serve(e.links[ev.Fd]); err != nil {
				return err
			}
		}
		if e.stop && e.idle() {
			if e.Load {
				e.out.Took = now
			}
			return nil
		}
		if !e.Load && now > e.Warm+e.Window+drainTime {
			return errors.New("replies are missing long after the last request")
		}
	}
}

// slice adds a reply to the slice of its time.
func (e *engine) slice(at, took time.Duration) {
	if e.Slice == 0 {
		return
	}
	e.slicesUntil(int(at / e.Slice))
	e.out.Slices[at/e.Slice].Add(took)
}

// slicesUntil adds slices, also those without a reply, up to the given one.
func (e *engine) slicesUntil(last int) {
	for len(e.out.Slices) <= last {
		e.out.Slices = append(e.out.Slices, &Hist{})
	}
}

// wholeSlices makes the number of slices that of the whole ones in the window.
func (e *engine) wholeSlices() {
	if e.Slice == 0 {
		return
	}
	whole := int(e.out.Took / e.Slice)
	e.slicesUntil(whole)
	e.out.Slices = e.out.Slices[:whole]
}

func (e *engine) idle() bool {
	for _, l := range e.links {
		if l.wait > 0 {
			return false
		}
	}
	return true
}

// serve reads from one connection, and sends one request for every reply.
func (e *engine) serve(l *link) error {
	if cap(l.in)-len(l.in) < 16<<10 {
		l.in = append(make([]byte, 0, 2*cap(l.in)), l.in...)
	}
	n, err := syscall.Read(l.fd, l.in[len(l.in):cap(l.in)])
	if err == syscall.EAGAIN {
		return e.flush(l)
	}
	if err != nil || n == 0 {
		return fmt.Errorf("connection lost with %d requests in flight: %v", l.wait, err)
	}
	l.in = l.in[:len(l.in)+n]
	now := time.Since(e.start)
	parsed := 0
	for l.wait > 0 {
		size, err := l.codec.Reply(l.in[parsed:], e.Set)
		if err != nil {
			return err
		}
		if size == 0 {
			break
		}
		parsed += size
		took, within := now-l.sent[l.at], l.sent[l.at] >= e.from
		switch {
		case e.count && within:
			e.out.Lat.Add(took)
		case e.stop && within && !e.Load: // too late to count, but perhaps the worst
			e.out.Lat.Max = max(e.out.Lat.Max, took)
		}
		if e.count {
			e.out.Ops++
			e.slice(now-e.from, took)
		}
		if l.at++; l.at == len(l.sent) {
			l.at = 0
		}
		l.wait--
	}
	l.in = l.in[:copy(l.in, l.in[parsed:])]
	return e.fill(l, now)
}

// fill tops up the requests in flight of one connection.
func (e *engine) fill(l *link, now time.Duration) error {
	for l.wait < len(l.sent) && !e.stop {
		key := e.next
		if !e.Load {
			key = e.rnd.Uint64() % e.Keys
		} else if e.next++; e.next == e.Keys {
			e.stop = true
		}
		if e.Set {
			e.seq++
			l.out = l.codec.AppendSet(l.out, key, e.seq)
		} else {
			l.out = l.codec.AppendGet(l.out, key)
		}
		l.sent[(l.at+l.wait)%len(l.sent)] = now
		l.wait++
	}
	return e.flush(l)
}

func (e *engine) flush(l *link) error {
	for len(l.out) > 0 {
		n, err := syscall.Write(l.fd, l.out)
		if err == syscall.EAGAIN {
			break
		}
		if err != nil {
			return err
		}
		l.out = l.out[:copy(l.out, l.out[n:])]
	}
	if blocked := len(l.out) > 0; blocked != l.blocked {
		l.blocked = blocked
		return e.watch(l, syscall.EPOLL_CTL_MOD)
	}
	return nil
}
