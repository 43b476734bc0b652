package raft

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// MaxInbox is how many messages from other nodes may wait to be stepped. More are
// dropped, as a network may drop them.
const MaxInbox = 8192

// Net carries messages to other nodes.
type Net interface {
	// Send queues a message and never blocks. It reports whether the message
	// was queued. It may return the message by Node.Written once it needs it no more.
	Send(to uint64, msg []byte) bool
	// Urgent is Send for a short message that may overtake others.
	Urgent(to uint64, msg []byte) bool
	// SendSnapshot delivers a message and a stream, and returns once both are
	// durable on the other node.
	SendSnapshot(ctx context.Context, to uint64, msg []byte, r io.Reader) error
}

// Machine is the state machine that the log drives. All methods but OpenSnapshot
// and Temporary are called by one goroutine, in log order.
type Machine interface {
	// Apply applies committed entries. After an error the node stops: what
	// follows an entry must not be applied without it.
	Apply(entries []Entry) error
	// Install durably replaces the state with the received snapshot. file is what
	// was passed to ReceiveSnapshot.
	Install(b Base, file []byte) error
	// Lead reports that this node is the leader of the term and that all entries of
	// earlier terms, or from before a Hold, are applied. It may now propose.
	Lead(term uint64)
	// Hold reports that this node is still the leader but must not propose until the
	// next Lead, because the disks of a majority are full. Earlier proposals may
	// still be committed.
	Hold()
	// Follow reports that this node is not the leader; leader is 0 if it is unknown.
	// The last call has term 0: the node has stopped.
	Follow(term, leader uint64)
	// Refused reports that a proposal was rejected and will never be committed.
	Refused(p *Proposal, err error)
	// OpenSnapshot opens the newest snapshot on disk that lists the receiver as a
	// member.
	OpenSnapshot(to uint64) (Base, io.ReadCloser, error)
	// Temporary reports whether the same call of Log, or of Install, may succeed
	// later: the disk was full, or no file could be opened.
	Temporary(err error) bool
	// Fail reports that the node has stopped because its log or Apply failed.
	Fail(err error)
}

// Proposal is data for the log, proposed by the leader of a term.
type Proposal struct {
	Term uint64
	Data []byte
}

// NodeConfig configures a Node.
type NodeConfig struct {
	Config
	Net     Net
	Machine Machine
	Tick    <-chan time.Time     // the clock
	Lone    bool                 // the only voter: campaign at once
	Lease   time.Duration        // of a leader, see LeaseOf; 0: none. Needs Leases on every node
	Clock   func() time.Duration // monotonic; for Lease

	// MayVote reports whether a learner gets a vote once it has caught up; nil: each
	// does. It does not block. The machine has applied every earlier membership change
	// when its result is used.
	MayVote func(id uint64) bool

	// Rate returns the bytes per second with which a node is brought up to date; 0: there
	// is no limit. It does not block. nil: no node has a limit.
	Rate func(id uint64) int64

	// Short, if not nil, reports whether the log's disk has less free space than
	// its reserve. It does not block.
	Short func() bool
}

// Node runs a Core: one goroutine steps it, one writes to disk and one applies. All
// methods are safe for concurrent use.
type Node struct {
	cfg   NodeConfig
	core  *Core
	store *Store

	events queue[event]
	saves  queue[*Save]
	tasks  queue[task]

	stop    context.CancelFunc
	ctx     context.Context
	running sync.WaitGroup
	status  atomic.Pointer[Status]
	full    atomic.Bool // the disk is full: nothing is being saved
	lacks   atomic.Bool // the last result of Short
	dropped atomic.Uint64
	written buffers // of messages

	// Only the stepping goroutine uses the fields below.
	reads   Reads
	room    Room
	paces   Pace
	saving  int             // Saves that were passed to the disk goroutine and are not durable
	looked  int             // ticks since the last call of Short
	sending map[uint64]bool // receivers of the snapshots in flight
}

// event is input of the stepping goroutine. One field is set.
type event struct {
	msg     *Message
	prop    *Proposal
	saved   []*Save
	applied *Apply
	read    *readWait
	held    uint64 // the machine has carried out this Hold
	fn      func(*Core)
}

// task is work for the applying goroutine. One field is set.
type task struct {
	apply   *Apply
	role    *Role
	refused *Proposal
	err     error  // why refused
	hold    uint64 // number of the Hold; 0: it is none
	fn      func()
}

// Start starts a node.
func Start(cfg NodeConfig) (*Node, error) {
	core, err := NewCore(cfg.Config)
	if err != nil {
		return nil, err
	}
	if cfg.MayVote == nil {
		cfg.MayVote = func(uint64) bool { return true }
	}
	n := &Node{cfg: cfg, core: core, store: cfg.Log, sending: map[uint64]bool{}, paces: NewPace(cfg.Clock, cfg.Rate)}
	n.ctx, n.stop = context.WithCancel(context.Background())
	if cfg.Leases {
		n.reads = NewReads(cfg.Lease, cfg.Clock)
	}
	n.events.init()
	n.saves.init()
	n.tasks.init()
	n.status.Store(&Status{})
	if cfg.Lone {
		core.Campaign()
	}
	n.running.Go(n.step)
	n.running.Go(n.disk)
	n.running.Go(n.apply)
	return n, nil
}

