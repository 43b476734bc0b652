package skerry_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/graph/graphbinary"
	"github.com/skerrydb/skerry/graph/message"
	"github.com/skerrydb/skerry/graph/value"
	web "github.com/skerrydb/skerry/web/gremlin"
)

// gremlinNode is a node of a cluster with a listener for Gremlin drivers.
type gremlinNode struct {
	*skerry.Server
	db    *embedded.DB
	stop  func() // hands over if it leads; may be called more than once
	crash func() // stops the engine first; likewise
}

func (n *gremlinNode) leads() bool {
	s := n.db.Cluster().State()
	return s.Leader == s.Self
}

// calm is a tick at which a busy machine does not make nodes elect another leader.
const calm = time.Second / 2

// startGremlinNodes starts a cluster of three nodes. A tick of 0 is the usual one.
func startGremlinNodes(t *testing.T, tick time.Duration, options ...skerry.Options) []*gremlinNode {
	t.Helper()
	var list []*gremlinNode
	var first string
	for i := range 3 {
		dir, o := t.TempDir(), skerry.Options{}
		if i < len(options) {
			o = options[i]
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		eo := embedded.Options{Logger: slog.New(slog.DiscardHandler), Cluster: embedded.ClusterOptions{Listener: l, Tick: tick}}
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
	if o.Gremlin == "" {
		o.Gremlin = "127.0.0.1:0"
	}
	s, _, _ := start(t, db, o)
	n := &gremlinNode{Server: s, db: db}
	n.stop = func() {
		_ = s.Close()
		_ = db.Close()
	}
	n.crash = func() {
		_ = db.Close()
		_ = s.Close()
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
	err := d.send(d.t.Context(), session, text)
	if err != nil {
		return err.Error()
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
	list := startGremlinNodes(t, calm)
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

// TestGremlinLargeResult: the results of a write come through a follower as a whole.
func TestGremlinLargeResult(t *testing.T) {
	t.Parallel()
	_, followers := leaderFirst(t, startGremlinNodes(t, calm))
	d, text := followers[0].drive(t), strings.Repeat("x", 10_000)
	if err := d.send(t.Context(), "", "g.inject(1..500).unfold().addV('large').property('p', '"+text+"').values('p')"); err != nil {
		t.Fatal(err)
	}
	got, err := d.receive(t.Context())
	if err != nil || len(got) != 500 {
		t.Fatalf("%d results, %v", len(got), err)
	}
	for _, v := range got {
		if v != text {
			t.Fatalf("a result is %v", v)
		}
	}
	d.expect("", "g.V().hasLabel('large').count()", "[500]")
}

// TestGremlinClusterPassword: drivers log in where they are connected, also if the
// leader has no listener for them, and the port between nodes is not for strangers.
func TestGremlinClusterPassword(t *testing.T) {
	t.Parallel()
	secret := skerry.Options{Password: "secret"}
	list := startGremlinNodes(t, calm, skerry.Options{Password: "secret", Gremlin: skerry.Off}, secret, secret)
	eventually.True(t, "the first node leads, which has no listener", func() bool {
		leader, _ := leaderFirst(t, list)
		if leader != list[0] {
			leader.db.HandOver()
		}
		return leader == list[0]
	})
	leader, followers := list[0], list[1:]
	for password, want := range map[string]int{"secret": 200, "wrong": 401, "": 401} {
		if status, got := gremlin(t, followers[0].GremlinURL(), password, "", "g.addV('x').count()"); status != want {
			t.Errorf("with the password %q: %d %s, want %d", password, status, got, want)
		}
	}
	c, err := tls.Dial("tcp", self(leader.db).Addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{web.NodeProtocol}})
	if err != nil {
		return // refused in the handshake
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	_, _ = c.Write([]byte{0, 0, 0, 6, 'p', 0, 0, 0, 0, 0})
	if b, err := io.ReadAll(c); len(b) > 0 && bytes.Contains(b, []byte{'e', 0xcc, 0x01}) || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a stranger is answered: %q, %v", b, err)
	}
}

// loadWriter adds vertices with numbers of its own, through one node, over one of the
// ways that drivers have, and knows what it was told of each.
type loadWriter struct {
	name                    string
	write                   func(text string) string // returns the result, or the error
	acked, unknown, refused []int
}

func (w *loadWriter) run(enough func(*loadWriter) bool) {
	for n := 0; !enough(w); n++ {
		got := w.write(fmt.Sprintf("g.addV('load').property('writer', '%s').property('n', %d).values('n')", w.name, n))
		switch {
		case got == fmt.Sprintf("[%d]", n):
			w.acked = append(w.acked, n)
		case strings.Contains(got, string(engine.CodeOutcomeUnknown)):
			w.unknown = append(w.unknown, n)
		case strings.Contains(got, string(engine.CodeNotLeader)), strings.Contains(got, string(engine.CodeClosed)):
			w.refused = append(w.refused, n)
		default:
			w.refused = append(w.refused, n)
			w.name += " fails with " + got
			return
		}
	}
}

// loadWriters returns writers through a node: two over WebSocket and two over POST.
func loadWriters(t *testing.T, n *gremlinNode) (all []*loadWriter) {
	for i := range 2 {
		d := n.drive(t)
		all = append(all, &loadWriter{name: fmt.Sprintf("socket%d", i), write: func(text string) string { return d.run("", text) }},
			&loadWriter{name: fmt.Sprintf("post%d", i), write: func(text string) string {
				_, got := gremlin(t, n.GremlinURL(), "", "", text)
				return got
			}})
	}
	return all
}

// check compares what is stored with what the writers were told.
func (w *loadWriter) check(t *testing.T, d *driver) {
	t.Helper()
	found := map[string]int{}
	text := d.run("", fmt.Sprintf("g.V().has('load', 'writer', '%s').values('n')", w.name))
	for _, n := range strings.Split(strings.Trim(text, "[]"), ", ") {
		found[n]++
	}
	for _, n := range w.acked {
		if found[fmt.Sprint(n)] != 1 {
			t.Errorf("%s: the acknowledged write %d is there %d times", w.name, n, found[fmt.Sprint(n)])
		}
	}
	for _, n := range w.refused {
		if found[fmt.Sprint(n)] != 0 {
			t.Errorf("%s: the refused write %d is there", w.name, n)
		}
	}
	for _, n := range w.unknown {
		if found[fmt.Sprint(n)] > 1 {
			t.Errorf("%s: write %d is there twice", w.name, n)
		}
	}
	t.Logf("%s: %d acknowledged, %d refused, %d unknown", w.name, len(w.acked), len(w.refused), len(w.unknown))
}

// TestGremlinLeaderEnds: writers at a follower lose nothing when the leader crashes or
// stops, and go on at the next one. On a machine without time for the nodes, writes can be in
// doubt after a stop too.
func TestGremlinLeaderEnds(t *testing.T) {
	t.Parallel()
	for _, crash := range []bool{false, true} {
		t.Run(fmt.Sprintf("crash=%v", crash), func(t *testing.T) {
			t.Parallel()
			leader, followers := leaderFirst(t, startGremlinNodes(t, 0))
			writers := loadWriters(t, followers[0])
			var before atomic.Int32 // writers that have written something
			var ended atomic.Bool
			begun, gone := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(gone)
				<-begun
				if crash {
					leader.crash()
				} else {
					leader.stop()
				}
				ended.Store(true)
			}()
			var running sync.WaitGroup
			for _, w := range writers {
				past := -1
				running.Go(func() {
					w.run(func(w *loadWriter) bool {
						if len(w.acked) == 10 && before.Add(1) == int32(len(writers)) {
							close(begun)
						}
						if ended.Load() && past < 0 {
							past = len(w.acked)
						}
						return past >= 0 && len(w.acked) >= past+10
					})
				})
			}
			running.Wait()
			<-gone
			d := followers[1].drive(t)
			for _, w := range writers {
				w.check(t, d)
			}
		})
	}
}

// TestGremlinNoMajority: a write at the last of three nodes is refused, in time, and so
// is a session.
func TestGremlinNoMajority(t *testing.T) {
	t.Parallel()
	leader, followers := leaderFirst(t, startGremlinNodes(t, 0))
	d := followers[0].drive(t)
	d.expect("", "g.addV('a').count()", "[1]")
	d.expect("s", "g.addV('b').count()", "[1]")
	followers[1].crash()
	leader.crash()
	if got := d.run("s", "g.tx().commit()"); !strings.HasPrefix(got, "not_leader: ") && !strings.HasPrefix(got, "outcome_unknown: ") {
		t.Errorf("the commit: %s", got)
	}
	d.expect("", "g.addV('c').count()", "not_leader: ")
	d.expect("new", "g.addV('c').count()", "not_leader: ")
}
