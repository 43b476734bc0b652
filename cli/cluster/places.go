package cluster

import (
	"context"
	"fmt"

	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/engine/embedded"
)

var clusterPromoteVerb = verb.Verb{
	Name: "cluster promote", Args: "ID", Short: "give a replica a vote",
	Long: `The node gets its vote once it has caught up. A cluster has at most 7 nodes that are no
replicas.`,
	Start: func(verb.App) verb.Action {
		var id uint64
		check := func(rest []string) (err error) { id, err = nodeID(rest, true); return err }
		return changing(check, func(ctx context.Context, a *embedded.Admin) error { return a.Promote(ctx, id) }, func(ctx context.Context, p verb.Process, a *embedded.Admin) error {
			what := "gets a vote once it has caught up"
			if votes(ctx, a, id) {
				what = "has a vote"
			}
			_, err := fmt.Fprintf(p.Stdout, "node %d %s\n", id, what)
			return err
		})
	},
}

// votes waits for a while until the leader says that a node has a vote.
func votes(ctx context.Context, a *embedded.Admin, id uint64) bool {
	ctx, cancel := context.WithTimeout(ctx, AskWait)
	defer cancel()
	for ctx.Err() == nil {
		rep := Report{Nodes: a.Ask(ctx)}
		for _, n := range rep.Nodes {
			if n.Status == nil || n.Status.Role != embedded.RoleLeader {
				continue
			}
			if rep.Seen(embedded.NodeAnswer{ID: id}, n.Status).Voter {
				return true
			}
		}
	}
	return false
}

var clusterDemoteVerb = verb.Verb{
	Name: "cluster demote", Args: "ID", Short: "take the vote from a node and make it a replica",
	Long: `A leader hands over first. The other voters must be able to continue: a majority of them
must be running. cluster promote reverses it.`,
	Start: func(verb.App) verb.Action {
		var id uint64
		check := func(rest []string) (err error) { id, err = nodeID(rest, true); return err }
		return changing(check, func(ctx context.Context, a *embedded.Admin) error { return a.Demote(ctx, id) }, func(ctx context.Context, p verb.Process, a *embedded.Admin) error {
			_, err := fmt.Fprintf(p.Stdout, "node %d is a replica\n", id)
			return err
		})
	},
}

var clusterLeaderSiteVerb = verb.Verb{
	Name: "cluster leader-site", Args: "SITE", Short: "set the site where the leader should be; - for anywhere",
	Long: `serve --site sets the site of a node. A leader elsewhere hands over to a voter at the site
that has been healthy and up to date for a while. If none is, the leader stays where it
is. All nodes remember the setting.`,
	Start: func(verb.App) verb.Action {
		var name string
		check := func(rest []string) error {
			if len(rest) != 1 {
				return verb.Usagef("needs the name of one site, or - for anywhere")
			}
			if err := site(&name)(rest[0]); err != nil {
				return verb.Usagef("%v", err)
			}
			if name == embedded.NoSite {
				name = ""
			}
			return nil
		}
		return changing(check, func(ctx context.Context, a *embedded.Admin) error { return a.PreferSite(ctx, name) }, func(ctx context.Context, p verb.Process, a *embedded.Admin) error {
			var err error
			if name == "" {
				_, err = fmt.Fprintln(p.Stdout, "the leader may be at any site")
			} else {
				_, err = fmt.Fprintf(p.Stdout, "the leader should be at %s\n", name)
			}
			return err
		})
	},
}
