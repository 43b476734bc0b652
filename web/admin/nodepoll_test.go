package admin

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// fakeCluster is three nodes, of which this is the first and leads.
type fakeCluster struct{ engine.Cluster }

func (fakeCluster) State() engine.ClusterState {
	return engine.ClusterState{Self: 1, Leader: 1, Term: 1, Nodes: []engine.Node{{ID: 1, Voter: true}, {ID: 2, Voter: true}, {ID: 3, Voter: true}}}
}

// reporter is an engine that reports.
type reporter struct {
	engine.Engine
	report engine.NodeReport
}

func (r *reporter) Report() engine.NodeReport { return r.report }

// others answers in place of nodes 2 and 3.
type others struct {
	mu    sync.Mutex
	facts map[uint64]nodeFacts
	fails map[uint64]error
	asked atomic.Int64
}

func (o *others) get(_ context.Context, node uint64) (nodeFacts, error) {
	o.asked.Add(1)
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.facts[node], o.fails[node]
}

func (o *others) fail(node uint64, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fails[node] = err
}

// polling returns a page whose other nodes are o. It needs synctest's clock.
func polling(t *testing.T, rep engine.NodeReport) (*Admin, *others) {
	a := &Admin{o: Options{Now: time.Now, Cluster: fakeCluster{}, Engine: &reporter{report: rep}, Build: "1.4.0"}, started: time.Now()}
	o := &others{facts: map[uint64]nodeFacts{}, fails: map[uint64]error{}}
	for id := range uint64(4) {
		o.facts[id] = nodeFacts{Node: id, Build: "1.4.0", Memory: 64 << 20, Data: 1 << 20, Free: 50 << 30, Size: 100 << 30, Up: 7200, Expires: time.Now().AddDate(9, 0, 0)}
	}
	a.poll = newPoll(a)
	a.poll.get = o.get
	t.Cleanup(a.poll.close)
	return a, o
}

// rowOf returns the row of a node after a round, and all troubles as one text.
func rowOf(t *testing.T, a *Admin, id uint64) (nodeRow, string) {
	t.Helper()
	rows, wrong := a.nodeRows()
	var b strings.Builder
	for _, w := range wrong {
		b.WriteString(w.What + " " + w.Remedy + "\n")
	}
	for _, r := range rows {
		if r.ID == id {
			return r, b.String()
		}
	}
	t.Fatalf("there is no node %d", id)
	return nodeRow{}, ""
}

// TestSlowNode: a node that stops answering keeps its last numbers, with their age and since when it is silent. One that answers
// again is well at once.
func TestSlowNode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, o := polling(t, engine.NodeReport{Commit: 500, Peers: []engine.PeerReport{{ID: 2, Connected: true, Behind: 12}, {ID: 3, Connected: true}}})
		<-a.poll.ask()
		if r, wrong := rowOf(t, a, 2); !r.Well || r.State != "answers" || r.Memory != "64.0 MiB" || r.Version != "1.4.0" || r.Up != "2 h" || !strings.Contains(r.Disk, "50.0\u00a0GiB free (50 %)") || r.Behind != "12 entries" || wrong != "" {
			t.Errorf("%+v, %q", r, wrong)
		}
		o.fail(2, errors.New("no answer within 1s"))
		for range 7 {
			time.Sleep(askEvery)
			<-a.poll.ask()
		}
		r, wrong := rowOf(t, a, 2)
		if r.Well || r.State != "has not answered for 12 s: no answer within 1s; as of 14 s ago" || r.Memory != "64.0 MiB" || r.Behind != "12 entries, 14 s" {
			t.Errorf("%+v", r)
		}
		if !strings.Contains(wrong, "Node 2 is connected, but has not answered this page since") {
			t.Errorf("%q", wrong)
		}
		if r, _ := rowOf(t, a, 3); !r.Well {
			t.Errorf("the node beside it: %+v", r)
		}
		o.fail(2, errOlder)
		time.Sleep(askEvery)
		<-a.poll.ask()
		if r, _ := rowOf(t, a, 2); r.Well || !strings.Contains(r.State, "its version does not report this") {
			t.Errorf("%+v", r)
		}
		o.fail(2, nil)
		time.Sleep(askEvery)
		<-a.poll.ask()
		if r, wrong := rowOf(t, a, 2); !r.Well || wrong != "" {
			t.Errorf("%+v, %q", r, wrong)
		}
		time.Sleep(time.Hour) // nobody looks
		o.fail(2, errors.New("gone"))
		<-a.poll.ask()
		if r, _ := rowOf(t, a, 2); r.State != "has not answered for 0 s: gone; as of 1 h ago" {
			t.Errorf("what nobody saw counts as silence: %q", r.State)
		}
	})
}

