package raft

import (
	"log/slog"
	"slices"
	"testing"

	"go.etcd.io/raft/v3/raftpb"
)

// heardStamps notes what it hears.
type heardStamps struct{ got []uint64 }

func (s *heardStamps) Bound() uint64              { return 1 }
func (s *heardStamps) Known() uint64              { return 1 }
func (s *heardStamps) Heard(stamp uint64, _ bool) { s.got = append(s.got, stamp) }

// TestStampsOfVoters: a candidate takes the stamps of those that vote for it, and not
// those of others or those that come when it leads: they would move the time of a leader.
func TestStampsOfVoters(t *testing.T) {
	store, err := NewStore(&memLog{}, Vote{Term: 5}, Base{Members: Members{Voters: []uint64{1, 2, 3, 4, 5}}})
	if err != nil {
		t.Fatal(err)
	}
	var heard heardStamps
	c, err := NewCore(Config{ID: 1, Log: store, Stamps: &heard, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	step := func(of raftpb.MessageType, from, stamp uint64, reject bool) {
		t.Helper()
		m := &Message{Type: of.Enum(), From: new(from), To: new(uint64(1)), Term: new(uint64(6)), Reject: new(reject), RejectHint: new(stamp)}
		if err := c.Step(m); err != nil {
			t.Fatal(err)
		}
		for {
			rd, busy := c.Ready()
			if !busy {
				return
			}
			if rd.Save != nil {
				if err := store.Append(rd.Save); err != nil {
					t.Fatal(err)
				}
				if err := store.Sync(rd.Save); err != nil {
					t.Fatal(err)
				}
				c.Saved(rd.Save)
			}
		}
	}
	c.Campaign()
	for _, from := range []uint64{2, 3} {
		step(raftpb.MsgPreVoteResp, from, 90+from, false)
	}
	step(raftpb.MsgVoteResp, 2, 12, false)
	step(raftpb.MsgVoteResp, 3, 93, true)
	step(raftpb.MsgVoteResp, 4, 14, false)
	if !c.Role().Leads {
		t.Fatalf("the candidate has three votes of five and does not lead: %+v", c.Role())
	}
	step(raftpb.MsgVoteResp, 5, 95, false)
	step(raftpb.MsgVoteResp, 3, 93, true)
	if want := []uint64{12, 14}; !slices.Equal(heard.got, want) {
		t.Errorf("the candidate took the stamps %d, want %d", heard.got, want)
	}
}
