// Package raft replicates one log to several nodes.
//
// It knows opaque entries, terms, votes and members, and drives
// go.etcd.io/raft/v3; it must not know what an entry means, nor files, sockets
// or the wall clock: it declares the Log, Net and Machine that it needs. Core is
// the part without goroutines: its owner steps it, so a test can run a whole
// cluster in one goroutine. Node is Core with the goroutines around it.
package raft

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
)

// Message is a message from one node to another.
type Message = raftpb.Message

// Limits and defaults.
const (
	DefaultElectionTicks  = 10
	DefaultHeartbeatTicks = 1
	DefaultMessageBytes   = 1 << 20   // of entries in one message, one entry always fits
	DefaultInflight       = 64        // messages on their way to a follower
	DefaultInflightBytes  = 32 << 20  // of entries on their way to a follower
	MaxUncommittedBytes   = 512 << 20 // of proposals without a quorum; more are refused
	MaxApplyBytes         = 64 << 20  // of entries being applied
)

// ErrNotLeader is returned for a proposal to a node that is not the leader of the
// term that the proposal was made for. The proposal will never be committed.
var ErrNotLeader = errors.New("raft: not the leader of that term")

// ErrFull is returned for a proposal to a leader whose disk is full, or while the
// disks of a majority are. The proposal will never be committed.
var ErrFull = errors.New("raft: the disk is full")

// ErrBusy is returned for a proposal that the leader cannot accept now. The
// proposal will never be committed.
var ErrBusy = errors.New("raft: too much is uncommitted")

// Kind is the kind of an entry.
type Kind uint8

const (
	Data   Kind = iota // opaque; empty: a leader's first entry
	Change             // of the membership; its data is encoded by this package
)

// Entry is one entry of the log. Nobody modifies Data.
type Entry struct {
	Index, Term uint64
	Kind        Kind
	Data        []byte
	Members     *Members // set when a Change is applied: the members after it
	Context     []byte   // set when a Change is applied: the context of its proposal
	Commit      uint64   // in a Log: the commit index known when the entry was saved
}

// Vote is a node's term and its vote in that term. A node must never forget it.
type Vote struct{ Term, For uint64 }

// Base is the state that a log continues from: all entries up to Index have been
// applied.
type Base struct {
	Index, Term uint64
	Members     Members
}

// Role is the role of a node at one time.
type Role struct {
	Term   uint64
	Leader uint64 // 0: none is known
	Leads  bool   // this node is the leader; it may accept proposals once Ready is also set
	Ready  bool   // an entry of this term has been applied
}

// Config of a Core.
type Config struct {
	ID             uint64
	ElectionTicks  int    // without a leader before a node campaigns; 0: DefaultElectionTicks
	HeartbeatTicks int    // 0: DefaultHeartbeatTicks
	MessageBytes   uint64 // 0: DefaultMessageBytes
	Inflight       int    // 0: DefaultInflight
	Start          uint64 // any number that differs from those of earlier starts; marks this start's reads
	Applied        uint64 // the machine has applied all entries up to this index
	Leases         bool   // leaders of this cluster may use leases: no vote in the first ElectionTicks
	Stamps         Stamps // nil: messages carry no time
	Log            *Store
	Logger         *slog.Logger
}

// Ready is the pending work of a Core. Its owner may send Messages at once. It must
// make each Save durable, in the order of the Readys, and then pass it to Saved. It
// must apply each Apply in the same order and then pass it to Applied.
type Ready struct {
	Messages []*Message
	Save     *Save
	Apply    *Apply
	Reads    []Read
	Role     *Role // has changed
}

// Save is state that must be durable before its replies are sent.
type Save struct {
	Vote      Vote   // the newest; zero: unchanged
	Commit    uint64 // the commit index; 0: unchanged
	Entries   []*raftpb.Entry
	Snapshot  *raftpb.Snapshot // to be installed first; Data is the name given to ReceiveSnapshot
	responses []*Message
}

// Apply is a batch of committed entries.
type Apply struct {
	Entries []Entry
	resp    []*Message
	change  bool // they include a membership change, or the empty entry that replaced one
}

// Read is the reply to ReadIndex. Once the machine has applied all entries up to
// Index, it has everything that was committed when the read was requested. Stamp is
// the leader's Bound at that time, or 0 if the leader runs an older version.
type Read struct{ ID, Index, Stamp uint64 }

