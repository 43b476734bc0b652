package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
)

var clusterLeaveVerb = verb{
	name: "cluster leave", short: "take the folder's own node out of its cluster, for ever",
	long: `The other nodes go on without it, and its process stops. The folder keeps its data,
but can never be a node of the cluster again: another one needs a new invitation.`,
	start: func(App) action {
		var dir string
		return action{[]setting{dataSetting(&dir, "./data")}, noArguments, func(ctx context.Context, p process, _ []string) error {
			a, err := openAdmin(p, dir)
			if err != nil {
				return err
			}
			if err := change(ctx, func(ctx context.Context) error { return a.Remove(ctx, a.Self()) }); err != nil {
				return err
			}
			_, err = fmt.Fprintf(p.Stdout, "node %d has left cluster %s; its process can be stopped, and stops by itself\n", a.Self(), a.Cluster())
			return err
		}, false}
	},
}

var clusterRemoveVerb = verb{
	name: "cluster remove", args: "ID", short: "take a node out of the cluster, for ever: one that is lost, say",
	long: `Any node's folder will do for --data. The id can never be used again: to replace the
node, invite a new one. A change needs a majority of the nodes; without one, read
skerry help cluster recover.`,
	start: func(App) action {
		var dir string
		var id uint64
		check := func(rest []string) (err error) { id, err = nodeID(rest, true); return err }
		return action{[]setting{dataSetting(&dir, "./data")}, check, func(ctx context.Context, p process, _ []string) error {
			a, err := openAdmin(p, dir)
			if err != nil {
				return err
			}
			if err := change(ctx, func(ctx context.Context) error { return a.Remove(ctx, id) }); err != nil {
				return err
			}
			_, err = fmt.Fprintf(p.Stdout, "node %d is no member of cluster %s any more\n", id, a.Cluster())
			return err
		}, false}
	},
}

var clusterTransferVerb = verb{
	name: "cluster transfer", args: "[ID]", short: "have another node lead: node ID, or whichever is most up to date",
	long: `A server that is stopped with SIGTERM does this by itself. Writes wait for a moment,
none is lost.`,
	start: func(App) action {
		var dir string
		var id uint64
		check := func(rest []string) (err error) { id, err = nodeID(rest, false); return err }
		return action{[]setting{dataSetting(&dir, "./data")}, check, func(ctx context.Context, p process, _ []string) error {
			a, err := openAdmin(p, dir)
			if err != nil {
				return err
			}
			if err := change(ctx, func(ctx context.Context) error { return a.Transfer(ctx, id) }); err != nil {
				return err
			}
			_, err = fmt.Fprintf(p.Stdout, "node %d leads\n", nowLeads(ctx, a))
			return err
		}, false}
	},
}

// nowLeads waits until a node that was elected takes calls, and returns its id; 0
// if that takes too long.
func nowLeads(ctx context.Context, a *embedded.Admin) (n uint64) {
	ctx, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	for n == 0 && ctx.Err() == nil {
		n = leaderOf(a.Ask(ctx))
	}
	return n
}

// change makes a change of the members, bounded.
func change(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, changeWait)
	defer cancel()
	return hint(do(ctx))
}

// nodeID reads the only argument.
func nodeID(rest []string, must bool) (uint64, error) {
	switch {
	case len(rest) == 0 && !must:
		return 0, nil
	case len(rest) != 1:
		return 0, usagef("takes the id of one node, as `skerry cluster status` lists them")
	}
	n, err := strconv.ParseUint(rest[0], 10, 64)
	if err != nil || n == 0 {
		return 0, usagef("%q is no id of a node: they are 1, 2, 3, …", rest[0])
	}
	return n, nil
}

// recoverOptions is what `skerry cluster recover` takes.
type recoverOptions struct {
	data, node string
	lose       bool
	json       bool
}

// consent is what must be typed to recover.
const consent = "lose writes"

