package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/ports"
	"github.com/skerrydb/skerry/cli/serve"
	"github.com/skerrydb/skerry/cli/verb"
)

// healWait bounds how long a cluster may take to be whole again; it is reached
// only when something is wrong.
const healWait = 90 * time.Second

// fleet is a cluster of `skerry` processes. Between their node ports stands a
// faultNet. It belongs to the goroutine of the test.
type fleet struct {
	t     *testing.T
	self  string // the program
	dir   string // of data folders and logs; kept if the test fails
	env   []string
	net   *faultNet
	began time.Time

	mu    sync.Mutex // guards what follows, for the goroutines of net and load
	nodes []*fleetNode
	last  uint64 // id that was given out
	story []string
}

// fleetNode is one node, over all the processes that it has in its life.
type fleetNode struct {
	id         uint64
	dir        string
	node       string // address of the node port behind its door
	door       string
	http, resp string
	frozen     bool
	*process   // the last one; nil before the first
}

// newFleet starts a cluster of three.
func newFleet(t *testing.T) *fleet {
	t.Helper()
	return newFleetOf(t, "1")
}

// newFleetOf starts a cluster of three of one of the programs of TestMain.
func newFleetOf(t *testing.T, program string) *fleet {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "skerry-faults-")
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{t: t, self: self, dir: dir, began: time.Now()}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "SKERRY_") || strings.HasPrefix(v, "SKERRY_TEST_") {
			f.env = append(f.env, v)
		}
	}
	f.env = append(f.env, "SKERRY_TEST_MAIN="+program, "GORACE=halt_on_error=0 exitcode=66")
	f.net = newFaultNet(f.owner)
	t.Cleanup(f.end)
	first := f.add(nil)
	f.must(f.verb("cluster", "init", "--data", first.dir, "--node", first.door))
	f.start(first)
	for range 2 {
		f.join(nil)
	}
	f.whole()
	return f
}

// join invites a node, starts it and waits until it has a vote. It serves clients
// where old did, if that is not nil.
func (f *fleet) join(old *fleetNode) *fleetNode {
	f.t.Helper()
	n := f.add(old)
	text := f.must(f.verb("cluster", "invite", "--data", f.nodes[0].dir))
	file := n.dir + ".invite"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
	f.start(n, "--invite", file, "--join", f.nodes[0].door)
	f.await(fmt.Sprintf("node %d has a vote", n.id), func() bool {
		s, ok := f.state(f.nodes[0])
		return ok && slices.ContainsFunc(s.Nodes, func(m stateNode) bool { return m.ID == n.id && m.Voter })
	})
	return n
}

// add gives the next node a folder and addresses.
func (f *fleet) add(old *fleetNode) *fleetNode {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last++
	id := f.last
	n := &fleetNode{id: id, dir: filepath.Join(f.dir, fmt.Sprint("n", id)), node: ports.Addr(f.t), http: ports.Addr(f.t), resp: ports.Addr(f.t)}
	if old != nil {
		n.http, n.resp = old.http, old.resp
	}
	var err error
	if n.door, err = f.net.door(id, n.node); err != nil {
		f.t.Fatal(err)
	}
	f.nodes = append(f.nodes, n)
	return n
}

// verb runs one command of skerry and returns what it prints.
func (f *fleet) verb(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), healWait)
	defer cancel()
	var text, mistakes strings.Builder
	cmd := exec.CommandContext(ctx, f.self, args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = f.dir, f.env, &text, &mistakes
	if err := cmd.Run(); err != nil {
		return text.String(), fmt.Errorf("skerry %s: %w: %s", strings.Join(args, " "), err, mistakes.String())
	}
	return text.String(), nil
}

func (f *fleet) must(text string, err error) string {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
	return text
}

// start starts a node's process and waits until it listens.
func (f *fleet) start(n *fleetNode, args ...string) {
	f.t.Helper()
	cmd := exec.Command(f.self, append([]string{"serve", "--json", "--data", n.dir, "--http", n.http, "--resp", n.resp,
		"--node", n.node, "--node-advertise", n.door}, args...)...)
	cmd.Dir, cmd.Env = f.dir, f.env
	p := begin(f.t, cmd, n.dir+".log")
	f.mu.Lock()
	n.process, n.frozen = p, false
	f.mu.Unlock()
	var a serve.Announcement
	if p.announced(startWait, &a); a.Node != n.id {
		f.t.Fatalf("node %d announced %+v", n.id, a)
	}
}