// Core is one node without goroutines. It is not safe for concurrent use.
type Core struct {
	cfg     Config
	rn      *raft.RawNode
	store   *Store
	role    Role
	applied uint64
	ticks   int      // since the start, up to ElectionTicks
	quiet   int      // ticks since the last message from a leader, up to ElectionTicks
	handed  uint64   // the last term in which this node began to transfer its leadership
	held    []uint64 // reads that wait for the leader's first entry
	// This leader has proposed a membership change that is not applied yet. The
	// library would replace a second one with an empty entry.
	changing bool
}

// NewCore starts a node from its log.
func NewCore(c Config) (*Core, error) {
	c.ElectionTicks = cmp.Or(c.ElectionTicks, DefaultElectionTicks)
	c.HeartbeatTicks = cmp.Or(c.HeartbeatTicks, DefaultHeartbeatTicks)
	c.MessageBytes = cmp.Or(c.MessageBytes, DefaultMessageBytes)
	c.Inflight = cmp.Or(c.Inflight, DefaultInflight)
	rn, err := raft.NewRawNode(&raft.Config{
		ID: c.ID, ElectionTick: c.ElectionTicks, HeartbeatTick: c.HeartbeatTicks,
		Storage: c.Log, Applied: c.Applied, AsyncStorageWrites: true,
		MaxSizePerMsg: c.MessageBytes, MaxCommittedSizePerReady: MaxApplyBytes,
		MaxUncommittedEntriesSize: MaxUncommittedBytes,
		MaxInflightMsgs:           c.Inflight, MaxInflightBytes: DefaultInflightBytes + c.MessageBytes,
		CheckQuorum: true, PreVote: true, DisableProposalForwarding: true, StepDownOnRemoval: true,
		Logger: logger{c.Logger},
	})
	if err != nil {
		return nil, fmt.Errorf("start raft: %w", err)
	}
	core := &Core{cfg: c, rn: rn, store: c.Log, applied: c.Applied}
	if failpoint("lease-forgotten") {
		core.ticks, core.quiet = c.ElectionTicks, c.ElectionTicks
	}
	return core, nil
}

// Tick advances the logical clock by one tick.
func (c *Core) Tick() {
	c.ticks = min(c.ticks+1, c.cfg.ElectionTicks)
	c.quiet = min(c.quiet+1, c.cfg.ElectionTicks)
	c.rn.Tick()
}

// Campaign stands for election at once.
func (c *Core) Campaign() { _ = c.rn.Campaign() } // an error means only that it cannot

// Step advances the state machine with a message from another node. It returns an
// error for messages that no other node may send.
func (c *Core) Step(m *Message) error {
	if m.GetTo() != c.cfg.ID || raft.IsLocalMsgTarget(m.GetFrom()) || m.GetFrom() == 0 || onlyOwn(m.GetType()) {
		return fmt.Errorf("raft: a message %v from %d to %d is not for this node", m.GetType(), m.GetFrom(), m.GetTo())
	}
	if m.GetType() == raftpb.MsgReadIndex {
		if !c.role.Ready {
			return nil // the sender will ask again; the library would forward it in the sender's name
		}
		c.stampRead(m)
	}
	if c.cfg.Leases && c.promised(m) {
		return nil
	}
	c.heard(m)
	if err := c.rn.Step(m); err != nil && !errors.Is(err, raft.ErrProposalDropped) && !errors.Is(err, raft.ErrStepPeerNotFound) {
		return fmt.Errorf("raft: %w", err)
	}
	return nil
}

// onlyOwn reports whether a node may send such a message only to itself.
func onlyOwn(t raftpb.MessageType) bool {
	return t == raftpb.MsgProp || t == raftpb.MsgTransferLeader || t == raftpb.MsgForgetLeader
}

// Propose appends data to the log if this node is the leader of the term.
func (c *Core) Propose(term uint64, data []byte) error {
	if s := c.rn.BasicStatus(); s.RaftState != raft.StateLeader || s.GetTerm() != term || s.LeadTransferee != 0 {
		return ErrNotLeader
	}
	if err := c.rn.Propose(data); err != nil {
		return ErrBusy
	}
	return nil
}

// ReadIndex requests the index that a linearizable read has to wait for. The reply
// comes in Ready.Reads. It may be lost with a message or a change of leader, so the
// caller must be ready to request it again.
func (c *Core) ReadIndex(id uint64) {
	if failpoint("stale-read") || c.role.Leads && !c.role.Ready {
		c.held = append(c.held, id)
		return
	}
	c.rn.ReadIndex(c.readContext(id, c.bound()))
}

