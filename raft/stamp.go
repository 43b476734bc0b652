package raft

import (
	"encoding/binary"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// Stamps is the machine's clock, whose time leaders pass on to other nodes. A stamp
// is a number that only grows; its unit is up to the machine. 0 means unknown. The
// goroutine that steps the Core calls all methods.
type Stamps interface {
	// Bound returns the time of a read that sees everything committed now. It is not
	// before that of any earlier read and not after that of anything committed later.
	// Only leaders call it.
	Bound() uint64
	// Known returns the latest time that this node knows. It is not before any Bound
	// that it has returned.
	Known() uint64
	// Heard receives the Known of the leader. If stands is set, it is instead that of
	// a node that has voted for this one, which is not elected yet, or has
	// transferred the leadership to it.
	Heard(stamp uint64, stands bool)
}

// Stamps travel in fields that older versions ignore: the context of a read, which a
// leader echoes whatever it is, and the RejectHint of heartbeats, of replies to vote
// requests and of leadership transfers, where the library does not use it.

// readContext is the size of a read's context on the wire, which must not change:
// the Start of the node, the number of the read, and the stamp, 0 in a request. Older
// nodes send and know only the first two. All are little endian.
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

// answered decodes the reply to a request of this start of the node.
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

// bound returns the stamp of a read that is requested now, or 0 if this node is not
// the leader. It must be called before the read's index is determined.
func (c *Core) bound() uint64 {
	if c.cfg.Stamps == nil || c.rn.BasicStatus().RaftState != raft.StateLeader {
		return 0
	}
	return c.cfg.Stamps.Bound()
}

// stampRead puts the stamp into another node's request if it has room for one.
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

// heard handles the stamp of a message. Of the replies to a candidate only granted
// votes count, and only before it is elected: a majority knows every time that any
// reader has seen. A later stamp would move the time of a leader.
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
