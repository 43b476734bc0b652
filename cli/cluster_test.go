package cli

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/ports"
	"github.com/skerrydb/skerry/cli/cluster"
	"github.com/skerrydb/skerry/cli/verb"
)

// clusterWait is how long a cluster may take for what should take a second or
// two: the machine may be busy with other tests.
const clusterWait = 60 * time.Second

// nodes is a cluster of processes. All fields but s are by id; 0 is not used.
type nodes struct {
	s    *shell
	addr []string // of the node ports
	proc []*server
}

// newNodes starts a cluster and waits until all its n nodes have a vote.
func newNodes(t *testing.T, n int) *nodes {
	t.Helper()
	return newNodesOf(t, n, "")
}

// newNodesOf is newNodes for a program of its own.
func newNodesOf(t *testing.T, n int, program string) *nodes {
	t.Helper()
	began := time.Now()
	c := &nodes{s: newShell(t), addr: []string{""}, proc: []*server{nil}}
	c.s.program = program
	c.addr = append(c.addr, ports.Addr(t))
	if out := c.s.run("skerry cluster init --data n1 --node " + c.addr[1]); !strings.HasPrefix(out, "n1 is node 1 of the new cluster ") {
		t.Fatalf("init: %s", out)
	}
	c.proc = append(c.proc, c.s.serve("--data", "n1"))
	for range n - 1 {
		c.add()
	}
	c.awaitVoters(n)
	t.Logf("%d nodes after %v", n, time.Since(began).Round(time.Millisecond))
	return c
}

// add invites one more node and starts it.
func (c *nodes) add() {
	c.s.t.Helper()
	id := len(c.proc)
	if out := c.s.run(fmt.Sprintf("skerry cluster invite --data n1 > n%d.invite", id)); out != "" {
		c.s.t.Fatalf("invite: %s", out)
	}
	c.addr = append(c.addr, ports.Addr(c.s.t))
	c.proc = append(c.proc, c.s.serve("--data", fmt.Sprint("n", id), "--invite", fmt.Sprintf("n%d.invite", id), "--node", c.addr[id], "--join", c.addr[1]))
}

// restart starts a node whose process has ended, with nothing but its folder.
func (c *nodes) restart(id int) { c.proc[id] = c.s.serve("--data", fmt.Sprint("n", id)) }

// seen is what GET /cluster says.
type seen struct {
	Leader int `json:"leader"`
	Nodes  []struct {
		ID    int    `json:"id"`
		HTTP  string `json:"http"`
		RESP  string `json:"resp"`
		Voter bool   `json:"voter"`
	} `json:"nodes"`
}

func (c *nodes) seen(id int) (s seen) {
	resp, err := http.Get(c.proc[id].HTTP + "/cluster")
	if err != nil {
		return s
	}
	defer resp.Body.Close()
	_ = json.NewDecoder(resp.Body).Decode(&s) // nothing is seen then
	return s
}

// await waits until ok returns true.
func (c *nodes) await(what string, ok func() bool) {
	c.s.t.Helper()
	if eventually.Within(clusterWait, ok) {
		return
	}
	for id, p := range c.proc {
		if p != nil {
			c.s.t.Logf("node %d:\n%s", id, p.log())
		}
	}
	c.s.t.Fatalf("waited in vain for %s", what)
}

// awaitVoters waits until node 1 knows of n nodes, all with a vote and faces.
func (c *nodes) awaitVoters(n int) {
	c.s.t.Helper()
	c.await(fmt.Sprint(n, " nodes with a vote"), func() bool {
		s := c.seen(1)
		ready := 0
		for _, m := range s.Nodes {
			if m.Voter && m.HTTP != "" && m.RESP != "" {
				ready++
			}
		}
		return ready == n && len(s.Nodes) == n && s.Leader != 0
	})
}

// leader waits until all running nodes know the same one.
func (c *nodes) leader() (id int) {
	c.s.t.Helper()
	c.await("a leader", func() bool {
		id = 0
		for i, p := range c.proc {
			if p == nil || p.ended() {
				continue
			}
			l := c.seen(i).Leader
			if l == 0 || id != 0 && l != id || c.proc[l] == nil || c.proc[l].ended() {
				return false
			}
			id = l
		}
		return id != 0
	})
	return id
}

// set writes through one node until it says OK, and returns how long that took.
func (c *nodes) set(id int, key, val string) time.Duration {
	c.s.t.Helper()
	began := time.Now()
	c.await("a write", func() bool { return c.proc[id].ask("SET "+key+" "+val) == "+OK" })
	return time.Since(began)
}

// expectGet reads through every running node.
func (c *nodes) expectGet(key, val string) {
	c.s.t.Helper()
	for id, p := range c.proc {
		if p == nil || p.ended() {
			continue
		}
		got := ""
		c.await("an answer", func() bool { got = p.ask("GET " + key); return !strings.HasPrefix(got, "-CLUSTERDOWN") })
		if got != val {
			c.s.t.Errorf("node %d: %s is %q, want %q", id, key, got, val)
		}
	}
}

