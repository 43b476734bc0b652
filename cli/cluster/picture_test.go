package cluster

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
)

var rewrite = flag.Bool("rewrite", false, "write the pictures into testdata/pictures.txt")

const refusedText = "peer: connect: dial tcp 10.0.0.3:7100: connect: connection refused"

// members returns nodes 1 to n with a vote, all healthy.
func members(n int) (nodes []embedded.NodeStatus) {
	for i := range n {
		id := uint64(i + 1)
		nodes = append(nodes, embedded.NodeStatus{
			ID: id, Addr: fmt.Sprintf("db%d.example.com:7100", id), Voter: true, Connected: true,
			State: "StateReplicate", RTT: time.Duration(id) * 155 * time.Microsecond,
		})
	}
	return nodes
}

// report returns what status collects if leader leads these nodes, or none if it is 0, and all of them respond.
func report(leader uint64, home string, nodes []embedded.NodeStatus) *Report {
	rep := &Report{Cluster: "9f86d081884c7d659a2feaa0c55ad015", Leader: leader, Term: 4}
	for _, n := range nodes {
		s := &embedded.ClusterStatus{
			Node: n.ID, Role: embedded.RoleFollower, Leader: leader, Term: 4, Position: engine.Position(81234),
			Version: "v0.2.0", LeaderSite: home, Nodes: nodes,
		}
		switch leader {
		case 0:
			s.Role = embedded.RoleNone
		case n.ID:
			s.Role = embedded.RoleLeader
		}
		rep.Nodes = append(rep.Nodes, embedded.NodeAnswer{ID: n.ID, Addr: n.Addr, Status: s})
	}
	return rep
}

// silence makes a node neither respond nor be connected to the leader.
func (rep *Report) silence(id uint64) {
	for i := range rep.Nodes {
		if n := &rep.Nodes[i]; n.ID == id {
			n.Status, n.Error = nil, refusedText
		} else if n.Status != nil {
			seen := &n.Status.Nodes[id-1]
			seen.Connected, seen.Error, seen.Behind = false, refusedText, 5120
		}
	}
}

// sites returns five voters and four replicas at three sites.
func sites() []embedded.NodeStatus {
	nodes := members(9)
	for i, site := range strings.Fields("paris paris frankfurt frankfurt oslo oslo oslo paris frankfurt") {
		nodes[i].Site = site
		if site != "frankfurt" {
			nodes[i].RTT += 11 * time.Millisecond
		}
		if i >= 5 {
			nodes[i].Voter, nodes[i].Replica = false, true
		}
	}
	return nodes
}

func oneDown() *Report {
	rep := report(1, "", members(3))
	rep.silence(3)
	return rep
}

func leaderless() *Report {
	nodes := members(3)
	nodes[2].Site = "oslo"
	rep := report(0, "paris", nodes)
	rep.silence(2)
	rep.silence(3)
	return rep
}

func behindSites() *Report {
	nodes := members(4)
	for i, site := range []string{"paris", "paris", "paris", "tokyo"} {
		nodes[i].Site = site
	}
	r := &nodes[3]
	r.Voter, r.Replica, r.State, r.Behind, r.RTT = false, true, "StateSnapshot", 81234, 231400*time.Microsecond
	r.CatchUp = &embedded.CatchUp{Snapshot: true, Done: 500 << 20, Total: 1200 << 20, Rate: 12 << 20, Limit: 50 << 20}
	return report(1, "paris", nodes)
}

// troubled has nearly everything at once that can be wrong.
func troubled() *Report {
	nodes := members(5)
	nodes[1].Skew = -3250 * time.Millisecond
	nodes[2].DiskFull, nodes[2].Behind = true, 300
	nodes[3].Voter, nodes[3].Behind, nodes[3].Site = false, 9000, "oslo"
	nodes[3].CatchUp = &embedded.CatchUp{Done: 1000, Total: 10000, Rate: 900 << 10}
	nodes[4].Connected, nodes[4].Error, nodes[4].Skew = false, "peer: node 5 refused the connection: the certificate expired on November 2 and has to be replaced", time.Hour
	rep := report(1, "", nodes)
	rep.Nodes[1].Status.Version = "v0.3.0"
	rep.Nodes[4].Status.Role = embedded.RoleNone
	gone := embedded.NodeAnswer{ID: 16, Addr: "old.example.com:7100", Error: "no response in time"}
	rep.Nodes = append(rep.Nodes, gone)
	return rep
}

func TestPicture(t *testing.T) {
	var all strings.Builder
	for _, c := range []struct {
		name string
		rep  *Report
	}{
		{"three nodes without sites", report(1, "", members(3))},
		{"three sites", report(3, "frankfurt", sites())},
		{"one node is down", oneDown()},
		{"no leader", leaderless()},
		{"a replica catches up", behindSites()},
		{"troubles", troubled()},
		{"nothing is known", &Report{Cluster: "9f86d081884c7d659a2feaa0c55ad015"}},
	} {
		ascii, lines := c.rep.picture(asciiStrokes), c.rep.picture(lineStrokes)
		if i := strings.IndexFunc(ascii, func(r rune) bool { return r >= utf8.RuneSelf }); i >= 0 {
			t.Errorf("%s: not ASCII: %q", c.name, ascii[i:])
		}
		if back := strings.NewReplacer("├─ ", "+- ", "└─ ", "`- ", "│", "|").Replace(lines); back != ascii {
			t.Errorf("%s: the lines say something else:\n%s", c.name, lines)
		}
		for line := range strings.Lines(ascii) {
			if len(line) > pictureWidth+1 {
				t.Errorf("%s: a line has %d columns: %s", c.name, len(line)-1, line)
			}
			if strings.TrimRight(line, " \n") != strings.TrimSuffix(line, "\n") {
				t.Errorf("%s: a line ends in blanks: %q", c.name, line)
			}
		}
		fmt.Fprintf(&all, "-- %s --\n%s\n", c.name, lines)
	}
	const file = "testdata/pictures.txt"
	if *rewrite {
		if err := os.WriteFile(file, []byte(all.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || string(want) != all.String() {
		t.Errorf("%s, which -rewrite replaces: %v\n%s", file, err, all.String())
	}
}

// TestPictureInDocs: the documentation shows a picture that the verb draws.
func TestPictureInDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/cluster.md")
	if err != nil {
		t.Fatal(err)
	}
	rep := report(3, "frankfurt", sites())
	rep.silence(1)
	if want := "$ skerry cluster status --data /var/lib/skerry\n" + rep.picture(lineStrokes) + "```\n"; !strings.Contains(string(text), want) {
		t.Errorf("docs/cluster.md does not have\n%s", want)
	}
}
