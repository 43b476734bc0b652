package raft

import (
	"log/slog"
	"testing"

	"go.etcd.io/raft/v3/raftpb"
)

// TestLeaseOutlivesATerm: a node that has heard its leader gives nobody else a
// vote, also if it has learned since that there is a newer term, by which the
// library forgets the leader. The leader does not know of that term yet.
func TestLeaseOutlivesATerm(t *testing.T) {
	store, err := NewStore(&memLog{}, Vote{Term: 5}, Base{Members: Members{Voters: []uint64{1, 2, 3}}})
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewCore(Config{ID: 2, Log: store, Leases: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	votes := func() (n int) {
		for {
			rd, busy := c.Ready()
			if !busy {
				return n
			}
			if rd.Save == nil {
				continue
			}
			for _, m := range c.Saved(rd.Save) {
				if m.GetType() == raftpb.MsgPreVoteResp && !m.GetReject() {
					n++
				}
			}
		}
	}
	step := func(m *Message) {
		t.Helper()
		m.To = new(uint64(2))
		if err := c.Step(m); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(context string) {
		step(&Message{Type: raftpb.MsgPreVote.Enum(), From: new(uint64(3)), Term: new(uint64(7)), Index: new(uint64(9)), LogTerm: new(uint64(5)), Context: []byte(context)})
	}
	for range DefaultElectionTicks - 1 {
		c.Tick()
		step(&Message{Type: raftpb.MsgHeartbeat.Enum(), From: new(uint64(1)), Term: new(uint64(5))})
	}
	step(&Message{Type: raftpb.MsgPreVoteResp.Enum(), From: new(uint64(3)), Term: new(uint64(6)), Reject: new(true)})
	for range DefaultElectionTicks - 1 {
		c.Tick()
		if ask(""); votes() != 0 {
			t.Fatal("a vote was given while the leader may count on it")
		}
	}
	c.Tick()
	if ask(""); votes() != 1 {
		t.Error("no vote was given although the leader was not heard for long")
	}
	step(&Message{Type: raftpb.MsgHeartbeat.Enum(), From: new(uint64(1)), Term: new(uint64(5))}) // of a term gone by
	if ask(""); votes() != 1 {
		t.Error("no vote was given because a leader of a term gone by was heard")
	}
}
