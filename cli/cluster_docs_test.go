package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/cli/cluster"
)

// codeBlock matches a block of code with its language.
var codeBlock = regexp.MustCompile("(?sm)^```(\\w*)\n(.*?)^```$")

// documented returns the commands of each code block of docs/cluster.md that names no
// language, without their comments.
func documented(t *testing.T) (blocks [][]string) {
	t.Helper()
	text, err := os.ReadFile("../docs/cluster.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range codeBlock.FindAllStringSubmatch(string(text), -1) {
		if block[1] != "" {
			continue
		}
		var lines []string
		for line := range strings.Lines(strings.ReplaceAll(block[2], "\\\n", " ")) {
			line, _, _ = strings.Cut(line, " #")
			lines = append(lines, strings.TrimSpace(line))
		}
		blocks = append(blocks, lines)
	}
	return blocks
}

// TestClusterDocs runs the commands of docs/cluster.md as they stand there, each on
// the machine that the text says: three nodes are made, a dead one is replaced, and
// the last one recovers the data when the others are lost.
func TestClusterDocs(t *testing.T) {
	t.Parallel()
	blocks := documented(t)
	const dev, first, other, status, replace, recovery = 0, 1, 2, 3, 4, 5 // which block is which
	if len(blocks) != recovery+1 || blocks[dev][0] != "skerry dev --nodes 3" || !strings.HasPrefix(blocks[status][0], "$ skerry cluster status") {
		t.Fatalf("docs/cluster.md has other code blocks than this test knows: %q", blocks)
	}
	s := newShell(t)
	d := &docsRun{machines: newMachines(t, s, 4), t: t}
	d.follow(1, blocks[first])
	for n := 2; n <= 3; n++ {
		d.bring(n)
		d.follow(n, d.as(n, blocks[other]))
	}
	d.awaitVoters(1, 1, 2, 3)
	const again = "skerry serve --data /var/lib/skerry --http 0.0.0.0:7001 --resp 0.0.0.0:6380 --password-file /etc/skerry/password"
	if d.apart {
		m := d.list[3]
		m.run("skerry backup --from http://db1.example.com:7001 --to all.backup --password-file /etc/skerry/password")
		m.kill()
		m.serve(again) // the folder remembers
		d.awaitVoters(3, 1, 2, 3)
	}
	d.list[3].kill()
	d.follow(1, blocks[replace])
	d.bring(4)
	d.follow(4, d.as(4, blocks[other]))
	d.awaitVoters(1, 1, 2, 4)
	for _, m := range d.list[1:] {
		m.kill()
	}
	if out := d.list[1].run("skerry check --data /var/lib/skerry"); !strings.Contains(out, "\nsound: ") {
		t.Errorf("check: %s", out)
	}
	for _, line := range blocks[recovery] {
		line = strings.ReplaceAll(line, "DIR", "/var/lib/skerry")
		if strings.HasPrefix(line, "skerry cluster recover ") {
			line = "echo lose writes | " + line
		}
		d.list[1].run(line)
	}
	d.list[1].serve(again)
	d.awaitVoters(1, 1)
}

// docsRun is one run of the commands.
type docsRun struct {
	*machines
	t *testing.T
}

// as returns the commands of the second machine as the ones of another.
func (d *docsRun) as(n int, lines []string) (out []string) {
	for _, line := range lines {
		line = strings.ReplaceAll(line, "db2.invite", fmt.Sprintf("db%d.invite", n))
		out = append(out, strings.ReplaceAll(line, "db2.example.com", fmt.Sprintf("db%d.example.com", n)))
	}
	return out
}

// follow runs commands on a machine, each when the one before is done.
func (d *docsRun) follow(n int, lines []string) {
	d.t.Helper()
	m := d.list[n]
	for _, line := range lines {
		if !strings.HasPrefix(line, "skerry serve ") {
			m.run(line)
			continue
		}
		m.serve(line)
		d.await(fmt.Sprintf("machine %d to serve", n), func() bool {
			return strings.Contains(m.log(), "listening") || strings.Contains(m.log(), "http://")
		})
	}
}

// bring brings an invitation from the first machine to the one that it is for.
func (d *docsRun) bring(n int) {
	d.t.Helper()
	name := fmt.Sprintf("db%d.invite", n)
	if err := os.Rename(filepath.Join(d.list[1].dir, name), filepath.Join(d.list[n].dir, name)); err != nil {
		d.t.Fatal(err)
	}
}

// await waits until ok returns true. No server may end meanwhile.
func (d *docsRun) await(what string, ok func() bool) {
	d.t.Helper()
	good := eventually.Within(clusterWait, func() bool {
		for i, m := range d.list {
			if i == 0 || m.server == nil {
				continue
			}
			select {
			case <-m.ended:
				d.t.Fatalf("the server of machine %d has ended:\n%s", i, m.log())
			default:
			}
		}
		return ok()
	})
	if good {
		return
	}
	for i, m := range d.list[1:] {
		d.t.Logf("machine %d:\n%s", i+1, m.log())
	}
	d.t.Fatalf("waited in vain for %s", what)
}

// awaitVoters waits until the status that a machine shows has exactly the nodes of
// these machines, each with a vote and reachable for clients.
func (d *docsRun) awaitVoters(at int, want ...int) {
	d.t.Helper()
	d.await(fmt.Sprintf("machine %d to show the nodes %v", at, want), func() bool {
		var rep cluster.Report
		out, err := d.list[at].command("skerry cluster status --json --data /var/lib/skerry").Output()
		if err != nil || json.Unmarshal(out, &rep) != nil || len(rep.Nodes) != len(want) {
			return false
		}
		for i, n := range rep.Nodes {
			if n.Status == nil || int(n.ID) != want[i] {
				return false
			}
			seen := rep.Seen(n, n.Status)
			if !seen.Voter || !d.host(want[i], seen.HTTP) || !d.host(want[i], seen.RESP) {
				return false
			}
		}
		return rep.Leader != 0
	})
}
