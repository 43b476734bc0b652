package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/engine/embedded"
)

var clusterStatusVerb = verb.Verb{
	Name: "cluster status", Short: "show the nodes: which one leads, which ones respond, how far each one is",
	Long: `--data can be the folder of any node, even while it is in use. Every node is asked. The
picture shows the nodes below their sites and what is wrong with them. BEHIND is the
number of the leader's log records that the node has not acknowledged yet, RTT the round
trip from the leader. --table adds the addresses for clients, versions, positions and
CLOCK, which is how far a node's clock is ahead of the leader's. The exit code is 1 if no
leader has a majority.`,
	Start: func(verb.App) verb.Action {
		var dir string
		var table, asJSON bool
		settings := append(verb.Data(&dir, nil, "./data"),
			verb.Setting{Name: "table", Help: "print a table with more columns instead of the picture", Set: verb.Toggle(&table)},
			verb.JSON(&asJSON))
		return verb.Action{Settings: settings, Check: verb.NoArguments, Do: func(ctx context.Context, p verb.Process, _ []string) error {
			return clusterStatus(ctx, p, dir, func(rep *Report) error {
				switch {
				case asJSON:
					return verb.PrintJSON(p.Stdout, rep)
				case table:
					return rep.print(p.Stdout)
				}
				s := asciiStrokes
				if p.Draws(p.Stdout) {
					s = lineStrokes
				}
				_, err := io.WriteString(p.Stdout, rep.picture(s))
				return err
			})
		}}
	},
}

// Report is the output of `skerry cluster status --json`.
type Report struct {
	Cluster string                `json:"cluster"`
	Leader  uint64                `json:"leader"` // 0: no leader has a majority
	Term    uint64                `json:"term"`
	Nodes   []embedded.NodeAnswer `json:"nodes"`
}

// LeaderOf returns the node that reports to be leader in the newest term, or 0. A leader that loses the
// majority soon notices.
func LeaderOf(answers []embedded.NodeAnswer) uint64 {
	var leader, term uint64
	for _, n := range answers {
		if s := n.Status; s != nil && s.Role == embedded.RoleLeader && s.Term >= term {
			leader, term = n.ID, s.Term
		}
	}
	return leader
}

func clusterStatus(ctx context.Context, p verb.Process, dir string, show func(*Report) error) error {
	a, err := openAdmin(p, dir)
	if err != nil {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, AskWait)
	defer cancel()
	rep := Report{Cluster: a.Cluster(), Nodes: a.Ask(wait)}
	rep.Leader = LeaderOf(rep.Nodes)
	answered := 0
	for _, n := range rep.Nodes {
		if n.Status != nil {
			rep.Term = max(rep.Term, n.Status.Term)
			answered++
		}
	}
	if err := show(&rep); err != nil {
		return err
	}
	switch {
	case len(rep.Nodes) == 0:
		return fmt.Errorf("node %d does not know the addresses of the other nodes yet: start it first", a.Self())
	case answered == 0:
		return errors.New("no node responds")
	case rep.Leader == 0:
		return fmt.Errorf("no node leads: %d of %s respond; a majority of the voters must reach each other", answered, verb.Plural(len(rep.Nodes), "node"))
	}
	return nil
}

// print prints the table.
func (rep *Report) print(w io.Writer) error {
	fmt.Fprintf(w, "cluster %s, term %d\n", rep.Cluster, rep.Term)
	leader := rep.leader()
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "NODE\tROLE\tPOSITION\tBEHIND\tCLOCK\tRTT\tVERSION\tNODE PORT\tHTTP\tREDIS\tSITE")
	var silent []embedded.NodeAnswer
	for _, n := range rep.Nodes {
		seen := rep.Seen(n, leader)
		role, position, version := "no response", "-", "-"
		if n.Status == nil {
			silent = append(silent, n)
		} else {
			role, position, version = n.Status.Role, fmt.Sprint(n.Status.Position), n.Status.Version
			if !seen.Voter && role == embedded.RoleFollower {
				role = "learner"
			}
			if seen.Replica && role == "learner" {
				role = "replica"
			}
		}
		behind, skew, rtt := "-", "-", "-"
		if leader != nil {
			behind = fmt.Sprint(seen.Behind)
		}
		if leader != nil && n.ID != leader.Node && seen.Connected {
			skew = signed(seen.Skew)
			if seen.RTT > 0 { // otherwise it was not measured yet
				rtt = seen.RTT.Round(10 * time.Microsecond).String()
			}
		} else if leader != nil && n.ID != leader.Node {
			skew = "cut off"
		}
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", n.ID, role, position, behind, skew, rtt, version, n.Addr, verb.Dash(seen.HTTP), verb.Dash(seen.RESP), verb.Dash(seen.Site))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, n := range silent {
		fmt.Fprintf(w, "node %d does not respond: %s\n", n.ID, n.Error)
	}
	if leader != nil {
		if leader.LeaderSite != "" {
			fmt.Fprintf(w, "the leader should be at %s\n", leader.LeaderSite)
		}
		for _, n := range leader.Nodes {
			if c := n.CatchUp; c != nil && c.Total > 0 {
				fmt.Fprintf(w, "node %d is catching up: %d %%, %s a second\n", n.ID, 100*c.Done/c.Total, verb.FormatSize(int64(c.Rate)))
			}
			if !n.Connected && n.Error != "" {
				fmt.Fprintf(w, "node %d, which leads, cannot send to node %d: %s\n", leader.Node, n.ID, n.Error)
			}
		}
	}
	return nil
}

// Seen returns what the leader, or else the node itself, reports about a node.
func (rep *Report) Seen(n embedded.NodeAnswer, leader *embedded.ClusterStatus) embedded.NodeStatus {
	from := []*embedded.ClusterStatus{leader, n.Status}
	for _, other := range rep.Nodes {
		from = append(from, other.Status)
	}
	for _, s := range from {
		if s == nil {
			continue
		}
		for _, seen := range s.Nodes {
			if seen.ID == n.ID {
				return seen
			}
		}
	}
	return embedded.NodeStatus{}
}

// signed formats a clock difference with its sign, with the precision that is known.
func signed(d time.Duration) string {
	d = d.Round(time.Millisecond)
	if d > 0 {
		return "+" + d.String()
	}
	return d.String()
}
