package gremlin_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/graph/graphbinary"
	"github.com/skerrydb/skerry/graph/message"
	"github.com/skerrydb/skerry/graph/value"
	"github.com/skerrydb/skerry/web/gremlin"
)

// fleet is a cluster in which a test chooses the leader. Connections are in memory.
type fleet struct {
	t     *testing.T
	nodes map[uint64]*fleetNode

	mu      sync.Mutex // guards what follows
	leader  uint64
	changed chan struct{}
	down    map[uint64]bool // refuse connections
	conns   []net.Conn      // between nodes
}

type fleetNode struct {
	*site
	*fleet
	id      uint64
	ln      *pipes
	stop    func() // of ServeNode
	stopped chan struct{}
}

// newFleet starts n nodes, of which the first leads. Each has a fake backend whose
// traversals write: on the leader they do what submit says.
func newFleet(t *testing.T, n int, o gremlin.Options) *fleet {
	t.Helper()
	f := &fleet{t: t, nodes: map[uint64]*fleetNode{}, leader: 1, changed: make(chan struct{}), down: map[uint64]bool{}}
	for id := uint64(1); id <= uint64(n); id++ {
		node := &fleetNode{fleet: f, id: id, ln: &pipes{conns: make(chan net.Conn), done: make(chan struct{})}, stopped: make(chan struct{})}
		o := o
		o.Backend, o.Cluster = writer{newFake(), node}, node
		node.site = newSite(t, o)
		node.back = o.Backend.(writer).fake
		ctx, cancel := context.WithCancel(context.Background())
		node.stop = func() {
			cancel()
			<-node.stopped
		}
		go func() {
			defer close(node.stopped)
			if err := node.h.ServeNode(ctx, node.ln); err != nil {
				t.Error(err)
			}
		}()
		t.Cleanup(func() {
			node.h.Close()
			node.stop()
		})
		f.nodes[id] = node
	}
	return f
}

func (f *fleet) lead(id uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leader = id
	close(f.changed)
	f.changed = make(chan struct{})
}

// cut closes the connections between nodes.
func (f *fleet) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.conns {
		c.Close()
	}
}

// kill makes a node refuse connections, and cuts those that there are.
func (f *fleet) kill(id uint64) {
	f.mu.Lock()
	f.down[id] = true
	f.mu.Unlock()
	f.cut()
}

func (f *fleetNode) State() engine.ClusterState {
	f.mu.Lock()
	defer f.mu.Unlock()
	return engine.ClusterState{Self: f.id, Leader: f.leader}
}

