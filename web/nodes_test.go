package web_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/session"
	"github.com/skerrydb/skerry/web"
)

// node is one of three real nodes in this process, with an application that serves browsers over TLS. It is
// the engine.Cluster of that application: it returns the state of the real one, unless a test interferes.
type node struct {
	engine.Cluster
	id    uint64
	db    *embedded.DB
	own   *late
	store *kv.Store
	app   *web.App
	srv   *httptest.Server
	end   sync.Once
	stop  func()

	dials atomic.Int32 // to other nodes
	ran   atomic.Int32 // handlers
	mu    sync.Mutex   // guards via and claim
	via   func(context.Context, uint64) (net.Conn, error)
	claim uint64 // the leader that it believes in; 0: the real one
}

// Dial implements engine.Cluster.
func (n *node) Dial(ctx context.Context, to uint64, protocol string) (net.Conn, error) {
	n.dials.Add(1)
	n.mu.Lock()
	via := n.via
	n.mu.Unlock()
	if via != nil {
		return via(ctx, to)
	}
	return n.Cluster.Dial(ctx, to, protocol)
}

// State implements engine.Cluster.
func (n *node) State() engine.ClusterState {
	s := n.Cluster.State()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.claim != 0 {
		s.Leader = n.claim
	}
	return s
}

// AwaitLeader implements engine.Cluster.
func (n *node) AwaitLeader(ctx context.Context) (engine.Node, error) {
	var claim uint64
	eventually.Within(eventually.Limit, func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		claim = n.claim
		return claim != nobody || ctx.Err() != nil
	})
	switch claim {
	case 0:
		return n.Cluster.AwaitLeader(ctx)
	case nobody:
		return engine.Node{}, engine.Errorf(engine.CodeNotLeader, "no leader: %w", ctx.Err())
	}
	return engine.Node{ID: claim}, nil
}

// nobody is the id of a leader that does not exist.
const nobody = 1 << 60

// interfere makes a node dial and believe what a test sets, until that ends.
func (n *node) interfere(t *testing.T, claim uint64, via func(context.Context, uint64) (net.Conn, error)) {
	set := func(claim uint64, via func(context.Context, uint64) (net.Conn, error)) {
		n.app.CloseIdle()
		n.mu.Lock()
		defer n.mu.Unlock()
		n.claim, n.via = claim, via
	}
	set(claim, via)
	t.Cleanup(func() { set(0, nil) })
}

// late is an engine whose local state a test can freeze, like that of a node that lags behind the others'
// writes.
type late struct {
	engine.Engine
	mu sync.Mutex // guards tx, and is locked while tx is read
	tx engine.Tx  // nil: the state is that of now
}

// View implements engine.Engine.
func (l *late) View(ctx context.Context, r engine.Read, fn func(engine.Tx) error) (engine.Position, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tx != nil && r.Level == engine.Local {
		return 0, fn(l.tx)
	}
	return l.Engine.View(ctx, r, fn)
}

// stop freezes the local state until goOn is called.
func (l *late) stop(t *testing.T) (goOn func()) {
	t.Helper()
	held, end, ended := make(chan engine.Tx), make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := l.Engine.View(context.Background(), engine.Read{}, func(tx engine.Tx) error {
			held <- tx
			<-end
			return nil
		})
		ended <- err
	}()
	set := func(tx engine.Tx) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.tx = tx
	}
	select {
	case tx := <-held:
		set(tx)
	case err := <-ended:
		t.Fatalf("hold the state of a node: %v", err)
	}
	return func() {
		set(nil)
		close(end)
		if err := <-ended; err != nil {
			t.Errorf("hold the state of a node: %v", err)
		}
	}
}

