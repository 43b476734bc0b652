package api_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/api"
	"github.com/skerrydb/skerry/web/lane"
)

// cluster is several HTTP faces in front of one real engine, one of which is
// said to lead: only there Update runs. The faces and the connections between
// them are real; elections are what a test says.
type cluster struct {
	db    *embedded.DB
	clock *clock
	nodes []*node // nodes[0] has id 1
	table []engine.Node

	mu      sync.Mutex
	leader  uint64
	changed chan struct{} // closed at every change
	dials   int           // to other nodes, so far
	dial    func(ctx context.Context, to uint64) (net.Conn, error)
}

// node is one member as its own face sees the cluster; it implements
// engine.Cluster.
type node struct {
	*server
	c    *cluster
	id   uint64
	peer net.Listener
	face *api.Face
	// update and view, if set, are called in place of the engine's Update and View.
	update func(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error)
	view   func(ctx context.Context, r engine.Read, fn func(engine.Tx) error) (engine.Position, error)
}

func (n *node) State() engine.ClusterState {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	s := engine.ClusterState{ID: "00112233445566778899aabbccddeeff", Self: n.id, Leader: n.c.leader, Term: 7}
	s.Nodes = n.c.table
	return s
}

func (n *node) AwaitLeader(ctx context.Context) (engine.Node, error) {
	for {
		n.c.mu.Lock()
		leader, changed := n.c.leader, n.c.changed
		n.c.mu.Unlock()
		if leader != 0 {
			return engine.Node{ID: leader}, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return engine.Node{}, engine.Errorf(engine.CodeNotLeader, "no leader: %w", ctx.Err())
		}
	}
}

func (n *node) Dial(ctx context.Context, to uint64, protocol string) (net.Conn, error) {
	if protocol != "http/1.1" {
		return nil, errors.New("nobody serves " + protocol)
	}
	n.c.mu.Lock()
	n.c.dials++
	dial := n.c.dial
	n.c.mu.Unlock()
	if dial != nil {
		return dial(ctx, to)
	}
	return n.c.reach(ctx, to)
}

func (n *node) Listen(string) net.Listener { return n.peer }

// reach opens a connection to a node's NodeHandler.
func (c *cluster) reach(ctx context.Context, to uint64) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", c.nodes[to-1].peer.Addr().String())
}

// lead makes a node the leader; 0 is an election.
func (c *cluster) lead(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leader = id
	close(c.changed)
	c.changed = make(chan struct{})
}

// via lets connections between nodes be opened by fn from now on.
func (c *cluster) via(fn func(ctx context.Context, to uint64) (net.Conn, error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dial = fn
}

// scripted lets the first connections between nodes end in scripts, one each,
// and all further ones in the real node.
func (c *cluster) scripted(scripts ...func(conn net.Conn)) {
	var mu sync.Mutex
	c.via(func(ctx context.Context, to uint64) (net.Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		if len(scripts) == 0 {
			return c.reach(ctx, to)
		}
		here, there := net.Pipe()
		go scripts[0](there)
		scripts = scripts[1:]
		return here, nil
	})
}

// replica is the engine as one node has it.
type replica struct {
	engine.Engine
	n *node
}

func (r *replica) Update(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
	if r.n.State().Leader != r.n.id {
		return 0, engine.ErrNotLeader
	}
	if r.n.update != nil {
		return r.n.update(ctx, fn)
	}
	return r.Engine.Update(ctx, fn)
}

func (r *replica) View(ctx context.Context, read engine.Read, fn func(engine.Tx) error) (engine.Position, error) {
	if r.n.view != nil {
		return r.n.view(ctx, read, fn)
	}
	return r.Engine.View(ctx, read, fn)
}

// serveCluster starts nodes 1 … n, of which node 1 leads.
func serveCluster(t testing.TB, n int, o api.Options, with ...func(*http.Server)) *cluster {
	t.Helper()
	return serveNodes(t, make([]procedures, n), o, with)
}

// serveVersions starts a node for each of versions with the procedures in it.
func serveVersions(t testing.TB, o api.Options, versions ...procedures) *cluster {
	t.Helper()
	return serveNodes(t, versions, o, nil)
}

func serveNodes(t testing.TB, versions []procedures, o api.Options, with []func(*http.Server)) *cluster {
	t.Helper()
	c := &cluster{clock: newClock(), leader: 1, changed: make(chan struct{})}
	eo := c.clock.opts()
	eo.Logger = quiet()
	var err error
	if c.db, err = embedded.Open(t.TempDir(), eo); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.db.Close(); err != nil {
			t.Errorf("close engine: %v", err)
		}
	})
	if o.Metrics == nil {
		o.Metrics = allMetrics(c.db)
	}
	if o.Backup == nil {
		o.Backup = c.db.Backup
	}
	for i, ps := range versions {
		m := c.start(t, uint64(i+1), ps, o, with)
		c.nodes = append(c.nodes, m)
		c.mu.Lock()
		c.table = append(slices.Clip(c.table), engine.Node{ID: m.id, Addr: m.peer.Addr().String(), HTTP: m.addr, Voter: m.id < 3})
		c.mu.Unlock()
	}
	return c
}

func (c *cluster) start(t testing.TB, id uint64, ps procedures, o api.Options, with []func(*http.Server)) *node {
	t.Helper()
	n := &node{c: c, id: id}
	store, err := kv.New(&replica{c.db, n}, kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ps.on(t, &replica{c.db, n}, &o)
	var ls [2]net.Listener
	for i := range ls {
		if ls[i], err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
	}
	n.peer = ls[1]
	o.Cluster = n
	n.face = api.New(store, o)
	srv, peers := web.NewServer(n.face, o.Logger), web.NewNodeServer(n.face.NodeHandler(), o.Logger)
	for _, fn := range with {
		fn(srv)
	}
	n.server = &server{addr: ls[0].Addr().String(), db: c.db, store: store, clock: c.clock, http: srv}
	var done sync.WaitGroup
	fast := inLane(srv)
	done.Go(func() { fast.Serve(ls[0]) })
	among := lane.New(lane.Options{HTTP: peers, Routes: n.face.NodeLaneRoutes(), Logger: quiet()})
	done.Go(func() { among.Serve(ls[1]) })
	t.Cleanup(func() {
		fast.Close()
		among.Close()
		done.Wait()
		n.face.Close()
	})
	return n
}

// forwards returns how often node n tried to forward to the leader, by result.
func (n *node) forwards(t *testing.T, result string) float64 {
	t.Helper()
	return n.metric(t, `skerry_http_forwards_total{result=`+strconv.Quote(result)+`}`)
}

// impatient is the options of tests that wait for an election in vain.
func impatient() api.Options { return api.Options{ElectionWait: 200 * time.Millisecond} }
