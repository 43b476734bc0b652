package embedded

import (
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/raft"
)

// clockTruth checks the times by which reads and transactions judge what has expired.
// Clocks differ, drift and jump; that must not be visible.
type clockTruth struct {
	w        *world
	judged   int64 // the newest that anybody learned from a transaction or a linearizable read
	strict   []*simOp
	weak     []*simOp
	times    []judgement     // of the transactions, from position 1 on
	ends     []time.Duration // when programs ended
	endsThen int             // when the operation that learned judged began
	pace     *simOp          // from which on the time must go at the right speed
	paced    time.Duration   // the time of the last jump of a clock
	lost     int             // how often no node knew the time any more: see leads
	stray    stray           // see there
	elected  uint64          // the newest term that has a leader
}

// stray is a time that some node has and the leader has not. Either the leader began anew and
// that node, which was not among those that elected it, still knew the time; or that node was
// cut off while it believed to lead, and its clock was set forward. If it leads or votes
// later, its time is everybody's: docs/guarantees.md says so.
type stray struct {
	time int64         // the newest of it, 0: there is none
	at   time.Duration // when
}

// most is what has become of it by now at most.
func (s stray) most(now time.Duration) int64 {
	return s.time + ((now-s.at)*5/4 + time.Millisecond).Microseconds()
}

// judgement is the time that an operation used, in microseconds.
type judgement struct {
	asOf, now int64
	floor     int64 // judged when the operation began
	lost      int   // likewise
	ends      int   // likewise
}

func (j *judgement) look(tx engine.Tx) {
	j.now, j.asOf = tx.Now().UnixMicro(), tx.AsOf().UnixMicro()
}

// roles records a node's role as soon as it changes.
func (c *clockTruth) roles(r raft.Role) {
	if r.Leads {
		c.elected = max(c.elected, r.Term)
	}
}

// leads is called before a node takes calls or answers reads in a term. It knows of all
// that was learned, from the leader before or from those that voted for it, unless a node
// that knew was started again since. A node that was slow to get so far may have a
// successor by then, which it has not heard of: what it does will not be acknowledged.
func (c *clockTruth) leads(n *simNode, term uint64) {
	if term < c.elected {
		c.w.logf("n%d leads in term %d, but term %d has a leader", n.id, term, c.elected)
		return
	}
	knows, goesOn := n.known(), n.known()
	if !n.db.exec.wall.known.Load() { // its own clock is all it has
		c.pace, c.paced = nil, c.w.now
		goesOn = max(knows, n.clock().UnixMicro())
	}
	c.strays(goesOn)
	switch {
	case knows >= c.judged:
	case len(c.ends) == c.endsThen:
		c.w.violated("node %d leads and goes on from %d, but somebody has learned what was so as of %d", n.id, knows, c.judged)
	default:
		c.w.logf("n%d goes on from %d, not from %d", n.id, knows, c.judged)
		c.lost++
		c.judged = 0
	}
}

// ended is called when a program has ended. If no node is left that knows the time, the
// time is reset.
func (c *clockTruth) ended() {
	c.ends = append(c.ends, c.w.now)
	for _, n := range c.w.nodes {
		if n.up && n.db.exec.wall.known.Load() {
			return
		}
	}
	c.pace, c.paced = nil, c.w.now
}

// strays records times of nodes that are after the leader's time.
func (c *clockTruth) strays(leader int64) {
	for _, n := range c.w.nodes {
		if n.up && n.known() > max(leader, c.stray.time) {
			c.stray = stray{n.known(), c.w.now}
		}
	}
}

// known is the time as far as the node knows it.
func (n *simNode) known() int64 {
	if c := &n.db.exec.wall; c.known.Load() {
		return c.estimate()
	}
	return n.db.exec.wall.last.Load()
}

// endsBy returns how many programs had ended when a read that begins now was
// certain to be heard of: one by a lease goes by what was heard a while before.
func (c *clockTruth) endsBy() (n int) {
	by := c.w.now
	if c.w.plan.lease {
		by -= time.Second
	}
	for n < len(c.ends) && c.ends[n] <= by {
		n++
	}
	return n
}

// judge checks an operation whose outcome is known.
func (c *clockTruth) judge(o *simOp) {
	j := &o.judged
	if j.asOf > j.now {
		c.w.violated("%v judged as of %d, after its time %d", o, j.asOf, j.now)
	}
	if o.view != nil && o.view.read.Level != engine.Linearizable {
		c.weak = append(c.weak, o)
		return
	}
	if j.lost != c.lost {
		return // it is unknown whether it is from before or after that
	}
	c.strict = append(c.strict, o)
	if j.asOf < j.floor {
		c.w.violated("%v judged as of %d; before it began somebody had learned what was so as of %d", o, j.asOf, j.floor)
	}
	c.judgePace(o)
	if j.asOf >= c.judged {
		c.judged, c.endsThen = j.asOf, j.ends
	}
}

// judgePace checks that what lives for ten seconds lives for eight at least,
// whoever leads, as long as nobody sets the clock of a leader forward and no stray time
// comes back.
func (c *clockTruth) judgePace(o *simOp) {
	if c.pace == nil && o.began > c.paced && o.view == nil { // a read may go by an earlier time
		c.pace = o
	}
	if c.pace == nil {
		return
	}
	passed := c.w.now - c.pace.began
	if took := time.Duration(o.judged.asOf-c.pace.judged.asOf) * time.Microsecond; took > passed*5/4+time.Millisecond {
		if c.stray.time != 0 && o.judged.asOf <= c.stray.most(c.w.now) {
			c.w.logf("%v goes by a stray time", o)
			c.pace, c.paced = nil, c.w.now
			return
		}
		c.w.violated("%v judged as of %v after what %v was judged by, but only %v has passed since", o, took, c.pace, passed)
	}
}

// published records the times of a committed batch.
func (c *clockTruth) published(b *batch) {
	for t := range changes(b.buf) {
		c.times = append(c.times, judgement{asOf: t.Time.UnixMicro(), lost: c.lost})
	}
}

// end compares with the times of the transactions.
func (c *clockTruth) end() {
	at := func(pos uint64) judgement { return append([]judgement{{}}, c.times...)[pos] }
	for _, o := range c.weak {
		if at := at(o.pos).asOf; o.judged.asOf != at {
			c.w.violated("%v judged as of %d at position %d, whose time is %d", o, o.judged.asOf, o.pos, at)
		}
	}
	for _, o := range c.strict {
		if at := at(o.pos).asOf; o.judged.asOf < at && o.view != nil {
			c.w.violated("%v judged as of %d at position %d, whose time is %d", o, o.judged.asOf, o.pos, at)
		}
		if o.pos == uint64(len(c.times)) {
			continue
		}
		if next := at(o.pos + 1); o.judged.asOf > next.asOf && o.judged.lost == next.lost {
			c.w.violated("%v judged as of %d at position %d, but position %d is of %d", o, o.judged.asOf, o.pos, o.pos+1, next.asOf)
		}
	}
}

// simAlarm is the timer of a lull.
type simAlarm struct {
	n    *simNode
	ring func()
	set  int // counts calls: earlier plans are void
}

func (a *simAlarm) Reset(d time.Duration) bool {
	a.set++
	set := a.set
	a.n.after(d, func() {
		if a.set == set {
			a.ring()
		}
	})
	return true
}

func (a *simAlarm) Stop() bool {
	a.set++
	return true
}
