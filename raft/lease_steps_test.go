package raft

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"go.etcd.io/raft/v3/raftpb"
)

const leaseTick = 100 * time.Millisecond

var leaseLength = LeaseOf(DefaultElectionTicks, leaseTick)

// stepped is a cluster of three Cores with their Reads, in which nothing happens
// that a test does not ask for: no tick, no message, no passage of time.
type stepped struct {
	t     *testing.T
	now   time.Duration
	cores map[uint64]*Core
	reads map[uint64]*Reads
	held  map[uint64]bool // messages to these nodes wait in wire
	wire  []*Message
}

// newStepped returns a cluster with node 1 as the leader.
func newStepped(t *testing.T) *stepped {
	s := &stepped{t: t, cores: map[uint64]*Core{}, reads: map[uint64]*Reads{}, held: map[uint64]bool{}}
	for id := range uint64(3) {
		s.start(id + 1)
		s.forget(id + 1)
	}
	s.elect(1)
	return s
}

// start starts a node with an empty log.
func (s *stepped) start(id uint64) {
	s.t.Helper()
	store, err := NewStore(&memLog{}, Vote{}, Base{Members: Members{Voters: []uint64{1, 2, 3}}})
	if err != nil {
		s.t.Fatal(err)
	}
	s.cores[id], err = NewCore(Config{ID: id, Start: id, Log: store, Leases: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		s.t.Fatal(err)
	}
	r := NewReads(leaseLength, func() time.Duration { return s.now })
	s.reads[id] = &r
}

// forget makes a node one that has not heard from a leader for long.
func (s *stepped) forget(id uint64) {
	s.cores[id].ticks, s.cores[id].quiet = DefaultElectionTicks, DefaultElectionTicks
}

func (s *stepped) elect(id uint64) {
	s.t.Helper()
	s.cores[id].Campaign()
	s.run()
	if r := s.cores[id].Role(); !r.Leads || !r.Ready {
		s.t.Fatalf("node %d does not lead: %+v", id, r)
	}
}

// run carries messages until there are no more but those that are held.
func (s *stepped) run() {
	s.t.Helper()
	for busy := true; busy; {
		busy = false
		for id := range uint64(3) {
			for s.carryOut(id + 1) {
				busy = true
			}
		}
		var wait []*Message
		for _, m := range s.wire {
			if s.held[m.GetTo()] {
				wait = append(wait, m)
				continue
			}
			busy = true
			if err := s.cores[m.GetTo()].Step(m); err != nil {
				s.t.Fatal(err)
			}
		}
		s.wire = wait
	}
}

// carryOut carries out the pending work of a node, and reports whether there was any.
func (s *stepped) carryOut(id uint64) bool {
	c := s.cores[id]
	rd, busy := c.Ready()
	if !busy {
		return false
	}
	if rd.Role != nil {
		s.reads[id].Lost()
	}
	out := rd.Messages
	if rd.Save != nil {
		if err := c.store.Append(rd.Save); err != nil {
			s.t.Fatal(err)
		}
		if err := c.store.Sync(rd.Save); err != nil {
			s.t.Fatal(err)
		}
		out = append(out, c.Saved(rd.Save)...)
	}
	if rd.Apply != nil {
		c.Applied(rd.Apply)
	}
	s.wire = append(s.wire, out...)
	for _, r := range rd.Reads {
		s.reads[id].Confirmed(r, c)
	}
	s.reads[id].Applied(c)
	return true
}

// lose loses all messages of a type that are held.
func (s *stepped) lose(of raftpb.MessageType) {
	s.wire = slices.DeleteFunc(s.wire, func(m *Message) bool { return m.GetType() == of })
}

// read begins a read at a node, and returns whether a question was sent for it
// and what has become of it: nil until it is answered.
func (s *stepped) read(id uint64) (asked bool, answered *bool) {
	answered = new(bool)
	s.reads[id].Add(context.Background(), 0, func(uint64, error) { *answered = true })
	return s.reads[id].Ask(s.cores[id]), answered
}

// leased fails the test unless a read at node 1 is answered at once, or is not.
func (s *stepped) leased(want bool, when string) {
	s.t.Helper()
	asked, answered := s.read(1)
	if asked == want || *answered != want {
		s.t.Fatalf("%s: a question was sent: %v, the read was answered: %v; want the lease to answer it: %v", when, asked, *answered, want)
	}
	if asked {
		s.reads[1].Lost() // no read waits for it any more
		s.reads[1].waiting = nil
	}
}

// TestLeaseEnds: a lease begins when its request is sent, however late the reply comes, and
// ends exactly on time.
func TestLeaseEnds(t *testing.T) {
	for _, late := range []time.Duration{0, 1, 2 * leaseTick, leaseLength - 1, leaseLength, 5 * leaseLength} {
		s := newStepped(t)
		s.leased(false, "before any question")
		s.now = 7 * time.Second
		s.held[1] = true
		_, answered := s.read(1)
		s.run()
		s.now += late
		if *answered {
			t.Fatal("a read was answered before the answer came")
		}
		s.held[1] = false
		if s.run(); !*answered {
			t.Fatalf("late by %v: the read was not answered", late)
		}
		s.leased(late < leaseLength, "when the answer comes")
		if late < leaseLength {
			s.now = 7*time.Second + leaseLength - 1
			s.leased(true, "at its last instant")
		}
		s.now = 7*time.Second + leaseLength
		s.leased(false, "at its end")
	}
}

// TestLeaseOfALostQuestion: the reply to a request that was given up gives no lease and
// completes no read.
func TestLeaseOfALostQuestion(t *testing.T) {
	s := newStepped(t)
	s.held[1] = true
	_, first := s.read(1)
	s.run()
	for range readResend {
		s.reads[1].Tick()
	}
	s.held[2], s.held[3] = true, true // the second question does not get there
	s.now += leaseLength / 2
	if !s.reads[1].Ask(s.cores[1]) {
		t.Fatal("the question was not sent again")
	}
	s.held[1] = false
	if s.run(); *first {
		t.Fatal("the read was answered by an answer to the first question")
	}
	s.held[2], s.held[3] = false, false
	if s.run(); !*first {
		t.Fatal("the read was not answered")
	}
	s.now = leaseLength
	s.leased(true, "after half a lease")
}

// TestLeaseAndHandOver: a leader that has begun to transfer its leadership has no lease for
// the rest of that term, even if the transfer fails.
func TestLeaseAndHandOver(t *testing.T) {
	s := newStepped(t)
	s.read(1)
	s.run()
	s.leased(true, "before the hand-over")
	s.held[2], s.held[3] = true, true
	if !s.cores[1].Transfer(2) {
		t.Fatal("it cannot hand over")
	}
	s.leased(false, "when the hand-over has begun")
	s.run()
	s.lose(raftpb.MsgTimeoutNow)
	s.leased(false, "when nobody has heard of the hand-over")
	s.held[2], s.held[3] = false, false
	for range DefaultElectionTicks { // until the library gives it up
		s.cores[1].Tick()
		s.run()
	}
	if r := s.cores[1].Role(); !r.Leads || s.cores[1].Propose(r.Term, []byte("x")) != nil {
		t.Fatalf("the leader has not gone on: %+v", r)
	}
	s.run()
	_, answered := s.read(1)
	if s.run(); !*answered {
		t.Fatal("the read was not answered")
	}
	s.leased(false, "after a hand-over that was given up")
}

// TestLeaseOfAnEarlierTerm: a leader that was deposed and elected again has no lease from
// the earlier term.
func TestLeaseOfAnEarlierTerm(t *testing.T) {
	s := newStepped(t)
	s.read(1)
	s.run()
	s.leased(true, "in the first term")
	for _, id := range []uint64{2, 1} {
		s.forget(1)
		s.forget(2)
		s.forget(3)
		for range 2 * DefaultElectionTicks { // the library has a lease of its own
			s.cores[3].rn.Tick()
			s.cores[3-id].rn.Tick()
		}
		for node := range s.cores {
			for s.carryOut(node) {
			}
		}
		s.wire = nil
		s.cores[id].Campaign()
		s.run()
	}
	if r := s.cores[1].Role(); !r.Ready {
		t.Fatalf("node 1 does not lead again: %+v", r)
	}
	s.leased(false, "in the second term")
}

// TestVotesOfTheForgetful: a node that has just started may have heard a leader
// before, so it gives its vote to nobody for as long as a lease may last, not even to
// one whom a leader has chosen. Then it does.
func TestVotesOfTheForgetful(t *testing.T) {
	for _, context := range []string{"", handOver} {
		s := newStepped(t)
		s.start(2)
		vote := func() (gave bool) {
			err := s.cores[2].Step(&Message{Type: raftpb.MsgVote.Enum(), To: new(uint64(2)), From: new(uint64(3)), Term: new(uint64(9)), Index: new(uint64(9)), LogTerm: new(uint64(8)), Context: []byte(context)})
			if err != nil {
				t.Fatal(err)
			}
			for s.carryOut(2) {
			}
			for _, m := range s.wire {
				gave = gave || m.GetType() == raftpb.MsgVoteResp && m.GetFrom() == 2 && !m.GetReject()
			}
			s.wire = nil
			return gave
		}
		for tick := range DefaultElectionTicks {
			if vote() {
				t.Fatalf("context %q: a vote was given after %d ticks", context, tick)
			}
			s.cores[2].Tick()
		}
		if !vote() {
			t.Errorf("context %q: no vote was given after %d ticks", context, DefaultElectionTicks)
		}
	}
}