// other returns an id that is not the given one, of a running node.
func (c *nodes) other(id int) int {
	for i, p := range c.proc {
		if i != id && p != nil && !p.ended() {
			return i
		}
	}
	c.s.t.Fatal("no other node runs")
	return 0
}

func TestClusterOfThree(t *testing.T) {
	t.Parallel()
	c := newNodes(t, 3)
	for id := 1; id <= 3; id++ {
		c.set(id, fmt.Sprint("from", id), "here")
		c.expectGet(fmt.Sprint("from", id), "here")
	}
	if code, body := get(t, c.proc[2].HTTP+"/db/from1"); code != 200 || body != "here" {
		t.Errorf("HTTP: %d %q", code, body)
	}
	if out := c.s.run("skerry cluster status --data n2"); !strings.Contains(out, " leads; 3 of 3 voters connected") || strings.Count(out, "  voter  ") != 2 {
		t.Errorf("picture: %s", out)
	}
	out := c.s.run("skerry cluster status --table --data n2")
	if strings.Count(out, "follower") != 2 || strings.Count(out, "leader") != 1 || strings.Contains(out, "[") {
		t.Errorf("status: %s", out)
	}
	for id := 1; id <= 3; id++ {
		for _, want := range []string{c.addr[id], c.proc[id].httpAddr(), ":" + c.proc[id].respPort()} {
			if !strings.Contains(out, want) {
				t.Errorf("status does not have %s: %s", want, out)
			}
		}
	}
	to := c.other(c.leader())
	if out := c.s.run(fmt.Sprint("skerry cluster transfer --data n1 ", to)); out != fmt.Sprintf("node %d leads\n", to) {
		t.Errorf("transfer: %s", out)
	}
	var rep cluster.Report
	if err := json.Unmarshal([]byte(c.s.run("skerry cluster status --json --data n3")), &rep); err != nil || int(rep.Leader) != to || len(rep.Nodes) != 3 || rep.Nodes[0].Status == nil {
		t.Errorf("status --json: %+v, %v", rep, err)
	}
	if code, body := get(t, c.proc[1].HTTP+"/metrics"); code != 200 || !strings.Contains(body, "\nskerry_cluster_term ") {
		t.Errorf("metrics: %d", code)
	}
}

// TestNodeIsReplaced: a node leaves, its id is never used again, and a new node replaces it with all data.
func TestNodeIsReplaced(t *testing.T) {
	t.Parallel()
	c := newNodes(t, 3)
	c.set(1, "kept", "yes")
	if c.leader() != 3 { // the leader's leaving is the harder case
		if out := c.s.run("skerry cluster transfer --data n1 3"); out != "node 3 leads\n" {
			t.Errorf("transfer: %s", out)
		}
	}
	if out := c.s.run("skerry cluster leave --data n3"); !strings.HasPrefix(out, "node 3 has left cluster ") {
		t.Fatalf("leave: %s", out)
	}
	c.proc[3].exit()
	if out := c.proc[3].log(); !strings.Contains(out, "node 3 was removed from the cluster") {
		t.Errorf("the removed node says %s", out)
	}
	out := c.s.run("skerry serve --data n3 --http 127.0.0.1:0 --resp 127.0.0.1:0 2>&1 | tail -n 1")
	if !strings.Contains(out, "node 3 was removed from the cluster and cannot come back under its old id: invite a new node") {
		t.Errorf("it comes back: %s", out)
	}
	c.proc[2].kill()
	if out := c.s.run("skerry cluster remove --data n1 2 2>&1"); !strings.Contains(out, "skerry cluster status") {
		t.Errorf("without a majority: %s", out)
	}
	c.restart(2)
	c.leader()
	c.add() // node 4
	c.proc[3] = nil
	c.await("two nodes and a newcomer", func() bool {
		return len(c.seen(1).Nodes) == 3 || len(c.seen(1).Nodes) == 2 && c.seen(1).Nodes[1].ID == 4
	})
	c.expectGet("kept", "yes")
}

// TestClusterRestarts: all nodes lose their power at once.
func TestClusterRestarts(t *testing.T) {
	t.Parallel()
	c := newNodes(t, 3)
	for round := range 2 {
		key := fmt.Sprint("k", round)
		c.set(1, key, "v")
		for id := 1; id <= 3; id++ {
			c.proc[id].kill()
		}
		if out := c.s.run("skerry check --data n2 | tail -n 1"); !strings.HasPrefix(out, "sound: position ") {
			t.Errorf("check: %s", out)
		}
		for id := 1; id <= 3; id++ {
			c.restart(id)
		}
		c.leader()
		c.expectGet(key, "v")
		c.expectGet("k0", "v")
	}
}

