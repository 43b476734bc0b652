// Package dev has the verbs for developing a program: init creates a new one; dev builds and runs it, and
// repeats that when its source changes.
//
// It knows how the program is built, started and stopped; it must not know what the program serves.
package dev

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/skerrydb/skerry/cli/cluster"
	"github.com/skerrydb/skerry/cli/dev/sources"
	"github.com/skerrydb/skerry/cli/serve"
	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/journal"
)

// readyWait is how long the nodes may take to elect a leader.
const readyWait = 60 * time.Second

// nodesAlone is the default number of nodes of `skerry dev` without the source of a program.
const nodesAlone = 3

// options are the options of `skerry dev`.
type options struct {
	nodes   int // 0: not set
	http    string
	data    string
	memory  int64
	series  string
	built   bool
	verbose bool
	json    bool
}

var Verb = verb.Verb{
	Name: "dev", Args: "[FOLDER] [-- FLAGS OF SERVE]", Short: "build and run a program, and again whenever its source changes; or run a local cluster",
	Long: `In a Go module: builds the program in FOLDER (default this folder, its folder server,
or those of the module), runs it in debug mode and watches its source. When the source
changes, dev builds the program again. If the build succeeds, it replaces the running
program while requests wait; if it fails, the errors appear here and in the browser.
Pages and assets from Services.Files need no build. With --nodes the program runs as
several nodes of a cluster.

Elsewhere, or with --built: runs this program itself as the nodes of a cluster, with
its web application in debug mode.

Everything listens on loopback, without a password. Data and addresses stay in the
folder of --data. If a process ends, dev restarts it. Ctrl-C stops everything.`,
	Start: func(verb.App) verb.Action {
		o := &options{}
		settings := []verb.Setting{
			{Name: "nodes", Arg: "N", Help: "number of nodes; an existing data folder keeps its number (default 1 for a program that dev builds, otherwise 3)", Set: verb.Whole(&o.nodes, 1, embedded.MaxNodes)},
			{Name: "data", Arg: "DIR", Default: "./data-dev", Help: "folder for the data of all nodes", Set: verb.Text(&o.data)},
			{Name: "http", Arg: "ADDR", Help: "loopback address of HTTP, remembered for the next time; further nodes use the following ports (default the last one, at first 127.0.0.1:7001)", Set: loopback(&o.http)},
			{Name: "memory", Arg: "SIZE", Help: "memory limit for the data of each node (default an equal share of half of this machine's memory)", Set: verb.Size(&o.memory, serve.MinMemory)},
			{Name: "series", Arg: "NAMES", Help: serve.SeriesHelp, Set: serve.SeriesText(&o.series)},
			{Name: "built", Help: "run this program without building anything", Set: verb.Toggle(&o.built)},
			{Name: "v", Help: "show everything that the nodes log, not only errors", Set: verb.Toggle(&o.verbose)},
			verb.JSON(&o.json),
		}
		return verb.Action{Settings: settings, Check: o.check, Do: func(ctx context.Context, p verb.Process, rest []string) error {
			return dev(ctx, p, o, rest)
		}}
	},
}

// Node is the addresses and the folder of one node.
type Node struct {
	ID    int    `json:"node"`
	HTTP  string `json:"http"`
	RESP  string `json:"resp"`
	Admin string `json:"admin"`
	Addr  string `json:"node_addr"`
	Dir   string `json:"-"`
	Join  string `json:"-"` // the node to join; "" for the first one
}

// check returns an error if options contradict each other.
func (o *options) check(rest []string) error {
	folder, flags := arguments(rest)
	if o.built && (folder != "" || flags != nil) {
		return verb.Usagef("--built builds nothing, so it takes neither a folder nor flags of serve")
	}
	var wrong []error
	if folder != "" {
		if info, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
			wrong = append(wrong, fmt.Errorf("there is no folder %s", folder))
		} else if err == nil && !info.IsDir() {
			wrong = append(wrong, fmt.Errorf("%s is not a folder", folder))
		}
		if len(flags) > 0 && !strings.HasPrefix(flags[0], "-") {
			wrong = append(wrong, fmt.Errorf("unexpected argument %q: only one program is run; flags of serve go after --", flags[0]))
		}
	}
	return verb.Mistakes(wrong...)
}

// arguments returns the folder of a program and the flags for it.
func arguments(rest []string) (folder string, flags []string) {
	if len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		return rest[0], rest[1:]
	}
	return "", rest
}

// notServed refuses the data folder of a server as the folder of `skerry dev`, which would put the folders of
// its nodes into it.
func notServed(dir string) error {
	if info, err := os.Stat(filepath.Join(dir, "log")); err != nil || !info.IsDir() {
		return nil //nolint:nilerr // it is no data folder, or not there yet
	}
	return engine.Errorf(engine.CodeInvalid, "%s is the data folder of a server (`skerry serve --data %s`); dev needs its own folder: choose one with --data DIR", dir, dir)
}

