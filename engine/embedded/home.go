package embedded

import (
	"cmp"
	"slices"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/raft"
)

// Times of homing.
const (
	homeEvery  = 500 * time.Millisecond // how often a leader looks for a node at the preferred site
	homeSettle = 10 * time.Second       // how long the node must be fit, without interruption

	homePause   = 3   // homeSettle, after the first hand-over; doubles with each
	homePauses  = 60  // homeSettle, the longest pause
	homeForgets = 360 // homeSettle after the last hand-over, the pauses begin anew
)

// homeLag is how many entries the node may be behind.
const homeLag = 256

// homing decides when a leader hands over to a node at the preferred site. A node
// remembers its hand-overs while others lead: so if the leadership comes back each time,
// the pauses grow, and the leader does not flap.
type homing struct {
	settle time.Duration // homeSettle, or less in tests
	fit    uint64        // the node to hand over to; 0: there is none
	since  time.Time     // it has been fit
	last   time.Time     // when this node last handed over
	pause  time.Duration // after last
}

// decide returns the node to hand over to now, or 0. fit is a node that could lead at the
// preferred site, or 0 if there is none or nothing must be handed over.
func (h *homing) decide(now time.Time, fit uint64) (to uint64) {
	if fit == 0 || fit != h.fit {
		h.fit, h.since = fit, now
		return 0
	}
	if now.Sub(h.since) < h.settle || now.Sub(h.last) < h.pause {
		return 0
	}
	if now.Sub(h.last) > homeForgets*h.settle {
		h.pause = 0
	}
	h.pause = min(max(2*h.pause, homePause*h.settle), homePauses*h.settle)
	h.last, h.fit = now, 0
	return fit
}

// keepHome hands over to the preferred site.
func (g *group) keepHome() {
	tick := time.NewTicker(homeEvery)
	defer tick.Stop()
	h := homing{settle: cmp.Or(g.db.opts.homeSettle, homeSettle)}
	for {
		select {
		case <-tick.C:
		case <-g.ctx.Done():
			return
		}
		connected := map[uint64]bool{}
		for _, p := range g.port.Peers() {
			connected[p.ID] = p.Connected
		}
		to := h.decide(g.db.opts.mono(), g.view.Load().fitAtHome(g.self, g.node.Status(), connected, h.fit))
		if to == 0 {
			continue
		}
		g.db.opts.Logger.Info("handing over to a node at the preferred site", "node", to, "site", g.view.Load().roster.LeaderSite)
		if err := g.node.Do(g.ctx, func(c *raft.Core) { c.Transfer(to) }); err != nil {
			return // the node is closed
		}
	}
}

// fitAtHome returns a node at the preferred site that could lead, if the leader self,
// whose status is s, is elsewhere and nothing is in the way. It returns the node last if
// that one still could.
func (v *view) fitAtHome(self uint64, s raft.Status, connected map[uint64]bool, last uint64) (fit uint64) {
	me, _ := v.roster.node(self)
	home := v.roster.LeaderSite
	if home == "" || me.Site == home || !v.serves || !s.Ready || s.Changing || s.Held {
		return 0
	}
	var best uint64
	for _, f := range s.Followers {
		if f.ID != self && f.State == raft.StateSnapshot && !v.roster.isReplica(f.ID) {
			return 0 // another leader would send the snapshot again
		}
		there := slices.ContainsFunc(v.nodes, func(n engine.Node) bool {
			return n.ID == f.ID && n.Voter && (n.Site == home || failpoint("home-elsewhere"))
		})
		if !there || !connected[f.ID] || f.Short || f.State != raft.StateReplicate || f.Match+homeLag < s.Commit {
			continue
		}
		if f.ID == last {
			return last
		}
		if fit == 0 || f.Match > best {
			fit, best = f.ID, f.Match
		}
	}
	return fit
}
