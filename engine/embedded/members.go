package embedded

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/peer"
	"github.com/skerrydb/skerry/raft"
)

// Methods of calls between nodes, and of `skerry cluster`. With the prefix toLeader only
// the leader handles a method; without it a node forwards the call to the leader.
const (
	methodJoin     = "join"     // joining → nothing: make it a member, or update its addresses
	methodMayJoin  = "may-join" // joining → nothing: check whether join would be refused
	methodRemove   = "remove"   // nodeRef → nothing
	methodTransfer = "transfer" // nodeRef → nothing; id 0: the most up-to-date node
	methodPromote  = "promote"  // nodeRef → nothing: the replica gets a vote once it has caught up
	methodDemote   = "demote"   // nodeRef → nothing: the node becomes a replica
	methodPrefer   = "prefer"   // preference → nothing
	methodStatus   = "status"   // → ClusterStatus of the called node

	toLeader = "leader/" // prefix: only the leader handles the call
)

// changeWait bounds a membership change.
const changeWait = 10 * time.Second

// announceEvery is how often a node retries to announce itself.
const announceEvery = 500 * time.Millisecond

// joining is what a node announces to become a member, or as one.
type joining struct {
	nodeInfo
	Last     uint64 `json:"last"`               // index of its last durable log record
	Topology bool   `json:"topology,omitempty"` // it knows replicas and sites
}

type nodeRef struct {
	ID uint64 `json:"id"`
}