// TestNodeTroubles: what is wrong with nodes is said with its remedy.
func TestNodeTroubles(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, o := polling(t, engine.NodeReport{Expires: time.Now().AddDate(9, 0, 0), Peers: []engine.PeerReport{{ID: 2, Version: "1.3.9", Connected: true}, {ID: 3, Error: "refused"}}})
		set := func(id uint64, change func(*nodeFacts)) {
			f := o.facts[id]
			change(&f)
			o.facts[id] = f
		}
		for _, c := range []struct {
			change func()
			want   string
		}{
			{func() {}, ""},
			{func() { set(2, func(f *nodeFacts) { f.Expires = time.Now().Add(29 * 24 * time.Hour) }) }, "The certificate of node 2 expires in 28 days."},
			{func() { set(2, func(f *nodeFacts) { f.Expires = time.Now().Add(-time.Hour) }) }, "The certificate of node 2 has expired"},
			{func() { set(2, func(f *nodeFacts) { f.Expires = time.Now().AddDate(1, 0, 0); f.Free = 9 << 30 }) }, "The disk of node 2 is nearly full: 9.0 GiB of 100 GiB are free. A node with a full disk"},
			{func() { set(2, func(f *nodeFacts) { f.Free = 90 << 30; f.Build = "1.5.0" }) }, "different versions: 1.4.0 on 1, 3; 1.5.0 on 2. During an upgrade that is fine"},
			{func() { set(2, func(f *nodeFacts) { f.Build = "1.4.0" }); o.fail(3, errors.New("refused")) }, "Node 3 has not answered since 2000-01-01"},
		} {
			c.change()
			time.Sleep(askEvery)
			<-a.poll.ask()
			if _, wrong := rowOf(t, a, 1); !strings.Contains(wrong, c.want) || (wrong == "") != (c.want == "") {
				t.Errorf("%q, want %q", wrong, c.want)
			}
		}
		o.fail(2, errOlder) // the version of its greeting is known, once what it reported before is gone
		delete(a.poll.known, 2)
		time.Sleep(askEvery)
		<-a.poll.ask()
		if r, _ := rowOf(t, a, 2); r.Version != "1.3.9" || r.Memory != "–" {
			t.Errorf("%+v", r)
		}
	})
}

// TestPollStops: nodes are asked while somebody watches, and when a page is loaded; never otherwise.
func TestPollStops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, o := polling(t, engine.NodeReport{})
		ctx, cancel := context.WithCancel(t.Context())
		go a.poll.run(ctx)
		defer func() { cancel(); synctest.Wait() }()
		more := func(d time.Duration) int64 {
			before := o.asked.Load()
			time.Sleep(d)
			synctest.Wait()
			return o.asked.Load() - before
		}
		if n := more(time.Minute); n != 0 {
			t.Errorf("nobody looks, and nodes were asked %d times", n)
		}
		first, second := a.poll.watch(), a.poll.watch()
		if n := more(20 * time.Second); n < 18 || n > 22 { // two nodes every two seconds, however many watch
			t.Errorf("within 20 s two nodes were asked %d times", n)
		}
		first()
		if n := more(20 * time.Second); n < 18 || n > 22 {
			t.Errorf("one still watches, and nodes were asked %d times", n)
		}
		second()
		synctest.Wait()
		if n := more(time.Minute); n != 0 {
			t.Errorf("nobody looks any more, and nodes were asked %d times", n)
		}
		a.poll.forPage(ctx)
		a.poll.forPage(ctx) // what the first has learned is new enough
		if n := o.asked.Load(); n == 0 || more(time.Minute) != 0 {
			t.Error("a page asks once")
		}
		a.poll.close()
		<-a.poll.ask()
	})
}

// TestPageWaits: a page does not wait for a node that takes long, and asks it once.
func TestPageWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, _ := polling(t, engine.NodeReport{})
		a.poll.get = func(ctx context.Context, _ uint64) (nodeFacts, error) {
			<-ctx.Done()
			return nodeFacts{}, ctx.Err()
		}
		began := time.Now()
		a.poll.forPage(t.Context())
		if took := time.Since(began); took != askForPage {
			t.Errorf("the page waited for %v", took)
		}
		<-a.poll.ask()
		if took := time.Since(began); took != askDeadline {
			t.Errorf("nodes had %v to answer", took)
		}
	})
}

