package raft

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// A follower is behind once it is sent a snapshot or entries that are paceLag old, until it
// has all entries. Meanwhile all that it is sent in snapshots and entries follows the rate
// that NodeConfig.Rate gives for it, new entries too: it could not append them before the
// older ones. Smaller gaps are filled at once, as every follower has some. Heartbeats and
// everything else are not delayed. A voter whose vote the others need for a majority is
// not slowed down.

// paceLag is how many entries behind the commit index the last entry of a message is
// if its receiver is behind.
const paceLag = 256

// MaxSending is how many snapshots a leader sends at once. Other nodes wait.
const MaxSending = 4

// bucket is a token bucket of bytes. A debt is allowed: a message that is longer than
// the bucket passes when it is not in debt.
type bucket struct {
	left float64
	at   time.Duration // when left was computed
}

// bucketTime is how much of the rate a full bucket has.
const bucketTime = 100 * time.Millisecond

// fill adds what has accrued up to now.
func (b *bucket) fill(now time.Duration, rate int64) {
	if b.at != 0 || b.left != 0 {
		b.left = min(b.left+float64(rate)*(now-b.at).Seconds(), float64(rate)*bucketTime.Seconds())
	}
	b.at = now
}

// take returns how long n bytes have to wait at a time; 0 means that they were taken.
func (b *bucket) take(now time.Duration, rate int64, n int) time.Duration {
	if b.fill(now, rate); b.left < 0 {
		return max(time.Duration(-b.left/float64(rate)*float64(time.Second)), time.Microsecond)
	}
	b.left -= float64(n)
	return 0
}

// Progress is how far a node is that is being brought up to date.
type Progress struct {
	Snapshot    bool   // it is sent a snapshot; otherwise entries
	Done, Total uint64 // bytes of the snapshot, or entries since it was first behind; Total 0: unknown
	Rate        uint64 // bytes per second lately
}

// chase is a follower that is behind.
type chase struct {
	limit atomic.Int64 // bytes per second; 0: none

	mu      sync.Mutex // guards the fields up to sent
	bucket  bucket
	done    uint64 // bytes of the snapshot
	total   uint64
	sent    uint64 // bytes altogether
	from    uint64 // Match when it was first behind
	held    []*Message
	counted uint64        // sent, at since
	since   time.Duration // when rate was last computed
	rate    uint64
}

// add counts bytes that were sent, of a snapshot or of entries.
func (c *chase) add(n int, snapshot bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent += uint64(n)
	if snapshot {
		c.done += uint64(n)
	}
}

// begin begins to send a snapshot.
func (c *chase) begin(r io.Reader) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done, c.total = 0, 0
	if s, ok := r.(interface{ Size() int64 }); ok {
		c.total = uint64(s.Size())
	}
}

// measure computes the rate each second.
func (c *chase) measure(now time.Duration) {
	if c.since == 0 {
		c.since = now
	}
	if now-c.since < time.Second {
		return
	}
	c.mu.Lock()
	sent := c.sent
	c.mu.Unlock()
	c.rate = uint64(float64(sent-c.counted) / (now - c.since).Seconds())
	c.counted, c.since = sent, now
}

// Pace knows the followers that are behind, and holds messages to them back. The goroutine
// that steps the core owns it.
type Pace struct {
	// Lag is how many entries a follower lacks at least when it falls behind.
	Lag uint64

	clock  func() time.Duration
	rate   func(id uint64) int64 // nil: none is limited
	behind map[uint64]*chase
}

// NewPace returns a Pace for the rates, in bytes per second, that rate returns; 0 is no
// limit. A nil clock is that of the machine, a nil rate limits nobody.
func NewPace(clock func() time.Duration, rate func(id uint64) int64) Pace {
	if clock == nil {
		began := time.Now()
		clock = func() time.Duration { return time.Since(began) }
	}
	if rate == nil {
		rate = func(uint64) int64 { return 0 }
	}
	return Pace{paceLag, clock, rate, map[uint64]*chase{}}
}

func (p *Pace) of(id uint64) *chase {
	c := p.behind[id]
	if c == nil {
		c = &chase{}
		c.limit.Store(p.rate(id))
		p.behind[id] = c
	}
	return c
}

// Holds reports whether a message must wait. It then keeps the message.
func (p *Pace) Holds(m *Message, c *Core) bool {
	return m.GetType() == raftpb.MsgApp && p.holds(m, c.committed())
}

func (p *Pace) holds(m *Message, commit uint64) bool {
	id, c := m.GetTo(), p.behind[m.GetTo()]
	waits := c != nil && len(c.held) > 0
	switch n := uint64(len(m.GetEntries())); {
	case waits: // messages keep their order
	case n == 0, c == nil && m.GetIndex()+n+p.Lag >= commit:
		return false
	}
	if c = p.of(id); !waits && p.passes(c, m) {
		return false
	}
	c.hold(m)
	return true
}

