package embedded

import (
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/raft"
)

// TestHoming: a node must be fit for some time, and the pauses between hand-overs grow
// while the leadership keeps coming back.
func TestHoming(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	h := homing{settle: homeSettle}
	const pause = homePause * homeSettle
	for i, step := range []struct {
		after time.Duration
		fit   uint64
		want  uint64
	}{
		{0, 2, 0},
		{homeSettle - 1, 2, 0},
		{0, 0, 0}, // it falls behind
		{time.Second, 2, 0},
		{homeSettle - 1, 2, 0},
		{1, 2, 2},
		{time.Second, 2, 0}, // the hand-over failed, or the leadership came back
		{pause - time.Second - 1, 2, 0},
		{1, 2, 2},
		{time.Second, 3, 0}, // another node
		{2*pause - time.Second - 1, 3, 0},
		{1, 3, 3},
	} {
		now = now.Add(step.after)
		if to := h.decide(now, step.fit); to != step.want {
			t.Errorf("step %d: %d", i, to)
		}
	}
	times := []time.Duration{}
	for last := now; len(times) < 8; now = now.Add(time.Second) {
		if h.decide(now, 3) != 0 {
			times = append(times, now.Sub(last))
			last = now
		}
	}
	if times[7] != homePauses*homeSettle || times[0] < 4*pause {
		t.Errorf("the pauses are %v", times)
	}
	now = now.Add(homeForgets*homeSettle + time.Second)
	h.decide(now, 3)
	if h.decide(now.Add(homeSettle), 3) == 0 || h.pause != pause {
		t.Errorf("after an hour the pause is %v", h.pause)
	}
}

// TestFitAtHome: which node a leader may hand over to.
func TestFitAtHome(t *testing.T) {
	type world struct {
		v         view
		s         raft.Status
		connected map[uint64]bool
	}
	fresh := func() *world {
		r := &roster{LeaderSite: "north", Members: raft.Members{Voters: []uint64{1, 2, 3}, Learners: []uint64{4}}, Nodes: []nodeInfo{
			{ID: 1, Site: "south"}, {ID: 2, Site: "north"}, {ID: 3, Site: "north"}, {ID: 4, Site: "north", Replica: true},
		}}
		s := raft.Status{Role: raft.Role{Leads: true, Ready: true}, Commit: 1000}
		for id := uint64(1); id <= 4; id++ {
			s.Followers = append(s.Followers, raft.Follower{ID: id, Match: 990 + id, State: raft.StateReplicate})
		}
		return &world{view{roster: r, nodes: r.public(), serves: true}, s, map[uint64]bool{2: true, 3: true, 4: true}}
	}
	for name, c := range map[string]struct {
		change func(*world)
		want   uint64
	}{
		"the one that is furthest": {func(*world) {}, 3},
		"behind":                   {func(w *world) { w.s.Followers[2].Match = 1000 - homeLag - 1 }, 2},
		"not connected":            {func(w *world) { w.connected[3] = false }, 2},
		"its disk is full":         {func(w *world) { w.s.Followers[2].Short = true }, 2},
		"being probed":             {func(w *world) { w.s.Followers[2].State = raft.StateProbe }, 2},
		"gets a snapshot":          {func(w *world) { w.s.Followers[2].State = raft.StateSnapshot }, 0},
		"a replica gets one":       {func(w *world) { w.s.Followers[3].State = raft.StateSnapshot }, 3},
		"a membership change":      {func(w *world) { w.s.Changing = true }, 0},
		"disks are full":           {func(w *world) { w.s.Held = true }, 0},
		"just elected":             {func(w *world) { w.s.Ready = false }, 0},
		"does not lead":            {func(w *world) { w.v.serves = false }, 0},
		"is at home":               {func(w *world) { w.v.roster.Nodes[0].Site = "north" }, 0},
		"no preference":            {func(w *world) { w.v.roster.LeaderSite = "" }, 0},
		"no voter there":           {func(w *world) { w.v.nodes = []engine.Node{{ID: 4, Site: "north", Replica: true}} }, 0},
	} {
		w := fresh()
		c.change(w)
		if got := w.v.fitAtHome(1, w.s, w.connected, 0); got != c.want {
			t.Errorf("%s: %d, not %d", name, got, c.want)
		}
	}
	if w := fresh(); w.v.fitAtHome(1, w.s, w.connected, 2) != 2 {
		t.Error("another node each time")
	}
}

// TestLeaderSite: the leadership moves to the preferred site, and stays elsewhere while
// no voter is there.
func TestLeaderSite(t *testing.T) {
	t.Parallel()
	sites := map[uint64]string{1: "north", 2: "south", 3: "south"}
	c := newTrioOf(t, 3, func(node uint64, o *Options) { o.Cluster.Site, o.homeSettle = sites[node], time.Millisecond })
	for node, site := range sites {
		c.sees(1, node, "the site of each node", func(n engine.Node) bool { return n.Site == site })
	}
	if err := c.call(methodPrefer, `{"leader_site":"west"}`); engine.CodeOf(err) != engine.CodeInvalid {
		t.Errorf("a site where nobody is: %v", err)
	}
	for _, site := range []string{"south", "north"} {
		if err := c.call(methodPrefer, `{"leader_site":"`+site+`"}`); err != nil {
			t.Fatal(err)
		}
		eventually.True(t, "a leader at "+site, func() bool { return sites[c.leader().Cluster().State().Self] == site })
		c.put("a", site)
	}
	if err := c.call(methodPrefer, `{"leader_site":""}`); err != nil {
		t.Fatal(err)
	}
	c.transfer(2)
}