// TestPollBounded: no more nodes are asked at once than the limit, and the leader's commits are bounded.
func TestPollBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, _ := polling(t, engine.NodeReport{Commit: 1})
		many := engine.ClusterState{Self: 1, Leader: 1}
		for id := range uint64(39) {
			many.Nodes = append(many.Nodes, engine.Node{ID: id + 1})
		}
		a.o.Cluster = manyNodes{state: many}
		var now, most atomic.Int64
		a.poll.get = func(context.Context, uint64) (nodeFacts, error) {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			time.Sleep(time.Millisecond)
			return nodeFacts{}, nil
		}
		for range 2 * maxCommits {
			<-a.poll.ask()
			time.Sleep(askEvery)
		}
		if known, commits, _ := a.poll.all(); most.Load() != maxAsking || len(commits) != maxCommits || len(known) != 39 {
			t.Errorf("%d at once, %d commits, %d nodes", most.Load(), len(commits), len(known))
		}
		a.o.Cluster = fakeCluster{}
		<-a.poll.ask()
		if known, _, _ := a.poll.all(); len(known) != 3 {
			t.Errorf("%d nodes are known of three", len(known))
		}
	})
}

type manyNodes struct {
	engine.Cluster
	state engine.ClusterState
}

func (m manyNodes) State() engine.ClusterState { return m.state }

// roundTrip is an http.RoundTripper.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestBadFacts: what another node answers is taken only if it is what was asked for, and bounded.
func TestBadFacts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		body   string
		want   string
	}{
		{200, `{"node":2,"build":"1"}`, ""},
		{200, `{"node":3}`, "node 3 answers in its place"},
		{200, `{"node":`, "cannot be read"},
		{200, `{"node":2,"build":"` + strings.Repeat("x", maxFactsBytes) + `"}`, "longer than"},
		{404, "not found", "does not report"},
		{403, "no", "status 403"},
	} {
		get := getFacts(roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.Host != "2" || r.URL.Path != factsPath {
				t.Errorf("%s of %s", r.URL.Path, r.Host)
			}
			return &http.Response{StatusCode: c.status, Body: io.NopCloser(strings.NewReader(c.body))}, nil
		}))
		_, err := get(t.Context(), 2)
		if text := ""; err != nil {
			if text = err.Error(); !strings.Contains(text, c.want) || c.want == "" {
				t.Errorf("%.60s: %v", c.body, err)
			}
		} else if c.want != "" {
			t.Errorf("%.60s: it is taken, want %q", c.body, c.want)
		}
	}
	f := nodeFacts{Build: strings.Repeat("x", 1000), Formats: make([]formatFact, 100), Peers: make([]peerFact, 100)}.bounded()
	if len(f.Build) > maxFactText+len("…") || len(f.Formats) != maxFormats || len(f.Peers) != maxPeers {
		t.Errorf("%d bytes, %d formats, %d nodes", len(f.Build), len(f.Formats), len(f.Peers))
	}
}

// nodeConn is a connection of a node.
type nodeConn struct {
	net.Conn
	node uint64
}

func (c nodeConn) Node() uint64 { return c.node }

// TestFactsForMembersOnly: a node reports to members, for itself, and to nobody else.
func TestFactsForMembersOnly(t *testing.T) {
	t.Parallel()
	a := &Admin{o: Options{Now: time.Now, Cluster: fakeCluster{}, Engine: &reporter{}, Build: "1", Dir: t.TempDir()}, started: time.Now()}
	for _, c := range []struct {
		from   net.Conn
		change func(*http.Request)
		want   int
	}{
		{nodeConn{node: 2}, func(*http.Request) {}, 200},
		{&net.TCPConn{}, func(*http.Request) {}, 403}, // nobody knows who it is
		{nodeConn{node: 9}, func(*http.Request) {}, 403},
		{nodeConn{node: 0}, func(*http.Request) {}, 403},
		{nodeConn{node: 2}, func(r *http.Request) { r.Header.Set("X-Forwarded-For", "192.0.2.1") }, 403},
		{nodeConn{node: 2}, func(r *http.Request) { r.Host = "3" }, 421},
		{nodeConn{node: 2}, func(r *http.Request) { r.Host = "localhost" }, 421},
		{nodeConn{node: 2}, func(r *http.Request) { r.Method = http.MethodPost }, 405},
	} {
		r := httptest.NewRequestWithContext(NodeContext(t.Context(), c.from), http.MethodGet, "http://1"+factsPath, nil)
		c.change(r)
		w := httptest.NewRecorder()
		a.serveFacts(w, r)
		if w.Code != c.want || strings.Contains(w.Body.String(), `"memory"`) != (c.want == 200) {
			t.Errorf("%+v: status %d, want %d: %s", c.from, w.Code, c.want, w.Body)
		}
	}
}
