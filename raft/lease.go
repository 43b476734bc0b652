package raft

import (
	"time"

	"go.etcd.io/raft/v3/raftpb"
)

// lease lets a leader answer reads without asking: for a while after a majority
// has last confirmed it, no other node can have been elected. It relies on
// clocks, so it is off by default.
//
// A follower that has heard of its leader refuses its vote for ElectionTicks
// ticks, also to a node that asks for a pre-vote. Its ticks come no faster than the
// clock's, but for one that can come early. So a leader that was confirmed by a
// question which it asked at t is the only one until t + (ElectionTicks-2) ticks,
// by the clock of any voter. What remains is that clocks run at different speeds:
// LeaseDrift is allowed for.
//
// Three things would break it, and are seen to: a node that restarts has forgotten
// whom it heard, so it gives no vote for its first ElectionTicks ticks; a node
// that learns of a newer term forgets its leader, which may not know of that term
// yet, so the time is counted here too (promised); and a hand-over has a node
// elected in spite of the leader, so a leader that has ever begun one has no lease
// any more in that term.
type lease struct {
	length time.Duration
	clock  func() time.Duration // nobody sets it; nil: there is no lease
	asked  time.Duration        // when the question on its way was asked
	until  time.Duration
	term   uint64 // that it was got in
}

// LeaseDrift is how much slower, in percent, a leader's clock may run than that
// of any other node while a lease is used: a second a minute is 2.
const LeaseDrift = 10

// LeaseOf returns how long a lease lasts from the question that gets it.
func LeaseOf(electionTicks int, tick time.Duration) time.Duration {
	return time.Duration(electionTicks-2) * tick * (100 - LeaseDrift) / 100
}

// ask notes that a question goes out.
func (l *lease) ask() {
	if l.clock != nil {
		l.asked = l.clock()
	}
}

// got notes that a majority has answered the question, to the leader of a term.
func (l *lease) got(c *Core) {
	if l.clock == nil || !c.mayLease() {
		return
	}
	from := l.asked
	if failpoint("lease-from-answer") {
		from = l.clock()
	}
	l.term, l.until = c.role.Term, from+l.length
}

// holds reports whether the core is certain to lead now.
func (l *lease) holds(c *Core) bool {
	return l.clock != nil && c.mayLease() && l.term == c.role.Term && l.clock() < l.until
}

// mayLease reports whether no other node can be elected while others hear this
// leader.
func (c *Core) mayLease() bool {
	return c.role.Ready && (c.handed != c.role.Term || failpoint("lease-over-hand-over"))
}

// handOver marks a request for a vote of a node that the leader has chosen. The
// library's, which does not export it.
const handOver = "CampaignTransfer"

// promised reports whether m asks for a vote that a leader may rely on being
// refused, and notes a leader that is heard.
func (c *Core) promised(m *Message) bool {
	switch m.GetType() {
	case raftpb.MsgApp, raftpb.MsgHeartbeat, raftpb.MsgSnap:
		if m.GetTerm() >= c.rn.BasicStatus().GetTerm() {
			c.quiet = 0
		}
	case raftpb.MsgVote, raftpb.MsgPreVote:
		chosen := string(m.GetContext()) == handOver
		return c.ticks < c.cfg.ElectionTicks || c.quiet < c.cfg.ElectionTicks && !chosen
	}
	return false
}