// Close stops the node. Data that is not durable may be lost.
func (n *Node) Close() {
	n.stop()
	n.saves.close()
	n.tasks.close()
	n.events.close()
	n.running.Wait()
}

// Status returns a status that is at most one tick old.
func (n *Node) Status() Status { return *n.status.Load() }

// Dropped returns how many messages were dropped because too many were waiting.
func (n *Node) Dropped() uint64 { return n.dropped.Load() }

// Written takes back the memory of a message that Net.Send got and has written.
func (n *Node) Written(msg []byte) { n.written.give(msg) }

// Receive handles a message from another node. It does not keep msg.
func (n *Node) Receive(from uint64, msg []byte) error {
	m := &Message{}
	if err := proto.Unmarshal(msg, m); err != nil {
		return err
	}
	if m.GetFrom() != from {
		return errors.New("raft: a message with a forged sender")
	}
	if n.events.size() >= MaxInbox {
		n.dropped.Add(1)
		return nil
	}
	n.events.push(event{msg: m})
	return nil
}

// ReceiveSnapshot handles the message that came with a snapshot. The machine must
// already have stored the snapshot under the name in file.
func (n *Node) ReceiveSnapshot(from uint64, msg, file []byte) error {
	m := &Message{}
	if err := proto.Unmarshal(msg, m); err != nil {
		return err
	}
	if m.GetFrom() != from || m.GetType() != raftpb.MsgSnap || m.GetSnapshot() == nil {
		return errors.New("raft: not a snapshot of that sender")
	}
	m.Snapshot.Data = file
	n.events.push(event{msg: m})
	return nil
}

// Propose queues p. The outcome is reported to the Machine, by Apply or Refused.
func (n *Node) Propose(p *Proposal) { n.events.push(event{prop: p}) }

// Do runs fn on the core, in the goroutine that steps it, and returns when fn has
// run. If ctx ends first, or the node is closed, it returns an error; fn may then
// still run.
func (n *Node) Do(ctx context.Context, fn func(*Core)) error {
	done := make(chan struct{})
	n.events.push(event{fn: func(c *Core) { fn(c); close(done) }})
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-n.ctx.Done():
		return errClosed
	}
}

var errClosed = errors.New("raft: the node is closed")

// Unreachable reports that messages to a node are being lost.
func (n *Node) Unreachable(id uint64) {
	n.events.push(event{fn: func(c *Core) {
		n.paces.Lost(id)
		c.Unreachable(id)
	}})
}

// step is the goroutine that owns the core.
func (n *Node) step() {
	defer func() {
		if v := recover(); v != nil { // the library has found its log or itself broken
			n.cfg.Logger.Error("raft has stopped", "why", v, "stack", string(debug.Stack()))
			n.cfg.Machine.Fail(fmt.Errorf("raft has stopped: %v", v))
			n.stop()
		}
	}()
	var batch []event
	for {
		select {
		case <-n.ctx.Done():
			return
		case <-n.cfg.Tick:
			n.tick()
		case <-n.events.wake:
		}
		batch = n.events.take(batch[:0])
		for i := range batch {
			n.handle(&batch[i])
			batch[i] = event{}
		}
		for {
			n.reads.Ask(n.core) // also for reads that came while a request was in flight
			rd, busy := n.core.Ready()
			if !busy {
				break
			}
			n.carryOut(rd)
		}
	}
}

func (n *Node) tick() {
	n.core.Tick()
	n.reads.Tick()
	n.promote()
	n.weigh()
	for _, m := range n.paces.Release() {
		n.send(m)
	}
	n.showStatus()
}

// showStatus updates the result of Status.
func (n *Node) showStatus() {
	s := n.core.Status()
	s.Held = n.room.Held()
	for i := range s.Followers {
		f := &s.Followers[i]
		f.Short = n.room.lacking[f.ID] || f.ID == n.cfg.ID && n.short()
	}
	n.paces.Update(&s, func(id uint64) bool { return n.sending[id] })
	n.status.Store(&s)
}

// promoteLag is how many entries a learner may lag behind when it gets a vote.
const promoteLag = 1024

// promote gives a vote to a learner that has caught up. While a membership change is
// not applied here, none is promoted: the change may say that it must not be.
func (n *Node) promote() {
	if id := n.core.CaughtUp(promoteLag, n.cfg.MayVote); id != 0 && n.core.Role().Ready {
		_ = n.core.ProposeChange([]Step{{Promote, id}}, nil) // retried at the next tick
	}
}

