package skerry_test

import (
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
)

// openNode opens the only node of a new cluster.
func openNode(t *testing.T) *embedded.DB {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dir, o := t.TempDir(), embedded.Options{Logger: slog.New(slog.DiscardHandler), Cluster: embedded.ClusterOptions{Listener: l}}
	if _, _, err := embedded.InitCluster(t.Context(), dir, l.Addr().String(), o); err != nil {
		t.Fatal(err)
	}
	db, err := embedded.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// self returns what the only node of a cluster knows of itself.
func self(db *embedded.DB) engine.Node {
	st := db.Cluster().State()
	n, _ := st.Node(1)
	return n
}

// TestNodeAdvertisesItsFaces: the addresses are those by which other machines reach the faces, whatever
// they listen on.
func TestNodeAdvertisesItsFaces(t *testing.T) {
	t.Parallel()
	db := openNode(t)
	s, _, _ := start(t, db, skerry.Options{HTTP: "0.0.0.0:0", RESP: skerry.Off, AdvertiseHost: "db.example.com"})
	_, port, err := net.SplitHostPort(strings.TrimPrefix(s.HTTPURL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the cluster knows the HTTP address", func() bool { return self(db).HTTP == "db.example.com:"+port })
	if got := self(db).RESP; got != "" {
		t.Errorf("RESP is off and the cluster knows %q", got)
	}
}

// TestNodeHost: without AdvertiseHost, the host of the port between nodes is used.
func TestNodeHost(t *testing.T) {
	t.Parallel()
	db := openNode(t)
	start(t, db, skerry.Options{RESP: "0.0.0.0:0"})
	eventually.True(t, "the cluster knows the RESP address", func() bool { return strings.HasPrefix(self(db).RESP, "127.0.0.1:") })
}

// TestNodeIsNotReadyAlone: a node that has not joined yet is not ready. It starts even if it listens on all
// addresses, because its port between nodes has a host.
func TestNodeIsNotReadyAlone(t *testing.T) {
	t.Parallel()
	first := t.TempDir()
	o := embedded.Options{Logger: slog.New(slog.DiscardHandler)}
	if _, _, err := embedded.InitCluster(t.Context(), first, "127.0.0.1:1", o); err != nil {
		t.Fatal(err)
	}
	invitation, err := embedded.Invite(first)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if _, err := embedded.Accept(dir, invitation, o); err != nil {
		t.Fatal(err)
	}
	if o.Cluster.Listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	o.Cluster.Join = []string{"127.0.0.1:1"} // nobody is there
	db, err := embedded.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s, err := skerry.Open(db, skerry.Options{HTTP: "127.0.0.1:0", RESP: "0.0.0.0:0"})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(t.Context()) }()
	eventually.True(t, "the server begins to serve", func() bool { return !errors.Is(s.Ready(), engine.ErrClosed) })
	if err := s.Ready(); !errors.Is(err, engine.ErrNotLeader) || !strings.Contains(err.Error(), "node 2 is not a member of the cluster yet") {
		t.Errorf("ready: %v", err)
	}
	s.Close()
	if err := wait(t, ended); err != nil {
		t.Error(err)
	}
}
