package embedded

import (
	"fmt"
	"slices"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/raft"
)

// simFault is a fault, or an operator's change of the cluster.
type simFault struct {
	name string
	odds int // of 10: how often a run has it
	do   func(*world)
}

var simFaults = []simFault{
	{"loss", 6, lossyNet},
	{"cut", 6, cutNet},
	{"isolate", 5, isolateLeader},
	{"one way", 4, cutOneWay},
	{"crash", 7, crashSome},
	{"crash within", 5, crashWithin},
	{"crash all", 2, crashAll},
	{"slow disk", 4, slowDisk},
	{"full disk", 3, fullDisk},
	{"failed sync", 3, failSync},
	{"clock", 4, jumpClock},
	{"drift", 3, drift},
	{"transfer", 5, transferLead},
	{"members", 5, changeMembers},
	{"lag", 4, leaveBehind},
	{"rivals", 4, rivals},
	{"leftover", 3, leftover},
	{"announce", 3, announce},
}

// schedule plans the faults of a run.
func (p *plan) schedule(w *world) {
	if len(p.faults) == 0 {
		return
	}
	var next func()
	next = func() {
		if w.healed {
			return
		}
		f := p.faults[w.rng.IntN(len(p.faults))]
		w.logf("fault: %s", f.name)
		f.do(w)
		w.after(w.between(p.faultEvery/10, 2*p.faultEvery), next)
	}
	w.after(w.between(500*time.Millisecond, 2*time.Second), next)
}

// soon undoes a fault after a while.
func (w *world) soon(least, most time.Duration, undo func()) { w.after(w.between(least, most), undo) }

func (w *world) someNode() *simNode { return w.nodes[w.rng.IntN(len(w.nodes))] }

// leader returns a leader, or any node if there is none.
func (w *world) leader() *simNode {
	for _, n := range w.nodes {
		if n.up && n.core.Role().Leads {
			return n
		}
	}
	return w.someNode()
}

func lossyNet(w *world) {
	t := &w.net
	t.loss, t.twice, t.late = w.rng.Float64()*0.3, w.rng.Float64()*0.2, w.rng.Float64()*0.3
	t.slow = w.between(20*time.Millisecond, 3*time.Second)
	w.soon(time.Second, 5*time.Second, func() {
		if !w.healed {
			t.loss, t.twice, t.late = 0.01, 0.01, 0.02
		}
	})
}

func (t *simNet) set(cut bool, apart func(from, to int) bool) {
	for from := range t.cut {
		for to := range t.cut {
			if from != to && apart(from, to) {
				t.cut[from][to] = cut
			}
		}
	}
}

func (w *world) cutFor(apart func(from, to int) bool) {
	w.net.set(true, apart)
	most := 3 * time.Second
	if w.chance(0.15) {
		most = 10 * time.Second // longer than a call waits for its outcome
	}
	w.soon(50*time.Millisecond, most, func() { w.net.set(false, apart) })
}

func cutNet(w *world) {
	side := w.rng.IntN(1 << len(w.nodes))
	w.cutFor(func(from, to int) bool { return side>>from&1 != side>>to&1 })
}

func isolateLeader(w *world) {
	n := w.leader()
	alone := int(n.id) - 1
	if w.chance(0.5) { // it notices late
		n.setRate(3)
		w.soon(time.Second, 4*time.Second, func() { n.setRate(1) })
	}
	if w.chance(0.5) { // some clients are where the others are
		w.hidden = n
		w.soon(time.Second, 4*time.Second, func() { w.hidden = nil })
	}
	w.cutFor(func(from, to int) bool { return from == alone || to == alone })
}

func cutOneWay(w *world) {
	who, hears := w.rng.IntN(len(w.nodes)), w.chance(0.5)
	if w.chance(0.5) {
		who = int(w.leader().id) - 1
	}
	w.cutFor(func(from, to int) bool { return hears && from == who || !hears && to == who })
}

func (w *world) crash(n *simNode, power bool, most time.Duration) {
	if w.healed {
		return
	}
	n.end(power)
	w.soon(5*time.Millisecond, most, n.start)
}

func crashSome(w *world) {
	n := w.someNode()
	if w.chance(0.4) {
		n = w.leader()
	}
	w.crash(n, w.chance(0.7), 2*time.Second)
	if w.chance(0.3) {
		w.crash(w.someNode(), w.chance(0.7), 2*time.Second)
	}
}

// crashWithin makes the power fail after a few more writes to the disk.
func crashWithin(w *world) {
	n := w.someNode()
	if n.up {
		n.harmed = true
		n.fs.StopAfter(1 + w.rng.IntN(12))
	}
}

func crashAll(w *world) {
	power := w.chance(0.7)
	for _, n := range w.nodes {
		w.crash(n, power, 2*time.Second)
	}
}

func slowDisk(w *world) {
	n := w.someNode()
	n.slow = w.between(20*time.Millisecond, time.Second)
	w.soon(500*time.Millisecond, 5*time.Second, func() { n.slow = 0 })
}

