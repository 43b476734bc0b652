package raft

import (
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
)

// stallTicks is for how many ticks a leader lacks room before it hands over to a
// node that has some.
const stallTicks = 20

// shortTicks is after how many ticks a node that lacks room looks again.
const shortTicks = 4

// room is what a node knows of the disks of all. A node without room says so in
// each answer to a heartbeat; the library does not look at that field of it. While
// a majority lacks room the leader takes no proposals: they could be neither
// committed nor refused. It belongs to the stepping goroutine.
type room struct {
	lacking map[uint64]bool // other nodes that have said so
	held    bool            // the machine takes no proposals
	holds   uint64          // how often it was told to
	obeyed  uint64          // the last of those that it has carried out
	stalled int             // ticks that this node has lacked room while leading
	ticks   int             // since it looked last
	last    uint64          // index of the newest entry of the log
}

// short reports whether this node lacks room.
func (n *Node) short() bool { return n.lacks.Load() || n.full.Load() }

// tell adds to an answer to a heartbeat whether this node lacks room.
func (n *Node) tell(m *Message) {
	if m.GetType() == raftpb.MsgHeartbeatResp && n.short() {
		m.Reject = new(true)
	}
}

// hear takes note of that.
func (n *Node) hear(m *Message) {
	if m.GetType() != raftpb.MsgHeartbeatResp {
		return
	}
	if m.GetReject() {
		n.room.lacking[m.GetFrom()] = true
	} else {
		delete(n.room.lacking, m.GetFrom())
	}
}

// weigh decides once a tick whether proposals are taken.
func (n *Node) weigh() {
	r := &n.room
	if r.ticks++; n.cfg.Short != nil && (!n.lacks.Load() || r.ticks >= shortTicks) {
		n.lacks.Store(n.cfg.Short())
		r.ticks = 0
	}
	role := n.core.Role()
	if !role.Leads {
		r.held, r.stalled = false, 0
		clear(r.lacking)
		return
	}
	if !n.short() {
		r.stalled = 0
	}
	if !n.short() && len(r.lacking) == 0 && !r.held {
		return
	}
	enough, to := n.core.roomy(func(id uint64) bool { return r.lacking[id] || id == n.cfg.ID && n.short() })
	if n.short() {
		if r.stalled++; r.stalled >= stallTicks && to != 0 {
			n.core.Transfer(to)
			r.stalled = 0
		}
	}
	switch {
	case !role.Ready:
	case !enough && !r.held:
		r.held = true
		r.holds++
		n.cfg.Logger.Error("the disks of a majority are full; nothing is written until there is room")
		n.tasks.push(task{hold: r.holds})
	// What was proposed before Hold has come through, and nothing more of it can come.
	case enough && r.held && r.obeyed == r.holds && n.core.applied >= r.last:
		r.held = false
		n.cfg.Logger.Info("a majority has room again")
		n.tasks.push(task{role: &role})
	}
}

// roomy reports whether a majority of the voters answers and has room, and which
// other of them is most up to date; 0: none.
func (c *Core) roomy(lacks func(id uint64) bool) (majority bool, to uint64) {
	var best uint64
	voters, have := 0, 0
	c.rn.WithProgress(func(id uint64, typ raft.ProgressType, pr tracker.Progress) {
		if typ != raft.ProgressTypePeer {
			return
		}
		voters++
		own := id == c.cfg.ID
		if lacks(id) || !own && !pr.RecentActive && pr.State != tracker.StateReplicate {
			return
		}
		have++
		if !own && pr.Match >= best {
			to, best = id, pr.Match
		}
	})
	return have > voters/2, to
}
