package embedded

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/ports"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/journal"
	"github.com/skerrydb/skerry/peer"
)

// addReplica invites and starts a replica.
func (c *trio) addReplica(node uint64) *DB {
	c.t.Helper()
	inv, err := InviteReplica(c.dirs[1])
	if err != nil {
		c.t.Fatal(err)
	}
	c.dirs[node], c.addrs[node] = c.t.TempDir(), ports.Addr(c.t)
	if _, err := peer.Accept(journal.Files{FS: journal.OS()}, filepath.Join(c.dirs[node], clusterDir), inv); err != nil {
		c.t.Fatal(err)
	}
	return c.start(node)
}

// call makes a change of the cluster on the leader, and repeats it while there is none.
func (c *trio) call(method, args string) error {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), changeWait)
	defer cancel()
	return c.leader().group.onLeader(ctx, method, []byte(args))
}

// sees waits until a node sees another one as the test wants it.
func (c *trio) sees(by, node uint64, what string, ok func(engine.Node) bool) {
	c.t.Helper()
	eventually.True(c.t, what, func() bool {
		s := c.dbs[by].Cluster().State()
		n, member := s.Node(node)
		return member && ok(n)
	})
}

// catchesUp waits until a node has a position.
func (c *trio) catchesUp(node uint64, pos engine.Position) {
	c.t.Helper()
	eventually.True(c.t, fmt.Sprintf("node %d at position %d", node, pos), func() bool {
		return engine.Position(c.dbs[node].durable.Load()) >= pos
	})
}

// TestReplicas: replicas have all data and serve reads at every level, never have a vote,
// and their loss disturbs nobody.
func TestReplicas(t *testing.T) {
	t.Parallel()
	c := newTrio(t, 3)
	pos := c.put("a", "1")
	for _, node := range []uint64{4, 5} {
		c.addReplica(node)
		c.sees(1, node, "a replica", func(n engine.Node) bool { return n.Replica && !n.Voter })
		c.catchesUp(node, pos)
	}
	for _, r := range []engine.Read{{}, {Level: engine.Session, AtLeast: pos}, {Level: engine.Local, MaxStale: time.Minute}} {
		eventually.True(t, fmt.Sprint("a read at level ", r.Level), func() bool { val, err := c.get(4, "a", r); return err == nil && val == "1" })
	}
	_, err := c.dbs[4].Update(t.Context(), func(engine.Tx) error { return nil })
	if !errors.Is(err, engine.ErrNotLeader) {
		t.Errorf("a write that nobody passes on: %v", err)
	}
	if err := c.call(methodTransfer, `{"id":4}`); engine.CodeOf(err) != engine.CodeInvalid || !strings.Contains(err.Error(), "has no vote") {
		t.Errorf("a replica as the leader: %v", err)
	}

	first := c.leader() // its loss leaves two voters of three, and two replicas that do not count
	id := first.Cluster().State().Self
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	delete(c.dbs, id)
	pos = c.put("b", "2")
	if got := c.leader().Cluster().State().Self; got > 3 {
		t.Fatalf("replica %d leads", got)
	}
	eventually.True(t, "a session read on a replica", func() bool {
		val, err := c.get(5, "b", engine.Read{Level: engine.Session, AtLeast: pos})
		return err == nil && val == "2"
	})
	for _, node := range []uint64{4, 5} {
		if err := c.dbs[node].Close(); err != nil {
			t.Fatal(err)
		}
		delete(c.dbs, node)
	}
	c.put("c", "3") // two of three voters
	c.start(4)
	c.catchesUp(4, c.put("d", "4"))
	s := c.leader().group.view.Load()
	if !slices.Equal(s.roster.Members.Voters, []uint64{1, 2, 3}) || !slices.Equal(s.roster.Members.Learners, []uint64{4, 5}) {
		t.Errorf("%+v", s.roster)
	}
}

// TestPromoteAndDemote: a replica becomes a voter and a voter a replica, also the leader.
func TestPromoteAndDemote(t *testing.T) {
	t.Parallel()
	c := newTrio(t, 3)
	c.addReplica(4)
	c.sees(1, 4, "a replica", func(n engine.Node) bool { return n.Replica })
	if err := c.call(methodPromote, `{"id":4}`); err != nil {
		t.Fatal(err)
	}
	c.sees(1, 4, "a vote of node 4", func(n engine.Node) bool { return n.Voter && !n.Replica })
	c.transfer(4)
	if err := c.call(methodDemote, `{"id":4}`); err != nil {
		t.Fatal(err)
	}
	for _, by := range []uint64{1, 4} {
		c.sees(by, 4, "node 4 a replica again", func(n engine.Node) bool { return !n.Voter && n.Replica })
	}
	if id := c.leader().Cluster().State().Self; id == 4 {
		t.Error("a replica leads")
	}
	if err := c.dbs[4].Close(); err != nil { // it is the same after a restart
		t.Fatal(err)
	}
	c.start(4)
	c.catchesUp(4, c.put("a", "1"))
	c.sees(4, 4, "a replica after a restart", func(n engine.Node) bool { return !n.Voter && n.Replica })
	for method, code := range map[string]engine.Code{methodPromote: engine.CodeNotFound, methodDemote: engine.CodeNotFound} {
		if err := c.call(method, `{"id":9}`); engine.CodeOf(err) != code {
			t.Errorf("%s of a node that is none: %v", method, err)
		}
	}
	c.transfer(3)
	if err := c.dbs[2].Close(); err != nil {
		t.Fatal(err)
	}
	delete(c.dbs, 2)
	eventually.True(t, "node 3 to miss node 2", func() bool {
		alive, _ := c.dbs[3].group.alive(c.dbs[3].group.view.Load().roster, 1)
		return alive == 1
	})
	if err := c.call(methodDemote, `{"id":1}`); engine.CodeOf(err) != engine.CodeInvalid {
		t.Errorf("a demotion that stops the cluster: %v", err)
	}
}

