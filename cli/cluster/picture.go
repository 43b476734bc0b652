package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
)

// pictureWidth is the number of columns of a picture. Only addresses and words that do not fit are wider.
const pictureWidth = 80

// strokes draw the branches of a picture.
type strokes struct{ branch, last, stem, blank string }

var (
	asciiStrokes = strokes{"+- ", "`- ", "|  ", "   "}
	lineStrokes  = strokes{"├─ ", "└─ ", "│  ", "   "}
)

// drawn is a node as the picture shows it.
type drawn struct {
	site, addr            string
	id, role, behind, rtt string
	notes                 []string // what is wrong or going on
}

// picture draws the nodes below their sites. It depends on nothing but the report.
func (rep *Report) picture(s strokes) string {
	leader := rep.leader()
	var nodes []drawn
	for _, n := range rep.Nodes {
		nodes = append(nodes, rep.draw(n, leader))
	}
	slices.SortStableFunc(nodes, func(x, y drawn) int {
		return cmp.Or(cmp.Compare(sortLast(x.site), sortLast(y.site)), cmp.Compare(x.site, y.site))
	})
	home := rep.home(leader)
	var out strings.Builder
	out.WriteString(rep.heading(leader))
	if len(nodes) == 0 {
		return out.String()
	}
	if home != "" && !slices.ContainsFunc(nodes, func(n drawn) bool { return n.site == home }) {
		fmt.Fprintf(&out, "the leader should be at %s, where there is no node\n", home)
	}
	head := drawn{id: "NODE", role: "ROLE", behind: "BEHIND", rtt: "RTT", addr: "ADDRESS"}
	row := rower(append(nodes, head))
	out.WriteString("\n" + s.blank + row(head) + "\n")
	sites := nodes[len(nodes)-1].site+nodes[0].site != ""
	for i, n := range nodes {
		if sites && (i == 0 || nodes[i-1].site != n.site) {
			out.WriteString(siteLine(n.site, home) + "\n")
		}
		first, below := s.branch, s.stem
		if i == len(nodes)-1 || nodes[i+1].site != n.site {
			first, below = s.last, s.blank
		}
		out.WriteString(first + row(n) + "\n")
		for _, note := range n.notes {
			indent := below + strings.Repeat(" ", len(head.id)+2)
			for _, line := range wrap(note, pictureWidth-utf8.RuneCountInString(indent)) {
				out.WriteString(indent + line + "\n")
			}
		}
	}
	return out.String()
}

// sortLast makes nodes without a site come after the others.
func sortLast(site string) int {
	if site == "" {
		return 1
	}
	return 0
}

func siteLine(site, home string) string {
	switch site {
	case "":
		return "no site"
	case home:
		return site + ", where the leader should be"
	}
	return site
}

// rower returns a function that formats a node in columns that fit all nodes.
func rower(all []drawn) func(drawn) string {
	var id, role, behind, rtt int
	for _, n := range all {
		id, role, behind, rtt = max(id, len(n.id)), max(role, len(n.role)), max(behind, len(n.behind)), max(rtt, len(n.rtt))
	}
	return func(n drawn) string {
		return fmt.Sprintf("%-*s  %-*s  %-*s  %-*s  %s", id, n.id, role, n.role, behind, n.behind, rtt, n.rtt, n.addr)
	}
}

// leader returns the status of the leader, or nil.
func (rep *Report) leader() *embedded.ClusterStatus {
	for _, n := range rep.Nodes {
		if n.ID == rep.Leader {
			return n.Status
		}
	}
	return nil
}

// home returns the preferred site of the leader, or "".
func (rep *Report) home(leader *embedded.ClusterStatus) (site string) {
	if leader != nil {
		return leader.LeaderSite
	}
	var term uint64
	for _, n := range rep.Nodes {
		if n.Status != nil && n.Status.Term >= term {
			site, term = n.Status.LeaderSite, n.Status.Term
		}
	}
	return site
}

// heading describes the cluster as a whole.
func (rep *Report) heading(leader *embedded.ClusterStatus) string {
	text := fmt.Sprintf("cluster %s, term %d", rep.Cluster, rep.Term)
	if leader != nil {
		return fmt.Sprintf("%s, position %d\nnode %d leads; %s\n", text, leader.Position, leader.Node, quorum(leader))
	}
	voters, responding, answered := 0, 0, false
	var position engine.Position
	for _, n := range rep.Nodes {
		if n.Status != nil {
			answered, position = true, max(position, n.Status.Position)
		}
		if rep.Seen(n, nil).Voter {
			voters++
			if n.Status != nil {
				responding++
			}
		}
	}
	if !answered {
		return text + "\nno node responds\n"
	}
	return fmt.Sprintf("%s, position %d\nno node leads; %d of %s respond; a majority is %d\n", text, position, responding, verb.Plural(voters, "voter"), voters/2+1)
}

