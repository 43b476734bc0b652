// Package cluster has the verbs and settings that only clusters of the embedded engine need: how a node is
// created, joins, leaves, is inspected and recovered.
//
// It knows nodes, invitations and members; it must not know what a server serves.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
)

// AskWait is how long to wait for a node that does not respond.
const AskWait = 3 * time.Second

// changeWait bounds a change of the members: as long as the leader tries.
const changeWait = 15 * time.Second

var Verb = verb.Verb{
	Name: "cluster", Args: "WHAT", Short: "create, inspect and change a cluster of nodes with the same data",
	Long: `Three nodes survive the loss of any one. Each is a server with its own data folder.
Nodes communicate over a separate, encrypted port and authenticate each other by
certificates, which they get from invitations:

	skerry cluster init --data n1 --node HOST1:7100
	skerry serve --data n1
	skerry cluster invite --data n1 > n2.invite
	skerry serve --data n2 --invite n2.invite --node HOST2:7100 --join HOST1:7100

See docs/cluster.md for more. To try a cluster on one machine, run skerry dev.`,
	Subs: []verb.Verb{
		clusterInitVerb, clusterInviteVerb, clusterJoinVerb, clusterStatusVerb,
		clusterLeaveVerb, clusterRemoveVerb, clusterTransferVerb, clusterLeaderSiteVerb,
		clusterPromoteVerb, clusterDemoteVerb, clusterRecoverVerb,
	},
}

var clusterInitVerb = verb.Verb{
	Name: "cluster init", Short: "make a data folder the first node of a new cluster",
	Long: `The folder may be new or have data, which is kept; it must not be in use. It gets the
key of the cluster's CA: only from this folder can you invite further nodes. If the
command is interrupted, run it again.`,
	Start: func(verb.App) verb.Action {
		var dir, addr string
		var asJSON bool
		settings := append(verb.Data(&dir, nil, "./data"),
			verb.Setting{Name: "node", Arg: "HOST:PORT", Help: "address at which the other nodes reach this one", Set: nodeAddress(&addr)},
			verb.JSON(&asJSON),
		)
		check := func(rest []string) error { return verb.Mistakes(verb.NoArguments(rest), reachable("node", addr)) }
		return verb.Action{Settings: settings, Check: check, Do: func(ctx context.Context, p verb.Process, _ []string) error {
			return clusterInit(ctx, p, dir, addr, asJSON)
		}}
	},
}

// reachable returns an error if an address is missing or other machines cannot use it.
func reachable(name, addr string) error {
	if addr == "" {
		return verb.Needs(name, addr)
	}
	o := Node{Addr: addr}
	if o.Check() != nil {
		return fmt.Errorf("--%s: other machines cannot connect to %s; set the address at which they reach this node, which may differ from the one that serve listens on", name, addr)
	}
	return nil
}

func clusterInit(ctx context.Context, p verb.Process, dir, addr string, asJSON bool) error {
	id, sum, err := embedded.InitCluster(ctx, dir, addr, embedded.Options{MemoryBytes: verb.NoLimit, Logger: verb.Quiet(p.Stderr)})
	if err != nil {
		return err
	}
	if asJSON {
		return verb.PrintJSON(p.Stdout, map[string]any{"cluster": id.Cluster, "node": id.Node, "addr": addr, "state": sum})
	}
	_, err = fmt.Fprintf(p.Stdout, `%s is node %d of the new cluster %s, with %s
start it:            %s serve --data %s
invite another one:  %s cluster invite --data %s > n2.invite
`, dir, id.Node, id.Cluster, verb.Plural(sum.Keys, "key"), p.App.Name, dir, p.App.Name, dir)
	return err
}