// TestReplicasAreFull: one replica more than MaxReplicas is refused, also by a demotion,
// and so is one voter more than MaxNodes by a promotion.
func TestReplicasAreFull(t *testing.T) {
	t.Parallel()
	c := newTrio(t, 2)
	g := c.leader().group
	if err := g.admit(t.Context(), nodeInfo{ID: 10, Addr: ports.Addr(t), Folder: "none", Replica: true}); engine.CodeOf(err) != "" {
		t.Fatal(err)
	}
	for id := uint64(11); id < 10+MaxReplicas; id++ {
		if err := g.admit(t.Context(), nodeInfo{ID: id, Addr: ports.Addr(t), Folder: "none", Replica: true}); err != nil {
			t.Fatal(err)
		}
	}
	n := joining{nodeInfo{ID: 90, Addr: "x:1", Replica: true}, 0, true}
	if err := g.mayJoin(n); engine.CodeOf(err) != codeFull || !strings.Contains(err.Error(), "32 replicas, which is the limit") {
		t.Errorf("one replica too many: %v", err)
	}
	other := 3 - g.self
	if err := g.demote(t.Context(), other); engine.CodeOf(err) != codeFull {
		t.Errorf("a demotion beyond the limit: %v", err)
	}
	n.Replica = false
	if err := g.mayJoin(n); err != nil {
		t.Errorf("replicas count as voters: %v", err)
	}
	n.Site = "no such name!"
	if err := g.mayJoin(n); engine.CodeOf(err) != engine.CodeInvalid {
		t.Errorf("a malformed site: %v", err)
	}
	n.Site, n.Topology = "", false
	if err := g.mayJoin(n); engine.CodeOf(err) != codeOlder {
		t.Errorf("an older program: %v", err)
	}
	for id := uint64(50); id < 50+MaxNodes-2; id++ {
		if err := g.admit(t.Context(), nodeInfo{ID: id, Addr: ports.Addr(t), Folder: "none"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.promote(t.Context(), 10); engine.CodeOf(err) != codeFull {
		t.Errorf("a promotion beyond the limit: %v", err)
	}
}

// TestSites: every node knows where the others are; a node keeps its site over a restart
// without the setting, and another setting changes it.
func TestSites(t *testing.T) {
	t.Parallel()
	sites := map[uint64]string{1: "north", 2: "south", 3: "south"}
	c := newTrioOf(t, 3, func(node uint64, o *Options) { o.Cluster.Site = sites[node] })
	at := func(site string) func(engine.Node) bool { return func(n engine.Node) bool { return n.Site == site } }
	for by := range c.dbs {
		for node, site := range sites {
			c.sees(by, node, "the site of each node", at(site))
		}
	}
	if err := c.dbs[3].Close(); err != nil {
		t.Fatal(err)
	}
	sites[3] = ""
	c.start(3)
	c.catchesUp(3, c.put("a", "1"))
	c.sees(1, 3, "the site of before", at("south"))
	for _, site := range []string{"east", NoSite} {
		if err := c.dbs[3].Close(); err != nil {
			t.Fatal(err)
		}
		sites[3] = site
		c.start(3)
		if site == NoSite {
			site = ""
		}
		c.sees(1, 3, "another site", at(site))
	}
	sites[3] = "a b"
	if err := c.dbs[3].Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(c.dirs[3], Options{Logger: quiet(), Cluster: ClusterOptions{Addr: c.addrs[3], Site: "a b"}}); engine.CodeOf(err) != engine.CodeInvalid {
		t.Errorf("a malformed site: %v", err)
	}
}

// TestCheckSite: the names of sites.
func TestCheckSite(t *testing.T) {
	for name, ok := range map[string]bool{
		"": true, "a": true, "fra-1.dc_2": true, strings.Repeat("x", MaxSiteBytes): true,
		strings.Repeat("x", MaxSiteBytes+1): false, "-": false, "a b": false, "ä": false, ".a": false, "a/b": false,
	} {
		if err := CheckSite(name); (err == nil) != ok || err != nil && engine.CodeOf(err) != engine.CodeInvalid {
			t.Errorf("%q: %v", name, err)
		}
	}
}