// quorum describes what the leader's voters can bear. A voter that is being brought up to date or whose disk
// is full cannot stand in for another one.
func quorum(leader *embedded.ClusterStatus) string {
	voters, connected, ready := 0, 0, 0
	for _, n := range leader.Nodes {
		if !n.Voter {
			continue
		}
		voters++
		if n.Connected {
			connected++
			if n.CatchUp == nil && !n.DiskFull {
				ready++
			}
		}
	}
	text := fmt.Sprintf("%d of %s connected", connected, verb.Plural(voters, "voter"))
	if ready < connected {
		text += fmt.Sprintf(", %d of them ready", ready)
	}
	switch spare := ready - (voters/2 + 1); {
	case spare < 0:
		return text + "; no majority for writes"
	case spare == 0:
		return text + "; survives no loss"
	default:
		return text + fmt.Sprintf("; survives the loss of %d", spare)
	}
}

// draw collects what the picture shows of a node.
func (rep *Report) draw(n embedded.NodeAnswer, leader *embedded.ClusterStatus) drawn {
	seen := rep.Seen(n, leader)
	d := drawn{id: fmt.Sprint(n.ID), site: seen.Site, addr: n.Addr, role: "-", behind: "-", rtt: "-"}
	member := seen.ID != 0
	if leader != nil {
		member = slices.ContainsFunc(leader.Nodes, func(o embedded.NodeStatus) bool { return o.ID == n.ID })
	}
	switch {
	case !member:
	case n.ID == rep.Leader:
		d.role = embedded.RoleLeader
	case seen.Voter:
		d.role = "voter"
	case seen.Replica:
		d.role = "replica"
	default:
		d.role = "learner"
	}
	if leader != nil && !member {
		d.notes = append(d.notes, "the leader does not know it as a member")
	}
	if n.Status == nil {
		d.notes = append(d.notes, "does not respond: "+n.Error)
	} else if n.Status.Role == embedded.RoleNone {
		d.notes = append(d.notes, "knows no leader")
	}
	if leader == nil || !member {
		return d
	}
	d.behind = fmt.Sprint(seen.Behind)
	if n.ID != leader.Node && seen.Connected && seen.RTT > 0 { // otherwise it was not measured yet
		d.rtt = milliseconds(seen.RTT)
	}
	d.notes = append(d.notes, troubles(n, seen, leader)...)
	return d
}

// troubles describes what the leader sees of a member that is not as it should be.
func troubles(n embedded.NodeAnswer, seen embedded.NodeStatus, leader *embedded.ClusterStatus) (notes []string) {
	if !seen.Connected && (n.Status != nil || seen.Error != n.Error) {
		note := "the leader cannot send to it"
		if seen.Error != "" {
			note += ": " + seen.Error
		}
		notes = append(notes, note)
	}
	if seen.Connected {
		if c := seen.CatchUp; c != nil {
			notes = append(notes, catchingUp(c))
		}
		if !seen.Voter && !seen.Replica {
			notes = append(notes, "joins: gets its vote when it has caught up")
		}
		if seen.Skew.Abs() > embedded.ClockTolerance {
			way := "ahead of"
			if seen.Skew < 0 {
				way = "behind"
			}
			notes = append(notes, fmt.Sprintf("clock %s %s the leader's", seen.Skew.Abs().Round(100*time.Millisecond), way))
		}
	}
	if seen.DiskFull {
		notes = append(notes, "disk full")
	}
	if n.Status != nil && n.Status.Version != leader.Version {
		notes = append(notes, fmt.Sprintf("runs %s, the leader %s", n.Status.Version, leader.Version))
	}
	return notes
}

// catchingUp describes how far a node is. The time left is known for snapshots only: the rate is in bytes,
// and the log grows meanwhile.
func catchingUp(c *embedded.CatchUp) string {
	text, of := "catching up", fmt.Sprintf("%d log entries", c.Total)
	if c.Snapshot {
		text, of = "receives a snapshot", verb.FormatSize(int64(c.Total))
	}
	if c.Total > 0 {
		text += fmt.Sprintf(": %d %% of %s", int(100*float64(min(c.Done, c.Total))/float64(c.Total)), of)
	}
	if c.Rate == 0 {
		return text
	}
	text += fmt.Sprintf(", %s a second", verb.FormatSize(int64(c.Rate)))
	if c.Limit > 0 {
		text += fmt.Sprintf(" (limit %s)", verb.FormatSize(c.Limit))
	}
	if c.Snapshot && c.Total > c.Done {
		left := time.Duration(float64(c.Total-c.Done) / float64(c.Rate) * float64(time.Second))
		text += fmt.Sprintf(", about %s left", max(left.Round(time.Second), time.Second))
	}
	return text
}

// milliseconds formats a round trip in ASCII, which time.Duration does not do below a millisecond.
func milliseconds(d time.Duration) string {
	hundredths := max(d.Round(10*time.Microsecond), 10*time.Microsecond) / (10 * time.Microsecond)
	return strconv.FormatFloat(float64(hundredths)/100, 'f', -1, 64) + "ms"
}

// wrap breaks text between words into lines of at most width columns. Longer words are not broken.
func wrap(text string, width int) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= width:
			line += " " + word
		default:
			lines, line = append(lines, line), word
		}
	}
	return append(lines, line)
}
