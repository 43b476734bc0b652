package cli

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

// nemesis breaks things, one after another. Everything that it does comes from its
// seed; what the processes make of it does not.
type nemesis struct {
	*fleet
	rng  *rand.Rand
	load *load
}

// deed is one thing that the nemesis does and, but for what heals by itself, undoes.
type deed struct {
	name string
	do   func(n *nemesis)
}

// deeds are all of them.
func deeds() []deed {
	return []deed{
		{"kill the leader", (*nemesis).killLeader},
		{"kill a follower", (*nemesis).killFollower},
		{"kill the leader and a follower", (*nemesis).killMajority},
		{"freeze the leader", func(n *nemesis) { l, _ := n.leader(); n.freeze(l) }},
		{"freeze a follower", func(n *nemesis) { n.freeze(n.follower()) }},
		{"cut off the leader", func(n *nemesis) { l, _ := n.leader(); n.disturb(faultRule{cut: true}, n.links(l, true, true)) }},
		{"cut off a follower", func(n *nemesis) { n.disturb(faultRule{cut: true}, n.links(n.follower(), true, true)) }},
		{"the leader is not heard", func(n *nemesis) { l, _ := n.leader(); n.disturb(faultRule{cut: true}, n.links(l, true, false)) }},
		{"the leader does not hear", func(n *nemesis) { l, _ := n.leader(); n.disturb(faultRule{cut: true}, n.links(l, false, true)) }},
		{"a follower does not hear", func(n *nemesis) { n.disturb(faultRule{cut: true}, n.links(n.follower(), false, true)) }},
		{"two nodes do not reach each other", (*nemesis).cutPair},
		{"delay everything", func(n *nemesis) { n.disturb(faultRule{delay: n.upTo(80 * time.Millisecond)}, n.allLinks()) }},
		{"the leader's network is slow", func(n *nemesis) {
			l, _ := n.leader()
			n.disturb(faultRule{rate: 20_000 + n.rng.IntN(200_000)}, n.links(l, true, true))
		}},
		{"reset all connections", func(n *nemesis) { n.tell("%d connections reset", n.net.reset()) }},
		{"hand over the leadership", (*nemesis).transfer},
		{"stop the leader", func(n *nemesis) { l, _ := n.leader(); n.restart(l) }},
		{"stop a follower", func(n *nemesis) { n.restart(n.follower()) }},
		{"replace a node", (*nemesis).replace},
	}
}

// bigDeeds are faults that take too long for every run.
func bigDeeds() []deed { return []deed{{"a follower needs a snapshot", (*nemesis).starve}} }

// run does one deed.
func (n *nemesis) run(d deed) {
	n.t.Helper()
	n.tell("== %s", d.name)
	d.do(n)
	if n.rng.IntN(2) == 0 { // else the next one comes while this one is being got over
		n.whole()
		n.tell("whole again")
	}
}

func (n *nemesis) upTo(d time.Duration) time.Duration { return time.Duration(n.rng.Int64N(int64(d))) }

// hold waits while something is broken: sometimes shorter than an election takes.
func (n *nemesis) hold() { time.Sleep(100*time.Millisecond + n.upTo(1900*time.Millisecond)) }

func (n *nemesis) follower() *fleetNode {
	_, others := n.leader()
	return others[n.rng.IntN(len(others))]
}

// kill ends a process as a power cut would, but for what the kernel has.
func (n *nemesis) kill(of *fleetNode) {
	n.tell("kill -9 node %d", of.id)
	n.signal(of, syscall.SIGKILL)
	n.load.mark()
}

func (n *nemesis) comeBack(of *fleetNode) {
	n.start(of)
	n.tell("node %d runs again", of.id)
}

func (n *nemesis) killLeader() {
	l, _ := n.leader()
	n.kill(l)
	n.hold()
	n.comeBack(l)
}

func (n *nemesis) killFollower() {
	of := n.follower()
	n.kill(of)
	n.hold()
	n.comeBack(of)
}

func (n *nemesis) killMajority() {
	l, others := n.leader()
	f := others[n.rng.IntN(len(others))]
	n.kill(l)
	time.Sleep(n.upTo(300 * time.Millisecond))
	n.kill(f)
	n.hold()
	n.comeBack(f)
	n.comeBack(l)
}

