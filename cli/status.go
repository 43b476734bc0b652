package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/skerrydb/skerry/engine/embedded"
)

var clusterStatusVerb = verb{
	name: "cluster status", short: "show the nodes: who leads, who answers, how far each is",
	long: `Any node's folder will do for --data; it may be in use. Every node is asked. BEHIND
is how many log records the leader has that the node has not acknowledged yet, CLOCK
how far its clock is ahead of the leader's. The exit code is 1 if there is no leader
that a majority follows.`,
	start: func(App) action {
		var dir string
		var asJSON bool
		settings := []setting{dataSetting(&dir, "./data"), jsonSetting(&asJSON)}
		return action{settings, noArguments, func(ctx context.Context, p process, _ []string) error {
			return clusterStatus(ctx, p, dir, asJSON)
		}, false}
	},
}

// clusterReport is what `skerry cluster status --json` prints.
type clusterReport struct {
	Cluster string                `json:"cluster"`
	Leader  uint64                `json:"leader"` // 0: there is none that a majority follows
	Term    uint64                `json:"term"`
	Nodes   []embedded.NodeAnswer `json:"nodes"`
}

// leaderOf returns the node that says that it leads, in the newest term, or 0. A
// leader that loses the majority finds that out by itself soon.
func leaderOf(answers []embedded.NodeAnswer) uint64 {
	var leader, term uint64
	for _, n := range answers {
		if s := n.Status; s != nil && s.Role == embedded.RoleLeader && s.Term >= term {
			leader, term = n.ID, s.Term
		}
	}
	return leader
}

func clusterStatus(ctx context.Context, p process, dir string, asJSON bool) error {
	a, err := openAdmin(p, dir)
	if err != nil {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	rep := clusterReport{Cluster: a.Cluster(), Nodes: a.Ask(wait)}
	rep.Leader = leaderOf(rep.Nodes)
	answered := 0
	for _, n := range rep.Nodes {
		if n.Status != nil {
			rep.Term = max(rep.Term, n.Status.Term)
			answered++
		}
	}
	if asJSON {
		err = printJSON(p.Stdout, rep)
	} else {
		err = rep.print(p.Stdout)
	}
	switch {
	case err != nil:
		return err
	case len(rep.Nodes) == 0:
		return fmt.Errorf("node %d does not know yet where the other nodes are: start it first", a.Self())
	case answered == 0:
		return errors.New("no node answers")
	case rep.Leader == 0:
		return fmt.Errorf("no node leads: %d of %s answer, and a majority of those with a vote must reach each other", answered, plural(len(rep.Nodes), "node"))
	}
	return nil
}

func (rep *clusterReport) print(w io.Writer) error {
	fmt.Fprintf(w, "cluster %s, term %d\n", rep.Cluster, rep.Term)
	var leader *embedded.ClusterStatus
	for _, n := range rep.Nodes {
		if n.ID == rep.Leader {
			leader = n.Status
		}
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "NODE\tROLE\tPOSITION\tBEHIND\tCLOCK\tRTT\tVERSION\tNODE PORT\tHTTP\tREDIS")
	var silent []embedded.NodeAnswer
	for _, n := range rep.Nodes {
		seen := rep.seen(n, leader)
		role, position, version := "no answer", "-", "-"
		if n.Status == nil {
			silent = append(silent, n)
		} else {
			role, position, version = n.Status.Role, fmt.Sprint(n.Status.Position), n.Status.Version
			if !seen.Voter && role == embedded.RoleFollower {
				role = "learner"
			}
		}
		behind, skew, rtt := "-", "-", "-"
		if leader != nil {
			behind = fmt.Sprint(seen.Behind)
		}
		if leader != nil && n.ID != leader.Node && seen.Connected {
			skew = signed(seen.Skew)
			if seen.RTT > 0 { // else it was not measured yet
				rtt = seen.RTT.Round(10 * time.Microsecond).String()
			}
		} else if leader != nil && n.ID != leader.Node {
			skew = "cut off"
		}
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", n.ID, role, position, behind, skew, rtt, version, n.Addr, dash(seen.HTTP), dash(seen.RESP))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, n := range silent {
		fmt.Fprintf(w, "node %d does not answer: %s\n", n.ID, n.Error)
	}
	if leader != nil {
		for _, n := range leader.Nodes {
			if !n.Connected && n.Error != "" {
				fmt.Fprintf(w, "node %d, which leads, cannot send to node %d: %s\n", leader.Node, n.ID, n.Error)
			}
		}
	}
	return nil
}

// seen returns what the leader, or else the node itself, knows of a node.
func (rep *clusterReport) seen(n embedded.NodeAnswer, leader *embedded.ClusterStatus) embedded.NodeStatus {
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

// signed writes a clock's difference with its sign, as precisely as it is known.
func signed(d time.Duration) string {
	d = d.Round(time.Millisecond)
	if d > 0 {
		return "+" + d.String()
	}
	return d.String()
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
