package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/ports"
)

// addReplica invites one more node as a replica and starts it.
func (c *nodes) addReplica(args ...string) (id int) {
	c.s.t.Helper()
	id = len(c.proc)
	if out := c.s.run(fmt.Sprintf("skerry cluster invite --replica --data n1 > n%d.invite", id)); out != "" {
		c.s.t.Fatalf("invite: %s", out)
	}
	c.addr = append(c.addr, ports.Addr(c.s.t))
	c.proc = append(c.proc, c.s.serve(slices.Concat([]string{"--data", fmt.Sprint("n", id), "--invite", fmt.Sprintf("n%d.invite", id),
		"--node", c.addr[id], "--join", c.addr[1]}, args)...))
	return id
}

// http sends a request to one node. at is the position to send, or "". It returns the
// status, the body, and the position of the response.
func (c *nodes) http(id int, method, path, body, at string) (code int, text, position string) {
	c.s.t.Helper()
	r, err := http.NewRequestWithContext(c.s.t.Context(), method, c.proc[id].HTTP+path, strings.NewReader(body))
	if err != nil {
		c.s.t.Fatal(err)
	}
	if at != "" {
		r.Header.Set("X-Skerry-Position", at)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err.Error(), ""
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error(), ""
	}
	return resp.StatusCode, string(b), resp.Header.Get("X-Skerry-Position")
}

// writeAndRead writes through a node, and reads its own write there at the level session.
func (c *nodes) writeAndRead(id int, key, val string) {
	c.s.t.Helper()
	at := ""
	c.await("a write through a replica", func() (ok bool) {
		code, _, pos := c.http(id, http.MethodPut, "/db/"+key, val, "")
		at = pos
		return code == http.StatusOK || code == http.StatusCreated || code == http.StatusNoContent
	})
	c.await("a session read on it", func() bool { // for as long as it takes to see the leader again
		code, got, _ := c.http(id, http.MethodGet, "/db/"+key+"?read=session", "", at)
		if code == http.StatusOK && got != val || code == http.StatusNotFound {
			c.s.t.Fatalf("node %d does not see its own write of %s: %d %q", id, key, code, got)
		}
		return code == http.StatusOK
	})
}

// expectReplica checks what node 1 or, if that has ended, another one says of a replica.
func (c *nodes) expectReplica(id int) {
	c.s.t.Helper()
	from := c.other(id)
	code, body, _ := c.http(from, http.MethodGet, "/cluster", "", "")
	var s struct {
		Leader int
		Nodes  []struct {
			ID             int
			Site           string
			Voter, Replica bool
		}
	}
	if err := json.Unmarshal([]byte(body), &s); err != nil || code != http.StatusOK || s.Leader == id {
		c.s.t.Fatalf("node %d says %d %s, %v", from, code, body, err)
	}
	for _, n := range s.Nodes {
		if replica := n.ID == id; n.Replica != replica || n.Voter == replica || n.Site == "far" != replica {
			c.s.t.Errorf("node %d of %s", n.ID, body)
		}
	}
}

// TestReplicaProcess: a replica passes writes on and serves its own session; it counts in
// no majority and is never the leader, whichever nodes fail.
func TestReplicaProcess(t *testing.T) {
	t.Parallel()
	c := newNodes(t, 3)
	id := c.addReplica("--site", "far")
	c.await("the replica", func() bool { return len(c.seen(1).Nodes) == 4 })
	c.writeAndRead(id, "all", "1")
	c.expectReplica(id)

	led := c.leader()
	c.proc[led].kill() // the next leader is one of two voters
	c.writeAndRead(id, "without-the-leader", "2")
	c.expectReplica(id)

	// If the replica had a vote, two of four would run now, which is no majority.
	c.proc[id].kill()
	c.set(c.other(id), "without-both", "3")
	c.restart(id)
	c.await("a session read", func() bool {
		code, got, _ := c.http(id, http.MethodGet, "/db/without-both?read=session", "", "")
		return code == http.StatusOK && got == "3"
	})
	c.expectReplica(id)

	// One voter of three: what is committed can be read on the replica, but nothing be written.
	c.proc[c.leader()].kill()
	if code, body, _ := c.http(id, http.MethodPut, "/db/alone", "4", ""); code != http.StatusServiceUnavailable || !strings.Contains(body, "not_leader") {
		t.Errorf("a write without a majority: %d %s", code, body)
	}
	if code, got, _ := c.http(id, http.MethodGet, "/db/all?read=local&max_stale=1h", "", ""); code != http.StatusOK || got != "1" {
		t.Errorf("a local read without a majority: %d %q", code, got)
	}
	c.restart(led)
	c.writeAndRead(id, "again", "5")
	c.expectReplica(id)
}

// TestCatchUpRateProcess: a new node is brought up to date no faster than it allows, and
// writes go on meanwhile.
func TestCatchUpRateProcess(t *testing.T) {
	t.Parallel()
	const (
		size = 32 << 10
		rate = 2 << 20 // bytes per second
		old  = 300     // entries that follow the rate; the newest 256 may not
	)
	c := newNodes(t, 1)
	val := strings.Repeat("v", size)
	for i := range old + 256 {
		if code, body, _ := c.http(1, http.MethodPut, fmt.Sprint("/db/k", i), val, ""); code >= 300 {
			t.Fatalf("%d %s", code, body)
		}
	}
	ws, end := c.load(0)
	began := time.Now()
	id := c.addReplica("--catch-up-rate", fmt.Sprint(rate))
	acked := ws[0].node.ask("GET " + ws[0].key)
	c.await("the replica to have all data", func() bool {
		code, _, _ := c.http(id, http.MethodGet, fmt.Sprintf("/db/k%d?read=local&max_stale=1h", old+255), "", "")
		return code == http.StatusOK
	})
	took, least := time.Since(began), time.Duration(float64(old*size)/rate/2*float64(time.Second))
	if took < least {
		t.Errorf("the replica was up to date after %v; the rate allows it after %v at the earliest", took, 2*least)
	}
	if now := c.proc[1].ask("GET " + ws[0].key); now == acked {
		t.Errorf("no write was acknowledged in %v", took)
	}
	end()
	t.Logf("%d MiB after %v", (old+256)*size>>20, took.Round(time.Millisecond))
	c.await("the last writes", func() bool { return c.proc[id].ask("GET "+ws[0].key) == fmt.Sprint(ws[0].acked) })
	c.expectAcked(ws)
}
