package raft

import (
	"time"

	"go.etcd.io/raft/v3/raftpb"
)

// lease lets a leader serve reads without a round trip to a majority: for some time
// after a majority has confirmed it, no other node can have been elected. It relies
// on clocks, so it is off by default.
//
// A follower refuses votes and pre-votes for ElectionTicks ticks after a message
// from its leader. Its ticks come no faster than the clock's, except that one can
// come early. So a leader that was confirmed by a request sent at t is the only one
// until t + (ElectionTicks-2) ticks, by the clock of any voter. Clocks run at
// different speeds; LeaseDrift allows for that.
//
// Three cases need care:
//   - A node that restarts has forgotten its leader. So it gives no vote for its
//     first ElectionTicks ticks.
//   - In the library, a node that learns of a newer term forgets its leader, which
//     may not know of that term yet. So promised counts the time separately.
//   - A leadership transfer elects another node in spite of the leader. So a leader
//     that has begun one has no lease for the rest of its term.
type lease struct {
	length time.Duration
	clock  func() time.Duration // monotonic; nil: there is no lease
	asked  time.Duration        // when the request in flight was sent
	until  time.Duration
	term   uint64 // in which it was obtained
}

// LeaseDrift is how much slower, in percent, a leader's clock may run than that
// of any other node while a lease is used: a second a minute is 2.
const LeaseDrift = 10

// LeaseOf returns the duration of a lease, which begins when its request is sent.
func LeaseOf(electionTicks int, tick time.Duration) time.Duration {
	return time.Duration(electionTicks-2) * tick * (100 - LeaseDrift) / 100
}

// ask records that a request is sent now.
func (l *lease) ask() {
	if l.clock != nil {
		l.asked = l.clock()
	}
}

// got records that a majority has answered the request in flight.
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

// holds reports whether the core is certain to be the leader now.
func (l *lease) holds(c *Core) bool {
	return l.clock != nil && c.mayLease() && l.term == c.role.Term && l.clock() < l.until
}

// mayLease reports whether no other node can be elected while this leader reaches
// the others.
func (c *Core) mayLease() bool {
	return c.role.Ready && (c.handed != c.role.Term || failpoint("lease-over-hand-over"))
}

// handOver marks a vote request from the target of a leadership transfer. It is the
// value of an unexported constant of the library.
const handOver = "CampaignTransfer"

// promised reports whether m requests a vote that this node must refuse because of
// a leader's lease. It also records messages from a leader.
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