func fullDisk(w *world) {
	n := w.someNode()
	if w.chance(0.3) {
		n = w.leader()
	}
	if !n.up || n.limited {
		return
	}
	n.limited = true
	n.fs.LimitSpace(int64(w.rng.IntN(6 << 10)))
	life := n.life
	w.soon(500*time.Millisecond, 8*time.Second, func() {
		if n.life == life {
			n.fs.LimitSpace(-1)
			n.after(500*time.Millisecond, func() { n.limited = false })
		}
	})
}

func failSync(w *world) {
	if n := w.someNode(); n.up {
		n.harmed = true
		n.fs.FailSync(1 + w.rng.IntN(5))
	}
}

func jumpClock(w *world) {
	n := w.someNode()
	n.wall += w.between(0, time.Hour)
	if w.chance(0.5) {
		n.wall -= w.between(0, 2*time.Hour)
	}
	w.clocks.pace = nil
	w.clocks.paced = w.now
	w.clocks.strays(0)
}

func drift(w *world) {
	n := w.someNode()
	n.setRate(0.6 + w.rng.Float64())
	w.soon(time.Second, 6*time.Second, func() { n.setRate(1) })
}

func transferLead(w *world) {
	n := w.leader()
	if !n.up {
		return
	}
	to := uint64(w.rng.IntN(len(w.nodes) + 1))
	n.post(func() { n.core.Transfer(to) })
}

// leaveBehind isolates a node while the others continue and compact their logs.
func leaveBehind(w *world) {
	who, both := w.rng.IntN(len(w.nodes)), w.chance(0.5)
	if w.chance(0.4) {
		who = int(w.leader().id) - 1
	}
	w.cutFor(func(from, to int) bool { return to == who || both && from == who })
	for _, n := range w.nodes {
		n.after(w.between(time.Second, 3*time.Second), func() {
			if n.id == uint64(who+1) {
				return
			}
			_, err := n.saveSnapshot()
			w.logf("n%d saves a snapshot: %v", n.id, err)
		})
	}
}

// changeMembers requests a membership change from the leader: a new node, one less, or both.
func changeMembers(w *world) {
	n := w.leader()
	if !n.up || !n.core.Role().Ready {
		return
	}
	r := n.db.exec.at.roster
	voters := r.Members.Voters
	var spare []*simNode
	for _, m := range w.nodes {
		if !m.gone && !r.Members.Has(m.id) && !slices.Contains(r.Removed, m.id) {
			spare = append(spare, m)
		}
	}
	var steps []raft.Step
	var context []byte
	if len(spare) > 0 && w.chance(0.6) {
		m := spare[w.rng.IntN(len(spare))]
		if !w.plan.isReplica(m.id) && w.full() {
			return
		}
		steps = append(steps, raft.Step{Op: raft.AddLearner, Node: m.id})
		info := w.info(m.id)
		info.Replica = w.plan.isReplica(m.id)
		context = info.note()
		w.after(w.between(0, time.Second), m.start)
	}
	if len(voters) > 3 && w.chance(0.7) || len(voters) > 1 && w.chance(w.plan.shrink) {
		steps = append(steps, raft.Step{Op: raft.Remove, Node: voters[w.rng.IntN(len(voters))]})
	}
	if len(r.Members.Learners) > 0 && w.chance(0.2) {
		steps = append(steps, raft.Step{Op: raft.Remove, Node: r.Members.Learners[0]})
	}
	if len(steps) == 0 {
		return
	}
	n.post(func() {
		err := n.core.ProposeChange(steps, context)
		w.logf("n%d proposes %v: %v", n.id, steps, err)
	})
}

// rivals lets the leader transfer its leadership to all others at once, on a slow network,
// while the voters end and restart at once.
func rivals(w *world) {
	n := w.leader()
	if !n.up {
		return
	}
	t := &w.net
	t.late, t.slow, t.voters = 0.6, 150*time.Millisecond, 0.5
	w.after(600*time.Millisecond, func() {
		if t.voters = 0; !w.healed {
			t.late = 0.02
		}
	})
	n.post(func() {
		for _, to := range w.rng.Perm(len(w.nodes)) {
			n.core.Transfer(uint64(to + 1))
		}
	})
}

// leftover lets a leader propose again what was committed before: every node must refuse
// it, because it was not built on the newest state.
func leftover(w *world) {
	n := w.leader()
	var old *truthBatch
	for base := engine.Position(0); w.truth.batches[base] != nil && w.chance(0.95); base = old.last {
		old = w.truth.batches[base]
	}
	if !n.up || old == nil {
		return
	}
	n.post(func() {
		err := n.core.Propose(n.core.Role().Term, old.data)
		w.logf("n%d proposes the batch of entry %d again: %v", n.id, old.index, err)
	})
}

// announce lets a leader announce a new address of a node.
func announce(w *world) {
	n := w.leader()
	if !n.up {
		return
	}
	info := w.info(uint64(1 + w.rng.IntN(w.plan.voters)))
	info.HTTP = fmt.Sprint(w.now)
	if _, member := n.db.exec.at.roster.node(info.ID); member {
		n.post(func() { _ = n.core.Propose(n.core.Role().Term, info.note()) }) // it may be lost
	}
}
