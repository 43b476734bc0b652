package embedded

import (
	"math/rand/v2"
	"time"

	"github.com/skerrydb/skerry/raft"
)

// Leases lean on the clocks of the nodes, so in runs that use them no two clocks
// run more than raft.LeaseDrift percent apart. All else may go wrong as ever: programs that stand still,
// answers that come late, leadership that is handed over to a node that the
// leader does not hear any more.

// useLeases makes every third seed use leases. It has a separate random source, so that it
// does not change the other seeds.
func (p *plan) useLeases(seed uint64) {
	if seed%3 != 0 {
		return
	}
	r := rand.New(rand.NewPCG(seed, 2))
	p.lease, p.hasty = true, r.IntN(8) > 0
	p.readers = true
	p.clients, p.think = 4+r.IntN(3), 20*time.Millisecond
	p.kinds = append(p.kinds[:len(p.kinds):len(p.kinds)], simRegisters, simRegisters)
	p.queue = 1000
	if r.IntN(4) > 0 { // fast enough for an election within a lease
		p.diskDelay, p.applyDelay, p.faultEvery = time.Millisecond, time.Millisecond, 700*time.Millisecond
		p.fragile, p.faults = 0, nil
	}
	p.faults = p.faults[:min(len(p.faults), r.IntN(3))]
	theme := leaseFaults[seed/3%uint64(len(leaseFaults))]
	p.faults = append(p.faults, theme, theme, theme, simFault{"drift", 0, drift})
}

// leaseFaults are faults in which a lease decides what a read sees.
var leaseFaults = []simFault{
	{"freeze", 0, freezeAsking},
	{"hand over", 0, handOver},
	{"forget", 0, forgetLeader},
}

// simClock is a monotonic clock that runs as fast as its node's ticks.
type simClock struct {
	read, at time.Duration // what it showed, and when
}

func (n *simNode) clockRan() time.Duration {
	return n.ran.read + time.Duration(float64(n.w.now-n.ran.at)/n.rate)
}

// setRate slows down a node's ticks and its clock by this factor.
func (n *simNode) setRate(rate float64) {
	if n.w.plan.lease { // the leader's and another's: as far apart as is allowed
		const most = float64(raft.LeaseDrift) / 200
		rate = max(1-most, min(rate, 1+most))
	}
	n.ran = simClock{n.clockRan(), n.w.now}
	n.rate = rate
}

func (n *simNode) newReads() raft.Reads {
	if !n.w.plan.lease {
		return raft.Reads{}
	}
	return raft.NewReads(raft.LeaseOf(raft.DefaultElectionTicks, simTick), n.clockRan)
}

// heard records a message from a leader.
func (n *simNode) heard(m *raft.Message) {
	switch m.GetType().String() {
	case "MsgApp", "MsgHeartbeat", "MsgSnap":
		if m.GetTerm() >= n.core.Role().Term {
			n.quiet = 0
		}
	}
}

// stand has a node that has heard no leader for long enough stand for election,
// again and again.
func (n *simNode) stand() {
	n.quiet++
	if over := n.quiet - raft.DefaultElectionTicks; n.w.plan.hasty && !n.w.healed && over >= 0 && over%3 == 0 && !n.core.Role().Leads {
		n.core.Campaign()
	}
}

// alone isolates a node for a while. Most of the other clients do not reach it either.
func (w *world) alone(n *simNode, least, most time.Duration) {
	if w.healed {
		return
	}
	self := int(n.id) - 1
	apart := func(from, to int) bool { return from == self || to == self }
	w.net.set(true, apart)
	if w.chance(0.8) {
		w.hidden = n
	}
	w.soon(least, most, func() {
		w.net.set(false, apart)
		w.hidden = nil
	})
}

// freezeAsking freezes a leader just after it has sent a request to confirm its
// leadership. It handles the replies when it continues, and others may be leaders by then.
func freezeAsking(w *world) {
	n := w.leader()
	n.trapped = n.up
	w.soon(200*time.Millisecond, 500*time.Millisecond, func() { n.trapped = false })
}

// trap freezes the node if that is due. asked reports whether it has just sent a request.
func (n *simNode) trap(asked bool) {
	w := n.w
	if !asked || !n.trapped || !n.core.Role().Ready || w.healed {
		return
	}
	n.trapped = false
	still := w.between(400*time.Millisecond, time.Second)
	w.logf("n%d stands still for %v", n.id, still)
	n.frozen = w.now + still
	w.after(w.between(6*time.Millisecond, 10*time.Millisecond), func() { w.alone(n, still+100*time.Millisecond, still+400*time.Millisecond) })
}

// handOver lets a leader transfer its leadership to the most up-to-date node.
func handOver(w *world) {
	if n := w.leader(); n.up {
		n.post(func() { n.core.Transfer(0) })
	}
}

// deafen keeps a leader that transfers its leadership from receiving messages.
func (w *world) deafen(n *simNode) {
	if !w.healed && w.chance(0.7) {
		w.net.set(true, func(_, to int) bool { return to == int(n.id)-1 })
		w.after(10*time.Millisecond, func() { w.alone(n, 100*time.Millisecond, 500*time.Millisecond) })
	}
}

// forgetLeader has a node not hear the leader until it may stand for election,
// and then the others end and come back at once.
func forgetLeader(w *world) {
	n := w.leader()
	deaf := w.someNode()
	if !n.up || deaf == n || w.lull {
		return
	}
	from, to := int(n.id)-1, int(deaf.id)-1
	apart := func(a, b int) bool { return a == from && b == to }
	w.net.set(true, apart)
	w.lull = true
	w.soon(350*time.Millisecond, 500*time.Millisecond, func() {
		w.net.set(false, apart)
		w.lull = false
		w.alone(n, 100*time.Millisecond, 400*time.Millisecond)
		for _, m := range w.nodes {
			if m != n && m != deaf {
				w.crash(m, false, 5*time.Millisecond)
			}
		}
	})
}
