package cluster

import (
	"context"
	"fmt"
	"strconv"

	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/engine/embedded"
)

var clusterLeaveVerb = verb.Verb{
	Name: "cluster leave", Short: "remove the folder's own node from its cluster permanently",
	Long: `The other nodes continue without it, and its process stops. The folder keeps its data
but can never be a node of the cluster again: a new node needs a new invitation.`,
	Start: func(verb.App) verb.Action {
		return changing(verb.NoArguments, func(ctx context.Context, a *embedded.Admin) error { return a.Remove(ctx, a.Self()) }, func(ctx context.Context, p verb.Process, a *embedded.Admin) error {
			_, err := fmt.Fprintf(p.Stdout, "node %d has left cluster %s; its process stops by itself\n", a.Self(), a.Cluster())
			return err
		})
	},
}

var clusterRemoveVerb = verb.Verb{
	Name: "cluster remove", Args: "ID", Short: "remove a node, such as a lost one, from the cluster permanently",
	Long: `--data can be the folder of any node. The id can never be used again: to replace the
node, invite a new one. A change of members needs a majority of the nodes; without one,
see skerry help cluster recover.`,
	Start: func(verb.App) verb.Action {
		var id uint64
		check := func(rest []string) (err error) { id, err = nodeID(rest, true); return err }
		return changing(check, func(ctx context.Context, a *embedded.Admin) error { return a.Remove(ctx, id) }, func(ctx context.Context, p verb.Process, a *embedded.Admin) error {
			_, err := fmt.Fprintf(p.Stdout, "node %d is no longer a member of cluster %s\n", id, a.Cluster())
			return err
		})
	},
}

var clusterTransferVerb = verb.Verb{
	Name: "cluster transfer", Args: "[ID]", Short: "make another node the leader: node ID, or the most up-to-date one",
	Long: `A server that gets SIGTERM does this by itself. Writes wait for a moment; none is lost.`,
	Start: func(verb.App) verb.Action {
		var id uint64
		check := func(rest []string) (err error) { id, err = nodeID(rest, false); return err }
		return changing(check, func(ctx context.Context, a *embedded.Admin) error { return a.Transfer(ctx, id) }, func(ctx context.Context, p verb.Process, a *embedded.Admin) error {
			_, err := fmt.Fprintf(p.Stdout, "node %d leads\n", nowLeads(ctx, a))
			return err
		})
	},
}

// changing returns the action of a verb that makes one change of the cluster, by do, and then prints what has
// changed, by done.
func changing(check func([]string) error, do func(context.Context, *embedded.Admin) error, done func(context.Context, verb.Process, *embedded.Admin) error) verb.Action {
	var dir string
	return verb.Action{Settings: verb.Data(&dir, nil, "./data"), Check: check, Do: func(ctx context.Context, p verb.Process, _ []string) error {
		a, err := openAdmin(p, dir)
		if err != nil {
			return err
		}
		if err := change(ctx, func(ctx context.Context) error { return do(ctx, a) }); err != nil {
			return err
		}
		return done(ctx, p, a)
	}}
}

// nowLeads waits until an elected node accepts calls, and returns its id, or 0 if that takes too long.
func nowLeads(ctx context.Context, a *embedded.Admin) (n uint64) {
	ctx, cancel := context.WithTimeout(ctx, AskWait)
	defer cancel()
	for n == 0 && ctx.Err() == nil {
		n = LeaderOf(a.Ask(ctx))
	}
	return n
}

// change makes a change of the members within changeWait.
func change(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, changeWait)
	defer cancel()
	return hint(do(ctx))
}

// nodeID parses the only argument.
func nodeID(rest []string, must bool) (uint64, error) {
	switch {
	case len(rest) == 0 && !must:
		return 0, nil
	case len(rest) != 1:
		return 0, verb.Usagef("needs the id of one node; `skerry cluster status` lists them")
	}
	n, err := strconv.ParseUint(rest[0], 10, 64)
	if err != nil || n == 0 {
		return 0, verb.Usagef("%q is not the id of a node, like 1, 2 or 3", rest[0])
	}
	return n, nil
}