// startNodes starts three nodes that serve what add adds. All of them have a vote.
func startNodes(t *testing.T, o web.Options, add func(*web.App, *node)) []*node {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	var list []*node
	var first string
	for i := range 3 {
		dir := t.TempDir()
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		eo := embedded.Options{Logger: quiet, Cluster: embedded.ClusterOptions{Listener: l}}
		if i == 0 {
			first = dir
			_, _, err = embedded.InitCluster(t.Context(), dir, l.Addr().String(), eo)
		} else {
			var text []byte
			if text, err = embedded.Invite(first); err == nil {
				_, err = embedded.Accept(dir, text, eo)
			}
			s := list[0].Cluster.State()
			me, _ := s.Node(s.Self)
			eo.Cluster.Join = []string{me.Addr}
		}
		if err != nil {
			t.Fatal(err)
		}
		db, err := embedded.Open(dir, eo)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, startNode(t, db, o, add))
	}
	eventually.True(t, "three nodes vote", func() bool {
		for _, n := range list {
			s := n.Cluster.State()
			if len(s.Nodes) != 3 || s.Leader == 0 || !s.Nodes[0].Voter || !s.Nodes[1].Voter || !s.Nodes[2].Voter {
				return false
			}
		}
		return true
	})
	return list
}

// startNode serves an application on db.
func startNode(t *testing.T, db *embedded.DB, o web.Options, add func(*web.App, *node)) *node {
	t.Helper()
	store, err := kv.New(db, kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	own := &late{Engine: db}
	ofSessions, err := kv.New(own, kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	sessions, err := session.New(ofSessions, session.Options{})
	if err != nil {
		t.Fatal(err)
	}
	n := &node{Cluster: db.Cluster(), id: db.Cluster().State().Self, db: db, own: own, store: store}
	o.Engine, o.Sessions, o.Cluster = db, sessions, n
	n.app = newApp(t, o)
	add(n.app, n)
	n.srv = httptest.NewTLSServer(n.app)
	peers := &http.Server{Handler: n.app.NodeHandler(), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	l := n.Cluster.Listen(web.NodeProtocol)
	served := make(chan struct{})
	go func() { defer close(served); _ = peers.Serve(l) }()
	n.stop = func() {
		n.end.Do(func() {
			n.srv.CloseClientConnections()
			n.srv.Close()
			peers.Close()
			<-served
			n.app.Close()
			db.Close()
		})
	}
	t.Cleanup(n.stop)
	return n
}

// roles returns the leader and the followers.
func roles(t *testing.T, list []*node) (leader *node, followers []*node) {
	t.Helper()
	eventually.True(t, "there is a leader", func() bool {
		leader, followers = nil, nil
		for _, n := range list {
			if s := n.Cluster.State(); s.Leader == s.Self {
				leader = n
			} else {
				followers = append(followers, n)
			}
		}
		return leader != nil && followers[0].Cluster.State().Leader == leader.id && followers[len(followers)-1].Cluster.State().Leader == leader.id
	})
	return leader, followers
}

// browser keeps its cookies, which are the same for all nodes, as cookies of a host apply to all ports.
type browser struct {
	t      *testing.T
	client *http.Client
}

func newBrowser(t *testing.T) *browser {
	jar, _ := cookiejar.New(nil)
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // tests on loopback
	t.Cleanup(transport.CloseIdleConnections)
	return &browser{t, &http.Client{Jar: jar, Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// do sends a request to a node.
func (b *browser) do(n *node, method, path string, body io.Reader, header ...string) answer {
	b.t.Helper()
	return request(b.t, b.client, method, n.srv.URL+path, body, header...)
}

// by is the response of a handler: the node that it ran on, and something else.
func by(n *node, what any) string { return fmt.Sprintf("%d:%v", n.id, what) }

// once fails if a cookie was set more than once.
func (a answer) once(t *testing.T) {
	t.Helper()
	seen := map[string]bool{}
	for _, line := range a.header["Set-Cookie"] {
		name, _, _ := strings.Cut(line, "=")
		if seen[name] {
			t.Errorf("%s is set twice: %q", name, a.header["Set-Cookie"])
		}
		seen[name] = true
	}
}
