package resp_test

import (
	"context"
	"crypto/tls"
	"errors"
	"iter"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/proc"
	"github.com/skerrydb/skerry/resp"
)

// nodes is a cluster whose nodes share one real engine, so that every node has all data at
// once. The test chooses the leader. The other nodes' engines reject writes, and their
// faces connect to the leader's over TCP.
type nodes struct {
	testing.TB
	db    *embedded.DB
	list  []*node
	dial  *tls.Config
	plain atomic.Bool // nodes do not know each other's client addresses

	mu      sync.Mutex // guards the fields below
	leader  uint64
	term    uint64
	changed chan struct{}
}

// node is one node of the cluster. It is both the engine and the engine.Cluster of its
// face.
type node struct {
	*embedded.DB
	all   *nodes
	id    uint64
	addr  string // client address
	port  net.Listener
	srv   *resp.Server
	stuck atomic.Bool // it makes no progress
	lags  atomic.Bool // it does not know what is committed
	waits atomic.Bool // it has waited for a leader
	stop  func()      // ends its face, like a signal

	// wrap, if not nil, wraps this node's connections to other nodes.
	wrap atomic.Pointer[func(net.Conn) net.Conn]
	// before, if not nil, is called before each batch of writes.
	before atomic.Pointer[func()]
	// after, if not nil, is called after each batch of writes. Its error becomes that of
	// the batch.
	after atomic.Pointer[func() error]
}

// startNodes starts n nodes. Node 1 is the leader. programs are additional procedures of
// each node.
func startNodes(tb testing.TB, n int, o resp.Options, programs ...[]proc.Procedure) *nodes {
	tb.Helper()
	db := openEngine(tb, embedded.Options{PositionWait: 500 * time.Millisecond})
	all := &nodes{TB: tb, db: db, leader: 1, term: 1, changed: make(chan struct{})}
	server, client, _ := testTLS(tb)
	all.dial = client
	var clients []net.Listener
	for i := range n {
		l, port := loopback(tb), tls.NewListener(loopback(tb), server)
		clients = append(clients, l)
		all.list = append(all.list, &node{DB: db, all: all, id: uint64(i + 1), addr: l.Addr().String(), port: port})
	}
	for i, nd := range all.list {
		o := o
		if o.Procedures == nil {
			var program []proc.Procedure
			if i < len(programs) {
				program = programs[i]
			}
			o.Procedures = testProcedures(tb, nd, program...)
		}
		o.Meter, o.Cluster = nd.DB, nd
		nd.srv, nd.stop = serve(tb, nd, clients[i], o)
	}
	return all
}

// Position implements engine.Positioner.
func (nd *node) Position() engine.Position {
	if nd.lags.Load() {
		return 0
	}
	return nd.DB.Position()
}

// lead makes a node the leader, or none if id is 0.
func (a *nodes) lead(id uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.leader, a.term = id, a.term+1
	close(a.changed)
	a.changed = make(chan struct{})
}

// ask opens a connection to a node.
func (a *nodes) ask(id int) *asker {
	a.Helper()
	return newAsker(a, a.list[id-1].addr)
}

func (nd *node) leads() bool {
	nd.all.mu.Lock()
	defer nd.all.mu.Unlock()
	return nd.all.leader == nd.id
}

// Cluster is what faces see of the node.
func (nd *node) State() engine.ClusterState {
	nd.all.mu.Lock()
	defer nd.all.mu.Unlock()
	st := engine.ClusterState{ID: "00112233445566778899aabbccddeeff", Self: nd.id, Leader: nd.all.leader, Term: nd.all.term}
	for _, n := range nd.all.list {
		e := engine.Node{ID: n.id, Addr: n.port.Addr().String(), RESP: n.addr, Voter: true}
		if nd.all.plain.Load() {
			e.RESP = ""
		}
		st.Nodes = append(st.Nodes, e)
	}
	return st
}

func (nd *node) AwaitLeader(ctx context.Context) (engine.Node, error) {
	for {
		st := nd.State()
		if n, ok := st.Node(st.Leader); ok {
			return n, nil
		}
		nd.all.mu.Lock()
		changed, leader := nd.all.changed, nd.all.leader
		nd.all.mu.Unlock()
		if leader != 0 {
			continue
		}
		nd.waits.Store(true)
		select {
		case <-changed:
		case <-ctx.Done():
			return engine.Node{}, engine.Errorf(engine.CodeNotLeader, "no leader is known: %w", ctx.Err())
		}
	}
}

func (nd *node) Dial(ctx context.Context, id uint64, protocol string) (net.Conn, error) {
	if protocol != resp.NodeProtocol {
		return nil, errors.New("unknown protocol " + protocol)
	}
	nc, err := (&tls.Dialer{Config: nd.all.dial}).DialContext(ctx, "tcp", nd.all.list[id-1].port.Addr().String())
	if wrap := nd.wrap.Load(); err == nil && wrap != nil {
		nc = (*wrap)(nc)
	}
	return nc, err
}

func (nd *node) Listen(string) net.Listener { return nd.port }

// View waits for the leader's confirmation as a ReadIndex read does, and blocks while the
// node is stuck.
func (nd *node) View(ctx context.Context, r engine.Read, fn func(engine.Tx) error) (engine.Position, error) {
	if st := nd.State(); r.Level == engine.Linearizable && st.Leader == 0 {
		return 0, engine.ErrNotLeader
	}
	if nd.stuck.Load() && r.AtLeast > 0 {
		<-ctx.Done()
		return 0, engine.ErrPositionTimeout
	}
	return nd.DB.View(ctx, r, fn)
}

func (nd *node) mayWrite() error {
	if f := nd.before.Load(); f != nil {
		(*f)()
	}
	if !nd.leads() {
		return engine.ErrNotLeader
	}
	return nil
}

func (nd *node) Update(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
	if err := nd.mayWrite(); err != nil {
		return 0, err
	}
	return nd.DB.Update(ctx, fn)
}

func (nd *node) UpdateEach(ctx context.Context, n int, fn func(engine.Tx, int) error) (engine.Position, error) {
	if err := nd.mayWrite(); err != nil {
		return 0, err
	}
	pos, err := nd.DB.UpdateEach(ctx, n, fn)
	if f := nd.after.Load(); f != nil && err == nil {
		err = (*f)()
	}
	return pos, err
}

// Changes yields the changes of the shared engine.
func (nd *node) Changes(ctx context.Context, after engine.Position) iter.Seq2[engine.Change, error] {
	return nd.DB.Changes(ctx, after)
}
