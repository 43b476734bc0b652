package embedded

import (
	"context"
	"slices"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/raft"
)

// This file handles what operators decide about the places of nodes: which have a vote,
// and at which site the leader should be.

// mayVote implements raft.NodeConfig.MayVote.
func (g *group) mayVote(id uint64) bool {
	n, ok := g.view.Load().roster.node(id)
	return ok && !n.Replica
}

// catchUpRate implements raft.NodeConfig.Rate.
func (g *group) catchUpRate(id uint64) int64 {
	n, _ := g.view.Load().roster.node(id)
	return n.CatchUp
}

// promote gives a replica a vote once it has caught up.
func (g *group) promote(ctx context.Context, id uint64) error {
	r := g.view.Load().roster
	n, member := r.node(id)
	_, others := r.counts()
	switch {
	case !member:
		return notMember(id)
	case !r.isReplica(id):
		return nil
	case others >= MaxNodes:
		return engine.Errorf(codeFull, "the cluster has %d nodes that are no replicas, which is the limit; make one of them a replica first", others)
	}
	n.Replica = false
	g.db.opts.Logger.Info("a replica is to get a vote", "node", id)
	// The step changes nothing in raft; it makes the note wait for other changes.
	return g.change(ctx, []raft.Step{{Op: raft.AddLearner, Node: id}}, n.note(), func(r *roster) bool { return !r.isReplica(id) })
}

// demote makes a node a replica.
func (g *group) demote(ctx context.Context, id uint64) error {
	r := g.view.Load().roster
	n, member := r.node(id)
	replicas, _ := r.counts()
	votes := slices.Contains(r.Members.Voters, id)
	switch {
	case !member:
		return notMember(id)
	case r.isReplica(id):
		return nil
	case replicas >= MaxReplicas:
		return engine.Errorf(codeFull, "the cluster has %d replicas, which is the limit; remove one first", replicas)
	case votes && len(r.Members.Voters) == 1:
		return engine.Errorf(engine.CodeInvalid, "node %d is the last node with a vote and cannot become a replica", id)
	case id == g.self:
		if err := g.transfer(ctx, 0); err != nil {
			return err
		}
		return engine.Errorf(engine.CodeNotLeader, "node %d has handed over the leadership before it becomes a replica", id)
	}
	if alive, left := g.alive(r, id); votes && alive <= left/2 {
		return engine.Errorf(engine.CodeInvalid, "without the vote of node %d only %d of %d voting nodes would be running, and the cluster would stop: bring another node back first", id, alive, left)
	}
	if err := g.allKnowPlaces(r, 0); err != nil {
		return err
	}
	n.Replica = true
	g.db.opts.Logger.Info("a node becomes a replica", "node", id)
	return g.change(ctx, []raft.Step{{Op: raft.Demote, Node: id}}, n.note(), func(r *roster) bool { return r.isReplica(id) })
}

// prefer sets the site where the leader should be.
func (g *group) prefer(ctx context.Context, p preference) error {
	v := g.view.Load()
	if v.roster.LeaderSite == p.LeaderSite {
		return nil
	}
	if err := CheckSite(p.LeaderSite); err != nil {
		return err
	}
	there := func(n engine.Node) bool { return n.Voter && n.Site == p.LeaderSite }
	if p.LeaderSite != "" && !slices.ContainsFunc(v.nodes, there) {
		return engine.Errorf(engine.CodeInvalid, "no node with a vote is at the site %q; serve --site sets the site of a node", p.LeaderSite)
	}
	if err := g.allKnowPlaces(v.roster, 0); err != nil {
		return err
	}
	g.node.Propose(&raft.Proposal{Term: v.term, Data: p.note()})
	return g.await(ctx, func(r *roster) bool { return r.LeaderSite == p.LeaderSite })
}

func notMember(id uint64) error {
	return engine.Errorf(engine.CodeNotFound, "node %d is not a member of the cluster", id)
}

// placed reports whether n has what older programs do not know.
func (n nodeInfo) placed() bool { return n.Replica || n.Site != "" || n.CatchUp != 0 }

// allKnowPlaces returns an error if a member may run a program that does not know
// replicas and sites: as the leader it would give replicas a vote. From the first of
// them on, nodes with such a program are refused. The node without is not asked.
func (g *group) allKnowPlaces(r *roster, without uint64) error {
	if r.placed() {
		return nil
	}
	knows := map[uint64]bool{g.self: true, without: true}
	for _, p := range g.port.Peers() {
		knows[p.ID] = knows[p.ID] || p.Hello.Topology
	}
	for _, n := range r.Nodes {
		if !knows[n.ID] {
			return engine.Errorf(codeOlder, "node %d runs a program that does not know replicas and sites, or has not been seen since node %d started; upgrade or remove it first", n.ID, g.self)
		}
	}
	return nil
}

func errOlder(id uint64) error {
	return engine.Errorf(codeOlder, "node %d runs a program that does not know replicas and sites, which this cluster uses; upgrade it", id)
}