// Limit returns the bytes per second that a node that is behind may be sent now; 0 is no
// limit.
func (p *Pace) Limit(id uint64) int64 { return p.of(id).limit.Load() }

// hold keeps a message. The library repeats messages while no reply comes; a repetition
// of what waits is dropped, and so is a message without entries. A message from further
// back, or of another term, replaces what waits.
func (c *chase) hold(m *Message) {
	if len(m.GetEntries()) == 0 {
		return
	}
	if len(c.held) > 0 {
		first, last := c.held[0], c.held[len(c.held)-1]
		switch end := last.GetIndex() + uint64(len(last.GetEntries())); {
		case m.GetTerm() != last.GetTerm(), m.GetIndex() < first.GetIndex():
			c.held = nil
		case m.GetIndex() != end:
			return
		}
	}
	c.held = append(c.held, m)
}

// Lost drops what waits for a node to which messages are being lost.
func (p *Pace) Lost(id uint64) {
	if c := p.behind[id]; c != nil {
		c.held = nil
	}
}

// passes takes the tokens for a message, if there are any.
func (p *Pace) passes(c *chase, m *Message) bool {
	n, rate := proto.Size(m), c.limit.Load()
	c.mu.Lock()
	ok := rate == 0 || c.bucket.take(p.clock(), rate, n) == 0
	c.mu.Unlock()
	if ok {
		c.add(n, false)
	}
	return ok
}

// Release returns the messages that need not wait any longer.
func (p *Pace) Release() (out []*Message) {
	for _, c := range p.behind {
		for len(c.held) > 0 && !failpoint("held-for-good") && p.passes(c, c.held[0]) {
			out = append(out, c.held[0])
			c.held[0] = nil
			c.held = c.held[1:]
		}
	}
	return out
}

// Update follows a status: it sets the Progress of followers that are behind, forgets
// those that are not any more, and finds the voters that must not be slowed down.
func (p *Pace) Update(s *Status, sending func(id uint64) bool) {
	if !s.Leads {
		clear(p.behind)
		return
	}
	voters, near := 0, 0
	isNear := func(f *Follower) bool {
		c := p.behind[f.ID]
		return f.State == StateReplicate && f.Match+p.Lag >= s.Commit && (c == nil || len(c.held) == 0)
	}
	for i := range s.Followers {
		if f := &s.Followers[i]; f.Voter {
			voters++
			if isNear(f) {
				near++
			}
		}
	}
	there := map[uint64]bool{}
	for i := range s.Followers {
		f := &s.Followers[i]
		c := p.behind[f.ID]
		if isNear(f) || c == nil && f.Match+p.Lag >= s.Commit {
			continue
		}
		c, there[f.ID] = p.of(f.ID), true
		if f.Voter && !isNear(f) && near < voters/2+1 {
			c.limit.Store(0) // writes wait for it
		} else {
			c.limit.Store(p.rate(f.ID))
		}
		c.measure(p.clock())
		f.Progress = c.progress(f, s.Commit, sending(f.ID))
	}
	for id := range p.behind {
		if !there[id] {
			delete(p.behind, id)
		}
	}
}

// progress describes a follower that is behind.
func (c *chase) progress(f *Follower, commit uint64, snapshot bool) *Progress {
	c.mu.Lock()
	defer c.mu.Unlock()
	if snapshot {
		return &Progress{Snapshot: true, Done: c.done, Total: c.total, Rate: c.rate}
	}
	if c.from == 0 {
		c.from = max(f.Match, 1)
	}
	match := max(f.Match, c.from)
	return &Progress{Done: match - c.from, Total: max(commit, match) - c.from, Rate: c.rate}
}

// pacedReader is a snapshot that is sent at the rate of its receiver.
type pacedReader struct {
	ctx   context.Context
	r     io.Reader
	chase *chase
	clock func() time.Duration
}

// pieceOfSnapshot is the most bytes read at once, so that a rate is kept smoothly.
const pieceOfSnapshot = 64 << 10

func (p *pacedReader) Read(b []byte) (int, error) {
	b = b[:min(len(b), pieceOfSnapshot)]
	for {
		rate := p.chase.limit.Load()
		if rate == 0 {
			break
		}
		p.chase.mu.Lock()
		d := p.chase.bucket.take(p.clock(), rate, len(b))
		p.chase.mu.Unlock()
		if d == 0 {
			break
		}
		select {
		case <-time.After(min(d, time.Second)): // the rate may change
		case <-p.ctx.Done():
			return 0, p.ctx.Err()
		}
	}
	n, err := p.r.Read(b)
	p.chase.add(n, true)
	return n, err
}