// handle handles a call of another node, or of `skerry cluster`.
func (g *group) handle(ctx context.Context, from uint64, method string, in json.RawMessage) (any, error) {
	select {
	case <-g.started:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	switch method {
	case methodStatus:
		return g.status(), nil
	case methodValue:
		return g.value(ctx, in)
	}
	name, only := method, false
	if len(method) > len(toLeader) && method[:len(toLeader)] == toLeader {
		name, only = method[len(toLeader):], true
	}
	ctx, cancel := context.WithTimeout(ctx, changeWait)
	defer cancel()
	if !only {
		return nil, g.onLeader(ctx, name, in)
	}
	return nil, g.lead(ctx, name, in)
}

// onLeader runs a method on the leader.
func (g *group) onLeader(ctx context.Context, method string, in json.RawMessage) error {
	for {
		n, err := g.AwaitLeader(ctx)
		switch {
		case err != nil:
		case n.ID == g.self:
			err = g.lead(ctx, method, in)
		default:
			err = remote(g.port.Call(ctx, n.Addr, n.ID, toLeader+method, in, nil))
			if e := (*engine.Error)(nil); err != nil && !errors.As(err, &e) { // repeating it does no harm
				err = engine.Errorf(engine.CodeNotLeader, "the leader, node %d, could not be reached: %w", n.ID, err)
			}
		}
		if err != nil && method == methodRemove && g.names(in) && (saysRemoved(err) || saysRemoved(g.db.Err())) {
			return nil // the response was lost because the node is no longer a member
		}
		if n.ID == 0 || !errors.Is(err, engine.ErrNotLeader) {
			return err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}

// names reports whether in, a nodeRef, is this node.
func (g *group) names(in json.RawMessage) bool {
	var ref nodeRef
	return json.Unmarshal(in, &ref) == nil && ref.ID == g.self
}

// saysRemoved reports whether err is another node's refusal because the calling node was
// removed from the cluster.
func saysRemoved(err error) bool {
	refused, ok := errors.AsType[*peer.RefusedError](err)
	return ok && refused.Remote && refused.Reason == string(codeRemoved) || errors.Is(err, &engine.Error{Code: codeRemoved})
}

// remote restores the code of another node's error.
func remote(err error) error {
	if r, ok := errors.AsType[*peer.RemoteError](err); ok {
		return engine.Errorf(engine.Code(r.Code), "%s", r.Text)
	}
	return err
}

// lead handles the methods that only the leader can handle.
func (g *group) lead(ctx context.Context, method string, in json.RawMessage) error {
	if !g.view.Load().serves {
		return engine.Errorf(engine.CodeNotLeader, "node %d does not lead", g.self)
	}
	switch method {
	case methodJoin, methodMayJoin:
		var n joining
		if err := json.Unmarshal(in, &n); err != nil || n.ID == 0 || n.Addr == "" {
			return engine.Errorf(engine.CodeInvalid, "a joining node must send its id and its address")
		}
		if err := g.mayJoin(n); err != nil || method == methodMayJoin {
			return err
		}
		return g.admit(ctx, n.nodeInfo)
	case methodRemove, methodTransfer, methodPromote, methodDemote:
		var ref nodeRef
		if err := json.Unmarshal(in, &ref); err != nil {
			return engine.Errorf(engine.CodeInvalid, "the call does not name a node")
		}
		return map[string]func(context.Context, uint64) error{
			methodRemove: g.remove, methodTransfer: g.transfer, methodPromote: g.promote, methodDemote: g.demote,
		}[method](ctx, ref.ID)
	case methodPrefer:
		var p preference
		if err := json.Unmarshal(in, &p); err != nil {
			return engine.Errorf(engine.CodeInvalid, "the call does not name a site")
		}
		return g.prefer(ctx, p)
	}
	return engine.Errorf(engine.CodeInvalid, "unknown call %q", method)
}

// mayJoin returns why a node cannot be a member, or nil.
func (g *group) mayJoin(n joining) error {
	r := g.view.Load().roster
	have, member := r.node(n.ID)
	switch {
	case slices.Contains(r.Removed, n.ID):
		return engine.Errorf(codeRemoved, "node %d was removed from the cluster and cannot come back under its old id: invite a new node", n.ID)
	case member && have.Folder != "" && have.Folder != n.Folder:
		return engine.Errorf(codeDuplicate, "node %d of the cluster has another data folder: two nodes cannot share an id, and a lost folder needs a new invitation", n.ID)
	case member:
		return g.tooOld(n.ID, n.Last)
	}
	return g.mayAdd(r, n)
}

// mayAdd returns why a new node cannot be added, or nil.
func (g *group) mayAdd(r *roster, n joining) error {
	replicas, others := r.counts()
	switch {
	case n.Replica && replicas >= MaxReplicas:
		return engine.Errorf(codeFull, "the cluster has %d replicas, which is the limit; remove one first", replicas)
	case !n.Replica && others >= MaxNodes:
		return engine.Errorf(codeFull, "the cluster has %d nodes that are no replicas, which is the limit; remove one first, or invite a replica", others)
	case !n.Topology && r.placed():
		return errOlder(n.ID)
	case n.Replica:
		return g.allKnowPlaces(r, n.ID)
	}
	return CheckSite(n.Site)
}

// tooOld returns an error if a node's log ends before entries that it has acknowledged
// to this node, the leader.
func (g *group) tooOld(id, last uint64) error {
	for _, f := range g.node.Status().Followers {
		if f.ID == id && id != g.self && last < f.Match {
			return engine.Errorf(codeOld, "the data folder of node %d ends at log record %d, but it has acknowledged %d: it was restored to an older state and has lost writes; remove the node and join again with a new invitation",
				id, last, f.Match)
		}
	}
	return nil
}

// admit makes a node a member, at first without a vote, or updates its addresses.
func (g *group) admit(ctx context.Context, n nodeInfo) error {
	r := g.view.Load().roster
	have, member := r.node(n.ID)
	if member {
		n.Replica = have.Replica // changed by promote and demote only
	}
	if n.placed() && g.allKnowPlaces(r, n.ID) != nil {
		n.Site, n.CatchUp = have.Site, have.CatchUp // the node announces them again
	}
	if have == n {
		return nil
	} else if member {
		return g.propose(ctx, n)
	}
	if n.Replica {
		g.db.opts.Logger.Info("a replica is joining", "node", n.ID, "addr", n.Addr, "site", n.Site)
	} else {
		g.db.opts.Logger.Info("a node is joining; it gets a vote once it has all data", "node", n.ID, "addr", n.Addr, "site", n.Site)
	}
	return g.change(ctx, []raft.Step{{Op: raft.AddLearner, Node: n.ID}}, n.note(), func(r *roster) bool { return r.Members.Has(n.ID) })
}

// propose proposes a log entry with the addresses of a member.
func (g *group) propose(ctx context.Context, n nodeInfo) error {
	g.node.Propose(&raft.Proposal{Term: g.view.Load().term, Data: n.note()})
	return g.await(ctx, func(r *roster) bool { have, _ := r.node(n.ID); return have == n })
}

// remove permanently removes a node from the cluster.
func (g *group) remove(ctx context.Context, id uint64) error {
	r := g.view.Load().roster
	switch {
	case slices.Contains(r.Removed, id):
		return nil
	case !r.Members.Has(id):
		return notMember(id)
	case id == g.self && len(r.Members.Voters) == 1:
		return engine.Errorf(engine.CodeInvalid, "node %d is the last node with a vote and cannot be removed", id)
	case id == g.self:
		if err := g.transfer(ctx, 0); err != nil {
			return err
		}
		return engine.Errorf(engine.CodeNotLeader, "node %d has handed over the leadership before its removal", id)
	}
	if alive, left := g.alive(r, id); alive <= left/2 {
		return engine.Errorf(engine.CodeInvalid, "without node %d only %d of %d voting nodes would be running, and the cluster would stop: bring another node back first", id, alive, left)
	}
	g.db.opts.Logger.Info("removing a node from the cluster", "node", id)
	return g.change(ctx, []raft.Step{{Op: raft.Remove, Node: id}}, nil, func(r *roster) bool { return !r.Members.Has(id) })
}

// alive counts the voters, and those of them that are connected, not including the node
// without.
func (g *group) alive(r *roster, without uint64) (alive, voters int) {
	connected := map[uint64]bool{g.self: true}
	for _, p := range g.port.Peers() {
		connected[p.ID] = p.Connected
	}
	for _, id := range r.Members.Voters {
		if id == without {
			continue
		}
		if voters++; connected[id] {
			alive++
		}
	}
	return alive, voters
}

// transfer transfers the leadership to a node; 0 means the most up-to-date one.
func (g *group) transfer(ctx context.Context, to uint64) error {
	if r := g.view.Load().roster; to != 0 && !slices.Contains(r.Members.Voters, to) {
		return engine.Errorf(engine.CodeInvalid, "node %d has no vote, so it cannot lead", to)
	}
	if to == g.self {
		return nil
	}
	ok := false
	if err := g.node.Do(ctx, func(c *raft.Core) { ok = c.Transfer(to) }); err != nil {
		return err
	}
	if !ok {
		return engine.Errorf(engine.CodeInvalid, "no other node can lead now")
	}
	return g.awaitView(ctx, func(v *view) bool { return v.leader != g.self && v.leader != 0 })
}

// change proposes a membership change and waits until it takes effect.
func (g *group) change(ctx context.Context, steps []raft.Step, note []byte, done func(*roster) bool) error {
	for {
		var err error
		if doErr := g.node.Do(ctx, func(c *raft.Core) { err = c.ProposeChange(steps, note) }); doErr != nil {
			return doErr
		}
		switch {
		case err == nil:
			return g.await(ctx, done)
		case errors.Is(err, raft.ErrNotLeader):
			return engine.Errorf(engine.CodeNotLeader, "node %d no longer leads", g.self)
		case !errors.Is(err, raft.ErrChangePending) && !errors.Is(err, raft.ErrBusy):
			return engine.Errorf(engine.CodeInvalid, "%w", err)
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return engine.Errorf(engine.CodeNotLeader, "another membership change is in progress: %w", err)
		}
	}
}

func (g *group) await(ctx context.Context, done func(*roster) bool) error {
	return g.awaitView(ctx, func(v *view) bool { return done(v.roster) })
}

func (g *group) awaitView(ctx context.Context, done func(*view) bool) error {
	for {
		moved := g.moved.next()
		if done(g.view.Load()) {
			return nil
		}
		select {
		case <-moved:
		case <-g.ctx.Done():
			return engine.ErrClosed
		case <-ctx.Done():
			return engine.Errorf(engine.CodeOutcomeUnknown, "the change was proposed but has not taken effect yet: %w", ctx.Err())
		}
	}
}

// keepAnnounced makes this node a member, and keeps its addresses announced.
func (g *group) keepAnnounced() {
	tick := time.NewTicker(announceEvery)
	defer tick.Stop()
	said := ""
	var old suspicion
	for {
		moved := g.moved.next()
		err := g.announce()
		tooOld := old.confirmed(engine.CodeOf(err) == codeOld, g.db.log.Durable(), g.db.opts.mono())
		if err != nil && g.ctx.Err() == nil {
			if tooOld || permanent(err, g.view.Load().roster.Members.Has(g.self)) {
				g.db.end("this node cannot be a member of the cluster", err)
				g.node.Close() // calls that wait for other nodes would delay the end of the process for nothing
				g.log.expire(0)
				g.moved.fire()
				return
			}
			if text := err.Error(); text != said {
				said = text
				g.db.opts.Logger.Info("this node could not register with the cluster yet", "err", err)
			}
		}
		select {
		case <-tick.C:
		case <-moved:
		case <-g.ctx.Done():
			return
		}
	}
}

// keepExpiring completes orphaned calls in time if the log does not show their outcome.
// It is separate from keepAnnounced, because announcing can take longer.
func (g *group) keepExpiring() {
	tick := time.NewTicker(announceEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			g.node.Run(func() { g.log.expire(OutcomeWait) })
		case <-g.ctx.Done():
			return
		}
	}
}

// suspicion is the suspicion that this node's folder was reset to an older state. It may
// be wrong at first: the node may have acknowledged more entries since it reported the
// end of its log, and the leader that compared them may be deposed without knowing it.
type suspicion struct {
	since time.Time // zero: there is none
	last  uint64
}

// suspicionWait is how long the log must stay unchanged to confirm the suspicion. It is
// longer than a leader without a majority remains one.
const suspicionWait = 3 * time.Second

// confirmed updates the suspicion and reports whether it is confirmed. heard reports
// whether the leader refused this node's log now; last is where the log ends.
func (s *suspicion) confirmed(heard bool, last uint64, now time.Time) bool {
	switch {
	case !heard:
		s.since = time.Time{}
	case s.since.IsZero() || s.last != last:
		s.since, s.last = now, last
	}
	return heard && now.Sub(s.since) > suspicionWait
}

// announce announces this node to the leader, or to nodes that may know it, unless the
// cluster already knows its addresses.
func (g *group) announce() error {
	v, want := g.view.Load(), *g.want.Load()
	have, ok := v.roster.node(g.self)
	if ok {
		want.Replica = have.Replica // the leader decides
	}
	if ok && have == want && v.leader != 0 {
		return nil
	} else if ok && have == want && g.sinceLeader() < 4*announceEvery {
		return nil
	}
	ctx, cancel := context.WithTimeout(g.ctx, changeWait)
	defer cancel()
	if v.serves {
		return g.admit(ctx, want)
	}
	var errs []error
	for _, addr := range g.others(v) {
		err := remote(g.port.Call(ctx, addr, 0, methodJoin, joining{want, g.db.log.Durable(), true}, nil))
		if err == nil {
			return nil
		}
		errs = append(errs, err)
		if permanent(err, v.roster.Members.Has(g.self)) {
			return err
		}
	}
	return errors.Join(errs...)
}

// others returns the addresses of nodes that may know the leader, the leader first.
func (g *group) others(v *view) (addrs []string) {
	if n, ok := v.roster.node(v.leader); ok && n.ID != g.self {
		addrs = append(addrs, n.Addr)
	}
	for _, n := range v.roster.Nodes {
		if n.ID != g.self && n.ID != v.leader {
			addrs = append(addrs, n.Addr)
		}
	}
	for _, a := range g.db.opts.Cluster.Join {
		if !slices.Contains(addrs, a) {
			addrs = append(addrs, a)
		}
	}
	return addrs
}

// permanent reports whether retrying cannot help. For a member it ignores the refusal of
// a wrong node at another node's address.
func permanent(err error, member bool) bool {
	switch engine.CodeOf(err) {
	case codeRemoved, codeDuplicate, codeFull:
		return true
	}
	refused, ok := errors.AsType[*peer.RefusedError](err)
	if !ok {
		return false
	}
	switch refused.Code {
	case peer.CodeRefused, peer.CodeTwin:
		return refused.Remote
	case peer.CodeCluster, peer.CodeCert, peer.CodeVersion:
		return !member
	}
	return false
}