// TestMajorityIsLost: the remaining node reports it, and recovers only after explicit consent.
func TestMajorityIsLost(t *testing.T) {
	t.Parallel()
	c := newNodes(t, 3)
	c.set(1, "kept", "yes")
	if out := c.s.run("skerry cluster recover --data n1 --yes-lose-writes"); !strings.Contains(out, "is in use by process") {
		t.Errorf("recover of a running node: %s", out)
	}
	keep := c.proc[c.leader()].Data
	for id := 1; id <= 3; id++ {
		if fmt.Sprint("n", id) != keep {
			c.proc[id].kill()
			if err := os.RemoveAll(filepath.Join(c.s.dir, fmt.Sprint("n", id))); err != nil {
				t.Fatal(err)
			}
			c.proc[id] = nil
		}
	}
	c.await("status to say that no node leads", func() bool {
		out := c.s.run("skerry cluster status --data " + keep)
		return strings.Contains(out, "no node leads: 1 of 3 nodes respond") && strings.HasSuffix(out, "[1]\n")
	})
	for id, p := range c.proc {
		if p != nil {
			if code, body := get(t, p.HTTP+"/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "not_leader") {
				t.Errorf("readyz without a majority: %d %s", code, body)
			}
			refusedInTime(t, p)
			p.kill()
			c.proc[id] = nil
		}
	}
	if out := c.s.run("echo no | skerry cluster recover --data " + keep); !strings.Contains(out, "nothing was changed") || !strings.Contains(out, "It keeps everything that this node has: position ") {
		t.Errorf("recover without consent: %s", out)
	}
	out := c.s.run("echo lose writes | skerry cluster recover --data " + keep + " --node " + c.addr[1])
	if !strings.Contains(out, keep+" is node 1, the only one, of the new cluster ") {
		t.Fatalf("recover: %s", out)
	}
	p := c.s.serve("--data", keep)
	p.waitReady()
	if got := p.ask("GET kept"); got != "yes" {
		t.Errorf("after recover: %q", got)
	}
	if got := p.ask("SET again 1"); got != "+OK" {
		t.Errorf("after recover: %q", got)
	}
	if code := p.stop(syscall.SIGTERM); code != verb.ExitOK {
		t.Errorf("exit code %d", code)
	}
}

// refusedInTime: without a leader a read waits as long for one as a write does, five
// seconds, and not once more for what the engine has waited already.
func refusedInTime(t *testing.T, p *server) {
	t.Helper()
	start := time.Now()
	var wg sync.WaitGroup
	wg.Go(func() {
		if got, err := askAt(net.JoinHostPort("127.0.0.1", p.respPort()), "GET kept"); err != nil || !strings.Contains(got, "[not_leader]") {
			t.Errorf("a read over the Redis protocol without a majority: %s %v", got, err)
		}
	})
	code, body := get(t, p.HTTP+"/db/kept")
	wg.Wait()
	if code != http.StatusServiceUnavailable || !strings.Contains(body, "not_leader") {
		t.Errorf("a read over HTTP without a majority: %d %s", code, body)
	}
	if took := time.Since(start); took > 9*time.Second {
		t.Errorf("reads without a majority were refused after %v", took)
	}
}

// TestBackupOfANode: a backup is data, of no cluster, whether it is taken from a
// running node or from the folder of one that is stopped.
func TestBackupOfANode(t *testing.T) {
	t.Parallel()
	c := newNodes(t, 2)
	c.set(2, "kept", "yes")
	if got := c.proc[2].ask("GET kept"); got != "yes" { // then node 2 has it: a backup is of what the node has
		t.Errorf("%q", got)
	}
	if out := c.s.run("skerry backup --from " + c.proc[2].HTTP + " --to running"); !strings.Contains(out, ": position 1 of ") {
		t.Errorf("backup: %s", out)
	}
	if out := c.s.run("skerry bench embedded:n1 --duration 1ms"); !strings.Contains(out, "only `skerry serve` can open it") {
		t.Errorf("bench of a node: %s", out)
	}
	for id := 1; id <= 2; id++ {
		if code := c.proc[id].stop(syscall.SIGTERM); code != verb.ExitOK {
			t.Errorf("exit code %d", code)
		}
	}
	if out := c.s.run("skerry backup --data n1 --to stopped"); !strings.Contains(out, ": position 1 of ") {
		t.Errorf("backup: %s", out)
	}
	for _, file := range []string{"running", "stopped"} {
		if out := c.s.run("skerry restore --from " + file + " --data from-" + file); !strings.Contains(out, "1 key") {
			t.Fatalf("restore: %s", out)
		}
		p := c.s.serve("--data", "from-"+file)
		p.waitReady()
		if got := p.ask("GET kept"); got != "yes" || p.Node != 0 {
			t.Errorf("%s: %q, node %d", file, got, p.Node)
		}
		p.stop(syscall.SIGTERM)
		if out := c.s.run("skerry cluster init --data from-" + file + " --node " + ports.Addr(t)); !strings.Contains(out, "with 1 key") {
			t.Errorf("init: %s", out)
		}
	}
	if out := c.s.run("skerry cluster init --data n1 --node " + c.addr[1]); !strings.Contains(out, "n1 is already node 1 of a cluster") {
		t.Errorf("init of a node: %s", out)
	}
}