// Transfer begins to transfer the leadership to another node; 0 means the one that
// is most up to date. It reports whether there is such a node.
func (c *Core) Transfer(to uint64) bool {
	if !c.role.Leads {
		return false
	}
	if to == 0 {
		var best uint64
		c.rn.WithProgress(func(id uint64, typ raft.ProgressType, pr tracker.Progress) {
			// Right after a quorum check no node counts as active yet.
			alive := pr.RecentActive || pr.State == tracker.StateReplicate
			if id != c.cfg.ID && typ == raft.ProgressTypePeer && alive && pr.Match >= best {
				to, best = id, pr.Match
			}
		})
	}
	if to == 0 || to == c.cfg.ID {
		return false
	}
	c.handed = c.role.Term
	c.rn.TransferLeader(to)
	return true
}

// Unreachable reports that messages to a node are being lost.
func (c *Core) Unreachable(id uint64) { c.rn.ReportUnreachable(id) }

// SnapshotSent reports whether a snapshot was sent.
func (c *Core) SnapshotSent(to uint64, ok bool) {
	status := raft.SnapshotFinish
	if !ok {
		status = raft.SnapshotFailure
	}
	c.rn.ReportSnapshot(to, status)
}

// Ready returns the pending work, and whether there is any.
func (c *Core) Ready() (Ready, bool) {
	if !c.rn.HasReady() {
		return c.answerHeld(Ready{})
	}
	rd := c.rn.Ready()
	var out Ready
	for _, m := range rd.Messages {
		switch {
		case m.GetTo() == raft.LocalAppendThread:
			out.Save = &Save{Vote: Vote{m.GetTerm(), m.GetVote()}, Commit: m.GetCommit(), Entries: m.GetEntries(), Snapshot: m.GetSnapshot(), responses: m.GetResponses()}
			c.stamp(out.Save.responses)
		case m.GetTo() == raft.LocalApplyThread:
			out.Apply = c.newApply(m)
		default:
			out.Messages = append(out.Messages, m)
		}
	}
	c.stamp(out.Messages)
	for _, s := range rd.ReadStates {
		if r, ok := c.answered(s); ok {
			out.Reads = append(out.Reads, r)
		}
	}
	c.newRole(&out)
	return c.answerHeld(out)
}

// answerHeld requests the reads that waited for the leader's first entry.
func (c *Core) answerHeld(out Ready) (Ready, bool) {
	if failpoint("stale-read") {
		for _, id := range c.held {
			out.Reads = append(out.Reads, Read{ID: id, Index: c.applied, Stamp: c.bound()})
		}
		c.held = nil
	}
	busy := out.Save != nil || out.Apply != nil || out.Role != nil || len(out.Messages)+len(out.Reads) > 0
	if len(c.held) > 0 && (!c.role.Leads || c.role.Ready) {
		held := c.held
		c.held = nil
		for _, id := range held {
			c.ReadIndex(id)
		}
		busy = true // the next Ready has more
	}
	return out, busy
}

// newRole sets out.Role if the role has changed.
func (c *Core) newRole(out *Ready) {
	s := c.rn.BasicStatus()
	r := Role{Term: s.GetTerm(), Leader: s.Lead, Leads: s.RaftState == raft.StateLeader}
	r.Ready = r.Leads && c.role.Leads && c.role.Term == r.Term && c.role.Ready
	if r != c.role {
		c.changing = c.changing && r.Leads && r.Term == c.role.Term
		c.role = r
		out.Role = &r
	}
}

// newApply converts committed entries. A membership change takes effect in the
// library here, when its entry is committed, and in the machine when it applies the
// entry.
func (c *Core) newApply(m *Message) *Apply {
	a := &Apply{Entries: make([]Entry, len(m.GetEntries())), resp: m.GetResponses()}
	for i, e := range m.GetEntries() {
		a.Entries[i] = fromPB(e)
		a.change = a.change || e.GetType() != raftpb.EntryNormal || len(e.GetData()) == 0
		if e.GetType() == raftpb.EntryNormal {
			continue
		}
		a.Entries[i].Members, a.Entries[i].Context = c.applyChange(e)
	}
	return a
}

// Saved reports that s is durable. It returns the messages that may now be sent.
func (c *Core) Saved(s *Save) []*Message {
	out := s.Others(c.cfg.ID)
	for _, m := range s.responses {
		_ = c.rn.Step(m) // the node's own message
	}
	s.responses = nil
	c.applied = max(c.applied, s.Snapshot.GetMetadata().GetIndex())
	return out
}