func (n *Node) handle(e *event) {
	switch {
	case e.msg != nil:
		n.room.Hear(e.msg)
		if err := n.core.Step(e.msg); err != nil {
			n.cfg.Logger.Warn("a message from another node was rejected", "err", err)
		}
	case e.prop != nil:
		err := ErrFull
		if !n.full.Load() && !n.room.Held() {
			err = n.core.Propose(e.prop.Term, e.prop.Data)
		}
		if err != nil {
			n.tasks.push(task{refused: e.prop, err: err})
		}
	case e.saved != nil:
		for _, s := range e.saved {
			n.core.Saved(s)
		}
		n.saving -= len(e.saved)
		n.reads.Applied(n.core) // a snapshot also counts
	case e.applied != nil:
		if role := n.core.Applied(e.applied); role != nil {
			n.tasks.push(task{role: role})
		}
		n.reads.Applied(n.core)
	case e.held != 0:
		n.room.Obeyed(e.held)
	case e.read != nil:
		n.reads.Add(e.read.ctx, e.read.term, e.read.done)
	case e.fn != nil:
		e.fn(n.core)
	}
}

// carryOut passes a Ready to the goroutines that carry it out.
func (n *Node) carryOut(rd Ready) {
	n.room.Took(rd)
	if rd.Role != nil {
		n.tasks.push(task{role: rd.Role})
		n.reads.Lost()
		n.showStatus()
	}
	for _, m := range rd.Messages {
		if !n.paces.Holds(m, n.core) {
			n.send(m)
		}
	}
	if rd.Apply != nil {
		n.tasks.push(task{apply: rd.Apply})
	}
	for _, r := range rd.Reads {
		n.reads.Confirmed(r, n.core)
	}
	switch {
	case rd.Save == nil:
	case n.saving == 0 && n.store.holds(rd.Save):
		n.noted(rd.Save)
	default:
		n.saving++
		n.saves.push(rd.Save)
	}
}

func (n *Node) send(m *Message) {
	if m.GetType() == raftpb.MsgSnap {
		n.sendSnapshot(m)
		return
	}
	if n.short() {
		TellShort(m)
	}
	size := 0
	for _, e := range m.GetEntries() {
		size += len(e.GetData())
	}
	b, err := proto.MarshalOptions{}.MarshalAppend(n.written.take(size), m)
	if err != nil {
		panic("BUG: marshal a message: " + err.Error())
	}
	send := n.cfg.Net.Send
	if urgent(m.GetType()) {
		send = n.cfg.Net.Urgent
	}
	if !send(m.GetTo(), b) {
		n.Unreachable(m.GetTo())
	}
}

// urgent reports whether a message must not wait behind long ones, because the
// receiver might start an election in the meantime.
func urgent(t raftpb.MessageType) bool {
	switch t {
	case raftpb.MsgHeartbeat, raftpb.MsgHeartbeatResp, raftpb.MsgReadIndex, raftpb.MsgReadIndexResp,
		raftpb.MsgVote, raftpb.MsgVoteResp, raftpb.MsgPreVote, raftpb.MsgPreVoteResp, raftpb.MsgTimeoutNow:
		return true
	}
	return false
}

// sendSnapshot streams the newest snapshot, which may be newer than the message
// says.
func (n *Node) sendSnapshot(m *Message) {
	to := m.GetTo()
	if n.sending[to] {
		return
	}
	if len(n.sending) >= MaxSending && !n.cfg.MayVote(to) {
		n.core.SnapshotSent(to, false) // it is tried again
		return
	}
	n.sending[to] = true
	chase := n.paces.of(to)
	n.running.Go(func() {
		err := n.stream(m, chase)
		if err != nil && n.ctx.Err() == nil {
			n.cfg.Logger.Warn("could not send a snapshot to another node; will retry", "node", to, "err", err)
		}
		n.events.push(event{fn: func(c *Core) {
			delete(n.sending, to)
			c.SnapshotSent(to, err == nil)
		}})
	})
}

func (n *Node) stream(m *Message, c *chase) error {
	base, r, err := n.cfg.Machine.OpenSnapshot(m.GetTo())
	if err != nil {
		return err
	}
	defer r.Close()
	Attach(m, base)
	msg, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	c.begin(r)
	return n.cfg.Net.SendSnapshot(n.ctx, m.GetTo(), msg, &pacedReader{n.ctx, r, c, n.paces.clock})
}

// apply is the goroutine that owns the machine.
func (n *Node) apply() {
	var tasks []task
	defer n.cfg.Machine.Follow(0, 0)
	for n.tasks.wait(n.ctx) {
		tasks = n.tasks.take(tasks[:0])
		for i := range tasks {
			if err := n.carry(&tasks[i]); err != nil {
				n.cfg.Machine.Fail(err)
				n.stop()
				return
			}
			tasks[i] = task{}
		}
	}
}

// carry carries out one task.
func (n *Node) carry(t *task) error {
	switch {
	case t.apply != nil:
		if err := n.cfg.Machine.Apply(t.apply.Entries); err != nil {
			return err
		}
		n.events.push(event{applied: t.apply})
	case t.refused != nil:
		n.cfg.Machine.Refused(t.refused, t.err)
	case t.hold != 0:
		n.cfg.Machine.Hold()
		n.events.push(event{held: t.hold})
	case t.fn != nil:
		t.fn()
	case t.role != nil && t.role.Ready:
		n.cfg.Machine.Lead(t.role.Term)
	case t.role != nil:
		n.cfg.Machine.Follow(t.role.Term, t.role.Leader)
	}
	return nil
}
