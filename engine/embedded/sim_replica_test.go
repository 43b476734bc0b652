package embedded

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/skerrydb/skerry/raft"
)

// TestSimulationOfReplicas simulates clusters with replicas only.
func TestSimulationOfReplicas(t *testing.T) { simulateEvery(t, 5, 4) }

// simulateEvery simulates some seeds that leave a remainder.
func simulateEvery(t *testing.T, every, remainder uint64) {
	t.Helper()
	takeEntropy(t)
	count := uint64(20)
	if testing.Short() {
		count = 8
	}
	for i := range count {
		if o := simulate(every*i+remainder, nil); o.wrong != "" {
			t.Fatal(simFailure(o))
		}
	}
}

// useReplicas adds machines that join as replicas to every fifth seed. It has a separate
// random source, so that it does not change the other seeds.
func (p *plan) useReplicas(seed uint64) {
	if seed%5 != 4 {
		return
	}
	r := rand.New(rand.NewPCG(seed, 3))
	p.replicas = 1 + r.IntN(3)
	p.spares += p.replicas
	p.faults = append(p.faults[:len(p.faults):len(p.faults)],
		simFault{"replica", 0, harmReplica}, simFault{"replica", 0, harmReplica}, simFault{"place", 0, moveVote})
}

// isReplica reports whether a machine joins as a replica.
func (p *plan) isReplica(id uint64) bool { return id > uint64(p.voters+p.spares-p.replicas) }

// joinReplica adds a replica, unless it is a member already, as soon as there is a leader.
func (w *world) joinReplica(id uint64) {
	n, m := w.leader(), w.nodes[id-1]
	if w.healed || w.roster().Members.Has(id) || slices.Contains(w.roster().Removed, id) {
		return
	}
	w.after(w.between(100*time.Millisecond, time.Second), func() { w.joinReplica(id) })
	if !n.up || !n.core.Role().Ready {
		return
	}
	m.start()
	info := w.info(id)
	info.Replica = true
	n.post(func() {
		err := n.core.ProposeChange([]raft.Step{{Op: raft.AddLearner, Node: id}}, info.note())
		w.logf("n%d adds replica n%d: %v", n.id, id, err)
	})
}

// someReplica returns a machine that is a replica now, or nil.
func (w *world) someReplica() *simNode {
	var out []*simNode
	for _, n := range w.nodes {
		if w.roster().isReplica(n.id) {
			out = append(out, n)
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out[w.rng.IntN(len(out))]
}

// harmReplica ends a replica, or cuts it off while the others shorten their logs, so that
// it needs a snapshot.
func harmReplica(w *world) {
	m := w.someReplica()
	switch {
	case m == nil:
	case w.chance(0.5):
		w.crash(m, w.chance(0.7), 2*time.Second)
	default:
		who := int(m.id) - 1
		w.cutFor(func(from, to int) bool { return from == who || to == who })
		for _, n := range w.nodes {
			n.after(w.between(time.Second, 3*time.Second), func() {
				if n != m {
					_, err := n.saveSnapshot()
					w.logf("n%d saves a snapshot: %v", n.id, err)
				}
			})
		}
	}
}

// full reports whether there is no room for a node that is no replica, as promote and mayAdd do.
func (w *world) full() bool {
	_, others := w.leader().db.exec.at.roster.counts()
	return others >= MaxNodes
}

// moveVote makes a replica a voter, or a voter a replica, as promote and demote do.
func moveVote(w *world) {
	n, m := w.leader(), w.someReplica()
	if !n.up || !n.core.Role().Ready {
		return
	}
	step, replica := raft.Step{Op: raft.AddLearner}, false
	if m == nil || w.chance(0.5) {
		voters := n.db.exec.at.roster.Members.Voters
		if len(voters) < 3 {
			return
		}
		m, step.Op, replica = w.nodes[voters[w.rng.IntN(len(voters))]-1], raft.Demote, true
		if m == n {
			return // the leader hands over first
		}
	} else if w.full() {
		return
	}
	step.Node = m.id
	info, member := n.db.exec.at.roster.node(m.id)
	if !member {
		return
	}
	info.Replica = replica
	n.post(func() {
		err := n.core.ProposeChange([]raft.Step{step}, info.note())
		w.logf("n%d proposes %v for n%d: %v", n.id, step, m.id, err)
	})
}

// noReplicaVotes checks that no replica has a vote: in the roster, and in what a leader
// counts.
func (t *truth) noReplicaVotes(n *simNode) {
	r := n.db.exec.at.roster
	for _, m := range r.Nodes {
		if m.Replica && slices.Contains(r.Members.Voters, m.ID) {
			t.w.violated("node %d is a replica and has a vote after entry %d", m.ID, n.db.exec.at.index)
		}
	}
	if n.core == nil || !n.core.Role().Ready { // otherwise raft may know more changes than the roster
		return
	}
	for _, f := range n.core.Status().Followers {
		if f.Voter && r.isReplica(f.ID) {
			t.w.violated("node %d counts replica %d for a majority", n.id, f.ID)
		}
	}
}

// campaigns checks that a replica does not ask for votes.
func (t *truth) campaigns(n *simNode, m *raft.Message) {
	kind := m.GetType().String()
	if (kind == "MsgVote" || kind == "MsgPreVote") && !n.busy && n.db.exec.at.roster.isReplica(n.id) {
		t.w.violated("replica %d asks for votes in term %d", n.id, m.GetTerm())
	}
}
