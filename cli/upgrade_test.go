package cli

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/skerrydb/skerry/cli/verb"
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

// upgrading is a cluster in which two versions of a program run.
type upgrading struct {
	*nodes
	leads           int  // the node that is to lead
	greeted, parted int  // what answers have told
	unsure          bool // a call may have run that nobody was told of
}

// lead makes a node the leader, and all nodes know that.
func (u *upgrading) lead(id int) {
	u.s.t.Helper()
	u.leads = id
	u.await(fmt.Sprintf("node %d to lead", id), func() bool {
		if u.leader() == id {
			return true
		}
		u.s.run(fmt.Sprint("skerry cluster transfer --data n1 ", id))
		return u.leader() == id
	})
}

// expect calls a procedure through a node and checks the reply. On a busy machine another node may become the
// leader; then expect repeats the call.
func (u *upgrading) expect(what string, call func() (string, error), want ...string) {
	u.s.t.Helper()
	got, heard := "", false
	u.await("an answer: "+what, func() bool {
		var err error
		got, err = call()
		switch {
		case err != nil || strings.Contains(got, "outcome_unknown"):
			u.unsure = true
		case !strings.Contains(got, "not_leader") && !strings.HasPrefix(got, "-CLUSTERDOWN"):
			u.tally(got)
			heard = u.leader() == u.leads
		}
		if !heard {
			u.lead(u.leads)
		}
		return heard
	})
	for _, w := range want {
		if !strings.Contains(got, w) {
			u.s.t.Errorf("%s: %s\nwhich does not have %q", what, got, w)
		}
	}
}

// tally adds what a reply reports as done; the programs in testdata report it.
func (u *upgrading) tally(answer string) {
	switch {
	case strings.Contains(answer, "hello, "):
		u.greeted++
	case strings.Contains(answer, "good day, "):
		u.greeted += 100
	case strings.Contains(answer, "farewell, "):
		u.parted++
	}
}

// post is a call of a procedure over HTTP.
func (u *upgrading) post(id int, name, args string) func() (string, error) {
	return func() (string, error) {
		resp, err := http.Post(u.proc[id].HTTP+"/api/call/"+name, "application/json", strings.NewReader(args))
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		return string(text), err
	}
}

// command is one over RESP.
func (u *upgrading) command(id int, line string) func() (string, error) {
	return func() (string, error) { return askAt(net.JoinHostPort("127.0.0.1", u.proc[id].respPort()), line) }
}

// upgrade restarts a node with another program.
func (u *upgrading) upgrade(id int, program string) {
	u.s.t.Helper()
	if code := u.proc[id].stop(syscall.SIGTERM); code != verb.ExitOK {
		u.s.t.Fatalf("node %d ended with %d\n%s", id, code, u.proc[id].log())
	}
	u.s.program = program
	u.restart(id)
	u.proc[id].waitReady()
}

// otherVersion is a reply's part about another version of the program.
func otherVersion(leader int) string {
	return fmt.Sprintf("(node %d leads and runs another version of the program)", leader)
}

// TestTwoProgramsInOneCluster upgrades a cluster node by node to a program with
// other procedures. Whichever node is asked, the leader's program decides, and a
// call that it does not have is refused with the reason.
func TestTwoProgramsInOneCluster(t *testing.T) { // not beside tests of time: it builds
	if testing.Short() {
		t.Skip("builds two programs")
	}
	before, after := buildProgram(t, "testdata/upgrade/before"), buildProgram(t, "testdata/upgrade/after")
	u := &upgrading{nodes: newNodesOf(t, 3, before)}
	u.lead(1)
	const oldArgs, newArgs = `{"name":"anna"}`, `{"first":"anna","last":"berg"}`
	u.expect("before", u.post(2, "greet", oldArgs), `"hello, anna"`)

	u.upgrade(3, after)
	u.lead(1)
	u.expect("a new follower hands on", u.post(3, "greet", oldArgs), `"hello, anna"`)
	u.expect("the same by name alone", u.command(3, "CALL greet anna"), "hello, anna")
	u.expect("arguments that only the new one takes", u.post(3, "greet", newArgs), `"code":"invalid"`, otherVersion(1))
	u.expect("the same over RESP", u.command(3, "CALL greet anna berg"), "-ERR ", otherVersion(1), "[invalid]")
	u.expect("a procedure that only the new one has", u.post(3, "part", oldArgs), `"code":"unknown_procedure"`, otherVersion(1))
	u.expect("the same over RESP", u.command(3, "CALL part anna"), "-ERR ", otherVersion(1), "[unknown_procedure]")
	u.expect("the leader's own clients", u.post(1, "part", oldArgs), `"code":"unknown_procedure"`)

	u.lead(3)
	u.expect("an old follower hands on", u.post(2, "greet", newArgs), `"good day, anna berg"`)
	u.expect("the same over RESP", u.command(1, "CALL greet anna berg"), "good day, anna berg")
	u.expect("what the follower does not have", u.post(1, "part", oldArgs), `"farewell, anna"`)
	u.expect("the same over RESP", u.command(2, "CALL part anna"), "farewell, anna")
	u.expect("arguments of before", u.post(2, "greet", oldArgs), `"code":"invalid"`, otherVersion(3))
	u.expect("a name that nobody has", u.post(2, "parr", oldArgs), `"code":"unknown_procedure"`)

	u.upgrade(2, after)
	u.upgrade(1, after)
	u.lead(2)
	u.expect("after", u.post(1, "greet", newArgs), `"good day, anna berg"`)
	u.expectSame()
}

// expectSame verifies that the nodes have what replies have reported, stops them all, and verifies that their
// folders are valid and have the same data.
func (u *upgrading) expectSame() {
	u.s.t.Helper()
	if !u.unsure {
		u.expectGet("greeted", fmt.Sprint(u.greeted))
		u.expectGet("parted", fmt.Sprint(u.parted))
	}
	list := func(id int) string {
		_, body := get(u.s.t, u.proc[id].HTTP+"/db/?values=1&read=local")
		return body
	}
	u.await("all nodes to have the same data", func() bool { return list(1) == list(2) && list(1) == list(3) })
	for id := 1; id < len(u.proc); id++ {
		u.proc[id].stop(syscall.SIGTERM)
	}
	first := ""
	for id := 1; id < len(u.proc); id++ {
		out := u.s.run(fmt.Sprintf("skerry check --data n%d", id))
		_, sound, ok := strings.Cut(out, "\nsound: ")
		_, data, _ := strings.Cut(sound, ", ") // without the position: what stops last may have more of the log
		data, _, _ = strings.Cut(data, " bytes of keys and values")
		if first == "" {
			first = data
		}
		if !ok || data == "" || data != first {
			u.s.t.Errorf("check of node %d, want %q:\n%s", id, first, out)
		}
	}
}
