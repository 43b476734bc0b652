package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/cli/cluster"
)

// fullDiskWait is how long a response may take while disks are full.
const fullDiskWait = 8 * time.Second

// fullDisks is a cluster of three on small disks.
type fullDisks struct {
	*docsRun
	slowest time.Duration // answer
}

// TestFullDisksOfNodes: when the disks of all nodes, of the followers, or of the leader are full, every node
// responds to each write soon, and reads continue. Once there is room again, writes continue without a
// restart.
func TestFullDisksOfNodes(t *testing.T) {
	t.Parallel()
	need(t, "redis-cli")
	blocks := documented(t)
	f := &fullDisks{docsRun: &docsRun{machines: newMachines(t, newShell(t), 3), t: t}}
	if !f.apart {
		t.Skip("needs the right to make namespaces, to mount small disks")
	}
	f.follow(1, blocks[1])
	for n := 2; n <= 3; n++ {
		f.bring(n)
		f.follow(n, f.as(n, blocks[2]))
	}
	f.awaitVoters(1, 1, 2, 3)
	f.redis(1, "SET kept value")
	for _, what := range []string{"all", "followers", "leader"} {
		leader := f.leader()
		var full []int
		for n := 1; n <= 3; n++ {
			if what == "all" || (n == leader) == (what == "leader") {
				full = append(full, n)
				f.list[n].run("dd if=/dev/zero of=/var/lib/fill bs=64k 2>/dev/null || true")
			}
		}
		if what == "leader" {
			f.fill("another node to lead", func(string) bool { return f.leader() != leader })
		} else {
			f.fill("disk_full", func(answer string) bool { return strings.Contains(answer, "disk") && strings.Contains(answer, "full") })
			for n := 1; n <= 3; n++ {
				if got := f.redis(n, "SET other value"); !strings.Contains(got, "full") {
					t.Errorf("%s: machine %d answers a write with %q", what, n, got)
				}
			}
		}
		for n := 1; n <= 3; n++ {
			if what == "leader" && n == leader {
				continue // it cannot keep up: docs/cluster.md says so
			}
			if got := f.redis(n, "GET kept"); got != "\"value\"\n" {
				t.Errorf("%s: machine %d answers a read with %q", what, n, got)
			}
		}
		for _, n := range full {
			f.list[n].run("rm /var/lib/fill")
		}
		for n := 1; n <= 3; n++ {
			f.await(fmt.Sprintf("%s: writes through machine %d", what, n), func() bool { return f.redis(n, "SET again value") == "OK\n" })
		}
	}
	if t.Failed() {
		for n, m := range f.list[1:] {
			t.Logf("machine %d:\n%s", n+1, m.log())
		}
	}
	t.Logf("the slowest answer took %v", f.slowest.Round(time.Millisecond))
}

// redis sends a command to a machine's server and returns the reply, which must come soon.
func (f *fullDisks) redis(n int, command string) string {
	f.t.Helper()
	began := time.Now()
	out, err := f.list[n].command(fmt.Sprintf("timeout %.0f redis-cli -p 6380 --no-auth-warning -a 'a password of the test' %s 2>&1", 3*fullDiskWait.Seconds(), command)).CombinedOutput()
	took := time.Since(began)
	if f.slowest = max(f.slowest, took); took > fullDiskWait {
		f.t.Fatalf("machine %d: %s took %v: %s, %v\n%s", n, command, took, out, err, f.list[n].log())
	}
	return string(out)
}

// fill writes through the machines by turns until ok accepts the last reply: the nodes' reserves must be used
// up first.
func (f *fullDisks) fill(what string, ok func(answer string) bool) {
	f.t.Helper()
	f.list[1].run("head -c 400000 /dev/zero | tr '\\0' x > value; cp value ../machine2; cp value ../machine3")
	answers := map[string]int{}
	for i := range 300 {
		answer := f.redis(i%3+1, "-x SET big < value")
		answers[answer]++
		if ok(answer) {
			f.t.Logf("%s after %v", what, answers)
			return
		}
	}
	f.t.Fatalf("waited in vain for %s: %v", what, answers)
}

// leader waits for a node to lead and returns its number.
func (f *fullDisks) leader() (n int) {
	f.t.Helper()
	f.await("a leader", func() bool {
		var rep cluster.Report
		out, err := f.list[1].command("skerry cluster status --json --data /var/lib/skerry").Output()
		if err == nil && json.Unmarshal(out, &rep) == nil {
			n = int(rep.Leader)
		}
		return n != 0
	})
	return n
}
