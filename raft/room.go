package raft

import (
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
)

// stallTicks is how many ticks a leader lacks disk space before it transfers the
// leadership to a node that has some.
const stallTicks = 20

// shortTicks is how often, in ticks, a node that lacks disk space checks again.
const shortTicks = 4

// Room tracks the disk space of all nodes. A node without space reports that in
// each reply to a heartbeat, in a field that the library ignores. While a majority
// lacks space the leader accepts no proposals, because they could be neither
// committed nor refused. Like Reads it has no goroutine; the owner of the Core steps
// its Room. The zero Room is ready for use.
type Room struct {
	lacking map[uint64]bool // other nodes that have reported it
	held    bool            // the machine accepts no proposals
	holds   uint64          // number of the last Hold
	obeyed  uint64          // number of the last Hold that the machine has carried out
	stalled int             // ticks that this node has lacked space as the leader
	last    uint64          // index of the newest entry of the log
}

// TellShort marks a reply to a heartbeat with the fact that this node lacks disk
// space. It does nothing to other messages.
func TellShort(m *Message) {
	if m.GetType() == raftpb.MsgHeartbeatResp {
		m.Reject = new(true)
	}
}

// Hear records what a message from another node reports about its disk.
func (r *Room) Hear(m *Message) {
	switch {
	case m.GetType() != raftpb.MsgHeartbeatResp:
	case !m.GetReject():
		delete(r.lacking, m.GetFrom())
	case r.lacking == nil:
		r.lacking = map[uint64]bool{m.GetFrom(): true}
	default:
		r.lacking[m.GetFrom()] = true
	}
}

// Took records a Ready of the Core.
func (r *Room) Took(rd Ready) {
	if rd.Role != nil {
		r.held = false
	}
	if rd.Save != nil && len(rd.Save.Entries) > 0 {
		r.last = rd.Save.Entries[len(rd.Save.Entries)-1].GetIndex()
	}
}

// Held reports whether proposals must be rejected.
func (r *Room) Held() bool { return r.held }

// Obeyed reports that the machine has carried out the Hold with that number.
func (r *Room) Obeyed(hold uint64) { r.obeyed = hold }

// Tick decides whether proposals are accepted; short means that this node lacks disk
// space. If hold is not 0, the owner must have the machine carry out the Hold with
// that number. If lead is not nil, the machine must lead again.
func (r *Room) Tick(c *Core, short bool) (hold uint64, lead *Role) {
	role := c.Role()
	if !role.Leads {
		r.held, r.stalled = false, 0
		clear(r.lacking)
		return 0, nil
	}
	if !short {
		r.stalled = 0
	}
	if !short && len(r.lacking) == 0 && !r.held {
		return 0, nil
	}
	enough, to := c.roomy(func(id uint64) bool { return r.lacking[id] || id == c.cfg.ID && short })
	if short {
		if r.stalled++; r.stalled >= stallTicks && to != 0 {
			c.Transfer(to)
			r.stalled = 0
		}
	}
	switch {
	case !role.Ready:
	case !enough && !r.held:
		r.held = true
		r.holds++
		return r.holds, nil
	// Everything proposed before the Hold is applied, and no more can follow.
	case enough && r.held && (r.obeyed == r.holds || failpoint("hold-unawaited")) && c.applied >= r.last:
		r.held = false
		return 0, &role
	}
	return 0, nil
}

// short reports whether this node lacks disk space.
func (n *Node) short() bool { return n.lacks.Load() || n.full.Load() }

// weigh decides at each tick whether proposals are accepted.
func (n *Node) weigh() {
	if n.looked++; n.cfg.Short != nil && (!n.lacks.Load() || n.looked >= shortTicks) {
		n.lacks.Store(n.cfg.Short())
		n.looked = 0
	}
	switch hold, lead := n.room.Tick(n.core, n.short()); {
	case hold != 0:
		n.cfg.Logger.Error("the disks of a majority are full; nothing is written until there is space")
		n.tasks.push(task{hold: hold})
	case lead != nil:
		n.cfg.Logger.Info("a majority has disk space again")
		n.tasks.push(task{role: lead})
	}
}

// roomy reports whether a majority of the voters replies and has disk space. to is
// the most up-to-date of those voters other than this node, or 0.
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