var clusterRecoverVerb = verb{
	name: "cluster recover", short: "when a majority is lost for ever: begin a new cluster with what one node has",
	long: `This is the last resort. Writes that were acknowledged may be lost: those that only
the lost nodes had. Choose the folder that is most up to date: skerry check --data
DIR tells its position. The folder becomes the only node of a new cluster, with a
new CA; the other nodes of the old one become strangers, whose folders must be put
away before they are invited anew. If a majority can be brought back, do that
instead: nothing is lost then.

The folder must not be in use. What is kept is printed first; then "lose writes"
must be typed, or --yes-lose-writes be given.`,
	start: func(App) action {
		o := &recoverOptions{}
		settings := []setting{
			dataSetting(&o.data, ""),
			{"node", "HOST:PORT", "", "address by which other nodes will reach this one (default as before)", false, nodeAddress(&o.node)},
			{"yes-lose-writes", "", "", "do not ask: acknowledged writes may be lost", false, toggle(&o.lose)},
			jsonSetting(&o.json),
		}
		check := func(rest []string) error {
			var bad error
			if o.node != "" {
				bad = reachable("node", o.node)
			}
			return mistakes(noArguments(rest), needs("data", o.data), bad)
		}
		return action{settings, check, func(ctx context.Context, p process, _ []string) error {
			return clusterRecover(ctx, p, o)
		}, false}
	},
}

func clusterRecover(ctx context.Context, p process, o *recoverOptions) error {
	a, err := openAdmin(p, o.data)
	if err != nil {
		return err
	}
	rep, err := embedded.Check(o.data, embedded.Options{}, nil)
	if err != nil {
		return err
	}
	if len(rep.Problems) > 0 {
		return broken(fmt.Sprintf("%s is damaged: %s", o.data, strings.Join(rep.Problems, "; ")))
	}
	ask, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	answers := a.Ask(ask)
	if n := leaderOf(answers); n != 0 {
		return engine.Errorf(engine.CodeInvalid, "the cluster has not lost its majority: node %d leads. Nothing was changed; `skerry cluster remove` and `invite` replace lost nodes", n)
	}
	warnOfLoss(p.Stderr, a, o.data, rep, answers)
	if !o.lose {
		fmt.Fprintf(p.Stderr, "Type %q to go on: ", consent)
		line, err := bufio.NewReader(io.LimitReader(p.Stdin, 1<<10)).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if strings.TrimSpace(line) != consent {
			return errors.New("nothing was changed")
		}
	}
	id, sum, err := embedded.RecoverCluster(ctx, o.data, o.node, embedded.Options{MemoryBytes: noLimit, Logger: quiet(p.Stderr)})
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(p.Stdout, map[string]any{"cluster": id.Cluster, "node": id.Node, "state": sum})
	}
	_, err = fmt.Fprintf(p.Stdout, `%s is node %d, the only one, of the new cluster %s: position %d, %s
start it:            %s serve --data %s
invite another one:  %s cluster invite --data %s > n2.invite
`, o.data, id.Node, id.Cluster, sum.Position, plural(sum.Keys, "key"), p.app.Name, o.data, p.app.Name, o.data)
	return err
}

// warnOfLoss says what recovering keeps and what it may lose.
func warnOfLoss(w io.Writer, a *embedded.Admin, dir string, rep embedded.Report, answers []embedded.NodeAnswer) {
	fmt.Fprintf(w, `%s is node %d of cluster %s.
It keeps: position %d, %s, %d bytes of keys and values: all that this node has,
  also %s that it does not know to be acknowledged.
It loses: what other nodes acknowledged after that. Nobody can tell from here how
  much that is.
The other nodes become strangers to it, and clients may see writes undone.
`, dir, a.Self(), a.Cluster(), rep.Position, plural(rep.Keys, "key"), rep.Bytes, plural(rep.Unsure, "log record"))
	for _, n := range answers {
		switch {
		case n.ID == a.Self():
		case n.Status == nil:
			fmt.Fprintf(w, "node %d at %s does not answer: %s\n", n.ID, n.Addr, n.Error)
		case n.Status.Position > rep.Position:
			fmt.Fprintf(w, "NODE %d ANSWERS AND HAS MORE: it is at position %d. Recover there instead.\n", n.ID, n.Status.Position)
		default:
			fmt.Fprintf(w, "node %d answers, is at position %d and knows of no leader; if a majority can be started, do that instead\n", n.ID, n.Status.Position)
		}
	}
}