func (f *fleetNode) AwaitLeader(ctx context.Context) (engine.Node, error) {
	for {
		f.mu.Lock()
		leader, changed := f.leader, f.changed
		f.mu.Unlock()
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

func (f *fleetNode) Dial(ctx context.Context, node uint64, protocol string) (net.Conn, error) {
	f.mu.Lock()
	down := f.down[node]
	f.mu.Unlock()
	if down || protocol != gremlin.NodeProtocol {
		return nil, engine.Errorf(engine.CodeNotLeader, "node %d is down", node)
	}
	c, err := f.nodes[node].ln.dial(ctx, "", "")
	if err == nil {
		f.mu.Lock()
		f.conns = append(f.conns, c)
		f.mu.Unlock()
	}
	return c, err
}

func (f *fleetNode) Listen(string) net.Listener { return f.ln }

// writer is a fake whose traversals all write, unless their first argument is "read".
type writer struct {
	*fake
	node *fleetNode
}

func notLeader() error {
	return &gremlin.Error{Status: 500, Msg: "this node does not lead", Attributes: value.MapOf("code", "not_leader"), Err: engine.ErrNotLeader}
}

func (w writer) Submit(ctx context.Context, r gremlin.Request, yield func(any, int64) error) error {
	args := r.Traversal.Steps[0].Args
	if s := w.node.State(); s.Leader != s.Self && (len(args) == 0 || args[0] != "read") {
		return notLeader()
	}
	w.note(strings.TrimSpace("run " + r.User))
	return w.fake.Submit(ctx, r, yield)
}

// runs counts the traversals that a node has run.
func (f *fleetNode) runs() (n int) {
	for e := range strings.SplitSeq(f.back.all(), ", ") {
		if e == "run" {
			n++
		}
	}
	return n
}

// code returns the code of a response's error.
func code(p *message.Response) any {
	if p.Attributes == nil {
		return nil
	}
	c, _ := p.Attributes.Get("code")
	return c
}

func (c *client) expectCode(id value.UUID, want engine.Code) *message.Response {
	c.t.Helper()
	p := c.expect(id, 500)
	if code(p) != string(want) {
		c.t.Errorf("the code is %v, want %s: %s", code(p), want, p.Message)
	}
	return p
}

// TestForwardedAnswers: what the leader answers through a follower is what it answers
// itself, in each form.
func TestForwardedAnswers(t *testing.T) {
	f := newFleet(t, 2, gremlin.Options{})
	leader, follower := f.nodes[1], f.nodes[2]
	for _, n := range []int{0, 1, 5, 1000} {
		leader.back.submit = counting(n)
		for _, json := range []bool{false, true} {
			a, b := leader.dial(), follower.dial()
			a.json, b.json = json, json
			args := []any{"gremlin", "g.inject(1)", "batchSize", int32(7)}
			x, y := a.send("eval", "", args...), b.send("eval", "", args...)
			for last := false; !last; {
				p, q := a.receive(), b.receive()
				if p.ID != x || q.ID != y || fmt.Sprint(p.Status, p.Result) != fmt.Sprint(q.Status, q.Result) {
					t.Fatalf("%d results: the leader answers %v, the follower %v", n, p, q)
				}
				last = p.Status != 206
			}
		}
		for _, accept := range []string{"application/json", "application/vnd.gremlin-v3.0+json;types=false", "application/vnd.gremlin-v4.0+json", graphbinary.Mime4} {
			s, x := leader.post(`{"gremlin": "g.inject(1)"}`, "Accept", accept)
			u, y := follower.post(`{"gremlin": "g.inject(1)"}`, "Accept", accept)
			if s != 200 || u != 200 || anonymous(x) != anonymous(y) {
				t.Errorf("%d results as %s: %d %.200s, want %d %.200s", n, accept, u, y, s, x)
			}
		}
	}
	if got := follower.runs(); got != 0 {
		t.Errorf("the follower has run %d writes", got)
	}
}

// anonymous returns an answer of HTTP without its id.
func anonymous(s string) string {
	if at := strings.Index(s, `"requestId":"`); at >= 0 {
		return s[:at+13] + s[at+13+36:]
	}
	return s
}

// TestForwardedErrors: an error of the leader is the client's as it is.
func TestForwardedErrors(t *testing.T) {
	f := newFleet(t, 2, gremlin.Options{})
	leader, d := f.nodes[1], f.nodes[2].dial()
	leader.back.submit = func(context.Context, gremlin.Request, func(any, int64) error) error {
		return &gremlin.Error{Status: 499, Msg: "no good", Attributes: value.MapOf("code", "conflict", "position", int32(3)), Err: engine.ErrConflict}
	}
	if p := d.expect(d.inject(), 499); p.Message != "no good" || code(p) != "conflict" || p.Attributes.Len() != 2 {
		t.Errorf("%q %v", p.Message, p.Attributes)
	}
	leader.back.submit = func(context.Context, gremlin.Request, func(any, int64) error) error { panic("there") }
	if p := d.expect(d.inject(), 500); !strings.Contains(p.Message, "internal error, reference") {
		t.Error(p.Message)
	}
	leader.back.submit = nil
	d.expect(d.inject(int32(1)), 200)
	if got := leader.runs(); got != 3 {
		t.Errorf("the leader has run %d traversals", got)
	}
}

// TestForwardedReads: a follower serves reads itself.
func TestForwardedReads(t *testing.T) {
	f := newFleet(t, 2, gremlin.Options{})
	f.lead(0)
	d := f.nodes[2].dial()
	d.expect(d.inject("read"), 200)
	if got := f.nodes[2].runs(); got != 1 {
		t.Errorf("the follower has run %d traversals", got)
	}
}

// TestForwardedUser: the leader believes the follower who the user is.
func TestForwardedUser(t *testing.T) {
	f := newFleet(t, 2, gremlin.Options{Authenticate: func(_ context.Context, l gremlin.Login) (string, error) { return "the-" + l.User, nil }})
	status, got := f.nodes[2].post(`{"gremlin": "g.inject(1)"}`, "Authorization", "Basic YW5uOng=")
	if all := f.nodes[1].back.all(); status != 200 || all != "run the-ann" {
		t.Errorf("%d %s: %s", status, got, all)
	}
}

// TestForwardWaits: a write waits for a leader, which may be this node, and is refused
// if there is none in time.
func TestForwardWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 3, gremlin.Options{ElectionWait: 5 * time.Second, PingEvery: time.Hour})
		d := f.nodes[3].dial()
		f.lead(0)
		begin := time.Now()
		d.expectCode(d.inject(), engine.CodeNotLeader)
		if took := time.Since(begin); took != 5*time.Second {
			t.Errorf("it waited %v", took)
		}
		begin = time.Now()
		d.expect(d.send("eval", "session", "session", "s", "gremlin", "g.inject(1)", "evaluationTimeout", int32(2000)), 598)
		if took := time.Since(begin); took != 2*time.Second {
			t.Errorf("a session waited %v", took)
		}
		for _, id := range []uint64{2, 3} {
			f.lead(0)
			q := d.inject(int32(1))
			synctest.Wait()
			f.lead(id)
			d.expect(q, 200)
			if got := f.nodes[id].runs(); got != 1 {
				t.Errorf("node %d has run %d writes", id, got)
			}
		}
		f.lead(1)
		f.kill(1)
		begin = time.Now()
		if p := d.expectCode(d.inject(), engine.CodeNotLeader); !strings.Contains(p.Message, "node 1 is down") {
			t.Errorf("a leader that cannot be reached: %s", p.Message)
		}
		if took := time.Since(begin); took < 5*time.Second || took > 6*time.Second {
			t.Errorf("it waited %v", took)
		}
	})
}