var clusterInviteVerb = verb.Verb{
	Name: "cluster invite", Short: "print an invitation for one more node",
	Long: `Each invitation is for one node and gives it a new id. It contains a private key:
anyone who has the file can become that node, so keep it secret, and delete it once the
node is a member. The folder may be in use; it must be the one that cluster init
created.

A replica receives all data, serves reads and passes writes on, but has no vote: its loss
or a slow connection to it does not disturb the others. A cluster has up to 7 other nodes
and up to 32 replicas.`,
	Start: func(verb.App) verb.Action {
		var dir string
		var replica bool
		settings := append(verb.Data(&dir, nil, "./data"),
			verb.Setting{Name: "replica", Help: "the node never gets a vote by itself", Set: verb.Toggle(&replica)})
		return verb.Action{Settings: settings, Check: verb.NoArguments, Do: func(_ context.Context, p verb.Process, _ []string) error {
			invite := embedded.Invite
			if replica {
				invite = embedded.InviteReplica
			}
			text, err := invite(dir)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(p.Stdout, "%s\n", text)
			return err
		}}
	},
}

// joinOptions are the options of `skerry cluster join`.
type joinOptions struct {
	data, node, invite string
	join               []string
	json               bool
}

var clusterJoinVerb = verb.Verb{
	Name: "cluster join", Short: "accept an invitation and ask the cluster whether it would admit the node",
	Long: `Turns the folder into the invited node, unless it already is one, and asks the cluster
whether it would admit it. It serves nothing: skerry serve --data DIR starts the node,
which then joins.`,
	Start: func(verb.App) verb.Action {
		o := &joinOptions{}
		settings := append(verb.Data(&o.data, nil, "./data"),
			verb.Setting{Name: "invite", Arg: "FILE", Help: "invitation; not needed if the folder is already a node", Set: verb.Text(&o.invite)},
			verb.Setting{Name: "node", Arg: "HOST:PORT", Help: "address at which the other nodes reach this one", Set: nodeAddress(&o.node)},
			verb.Setting{Name: "join", Arg: "HOST:PORT,…", Help: "nodes of the cluster to ask", Set: addresses(&o.join)},
			verb.JSON(&o.json),
		)
		check := func(rest []string) error {
			var none error
			if o.join == nil {
				none = verb.Needs("join", "")
			}
			return verb.Mistakes(verb.NoArguments(rest), reachable("node", o.node), none)
		}
		return verb.Action{Settings: settings, Check: check, Do: func(ctx context.Context, p verb.Process, _ []string) error {
			return clusterJoin(ctx, p, o)
		}}
	},
}

func clusterJoin(ctx context.Context, p verb.Process, o *joinOptions) error {
	if o.invite != "" {
		if err := accept(o.data, o.invite); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, changeWait)
	defer cancel()
	if err := embedded.MayJoin(ctx, o.data, o.node, o.join, p.App.Build().Version); err != nil {
		return err
	}
	a, err := openAdmin(p, o.data)
	if err != nil {
		return err
	}
	if o.json {
		return verb.PrintJSON(p.Stdout, map[string]any{"cluster": a.Cluster(), "node": a.Self(), "addr": o.node})
	}
	_, err = fmt.Fprintf(p.Stdout, "%s is node %d of cluster %s, which would admit it\nstart it:  %s serve --data %s\n", o.data, a.Self(), a.Cluster(), p.App.Name, o.data)
	return err
}

// openAdmin opens the connection of a folder to its cluster, and warns of a certificate that expires soon.
func openAdmin(p verb.Process, dir string) (*embedded.Admin, error) {
	a, err := embedded.OpenAdmin(dir, p.App.Build().Version)
	if err != nil {
		return nil, err
	}
	const soon = 90 * 24 * time.Hour
	switch left := time.Until(a.Expires()); {
	case left < 0:
		fmt.Fprintf(p.Stderr, "%s: the certificate of node %d expired at %v, and the other nodes refuse it; remove the node and join again with a new invitation\n", p.App.Name, a.Self(), a.Expires().UTC())
	case left < soon:
		fmt.Fprintf(p.Stderr, "%s: the certificate of node %d expires at %v: replace the node before that\n", p.App.Name, a.Self(), a.Expires().UTC())
	}
	return a, nil
}

// hint suggests what to do about an error of a node.
func hint(err error) error {
	switch engine.CodeOf(err) {
	case engine.CodeNotLeader:
		return fmt.Errorf("%w; `skerry cluster status` shows which nodes respond", err)
	case engine.CodeOutcomeUnknown:
		return fmt.Errorf("%w; `skerry cluster status` shows whether it took effect; a change of members needs a majority of them", err)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no response in time: %w", err)
	}
	return err
}