// signal sends a signal to a node's process and, if that ends it, waits for that.
func (f *fleet) signal(n *fleetNode, sig syscall.Signal) {
	f.t.Helper()
	n.cmd.Process.Signal(sig)
	switch sig {
	case syscall.SIGSTOP, syscall.SIGCONT:
		n.frozen = sig == syscall.SIGSTOP
		return
	}
	if code := n.exit(); sig == syscall.SIGTERM && code != verb.ExitOK {
		f.t.Errorf("node %d ended with exit code %d after %v", n.id, code, sig)
	}
}

// owner returns whose process has a local port.
func (f *fleet) owner(port int) uint64 {
	pids := map[uint64]int{}
	f.mu.Lock()
	for _, n := range f.nodes {
		if n.process != nil {
			pids[n.id] = n.cmd.Process.Pid
		}
	}
	f.mu.Unlock()
	return ownerOf(port, pids)
}

// state is what a node says at /cluster.
type nodeState struct {
	Leader, Term uint64
	Nodes        []stateNode
}

type stateNode struct {
	ID    uint64
	Voter bool
}

func (f *fleet) state(n *fleetNode) (s nodeState, ok bool) {
	c := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Get("http://" + n.http + "/cluster")
	if err != nil {
		return s, false
	}
	defer resp.Body.Close()
	return s, json.NewDecoder(resp.Body).Decode(&s) == nil && resp.StatusCode == http.StatusOK
}

// leader waits until a node leads, and returns it and the others.
func (f *fleet) leader() (leader *fleetNode, others []*fleetNode) {
	f.t.Helper()
	f.await("a node leads", func() bool {
		var term uint64
		leader, others = nil, nil
		for _, n := range f.nodes {
			s, ok := f.state(n)
			if i := slices.IndexFunc(f.nodes, func(l *fleetNode) bool { return l.id == s.Leader }); ok && i >= 0 && s.Term > term {
				leader, term = f.nodes[i], s.Term
			}
		}
		for _, n := range f.nodes {
			if n != leader {
				others = append(others, n)
			}
		}
		return leader != nil
	})
	return leader, others
}

// whole waits until every node serves requests that need the leader.
func (f *fleet) whole() {
	f.t.Helper()
	c := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for _, n := range f.nodes {
		f.await(fmt.Sprintf("node %d answers", n.id), func() bool {
			resp, err := c.Get("http://" + n.http + "/db/none")
			if err != nil {
				return false
			}
			resp.Body.Close()
			return resp.StatusCode == http.StatusNotFound
		})
	}
}

func (f *fleet) await(what string, ok func() bool) {
	f.t.Helper()
	if !eventually.Within(healWait, ok) {
		f.t.Fatalf("not in %v: %s", healWait, what)
	}
}

// tell adds a line to the log of injected faults.
func (f *fleet) tell(format string, args ...any) {
	line := fmt.Sprintf("%8.3f ", time.Since(f.began).Seconds()) + fmt.Sprintf(format, args...)
	f.mu.Lock()
	f.story = append(f.story, line)
	f.mu.Unlock()
	if testing.Verbose() {
		f.t.Log(line)
	}
}

// end stops all processes, looks into their logs, and keeps everything if the
// test has failed.
func (f *fleet) end() {
	for _, n := range f.nodes {
		if n.process == nil {
			continue
		}
		n.kill()
		f.checkLog(n)
	}
	f.net.close()
	if !f.t.Failed() {
		os.RemoveAll(f.dir)
		return
	}
	if !testing.Verbose() {
		f.t.Logf("what was done:\n%s", strings.Join(f.story, "\n"))
	}
	os.WriteFile(filepath.Join(f.dir, "nemesis.log"), []byte(strings.Join(f.story, "\n")+"\n"), 0o600)
	f.t.Logf("kept: %s\nthe history again: skerry check --history %s", f.dir, f.history())
}

// checkLog looks for what no log may have.
func (f *fleet) checkLog(n *fleetNode) {
	f.t.Helper()
	log, _ := os.ReadFile(n.dir + ".log")
	for _, bad := range []string{"DATA RACE", "panic:", "fatal error:", "BUG:"} {
		if _, after, found := strings.Cut(string(log), bad); found {
			f.t.Errorf("the log of node %d has %s%.3000s", n.id, bad, after)
		}
	}
}

// history is the file of the recorded history.
func (f *fleet) history() string { return filepath.Join(f.dir, "history.jsonl") }
