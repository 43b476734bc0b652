package raft

import (
	"encoding/binary"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// Stamps is the machine's clock, as leaders pass its time on. A stamp is a number
// that only grows; its unit is up to the machine. 0 is unknown.
// All methods are called by the goroutine that steps the Core.
type Stamps interface {
	// Bound returns the time of a read that sees all that is committed now: not
	// before that of any earlier read, and not after that of anything that is
	// committed later. Only a leader asks.
	Bound() uint64
	// Known returns the time as far as this node knows it, which is not before any
	// Bound that it gave.
	Known() uint64
	// Heard takes the Known of the leader or, if stands is set, that of a node that
	// has voted for this one, which is not elected yet, or has handed over to it.
	Heard(stamp uint64, stands bool)
}

// Stamps travel where no version minds them: in the context of a read, which a
// leader echoes whatever it is, and in the RejectHint of heartbeats, of answers to
// requests for votes and of hand-overs, where the library does not use it.

// readContext is a read's context on the wire, do not change: which start of the
// node asks, and the number of the read; then the stamp, 0 in a question. Older nodes
// send and know only the first two. All are little endian.
const (
	readContextOld = 16
	readContext    = 24
)

func (c *Core) readContext(id, stamp uint64) []byte {
	b := make([]byte, 0, readContext)
	b = binary.LittleEndian.AppendUint64(b, c.cfg.Start)
	b = binary.LittleEndian.AppendUint64(b, id)
	return binary.LittleEndian.AppendUint64(b, stamp)
}

// answered reads the answer to one of this start's questions.
func (c *Core) answered(s raft.ReadState) (r Read, ok bool) {
	b := s.RequestCtx
	if len(b) < readContextOld || binary.LittleEndian.Uint64(b) != c.cfg.Start {
		return Read{}, false
	}
	r = Read{ID: binary.LittleEndian.Uint64(b[8:]), Index: s.Index}
	if len(b) == readContext {
		r.Stamp = binary.LittleEndian.Uint64(b[16:])
	}
	return r, true
}

// bound is the stamp of a read that is asked for now, if this node leads. It must
// be taken before the index that the read waits for.
func (c *Core) bound() uint64 {
	if c.cfg.Stamps == nil || c.rn.BasicStatus().RaftState != raft.StateLeader {
		return 0
	}
	return c.cfg.Stamps.Bound()
}

// stampRead puts the stamp into another node's question. What it does not ask for
// it does not get.
func (c *Core) stampRead(m *Message) {
	if len(m.GetEntries()) != 1 {
		return
	}
	if b := m.GetEntries()[0].GetData(); len(b) == readContext {
		binary.LittleEndian.PutUint64(b[16:], c.bound())
	}
}

// stamp puts the stamp into messages that carry one.
func (c *Core) stamp(ms []*Message) {
	if c.cfg.Stamps == nil {
		return
	}
	for _, m := range ms {
		switch m.GetType() {
		case raftpb.MsgHeartbeat, raftpb.MsgVoteResp, raftpb.MsgTimeoutNow:
			m.RejectHint = new(c.cfg.Stamps.Known())
		}
	}
}

// heard takes the stamp of a message. Of the answers to a candidate only the votes
// count, and only those that come before it is elected: a majority knows all that any
// reader was shown. A stamp that comes later would move the time of a leader.
func (c *Core) heard(m *Message) {
	if c.cfg.Stamps == nil {
		return
	}
	now := c.rn.BasicStatus()
	switch term := now.GetTerm(); {
	case m.GetType() == raftpb.MsgHeartbeat && m.GetTerm() >= term:
		c.cfg.Stamps.Heard(m.GetRejectHint(), false)
	case m.GetType() == raftpb.MsgVoteResp && m.GetTerm() == term && now.RaftState == raft.StateCandidate && !m.GetReject(),
		m.GetType() == raftpb.MsgTimeoutNow && m.GetTerm() == term:
		c.cfg.Stamps.Heard(m.GetRejectHint(), true)
	}
}
