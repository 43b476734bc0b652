package skerry_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/graph/graphbinary"
	"github.com/skerrydb/skerry/graph/message"
	"github.com/skerrydb/skerry/graph/value"
)

// gremlinNode is a node of a cluster with a listener for Gremlin drivers.
type gremlinNode struct {
	*skerry.Server
	db   *embedded.DB
	stop func() // may be called more than once
}

func (n *gremlinNode) leads() bool {
	s := n.db.Cluster().State()
	return s.Leader == s.Self
}

// startGremlinNodes starts a cluster of three nodes.
func startGremlinNodes(t *testing.T, o skerry.Options) []*gremlinNode {
	t.Helper()
	var list []*gremlinNode
	var first string
	for i := range 3 {
		dir := t.TempDir()
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		eo := embedded.Options{Logger: slog.New(slog.DiscardHandler), Cluster: embedded.ClusterOptions{Listener: l}}
		if i == 0 {
			first = dir
			_, _, err = embedded.InitCluster(t.Context(), dir, l.Addr().String(), eo)
		} else {
			var text []byte
			if text, err = embedded.Invite(first); err == nil {
				_, err = embedded.Accept(dir, text, eo)
			}
			eo.Cluster.Join = []string{self(list[0].db).Addr}
		}
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, startGremlinNode(t, dir, eo, o))
	}
	eventually.True(t, "three nodes vote and know the leader", func() bool {
		for _, n := range list {
			s := n.db.Cluster().State()
			if len(s.Nodes) != 3 || s.Leader == 0 || !s.Nodes[0].Voter || !s.Nodes[1].Voter || !s.Nodes[2].Voter {
				return false
			}
		}
		return true
	})
	return list
}

func startGremlinNode(t *testing.T, dir string, eo embedded.Options, o skerry.Options) *gremlinNode {
	t.Helper()
	db, err := embedded.Open(dir, eo)
	if err != nil {
		t.Fatal(err)
	}
	o.Gremlin = "127.0.0.1:0"
	s, _, _ := start(t, db, o)
	n := &gremlinNode{Server: s, db: db}
	n.stop = func() {
		_ = s.Close()
		_ = db.Close()
	}
	t.Cleanup(n.stop)
	return n
}

// leaderFirst returns the leader and the others.
func leaderFirst(t *testing.T, list []*gremlinNode) (leader *gremlinNode, followers []*gremlinNode) {
	t.Helper()
	eventually.True(t, "one node leads", func() bool {
		leader, followers = nil, nil
		for _, n := range list {
			if n.leads() {
				leader = n
			} else {
				followers = append(followers, n)
			}
		}
		return leader != nil
	})
	return leader, followers
}

// driver is a connection of a Gremlin driver.
type driver struct {
	t  *testing.T
	ws *websocket.Conn
	n  byte // of the last request
}

func (n *gremlinNode) drive(t *testing.T) *driver {
	t.Helper()
	ws, _, err := websocket.Dial(t.Context(), n.GremlinURL(), nil)
	if err != nil {
		t.Fatal(err)
	}
	ws.SetReadLimit(1 << 30)
	t.Cleanup(func() { _ = ws.CloseNow() })
	return &driver{t: t, ws: ws}
}

// send sends a text, in a session if that has a name.
func (d *driver) send(ctx context.Context, session, text string) error {
	d.n++
	q := &message.Request{ID: value.UUID{d.n}, Op: "eval", Args: value.MapOf("gremlin", text)}
	if session != "" {
		q.Processor = "session"
		q.Args.Set("session", session)
	}
	b, err := graphbinary.AppendRequest(append([]byte{byte(len(graphbinary.Mime))}, graphbinary.Mime...), q)
	if err != nil {
		return err
	}
	return d.ws.Write(ctx, websocket.MessageBinary, b)
}

// receive returns the results of a request, and its error.
func (d *driver) receive(ctx context.Context) (value.List, error) {
	var all value.List
	for {
		_, b, err := d.ws.Read(ctx)
		if err != nil {
			return all, err
		}
		p, err := graphbinary.DecodeResponse(b)
		if err != nil {
			return all, err
		}
		if l, ok := p.Result.(value.List); ok {
			all = append(all, l...)
		}
		switch p.Status {
		case 206:
		case 200, 204:
			return all, nil
		default:
			code := any("")
			if p.Attributes != nil {
				code, _ = p.Attributes.Get("code")
			}
			return all, errors.New(value.Text(code) + ": " + p.Message)
		}
	}
}

// run runs a text and returns its results as text.
func (d *driver) run(session, text string) string {
	d.t.Helper()
	if err := d.send(d.t.Context(), session, text); err != nil {
		d.t.Fatal(err)
	}
	got, err := d.receive(d.t.Context())
	if err != nil {
		return err.Error()
	}
	return value.Text(got)
}

// expect runs texts and compares the beginnings of their answers.
func (d *driver) expect(session string, pairs ...string) {
	d.t.Helper()
	for i := 0; i+1 < len(pairs); i += 2 {
		if got := d.run(session, pairs[i]); !strings.HasPrefix(got, pairs[i+1]) {
			d.t.Errorf("%s: %s, want %s", pairs[i], got, pairs[i+1])
		}
	}
}

// TestGremlinThroughFollowers: drivers at any node write, read what they wrote, and
// have sessions.
func TestGremlinThroughFollowers(t *testing.T) {
	t.Parallel()
	list := startGremlinNodes(t, skerry.Options{})
	_, followers := leaderFirst(t, list)
	a, b := followers[0].drive(t), followers[1].drive(t)
	a.expect("", "g.addV('city').property('name', 'Oslo').values('name')", "[Oslo]", "g.V().count()", "[1]")
	b.expect("", "g.V().values('name')", "[Oslo]", "g.V().has('name', 'Oslo').property('people', 700)", "[v[", "g.V().values('people')", "[700]")

	for i, n := range list {
		if status, got := gremlin(t, n.GremlinURL(), "", "", "g.addV('posted').label()"); status != 200 || got != `["posted"]` {
			t.Errorf("POST to node %d: %d %s", i, status, got)
		}
	}
	b.expect("", "g.V().hasLabel('posted').count()", "[3]")
	if status, got := gremlin(t, followers[0].GremlinURL(), "", "", "g.addV('posted').fail('not this one')"); status != 500 || !strings.Contains(got, "not this one") {
		t.Errorf("a write that fails: %d %s", status, got)
	}
	b.expect("", "g.V().hasLabel('posted').count()", "[3]")

	a.expect("s", "g.addV('town').property('name', 'Moss').count()", "[1]", "g.V().hasLabel('town').count()", "[1]")
	b.expect("", "g.V().hasLabel('town').count()", "[0]")
	a.expect("s", "g.tx().commit()", "[]")
	b.expect("", "g.V().hasLabel('town').count()", "[1]")
	a.expect("s", "g.V().hasLabel('town').drop()", "[]", "g.tx().rollback()", "[]", "g.V().hasLabel('town').count()", "[1]", "g.tx().commit()", "[]")

	a.expect("s", "g.V().has('name', 'Moss').property('n', 1).count()", "[1]")
	b.expect("s", "g.V().has('name', 'Moss').property('n', 2).count()", "[1]", "g.tx().commit()", "[]")
	a.expect("s", "g.tx().commit()", "conflict: ")
	b.expect("", "g.V().has('name', 'Moss').values('n')", "[2]")
}