// dev runs the nodes until ctx ends.
func dev(ctx context.Context, p verb.Process, o *options, rest []string) (err error) {
	folder, flags := arguments(rest)
	var program *sources.Program
	if !o.built {
		program, err = sources.Find(".", folder)
		if errors.Is(err, sources.ErrNone) && flags == nil {
			program, err = nil, nil
		}
		if err != nil {
			return err
		}
	}
	if o.nodes == 0 && program == nil {
		o.nodes = nodesAlone
	}
	o.nodes = max(o.nodes, 1)
	if err := notServed(o.data); err != nil {
		return err
	}
	unlock, err := journal.LockDir(journal.OS(), o.data)
	if locked, ok := errors.AsType[*journal.LockedError](err); ok {
		return engine.Errorf(engine.CodeLocked, "%s is in use by process %d", o.data, locked.Pid)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	nodes, release, err := chooseNodes(p, o)
	if err != nil {
		return err
	}
	defer release()
	if o.memory == 0 {
		o.memory = max(serve.MinMemory, serve.MemoryLimit(0)/int64(len(nodes)))
	}
	if program != nil {
		return develop(ctx, p, o, program, nodes, flags)
	}
	return runCluster(ctx, p, o, nodes)
}

// runCluster runs this program as the nodes of a cluster.
func runCluster(ctx context.Context, p verb.Process, o *options, nodes []Node) error {
	if err := makeCluster(ctx, p, nodes); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	run := newSupervisor(p, callbacks{lines: o.verbose, command: func(n Node) (string, []string) {
		args := append(n.flags(o), "--http", n.HTTP)
		if p.App.Web != nil {
			args = append(args, "--admin", n.Admin, "--debug")
		}
		return self, args
	}})
	for _, n := range nodes {
		run.start(n)
	}
	defer run.stop()
	a, err := embedded.OpenAdmin(nodes[0].Dir, p.App.Build().Version)
	if err != nil {
		return err
	}
	leader, err := awaitLeader(ctx, a, run)
	if err != nil {
		return err
	}
	if err := printNodes(p, o, nodes, leader); err != nil {
		return err
	}
	return run.watch(ctx, a, leader)
}

// flags returns the flags of all processes of `skerry dev`.
func (n Node) flags(o *options) []string {
	args := []string{"serve", "--data", n.Dir, "--resp", n.RESP, "--memory", strconv.FormatInt(o.memory, 10) + "B", "--while-stdin", "--json"}
	if o.series != "" {
		args = append(args, "--series", o.series)
	}
	if o.nodes > 1 || n.clustered() {
		args = append(args, "--node", n.Addr)
	}
	if n.Join != "" {
		args = append(args, "--join", n.Join)
	}
	return args
}

// clustered reports whether a node's folder belongs to a cluster.
func (n Node) clustered() bool {
	_, err := embedded.OpenAdmin(n.Dir, "")
	return err == nil
}

// makeCluster turns the folders into nodes of one cluster, unless they already are.
func makeCluster(ctx context.Context, p verb.Process, nodes []Node) error {
	o := embedded.Options{MemoryBytes: verb.NoLimit, Logger: verb.Quiet(p.Stderr)}
	for i, n := range nodes {
		if _, err := embedded.OpenAdmin(n.Dir, ""); err == nil {
			continue
		}
		if i == 0 {
			if _, _, err := embedded.InitCluster(ctx, n.Dir, n.Addr, o); err != nil {
				return err
			}
			continue
		}
		text, err := embedded.Invite(nodes[0].Dir)
		if err != nil {
			return err
		}
		if _, err := embedded.Accept(n.Dir, text, o); err != nil {
			return err
		}
	}
	return nil
}

// awaitLeader waits until all nodes have a vote and one leads.
func awaitLeader(ctx context.Context, a *embedded.Admin, run *supervisor) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	for {
		ask, stop := context.WithTimeout(ctx, cluster.AskWait)
		answers := a.Ask(ask)
		stop()
		if n := cluster.LeaderOf(answers); n != 0 && voters(answers, n) >= run.count() {
			return n, nil
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("the nodes did not become ready: %w", ctx.Err())
		case err := <-run.failed:
			return 0, err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// voters counts the nodes that respond and have a vote, according to the leader.
func voters(answers []embedded.NodeAnswer, leader uint64) (n int) {
	for _, a := range answers {
		if a.ID != leader {
			continue
		}
		for _, seen := range a.Status.Nodes {
			if seen.Voter && seen.Connected {
				n++
			}
		}
	}
	return n
}

func printNodes(p verb.Process, o *options, nodes []Node, leader uint64) error {
	w := p.Stdout
	if o.json {
		return verb.PrintJSON(w, map[string]any{"data": o.data, "leader": leader, "nodes": nodes})
	}
	fmt.Fprintf(w, "%s on this machine, in %s\n", verb.Plural(len(nodes), "node"), o.data)
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "NODE\tHTTP\tREDIS\tNODE PORT\t")
	for _, n := range nodes {
		mark := ""
		if uint64(n.ID) == leader {
			mark = "leads"
		}
		fmt.Fprintf(t, "%d\thttp://%s\tredis://%s\t%s\t%s\n", n.ID, n.HTTP, n.RESP, n.Addr, mark)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if p.App.Web != nil {
		fmt.Fprintf(w, "email is not sent; read it at http://%s%s\n", nodes[leader-1].HTTP, serve.OutboxPath)
	}
	_, err := fmt.Fprintf(w, "%s cluster status --data %s shows them; Ctrl-C stops them and keeps the data\n", p.App.Name, nodes[0].Dir)
	return err
}
