package admin_test

import (
	"context"
	"log/slog"
	"net"
	"testing"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/ports"
	"github.com/skerrydb/skerry/engine/embedded"
)

// member is a node of a cluster that can be stopped and started again at the same addresses.
type member struct {
	*world
	db    *embedded.DB
	with  skerry.Options // besides addresses
	ended chan error
	peer  string // addresses
	admin string
	links chan string
}

// startCluster runs a cluster of n nodes, the first of which leads.
func startCluster(t *testing.T, n int) []*member {
	t.Helper()
	return growCluster(t, nil, n, skerry.Options{})
}

// growCluster adds nodes with options until there are n, and waits until all vote.
func growCluster(t *testing.T, all []*member, n int, with skerry.Options) []*member {
	t.Helper()
	for i := len(all); i < n; i++ {
		m := &member{world: &world{t: t, dir: t.TempDir()}, with: with, links: make(chan string, 1)}
		l := listen(t, ports.Addr(t))
		m.peer, m.admin = l.Addr().String(), ports.Addr(t)
		o := embedded.Options{Logger: slog.New(slog.DiscardHandler), LogReserveBytes: 64 << 10}
		if i == 0 {
			if _, _, err := embedded.InitCluster(t.Context(), m.dir, m.peer, o); err != nil {
				t.Fatal(err)
			}
		} else {
			invitation, err := embedded.Invite(all[0].dir)
			if err == nil {
				_, err = embedded.Accept(m.dir, invitation, o)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		all = append(all, m)
		m.run(l, all[0].peer)
		t.Cleanup(m.stop)
	}
	for _, m := range all {
		eventually.True(t, "all nodes vote", func() bool {
			voters := 0
			for _, node := range m.db.Cluster().State().Nodes {
				if node.Voter {
					voters++
				}
			}
			return voters == n && m.srv.Ready() == nil
		})
	}
	return all
}

func listen(t *testing.T, addr string) net.Listener {
	t.Helper()
	var l net.Listener
	eventually.True(t, "the address "+addr+" is free", func() (ok bool) {
		var err error
		l, err = net.Listen("tcp", addr)
		return err == nil
	})
	return l
}

// run starts a node.
func (m *member) run(l net.Listener, join string) {
	m.t.Helper()
	o := embedded.Options{Logger: slog.New(slog.DiscardHandler), LogReserveBytes: 64 << 10, Cluster: embedded.ClusterOptions{Listener: l}}
	if join != m.peer {
		o.Cluster.Join = []string{join}
	}
	var err error
	if m.db, err = embedded.Open(m.dir, o); err != nil {
		m.t.Fatal(err)
	}
	with := m.with
	with.HTTP, with.RESP, with.Dir, with.Logger = skerry.Off, skerry.Off, m.dir, o.Logger
	with.AdminListener, with.AdminLink = listen(m.t, m.admin), func(u string) { m.links <- u }
	with.AdminHashing = cheap
	if m.srv, err = skerry.Open(m.db, with); err != nil {
		m.t.Fatal(err)
	}
	m.ended = make(chan error, 1)
	m.URL = m.srv.AdminURL()
	go func() { m.ended <- m.srv.Run(context.Background()) }()
}

// stop ends a node; it does nothing if it is stopped.
func (m *member) stop() {
	if m.srv == nil {
		return
	}
	m.srv.Close()
	if err := <-m.ended; err != nil {
		m.t.Error(err)
	}
	if err := m.db.Close(); err != nil {
		m.t.Error(err)
	}
	m.srv = nil
}

// TestCluster: each node has the page; what is done on one is true on all, also when the leader is gone.
func TestCluster(t *testing.T) {
	t.Parallel()
	nodes := startCluster(t, 3)
	nodes[0].link = <-nodes[0].links
	anna := nodes[1].client() // of a node that does not lead
	anna.setUp(nodes[1].URL+nodes[0].link[len(nodes[0].URL):], email)
	anna.get("/admin/overview").expect(200, "this one", "leader", "follower")
	anna.get("/admin/log").expect(200, "admin.setup")
	nodes[0].stop()
	eventually.True(t, "another node leads", func() bool {
		s := nodes[1].db.Cluster().State()
		return s.Leader != 0 && s.Leader != 1
	})
	anna.get("/admin/overview").expect(200, "leader")
	link := nodes[2].invite("ben@example.org", "viewer")
	ben := nodes[1].client()
	ben.setUp(nodes[1].URL+link[len(nodes[2].URL):], "ben@example.org")
	for _, n := range nodes[1:] {
		select {
		case link := <-n.links:
			t.Errorf("a server with administrators makes a link: %s", link)
		default:
		}
	}
}
