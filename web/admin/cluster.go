package admin

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web"
)

const (
	clusterEvery     = 2 * time.Second
	maxLeaderChanges = 100 // that are kept in memory
)

func (a *Admin) addCluster(g *web.Group) {
	g.Get("/cluster", a.clusterPage)
	g.Get("/cluster/live", a.clusterLive)
	g.Post("/cluster/handover", a.handOver)
	if a.changesMembers() != nil {
		g.Get("/cluster/remove", a.removePage, superadmin)
		g.Post("/cluster/remove", a.removeNode, superadmin)
		g.Post("/cluster/invite", a.inviteNode, superadmin)
	}
}

// leadership is a term with its leader as this node learned of them.
type leadership struct {
	At     time.Time
	Term   uint64
	Leader uint64 // 0: nobody leads
}

// leaders keeps the newest changes of the leader, as a poll of the node's own knowledge sees them.
type leaders struct {
	mu    sync.Mutex // guards the fields below
	state engine.ClusterState
	at    time.Time // of state
	ring  []leadership
	next  chan struct{} // closed when state has changed
}

// watchCluster looks at the cluster until ctx ends.
func (a *Admin) watchCluster(ctx context.Context) {
	if a.o.Cluster == nil {
		return
	}
	tick := time.NewTicker(clusterEvery)
	defer tick.Stop()
	for {
		a.leaders.look(a.o.Cluster.State(), a.o.Now())
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// look takes a state in.
func (l *leaders) look(s engine.ClusterState, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.ring); n == 0 || l.ring[n-1].Term != s.Term || l.ring[n-1].Leader != s.Leader {
		l.ring = append(l.ring, leadership{now, s.Term, s.Leader})
		if len(l.ring) > maxLeaderChanges {
			l.ring = slices.Delete(l.ring, 0, len(l.ring)-maxLeaderChanges)
		}
	}
	changed := l.at.IsZero() || s.Leader != l.state.Leader || s.Term != l.state.Term || !slices.Equal(s.Nodes, l.state.Nodes)
	l.state, l.at = s, now
	if changed && l.next != nil {
		close(l.next)
		l.next = nil
	}
}

// past returns the changes of the leader, newest first, and a channel that is closed when the cluster has changed.
func (l *leaders) past() ([]leadership, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next == nil {
		l.next = make(chan struct{})
	}
	all := slices.Clone(l.ring)
	slices.Reverse(all)
	return all, l.next
}

// site is the nodes at one place.
type site struct {
	Name  string
	Nodes []node
}

// clusterFacts are what the metrics of this node say of its cluster.
type clusterFacts struct {
	WithoutLeader, Behind, Skew, RoundTrip float64
	Connected, Nodes                       float64
	Known                                  bool
}

func (a *Admin) clusterFacts() (f clusterFacts) {
	if a.o.Metrics == nil {
		return f
	}
	for m := range a.o.Metrics() {
		switch m.Name {
		case "cluster_without_leader_seconds":
			f.WithoutLeader = m.Value
		case "cluster_behind_entries":
			f.Behind = m.Value
		case "cluster_clock_skew_seconds":
			f.Skew = m.Value
		case "cluster_round_trip_seconds":
			f.RoundTrip = m.Value
		case "cluster_connected_nodes":
			f.Connected, f.Known = m.Value, true
		case "cluster_nodes":
			f.Nodes = m.Value
		}
	}
	return f
}

func (a *Admin) clusterPage(c *web.Context) error {
	return a.showCluster(c, http.StatusOK, web.Locals{})
}

// showCluster shows the page, with more locals of an action.
func (a *Admin) showCluster(c *web.Context, status int, more web.Locals) error {
	a.poll.forPage(c)
	s := a.o.Cluster.State()
	nodes := a.nodes()
	var sites []site
	voters, replicas := 0, 0
	for i, n := range nodes {
		at := slices.IndexFunc(sites, func(one site) bool { return one.Name == n.Site })
		if at < 0 {
			sites, at = append(sites, site{Name: n.Site}), len(sites)
		}
		sites[at].Nodes = append(sites[at].Nodes, n)
		switch {
		case s.Nodes[i].Voter:
			voters++
		case s.Nodes[i].Replica:
			replicas++
		}
	}
	slices.SortStableFunc(sites, func(x, y site) int { return strings.Compare(x.Name, y.Name) })
	facts := a.clusterFacts()
	rows, wrong := a.nodeRows()
	troubles := a.clusterFaults(s, facts, rows, wrong)
	past, _ := a.leaders.past()
	_, hands := a.o.Engine.(engine.HandOverer)
	join := s.Addr
	if l, ok := s.Node(s.Leader); ok {
		join = l.Addr
	}
	leaderInvites, inviters := a.inviters()
	all := web.Locals{
		"title": a.text("Cluster"), "state": s, "sites": sites, "nodes": nodes, "voters": voters, "replicas": replicas, "losses": max(0, (voters-1)/2),
		"troubles": troubles, "facts": facts, "past": past, "at": a.o.Now(), "hands": hands && s.Leader != 0 && voters > 1, "problem": "",
		"folder": shellWord(a.o.Dir), "join": shellWord(join), "lead": s.Leader == s.Self,
		"rows": rows, "places": false, "removes": a.changesMembers() != nil && mayWrite(c), "invites": a.changesMembers() != nil && leaderInvites, "inviters": inviters,
		"invitation": "", "invited": uint64(0), "new_host": "", "replica": false,
	}
	maps.Copy(all, more)
	return a.show(c, status, "cluster", all)
}

// clusterFaults returns what is wrong with the cluster; wrong is what is wrong with single nodes.
func (a *Admin) clusterFaults(s engine.ClusterState, f clusterFacts, rows []nodeRow, wrong []trouble) (all []trouble) {
	add := func(what, remedy string) { all = append(all, trouble{what, remedy}) }
	a.clusterTroubles(s, add)
	if slices.ContainsFunc(rows, func(r nodeRow) bool { return !r.Well }) {
		f.Connected = f.Nodes // wrong says which nodes are silent
	}
	a.factTroubles(s, f, add)
	return append(all, wrong...)
}

// clusterTroubles says what is wrong with the cluster, and what to do.
func (a *Admin) clusterTroubles(s engine.ClusterState, add func(what, remedy string)) {
	voters := 0
	for _, n := range s.Nodes {
		if n.Voter {
			voters++
		}
	}
	switch {
	case s.Leader == 0:
		add(a.text("No node leads: fewer than %d of %d voters can reach one another.", voters/2+1, voters),
			a.text("Nothing that was acknowledged is lost, and this node still answers reads that need not be current. Writes wait. Start the nodes that are down, or mend the network between them."))
	case voters < 3:
		add(a.text("The cluster has %d voters, so it stops when one of them fails.", voters), a.text("Add nodes until there are three: “Cluster” has the command."))
	}
}

// factTroubles says what the metrics tell that is wrong.
func (a *Admin) factTroubles(s engine.ClusterState, f clusterFacts, add func(what, remedy string)) {
	if !f.Known {
		return
	}
	if s.Leader != 0 && s.Leader == s.Self && f.Connected < f.Nodes-1 {
		add(a.text("This node reaches %d of %d other nodes.", int(f.Connected), int(f.Nodes)-1), a.text("Unreachable nodes get no writes until they return; nothing is lost. The table of the nodes says which they are."))
	}
	if f.Skew > 2 {
		add(a.text("The clocks of two nodes differ by %s s.", numberText(f.Skew)), a.text("The data is safe, but keys with a time to live may expire early or late after an election. Run NTP on all machines."))
	}
}

func (a *Admin) handOver(c *web.Context) error {
	h, ok := a.o.Engine.(engine.HandOverer)
	if !ok {
		return engine.Errorf(engine.CodeUnsupported, "this engine cannot hand the leadership over")
	}
	before := a.o.Cluster.State()
	if err := a.act(c, "cluster.handover", a.text("node %s", strconv.FormatUint(before.Self, 10)), "", func() error {
		h.HandOver()
		if s := a.o.Cluster.State(); s.Leader == s.Self {
			return engine.Errorf(engine.CodeUnavailable, "node %d still leads: no other node with a vote is up to date within a second; try again when “behind” is 0", s.Self)
		}
		return nil
	}); err != nil {
		if engine.CodeOf(err) == engine.CodeUnavailable {
			return a.showCluster(c, http.StatusConflict, web.Locals{"problem": c.Detail(err)})
		}
		return err
	}
	return a.done(c, "/cluster", "done")
}

// clusterNow is what the stream of the cluster sends.
type clusterNow struct {
	Self   uint64 `json:"self"`
	Leader uint64 `json:"leader"`
	Term   uint64 `json:"term"`
	Nodes  string `json:"nodes"` // changes when a node is added, removed or moved

	Roles     map[uint64]string `json:"roles"`
	Connected float64           `json:"connected"`

	Rows     []nodeRow `json:"rows"`
	Troubles []trouble `json:"troubles"`
}

// clusterLive streams the leader, the term and what is known about the nodes.
func (a *Admin) clusterLive(c *web.Context) error {
	defer a.poll.watch()()
	return c.SSE(web.EventOptions{Retry: 2 * time.Second}, func(s *web.Events) error {
		tick := time.NewTicker(clusterEvery)
		defer tick.Stop()
		last := ""
		for {
			_, next := a.leaders.past()
			_, _, more := a.poll.all()
			st := a.o.Cluster.State()
			facts := a.clusterFacts()
			rows, wrong := a.nodeRows()
			now, err := json.Marshal(clusterNow{st.Self, st.Leader, st.Term, nodeList(st.Nodes), a.roles(), facts.Connected, rows, a.clusterFaults(st, facts, rows, wrong)})
			if err != nil {
				return err
			}
			if string(now) != last {
				last = string(now)
				if err := s.SendJSON(web.Event{Name: "cluster"}, json.RawMessage(now)); err != nil {
					return err
				}
			}
			select {
			case <-next:
			case <-more:
			case <-tick.C:
			case <-s.Context().Done():
				return nil
			}
			if !a.mayWatch(c) {
				return nil
			}
		}
	})
}

// roles returns the roles of the nodes, for people.
func (a *Admin) roles() map[uint64]string {
	all := map[uint64]string{}
	for _, n := range a.nodes() {
		all[n.ID] = n.Role
	}
	return all
}

// nodeList returns a text that is equal if the nodes are.
func nodeList(nodes []engine.Node) string {
	var b strings.Builder
	for _, n := range nodes {
		b.WriteString(strconv.FormatUint(n.ID, 10) + " " + n.Addr + " " + n.HTTP + " " + n.Site + "\n")
	}
	return b.String()
}

// shellWord returns a text as one word of a shell.
func shellWord(text string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-:@%+=,", r)
	}
	if text != "" && !strings.ContainsFunc(text, func(r rune) bool { return !plain(r) }) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