func (n *nemesis) freeze(of *fleetNode) {
	n.tell("SIGSTOP node %d", of.id)
	n.signal(of, syscall.SIGSTOP)
	n.load.mark()
	n.hold()
	n.signal(of, syscall.SIGCONT)
	n.tell("SIGCONT node %d", of.id)
}

// links are the directions between a node and the others.
func (n *nemesis) links(of *fleetNode, out, in bool) (links []faultLink) {
	for _, other := range n.nodes {
		if other == of {
			continue
		}
		if out {
			links = append(links, faultLink{of.id, other.id})
		}
		if in {
			links = append(links, faultLink{other.id, of.id})
		}
	}
	return links
}

func (n *nemesis) allLinks() (links []faultLink) {
	for _, of := range n.nodes {
		links = append(links, n.links(of, true, false)...)
	}
	return links
}

func (n *nemesis) cutPair() {
	l, others := n.leader()
	a, b := l, others[n.rng.IntN(len(others))]
	n.disturb(faultRule{cut: true}, []faultLink{{a.id, b.id}, {b.id, a.id}})
}

func (n *nemesis) disturb(rule faultRule, links []faultLink) {
	n.tell("%+v on %v", rule, links)
	n.net.set(rule, links...)
	n.load.mark()
	n.hold()
	n.net.heal()
	n.tell("the network is whole")
}

// transfer hands the leadership over by the command, which may find that somebody
// else has done so.
func (n *nemesis) transfer() {
	to := n.follower()
	_, err := n.verb("cluster", "transfer", "--data", n.nodes[n.rng.IntN(len(n.nodes))].dir, fmt.Sprint(to.id))
	n.load.mark()
	n.tell("transfer to %d: %v", to.id, err)
	if _, err := n.verb("cluster", "status", "--data", to.dir); err != nil {
		n.tell("status: %v", err)
	}
}

// restart stops a node cleanly.
func (n *nemesis) restart(of *fleetNode) {
	n.tell("SIGTERM node %d", of.id)
	n.load.mark()
	n.signal(of, syscall.SIGTERM)
	n.tell("node %d has stopped", of.id)
	time.Sleep(n.upTo(500 * time.Millisecond))
	n.comeBack(of)
}

// replace removes a node, or has it leave, and brings in a new one at its
// addresses. The first node stays: it can invite.
func (n *nemesis) replace() {
	n.whole()
	i := 1 + n.rng.IntN(len(n.nodes)-1)
	old := n.nodes[i]
	if n.rng.IntN(2) == 0 {
		n.must(n.verb("cluster", "remove", "--data", n.nodes[0].dir, fmt.Sprint(old.id)))
	} else {
		n.must(n.verb("cluster", "leave", "--data", old.dir))
	}
	n.load.mark()
	n.tell("node %d is removed", old.id)
	old.exit()
	n.signal(old, syscall.SIGKILL)
	n.checkLog(old)
	n.mu.Lock()
	n.nodes = slices.Delete(n.nodes, i, i+1)
	n.mu.Unlock()
	n.tell("node %d has stopped", old.id)
	now := n.join(old)
	n.tell("node %d is in its place", now.id)
}

// starve keeps a node away until the others have dropped what it misses of the
// log, so that it needs their snapshot.
func (n *nemesis) starve() {
	n.whole()
	of := n.follower()
	n.kill(of)
	before := n.snapshotsTaken(of)
	big := strings.Repeat("skerry ", 1<<20/7)
	c := newWebClient(nil)
	for _, other := range n.nodes {
		if other != of {
			c.addrs = append(c.addrs, other.http)
		}
	}
	for i := range 320 {
		if _, err := c.askOnce(nil, fmt.Sprintf("fill-%d-%d", n.rng.Uint64(), i), fmt.Sprint("/db/fill/", i%16), big); err != nil {
			n.t.Fatal(err)
		}
	}
	n.tell("320 MiB written")
	n.comeBack(of)
	n.whole()
	if n.snapshotsTaken(of) == before {
		n.t.Errorf("node %d missed 320 MiB of log and came back without a snapshot", of.id)
	}
}

// snapshotsTaken is how many snapshots a node says that it got from another one.
func (n *nemesis) snapshotsTaken(of *fleetNode) int {
	log, err := os.ReadFile(of.dir + ".log")
	if err != nil {
		n.t.Fatal(err)
	}
	return strings.Count(string(log), "brought up to date by a snapshot")
}