// Others removes from s the messages for other nodes and returns them. They may be
// sent as soon as s is durable, before Saved is called.
func (s *Save) Others(self uint64) (out []*Message) {
	keep := s.responses[:0]
	for _, m := range s.responses {
		if m.GetTo() == self {
			keep = append(keep, m)
		} else {
			out = append(out, m)
		}
	}
	s.responses = keep
	return out
}

// Applied reports that the machine has applied a. It returns the role if that made
// the role ready, otherwise nil.
func (c *Core) Applied(a *Apply) *Role {
	for _, m := range a.resp {
		_ = c.rn.Step(m) // the node's own message
	}
	if a.change {
		c.changing = false // not earlier: the library checks the applied index
	}
	if n := len(a.Entries); n > 0 {
		c.applied = max(c.applied, a.Entries[n-1].Index)
		return c.ready(a.Entries[n-1].Term)
	}
	return nil
}

// ready marks the role as ready if an entry of the node's own term was applied.
func (c *Core) ready(term uint64) *Role {
	if !c.role.Leads || c.role.Ready || (term != c.role.Term && !failpoint("early-leader")) {
		return nil
	}
	c.role.Ready = true
	r := c.role
	return &r
}

// committed returns the commit index.
func (c *Core) committed() uint64 { return c.rn.BasicStatus().GetCommit() }

// Role returns the current role.
func (c *Core) Role() Role { return c.role }

// Follower is the leader's knowledge of one node.
type Follower struct {
	ID    uint64
	Match uint64 // entries up to this index are durable there
	State string // StateProbe, StateReplicate or StateSnapshot
	Voter bool
	Short bool // its disk has little space; set by Node

	Progress *Progress // set by Node while it is being brought up to date
}

// States of a Follower.
const (
	StateProbe     = "StateProbe"     // the leader does not know where its log ends
	StateReplicate = "StateReplicate" // it receives new entries as they are proposed
	StateSnapshot  = "StateSnapshot"  // it is sent a snapshot
)

// Status is for operators.
type Status struct {
	Role
	Commit, Applied uint64
	Followers       []Follower // only on the leader; includes the leader itself
	Changing        bool       // this leader's membership change is not applied yet
	Held            bool       // this leader accepts no proposals, because disks are full; set by Node
}

// Status returns the current status.
func (c *Core) Status() Status {
	b := c.rn.BasicStatus()
	s := Status{Role: c.role, Commit: b.GetCommit(), Applied: c.applied, Changing: c.changing}
	if c.role.Leads {
		c.rn.WithProgress(func(id uint64, typ raft.ProgressType, pr tracker.Progress) {
			s.Followers = append(s.Followers, Follower{ID: id, Match: pr.Match, State: pr.State.String(), Voter: typ == raft.ProgressTypePeer})
		})
	}
	return s
}

// logger passes the library's messages to slog one level lower: its info messages
// are noise to an operator.
type logger struct{ l *slog.Logger }

func (g logger) Debug(...any)                {}
func (g logger) Debugf(string, ...any)       {}
func (g logger) Info(v ...any)               { g.say(slog.LevelDebug, "", v) }
func (g logger) Infof(f string, v ...any)    { g.say(slog.LevelDebug, f, v) }
func (g logger) Warning(v ...any)            { g.say(slog.LevelInfo, "", v) }
func (g logger) Warningf(f string, v ...any) { g.say(slog.LevelInfo, f, v) }
func (g logger) Error(v ...any)              { g.say(slog.LevelWarn, "", v) }
func (g logger) Errorf(f string, v ...any)   { g.say(slog.LevelWarn, f, v) }

// say formats and logs a message if its level is enabled. With format "" it formats
// like fmt.Sprint.
func (g logger) say(level slog.Level, format string, v []any) {
	if !g.l.Enabled(context.Background(), level) {
		return
	}
	text := fmt.Sprint(v...)
	if format != "" {
		text = fmt.Sprintf(format, v...)
	}
	g.l.Log(context.Background(), level, "raft: "+text)
}

func (g logger) Fatal(v ...any)            { panic("raft: " + fmt.Sprint(v...)) }
func (g logger) Fatalf(f string, v ...any) { panic("raft: " + fmt.Sprintf(f, v...)) }
func (g logger) Panic(v ...any)            { panic("raft: " + fmt.Sprint(v...)) }
func (g logger) Panicf(f string, v ...any) { panic("raft: " + fmt.Sprintf(f, v...)) }