// TestForwardOutcomes: a write that may have run is not sent again, one that has not
// run is.
func TestForwardOutcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 3, gremlin.Options{PingEvery: time.Hour})
		d := f.nodes[3].dial()
		leader, begin := f.nodes[1], time.Now()

		leader.back.submit = leader.back.blocked
		q := d.inject()
		leader.back.await(t, "running")
		f.cut()
		d.expectCode(q, engine.CodeOutcomeUnknown)
		leader.back.await(t, "stopped") // the end of the connection ends the request
		if took := time.Since(begin); took != 0 || leader.runs() != 1 {
			t.Errorf("it ran %d times, and the last one ended after %v", leader.runs(), took)
		}

		// The node has lost the lead when the request arrives.
		leader.back.submit = func(context.Context, gremlin.Request, func(any, int64) error) error {
			f.lead(2)
			return notLeader()
		}
		d.expect(d.inject(int32(1)), 200)
		if got := f.nodes[2].runs(); got != 1 {
			t.Errorf("the new leader has run %d writes", got)
		}

		// It does not know what has become of it.
		f.nodes[2].back.submit = func(context.Context, gremlin.Request, func(any, int64) error) error {
			return &gremlin.Error{Status: 500, Msg: "who knows", Attributes: value.MapOf("code", "outcome_unknown"), Err: engine.ErrOutcomeUnknown}
		}
		d.expectCode(d.inject(), engine.CodeOutcomeUnknown)
		if got := f.nodes[2].runs(); got != 2 {
			t.Errorf("it ran %d times", got-1)
		}
	})
}

// TestForwardMetrics: attempts are counted by their outcomes.
func TestForwardMetrics(t *testing.T) {
	f := newFleet(t, 3, gremlin.Options{})
	d, first := f.nodes[3].dial(), f.nodes[1].back
	d.expect(d.inject(), 204)
	first.submit = func(context.Context, gremlin.Request, func(any, int64) error) error {
		f.lead(2)
		return notLeader()
	}
	d.expect(d.inject(), 204)
	second := f.nodes[2].back
	second.submit = second.blocked
	q := d.inject()
	second.await(t, "running")
	f.cut()
	d.expectCode(q, engine.CodeOutcomeUnknown)
	got := ""
	for m := range f.nodes[3].h.Metrics() {
		got += fmt.Sprint(m.Labels[0].Value, " ", m.Value, ", ")
	}
	if want := "answered 2, refused 1, broken 1, "; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestForwardDeposed: a leader that does not answer, and is replaced, leaves the
// outcome unknown.
func TestForwardDeposed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 3, gremlin.Options{PingEvery: time.Hour})
		d, back := f.nodes[3].dial(), f.nodes[1].back
		back.submit = back.blocked
		q := d.inject()
		back.await(t, "running")
		begin := time.Now()
		f.lead(2)
		d.expectCode(q, engine.CodeOutcomeUnknown)
		if took := time.Since(begin); took < time.Second || took > 2*time.Second {
			t.Errorf("it took %v", took)
		}
		d.expect(d.inject(int32(1)), 200)
	})
}

