package embedded

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/raft"
)

// TestSimulationOfPlaces simulates clusters with sites and catch-up rates only.
func TestSimulationOfPlaces(t *testing.T) { simulateEvery(t, 7, 5) }

// place is where a machine is.
type place struct {
	site string
	rate int64 // with which it is brought up to date, in bytes per second; 0: no limit
}

// simSites are the sites of machines.
var simSites = []string{"north", "south"}

// simSettle is homeSettle of simulated leaders.
const simSettle = 500 * time.Millisecond

// usePlaces gives the machines of every seventh seed sites and catch-up rates, and the
// cluster a preferred site. It has a separate random source, so that it does not change
// the other seeds.
func (p *plan) usePlaces(seed uint64) {
	if seed%7 != 5 {
		return
	}
	r := rand.New(rand.NewPCG(seed, 4))
	for range p.voters + p.spares {
		where := place{site: simSites[r.IntN(len(simSites))]}
		if r.IntN(3) > 0 {
			where.rate = 8 << 10 << r.IntN(4)
		}
		p.places = append(p.places, where)
	}
	p.leaderSite, p.lag = simSites[r.IntN(len(simSites))], uint64(1+r.IntN(20))
	p.faults = append(p.faults[:len(p.faults):len(p.faults)], simFault{"prefer", 0, preferSite})
}

// info returns what the roster has about a machine at first.
func (w *world) info(id uint64) nodeInfo {
	info := nodeInfo{ID: id, Addr: string(rune('a' + id))}
	if w.plan.places != nil {
		info.Site, info.CatchUp = w.plan.places[id-1].site, w.plan.places[id-1].rate
	}
	return info
}

// preferSite changes the preferred site.
func preferSite(w *world) {
	n := w.leader()
	if !n.up {
		return
	}
	p := preference{append([]string{""}, simSites...)[w.rng.IntN(1+len(simSites))]}
	n.post(func() { _ = n.core.Propose(n.core.Role().Term, p.note()) }) // it may be lost
}

// keepPlaces does what raft.Node and group.keepHome do at ticks.
func (n *simNode) keepPlaces() {
	if n.w.plan.places == nil {
		return
	}
	for _, m := range n.pace.Release() {
		n.send(m)
	}
	s := n.core.Status()
	s.Held = n.room.Held()
	connected := map[uint64]bool{}
	for i := range s.Followers {
		f := &s.Followers[i]
		m, cut := n.w.nodes[f.ID-1], n.w.net.cut
		f.Short = m.full || m.lacks
		connected[f.ID] = m.up && !cut[n.id-1][f.ID-1] && !cut[f.ID-1][n.id-1]
	}
	n.pace.Update(&s, func(id uint64) bool { return n.sending[id] })
	if to := n.home.decide(n.mono(), n.db.group.view.Load().fitAtHome(n.id, s, connected, n.home.fit)); to != 0 {
		n.w.logf("n%d hands over to n%d at the preferred site", n.id, to)
		n.core.Transfer(to)
	}
}

// holds reports whether a message waits because its receiver is limited.
func (n *simNode) holds(m *raft.Message) bool {
	return n.w.plan.places != nil && n.pace.Holds(m, n.core)
}

// snapshotTakes returns how long a snapshot takes because its receiver is limited.
func (n *simNode) snapshotTakes(to uint64, bytes int) time.Duration {
	if n.w.plan.places == nil || n.pace.Limit(to) == 0 {
		return 0
	}
	return time.Duration(float64(bytes) / float64(n.pace.Limit(to)) * float64(time.Second))
}

// reachHome waits until the leader is at the preferred site, if a voter is there.
func (w *world) reachHome() {
	if w.plan.places == nil {
		return
	}
	home := func() bool {
		n := w.leader()
		if !n.up || !n.db.group.view.Load().serves {
			return false
		}
		r := n.db.exec.at.roster
		there := func(n engine.Node) bool { return n.Voter && n.Site == r.LeaderSite }
		me, _ := r.node(n.id)
		return r.LeaderSite == "" || me.Site == r.LeaderSite || !slices.ContainsFunc(r.public(), there)
	}
	if !w.until(w.now+recovery, home) && !home() {
		w.violated("the leader is not at the preferred site %q within %v after the last fault", w.roster().LeaderSite, recovery)
	}
}
