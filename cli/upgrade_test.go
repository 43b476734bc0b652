package cli

import (
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// buildProgram builds one of the programs in testdata and returns its file.
func buildProgram(t *testing.T, dir string) string {
	t.Helper()
	need(t, "go")
	file := filepath.Join(t.TempDir(), filepath.Base(dir))
	if out, err := exec.Command("go", "build", "-o", file, "./"+dir).CombinedOutput(); err != nil {
		t.Fatalf("go build %s: %v\n%s", dir, err, out)
	}
	return file
}

// post calls a procedure by JSON through a node, and returns what the answer's
// body says; it tries again while no node leads.
func (c *nodes) post(id int, name, args string) (body string) {
	c.s.t.Helper()
	c.await("an answer to "+name, func() bool {
		resp, err := http.Post(c.proc[id].HTTP+"/api/call/"+name, "application/json", strings.NewReader(args))
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		body = strings.TrimSpace(string(text))
		return err == nil && resp.StatusCode != http.StatusServiceUnavailable
	})
	return body
}

// expectHas compares one answer with all that it must have.
func (c *nodes) expectHas(what, got string, want ...string) {
	c.s.t.Helper()
	for _, w := range want {
		if !strings.Contains(got, w) {
			c.s.t.Errorf("%s: %s\nwhich does not have %q", what, got, w)
		}
	}
}

// lead makes a node the leader.
func (c *nodes) lead(id int) {
	c.s.t.Helper()
	c.await(fmt.Sprintf("node %d to lead", id), func() bool {
		return c.leader() == id || c.s.run(fmt.Sprint("skerry cluster transfer --data n1 ", id)) == fmt.Sprintf("node %d leads\n", id)
	})
}

// upgrade restarts a node with another program.
func (c *nodes) upgrade(id int, program string) {
	c.s.t.Helper()
	if code := c.proc[id].stop(syscall.SIGTERM); code != exitOK {
		c.s.t.Fatalf("node %d ended with %d\n%s", id, code, c.proc[id].log())
	}
	c.s.program = program
	c.restart(id)
	c.proc[id].waitReady()
}

// otherVersion is what an answer says that another version of the program gave.
func otherVersion(leader int) string {
	return fmt.Sprintf("(node %d leads and runs another version of the program)", leader)
}

// TestTwoProgramsInOneCluster upgrades a cluster node by node to a program with
// other procedures. Whichever node is asked, the leader's program decides, and a
// call that it does not have is refused with the reason.
func TestTwoProgramsInOneCluster(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds two programs")
	}
	before, after := buildProgram(t, "testdata/upgrade/before"), buildProgram(t, "testdata/upgrade/after")
	c := newNodesOf(t, 3, before)
	c.lead(1)
	const oldArgs, newArgs = `{"name":"anna"}`, `{"first":"anna","last":"berg"}`
	c.expectHas("before", c.post(2, "greet", oldArgs), `"hello, anna"`)
	greeted, parted := 1, 0

	c.upgrade(3, after)
	c.lead(1)
	c.expectHas("a new follower hands on", c.post(3, "greet", oldArgs), `"hello, anna"`)
	c.expectHas("the same by name alone", c.proc[3].ask("CALL greet anna"), "hello, anna")
	greeted += 2
	c.expectHas("arguments that only the new one takes", c.post(3, "greet", newArgs), `"code":"invalid"`, otherVersion(1))
	c.expectHas("the same over RESP", c.proc[3].ask("CALL greet anna berg"), "-ERR ", otherVersion(1), "[invalid]")
	c.expectHas("a procedure that only the new one has", c.post(3, "part", oldArgs), `"code":"unknown_procedure"`, otherVersion(1))
	c.expectHas("the same over RESP", c.proc[3].ask("CALL part anna"), "-ERR ", otherVersion(1), "[unknown_procedure]")
	c.expectHas("the leader's own clients", c.post(1, "part", oldArgs), `"code":"unknown_procedure"`)

	c.lead(3)
	c.expectHas("an old follower hands on", c.post(2, "greet", newArgs), `"good day, anna berg"`)
	c.expectHas("the same over RESP", c.proc[1].ask("CALL greet anna berg"), "good day, anna berg")
	c.expectHas("what the follower does not have", c.post(1, "part", oldArgs), `"farewell, anna"`)
	c.expectHas("the same over RESP", c.proc[2].ask("CALL part anna"), "farewell, anna")
	greeted, parted = greeted+200, parted+2
	c.expectHas("arguments of before", c.post(2, "greet", oldArgs), `"code":"invalid"`, otherVersion(3))
	c.expectHas("a name that nobody has", c.post(2, "parr", oldArgs), `"code":"unknown_procedure"`)

	c.upgrade(2, after)
	c.upgrade(1, after)
	c.expectHas("after", c.post(1, "greet", newArgs), `"good day, anna berg"`)
	greeted += 100
	c.expectGet("greeted", fmt.Sprint(greeted))
	c.expectGet("parted", fmt.Sprint(parted))
	c.expectSame()
}

// expectSame stops all nodes and verifies that their folders are sound and have
// the same data.
func (c *nodes) expectSame() {
	c.s.t.Helper()
	list := func(id int) string {
		_, body := get(c.s.t, c.proc[id].HTTP+"/db/?values=1&read=local")
		return body
	}
	c.await("all nodes to have the same data", func() bool { return list(1) == list(2) && list(1) == list(3) })
	for id := 1; id < len(c.proc); id++ {
		c.proc[id].stop(syscall.SIGTERM)
	}
	first := ""
	for id := 1; id < len(c.proc); id++ {
		out := c.s.run(fmt.Sprintf("skerry check --data n%d", id))
		_, sound, ok := strings.Cut(out, "\nsound: ")
		_, data, _ := strings.Cut(sound, ", ") // without the position: what stops last may have more of the log
		data, _, _ = strings.Cut(data, " bytes of keys and values")
		if first == "" {
			first = data
		}
		if !ok || data == "" || data != first {
			c.s.t.Errorf("check of node %d, want %q:\n%s", id, first, out)
		}
	}
}