// TestForwardLimits: the leader keeps the request's time limit, and a request at a
// node that does not is given up. A client that is gone ends its request.
func TestForwardLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 2, gremlin.Options{PingEvery: time.Hour})
		d, back := f.nodes[2].dial(), f.nodes[1].back
		back.submit = back.blocked
		begin := time.Now()
		q := d.send("eval", "", "gremlin", "g.inject(1)", "evaluationTimeout", int32(3000))
		if p := d.expect(q, 598); !strings.Contains(p.Message, "limit of 3s") || time.Since(begin) != 3*time.Second {
			t.Errorf("%s after %v", p.Message, time.Since(begin))
		}
		stuck := make(chan struct{})
		back.submit = func(context.Context, gremlin.Request, func(any, int64) error) error {
			<-stuck
			return nil
		}
		begin = time.Now()
		q = d.send("eval", "", "gremlin", "g.inject(1)", "evaluationTimeout", int32(3000))
		d.expectCode(q, engine.CodeOutcomeUnknown)
		if took := time.Since(begin); took != 8*time.Second {
			t.Errorf("it took %v", took)
		}
		close(stuck)
		synctest.Wait()

		for len(back.event) > 0 {
			<-back.event
		}
		back.submit = back.blocked
		d.inject()
		back.await(t, "running")
		begin = time.Now()
		_ = d.ws.CloseNow()
		back.await(t, "stopped")
		if took := time.Since(begin); took != 0 {
			t.Errorf("the request of a client that is gone ends after %v", took)
		}
	})
}

// TestForwardSlowClient: a client that does not read its results stops the leader.
func TestForwardSlowClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 2, gremlin.Options{PingEvery: time.Hour, WriteTimeout: time.Minute})
		d, back := f.nodes[2].dial(), f.nodes[1].back
		var mu sync.Mutex
		yielded := 0
		back.submit = func(_ context.Context, _ gremlin.Request, yield func(any, int64) error) error {
			for range 1000 {
				if err := yield(strings.Repeat("x", 100<<10), 1); err != nil {
					back.note("stopped")
					return err
				}
				mu.Lock()
				yielded++
				mu.Unlock()
			}
			return nil
		}
		d.inject()
		synctest.Wait()
		mu.Lock()
		if yielded > 100 {
			t.Errorf("%d results of 100 KiB wait for a client that does not read", yielded)
		}
		mu.Unlock()
		back.await(t, "stopped") // after WriteTimeout
	})
}

// TestForwardStop: a leader that stops ends what runs, and says so on connections that
// are not used, so that nothing sent to it is in doubt.
func TestForwardStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 3, gremlin.Options{PingEvery: time.Hour})
		d, e, leader := f.nodes[3].dial(), f.nodes[3].dial(), f.nodes[1]
		leave := make(chan struct{})
		leader.back.submit = func(_ context.Context, r gremlin.Request, _ func(any, int64) error) error {
			if len(r.Traversal.Steps[0].Args) > 0 {
				leader.back.note("slow")
				<-leave
			}
			return nil
		}
		slow := d.inject("slow")
		leader.back.await(t, "slow")
		e.expect(e.inject(), 204) // its connection is idle from now on
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			leader.stop()
		}()
		synctest.Wait()
		f.mu.Lock()
		f.down[1] = true
		f.mu.Unlock()
		q := e.inject() // the leader stops and is the leader, as far as node 3 knows
		synctest.Wait()
		f.lead(2)
		e.expect(q, 204)
		close(leave)
		d.expect(slow, 204)
		<-stopped
	})
}
