package admin_test

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/engine/embedded"
)

// liveNode opens a node on a folder that is a member of a cluster.
func liveNode(t *testing.T, dir string, l net.Listener, join ...string) *embedded.DB {
	t.Helper()
	db, err := embedded.Open(dir, embedded.Options{Logger: slog.New(slog.DiscardHandler), LogReserveBytes: 64 << 10, Cluster: embedded.ClusterOptions{Listener: l, Join: join}})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func listenLive(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// startMembers runs a server on the first of n nodes; the others have no faces. stop closes those.
func startMembers(t *testing.T, n int) (w *world, nodes []*embedded.DB, stop func()) {
	t.Helper()
	w = &world{t: t, dir: t.TempDir()}
	first := listenLive(t)
	o := embedded.Options{Logger: slog.New(slog.DiscardHandler), LogReserveBytes: 64 << 10}
	if _, _, err := embedded.InitCluster(t.Context(), w.dir, first.Addr().String(), o); err != nil {
		t.Fatal(err)
	}
	nodes = append(nodes, liveNode(t, w.dir, first))
	closing := false
	t.Cleanup(func() {
		if err := nodes[0].Close(); err != nil && !closing {
			t.Error(err)
		}
	})
	for range n - 1 {
		invitation, err := embedded.Invite(w.dir)
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if _, err := embedded.Accept(dir, invitation, o); err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, liveNode(t, dir, listenLive(t), first.Addr().String()))
	}
	stop = func() {
		closing = true
		for i := len(nodes) - 1; i > 0; i-- {
			_ = nodes[i].Close() // it may have been closed
		}
	}
	t.Cleanup(stop)
	links := make(chan string, 1)
	srv, err := skerry.Open(nodes[0], skerry.Options{HTTP: "127.0.0.1:0", RESP: skerry.Off, Admin: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler), Build: "test", Dir: w.dir, AdminHashing: cheap, AdminLink: func(u string) { links <- u }})
	if err != nil {
		t.Fatal(err)
	}
	w.srv = srv
	ended := make(chan error, 1)
	go func() { ended <- srv.Run(context.Background()) }()
	t.Cleanup(func() {
		srv.Close()
		if err := <-ended; err != nil && !closing {
			t.Error(err)
		}
	})
	w.URL = srv.AdminURL()
	select {
	case w.link = <-links:
	case <-time.After(eventually.Limit):
		t.Fatal("there is no set-up link")
	}
	eventually.True(t, "all nodes have a vote", func() bool {
		voters := 0
		for _, one := range nodes[0].Cluster().State().Nodes {
			if one.Voter {
				voters++
			}
		}
		return voters == n
	})
	return w, nodes, stop
}

// TestClusterPage: the nodes, the leader and what to do; another node can lead.
func TestClusterPage(t *testing.T) {
	t.Parallel()
	w, nodes, _ := startMembers(t, 3)
	c := w.anna()
	c.get("/admin/cluster").expect(200, "can lose 1 of its 3 voters", "this one", "skerry cluster invite --data "+w.dir, "skerry cluster remove 2 --data", "Let another node lead</button>")
	v := w.liveViewer()
	v.get("/admin/cluster").expect(200, "Leaders").lacks("Let another node lead</button>")
	v.post("/admin/cluster/handover").expect(403)

	c.post("/admin/cluster/handover").expect(200, "Done.")
	eventually.True(t, "another node leads", func() bool { s := nodes[0].Cluster().State(); return s.Leader > 1 })
	eventually.True(t, "the page has the change", func() bool {
		body := c.get("/admin/cluster").expect(200).Body
		return strings.Count(cutOut(body, `id="past">`, "</tbody>"), "<tr>") > 1
	})
	c.get("/admin/log").expect(200, "cluster.handover")
}

// TestWithoutMajority: only the pages that say what to do can be loaded, by somebody who was logged in.
func TestWithoutMajority(t *testing.T) {
	t.Parallel()
	w, nodes, stop := startMembers(t, 3)
	anna := w.anna()
	stop()
	eventually.True(t, "nobody leads", func() bool { return nodes[0].Cluster().State().Leader == 0 })
	anna.get("/admin/overview").expect(200, "Nothing that was acknowledged is lost")
	anna.get("/admin/cluster").expect(200, "Nothing that was acknowledged is lost")
	anna.get("/admin/records").expect(503, "“Overview” and “Cluster” work").lacks(email)
	stranger := w.client()
	for _, path := range []string{"/admin/overview", "/admin/cluster"} {
		stranger.get(path).lacks("Nothing that was acknowledged is lost")
	}
	anna.post("/admin/cluster/handover").expect(503)
}

// TestLooksCluster looks at a cluster that is well, and at the open page when the majority is lost.
func TestLooksCluster(t *testing.T) {
	t.Parallel()
	w, _, stop := startMembers(t, 3)
	c := w.open()
	c.visit("/admin/cluster")
	c.Until(`document.getElementById("fresh").textContent === "Live."`)
	c.looks("cluster")
	stop()
	c.Until(`document.getElementById("wrong").textContent.includes("Nothing that was acknowledged is lost") && document.getElementById("leader").textContent === "none"`)
	c.looks("cluster-fault")
}
