package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
)

// recoverOptions are the options of `skerry cluster recover`.
type recoverOptions struct {
	data, node string
	lose       bool
	json       bool
}

// consent is the text to type for a recovery.
const consent = "lose writes"

var clusterRecoverVerb = verb.Verb{
	Name: "cluster recover", Short: "after the permanent loss of a majority, start a new cluster from one node's data",
	Long: `This is the last resort. Acknowledged writes that only the lost nodes had are lost.
Choose the most up-to-date folder: skerry check --data DIR prints its position. The
folder becomes the only node of a new cluster, with a new CA. Nodes of the old cluster
cannot join it: move their folders away and invite them again. If a majority can be
brought back, do that instead: then nothing is lost.

The folder must not be in use. The command first prints what is kept, then asks you to
type "lose writes", unless --yes-lose-writes is given.`,
	Start: func(verb.App) verb.Action {
		o := &recoverOptions{}
		settings := append(verb.Data(&o.data, nil, ""),
			verb.Setting{Name: "node", Arg: "HOST:PORT", Help: "address at which other nodes reach this one (default as before)", Set: nodeAddress(&o.node)},
			verb.Setting{Name: "yes-lose-writes", Help: "do not ask; acknowledged writes may be lost", Set: verb.Toggle(&o.lose)},
			verb.JSON(&o.json),
		)
		check := func(rest []string) error {
			var bad error
			if o.node != "" {
				bad = reachable("node", o.node)
			}
			return verb.Mistakes(verb.NoArguments(rest), verb.Needs("data", o.data), bad)
		}
		return verb.Action{Settings: settings, Check: check, Do: func(ctx context.Context, p verb.Process, _ []string) error {
			return clusterRecover(ctx, p, o)
		}}
	},
}

func clusterRecover(ctx context.Context, p verb.Process, o *recoverOptions) error {
	a, err := openAdmin(p, o.data)
	if err != nil {
		return err
	}
	rep, err := embedded.Check(o.data, embedded.Options{}, nil)
	if err != nil {
		return err
	}
	if len(rep.Problems) > 0 {
		return verb.Broken(fmt.Sprintf("%s is damaged: %s", o.data, strings.Join(rep.Problems, "; ")))
	}
	ask, cancel := context.WithTimeout(ctx, AskWait)
	defer cancel()
	answers := a.Ask(ask)
	if n := LeaderOf(answers); n != 0 {
		return engine.Errorf(engine.CodeInvalid, "the cluster has not lost its majority: node %d leads. Nothing was changed; replace lost nodes with `skerry cluster remove` and `skerry cluster invite`", n)
	}
	warnOfLoss(p.Stderr, a, o.data, rep, answers)
	if !o.lose {
		fmt.Fprintf(p.Stderr, "Type %q to continue: ", consent)
		line, err := bufio.NewReader(io.LimitReader(p.Stdin, 1<<10)).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if strings.TrimSpace(line) != consent {
			return errors.New("nothing was changed")
		}
	}
	id, sum, err := embedded.RecoverCluster(ctx, o.data, o.node, embedded.Options{MemoryBytes: verb.NoLimit, Logger: verb.Quiet(p.Stderr)})
	if err != nil {
		return err
	}
	if o.json {
		return verb.PrintJSON(p.Stdout, map[string]any{"cluster": id.Cluster, "node": id.Node, "state": sum})
	}
	_, err = fmt.Fprintf(p.Stdout, `%s is node %d, the only one, of the new cluster %s: position %d, %s
start it:            %s serve --data %s
invite another one:  %s cluster invite --data %s > n2.invite
`, o.data, id.Node, id.Cluster, sum.Position, verb.Plural(sum.Keys, "key"), p.App.Name, o.data, p.App.Name, o.data)
	return err
}

// warnOfLoss explains what a recovery keeps and what it may lose.
func warnOfLoss(w io.Writer, a *embedded.Admin, dir string, rep embedded.Report, answers []embedded.NodeAnswer) {
	fmt.Fprintf(w, `%s is node %d of cluster %s.
It keeps everything that this node has: position %d, %s, %d bytes of keys and values,
  including %s that may not have been acknowledged.
It loses what other nodes acknowledged after that. How much that is cannot be
  determined from here.
The other nodes cannot join it as they are, and clients may see writes undone.
`, dir, a.Self(), a.Cluster(), rep.Position, verb.Plural(rep.Keys, "key"), rep.Bytes, verb.Plural(rep.Unsure, "log record"))
	for _, n := range answers {
		switch {
		case n.ID == a.Self():
		case n.Status == nil:
			fmt.Fprintf(w, "node %d at %s does not respond: %s\n", n.ID, n.Addr, n.Error)
		case n.Status.Position > rep.Position:
			fmt.Fprintf(w, "NODE %d RESPONDS AND HAS MORE DATA: it is at position %d. Recover there instead.\n", n.ID, n.Status.Position)
		default:
			fmt.Fprintf(w, "node %d responds, is at position %d and knows of no leader; if a majority can be started, do that instead\n", n.ID, n.Status.Position)
		}
	}
}
