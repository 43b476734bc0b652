package raft

import (
	"errors"
	"fmt"
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
	"google.golang.org/protobuf/proto"
)

// MaxVoters is how many nodes of one cluster may have a vote. More would slow
// every write down and add hardly any safety.
const MaxVoters = 7

// Members lists the members of a cluster. IDs are ascending.
type Members struct {
	Voters, Learners []uint64
	// During a change of several members: the previous voters, and those that
	// become learners at its end.
	Outgoing, LearnersNext []uint64
	AutoLeave              bool
}

// Op is one step of a membership change.
type Op uint8

// What a change can do with a node.
const (
	AddLearner Op = iota // add a node that receives all data and has no vote
	Promote              // make a learner, or a node that is not a member, a voter
	Remove               // remove a member
	Demote               // make a member a learner
)

// Step changes the membership of one node.
type Step struct {
	Op   Op
	Node uint64
}

// ErrChangePending is returned while another membership change is under way.
var ErrChangePending = errors.New("raft: another membership change is in progress")

// ProposeChange proposes a membership change: one step, or several that take
// effect together (joint consensus). The machine receives context when it applies
// the change.
func (c *Core) ProposeChange(steps []Step, context []byte) error {
	if !c.role.Leads || !c.role.Ready {
		return ErrNotLeader
	}
	if err := c.checkChange(steps); err != nil {
		return err
	}
	cc := &raftpb.ConfChangeV2{Context: context}
	for _, s := range steps {
		typ := [...]raftpb.ConfChangeType{raftpb.ConfChangeAddLearnerNode, raftpb.ConfChangeAddNode, raftpb.ConfChangeRemoveNode, raftpb.ConfChangeAddLearnerNode}[s.Op]
		cc.Changes = append(cc.Changes, &raftpb.ConfChangeSingle{Type: typ.Enum(), NodeId: new(s.Node)})
	}
	if err := c.rn.ProposeConfChange(cc); err != nil {
		return ErrBusy
	}
	c.changing = true
	return nil
}

// checkChange rejects changes that must not be proposed.
func (c *Core) checkChange(steps []Step) error {
	conf := c.rn.Status().Config
	if len(conf.Voters[1]) > 0 || c.changing {
		return ErrChangePending
	}
	voters := map[uint64]bool{}
	for id := range conf.Voters[0] {
		voters[id] = true
	}
	for _, s := range steps {
		switch s.Op {
		case Promote:
			voters[s.Node] = true
		case Remove, Demote:
			delete(voters, s.Node)
		case AddLearner:
			if voters[s.Node] {
				return fmt.Errorf("raft: node %d already has a vote", s.Node)
			}
		}
	}
	switch {
	case len(voters) == 0:
		return errors.New("raft: the last node with a vote cannot be removed or lose it")
	case len(voters) > MaxVoters:
		return fmt.Errorf("raft: the limit is %d nodes with a vote", MaxVoters)
	}
	return nil
}

// applyChange applies a committed change in the library and returns the members
// after it, and its context.
func (c *Core) applyChange(e *raftpb.Entry) (*Members, []byte) {
	cc := &raftpb.ConfChangeV2{}
	if e.GetType() == raftpb.EntryConfChange {
		v1 := &raftpb.ConfChange{}
		if err := proto.Unmarshal(e.GetData(), v1); err != nil {
			panic("BUG: a committed membership change does not decode: " + err.Error())
		}
		cc = v1.AsV2()
	} else if err := proto.Unmarshal(e.GetData(), cc); err != nil {
		panic("BUG: a committed membership change does not decode: " + err.Error())
	}
	m := membersOf(c.rn.ApplyConfChange(cc))
	return &m, cc.GetContext()
}

// CaughtUp returns a learner that may get a vote and has caught up to within lag
// entries, or 0.
func (c *Core) CaughtUp(lag uint64, may func(id uint64) bool) (learner uint64) {
	commit := c.rn.BasicStatus().GetCommit()
	c.rn.WithProgress(func(id uint64, typ raft.ProgressType, pr tracker.Progress) {
		if typ == raft.ProgressTypeLearner && pr.RecentActive && pr.State == tracker.StateReplicate && pr.Match+lag >= commit && may(id) {
			learner = id
		}
	})
	return learner
}

func membersOf(cs *raftpb.ConfState) Members {
	return Members{
		Voters: sorted(cs.GetVoters()), Learners: sorted(cs.GetLearners()),
		Outgoing: sorted(cs.GetVotersOutgoing()), LearnersNext: sorted(cs.GetLearnersNext()), AutoLeave: cs.GetAutoLeave(),
	}
}

func sorted(ids []uint64) []uint64 {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	return ids
}

func (m Members) conf() *raftpb.ConfState {
	return &raftpb.ConfState{
		Voters: m.Voters, Learners: m.Learners, VotersOutgoing: m.Outgoing, LearnersNext: m.LearnersNext, AutoLeave: new(m.AutoLeave),
	}
}

// Has reports whether a node is a member of any kind.
func (m Members) Has(id uint64) bool {
	return slices.Contains(m.Voters, id) || slices.Contains(m.Learners, id) || slices.Contains(m.Outgoing, id) || slices.Contains(m.LearnersNext, id)
}
