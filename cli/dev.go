package cli

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

	"github.com/skerrydb/skerry/cli/sources"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/journal"
)

// devReadyWait is how long the nodes may take until one leads.
const devReadyWait = 60 * time.Second

// devNodesAlone is how many nodes `skerry dev` runs if nothing is said and there is
// no source of a program.
const devNodesAlone = 3

// devOptions is what `skerry dev` takes.
type devOptions struct {
	nodes   int // 0: nothing is said
	http    string
	data    string
	memory  int64
	built   bool
	verbose bool
	json    bool
}

var devVerb = verb{
	name: "dev", args: "[FOLDER] [-- FLAGS OF SERVE]", short: "develop a program: build, run and rebuild it as its source changes; or run a cluster, to try",
	long: `In a Go module: builds the program of FOLDER (default this one, its folder server, or
those of the module), runs it in debug mode, and watches its source. When that
changes it is built anew; only when that has worked is the old one stopped, and
requests wait for the new one. Pages and assets that the program takes from
Services.Files need no build. What does not build is shown here and in the browser.
With --nodes it runs as several nodes of a cluster.

Elsewhere, or with --built: runs this program itself, as it is, as the nodes of a
cluster. Its web application is in debug mode too.

All listens on loopback, without a password. Data and addresses stay in the folder
of --data for the next time. What ends is started again: kill it and see. Ctrl-C
stops all.`,
	start: func(App) action {
		o := &devOptions{}
		settings := []setting{
			{"nodes", "N", "", "how many; a folder that has been used keeps its number (default 1 of a program that is built, otherwise 3)", false, whole(&o.nodes, 1, embedded.MaxNodes)},
			{"data", "DIR", "./data-dev", "folder of all nodes' data", false, text(&o.data)},
			{"http", "ADDR", "", "address of HTTP on this machine, which is remembered; more nodes have the next ports (default what it was last, at first 127.0.0.1:7001)", false, loopback(&o.http)},
			{"memory", "SIZE", "", "most that the data of one node may take (default the nodes' share of half of this machine's)", false, size(&o.memory, minMemory)},
			{"built", "", "", "run this program as it is, and build nothing", false, toggle(&o.built)},
			{"v", "", "", "show all that the nodes of a cluster log, not only errors", false, toggle(&o.verbose)},
			jsonSetting(&o.json),
		}
		return action{settings, o.check, func(ctx context.Context, p process, rest []string) error {
			return dev(ctx, p, o, rest)
		}, false}
	},
}

// devNode is one node's addresses and folder.
type devNode struct {
	ID    int    `json:"node"`
	HTTP  string `json:"http"`
	RESP  string `json:"resp"`
	Admin string `json:"admin"`
	Addr  string `json:"node_addr"`
	Dir   string `json:"-"`
	Join  string `json:"-"` // a node to ask for admission; "" for the first one
}

// devFile remembers the addresses, in the folder of `skerry dev`.
const devFile = "dev.json"

// check finds what does not fit together.
func (o *devOptions) check(rest []string) error {
	folder, flags := devArguments(rest)
	if o.built && (folder != "" || flags != nil) {
		return usagef("--built builds nothing, so it takes neither a folder nor flags of serve")
	}
	var wrong []error
	if folder != "" {
		if info, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
			wrong = append(wrong, fmt.Errorf("there is no folder %s", folder))
		} else if err == nil && !info.IsDir() {
			wrong = append(wrong, fmt.Errorf("%s is not a folder", folder))
		}
		if len(flags) > 0 && !strings.HasPrefix(flags[0], "-") {
			wrong = append(wrong, fmt.Errorf("%q is one argument too many: one program is run, with the flags of serve behind --", flags[0]))
		}
	}
	return mistakes(wrong...)
}

// devArguments are the folder of a program and the flags for it.
func devArguments(rest []string) (folder string, flags []string) {
	if len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		return rest[0], rest[1:]
	}
	return "", rest
}

// notServed refuses, as the folder of `skerry dev`, the data folder of one server: the
// folders of the nodes would be put into it.
func notServed(dir string) error {
	if info, err := os.Stat(filepath.Join(dir, "log")); err != nil || !info.IsDir() {
		return nil //nolint:nilerr // it is no data folder, or not there yet
	}
	return engine.Errorf(engine.CodeInvalid, "%s is the data folder of a server, which `skerry serve --data %s` serves; dev needs a folder of its own: choose one with --data DIR", dir, dir)
}

// dev runs the nodes until ctx ends.
func dev(ctx context.Context, p process, o *devOptions, rest []string) (err error) {
	folder, flags := devArguments(rest)
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
		o.nodes = devNodesAlone
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
	nodes, release, err := devNodes(p, o)
	if err != nil {
		return err
	}
	defer release()
	if o.memory == 0 {
		o.memory = max(minMemory, memoryLimit(0)/int64(len(nodes)))
	}
	if program != nil {
		return develop(ctx, p, o, program, nodes, flags)
	}
	return devCluster(ctx, p, o, nodes)
}

// devCluster runs this program itself as the nodes of a cluster.
func devCluster(ctx context.Context, p process, o *devOptions, nodes []devNode) error {
	if err := makeCluster(ctx, p, nodes); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	run := newNursery(p, keeper{lines: o.verbose, command: func(n devNode) (string, []string) {
		args := append(n.flags(o), "--http", n.HTTP)
		if p.app.Web != nil {
			args = append(args, "--admin", n.Admin, "--debug")
		}
		return self, args
	}})
	for _, n := range nodes {
		run.start(n)
	}
	defer run.stop()
	a, err := embedded.OpenAdmin(nodes[0].Dir, p.app.build().Version)
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

// flags are what all processes of `skerry dev` get.
func (n devNode) flags(o *devOptions) []string {
	args := []string{"serve", "--data", n.Dir, "--resp", n.RESP, "--memory", strconv.FormatInt(o.memory, 10) + "B", "--while-stdin", "--json"}
	if o.nodes > 1 || n.clustered() {
		args = append(args, "--node", n.Addr)
	}
	if n.Join != "" {
		args = append(args, "--join", n.Join)
	}
	return args
}

// clustered reports whether a node's folder is one of a cluster.
func (n devNode) clustered() bool {
	_, err := embedded.OpenAdmin(n.Dir, "")
	return err == nil
}

// makeCluster makes the folders the nodes of one cluster, as far as they are not.
func makeCluster(ctx context.Context, p process, nodes []devNode) error {
	o := embedded.Options{MemoryBytes: noLimit, Logger: quiet(p.Stderr)}
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
func awaitLeader(ctx context.Context, a *embedded.Admin, run *nursery) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, devReadyWait)
	defer cancel()
	for {
		ask, stop := context.WithTimeout(ctx, askWait)
		answers := a.Ask(ask)
		stop()
		if n := leaderOf(answers); n != 0 && voters(answers, n) >= run.count() {
			return n, nil
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("the nodes did not get ready: %w", ctx.Err())
		case err := <-run.hopeless:
			return 0, err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// voters counts the nodes that answer and have a vote, as the leader says.
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

func printNodes(p process, o *devOptions, nodes []devNode, leader uint64) error {
	w := p.Stdout
	if o.json {
		return printJSON(w, map[string]any{"data": o.data, "leader": leader, "nodes": nodes})
	}
	fmt.Fprintf(w, "%s on this machine, in %s\n", plural(len(nodes), "node"), o.data)
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
	if p.app.Web != nil {
		fmt.Fprintf(w, "mail is not sent: http://%s%s shows it\n", nodes[leader-1].HTTP, outboxPath)
	}
	_, err := fmt.Fprintf(w, "%s cluster status --data %s shows them; Ctrl-C stops them, the data stays\n", p.app.Name, nodes[0].Dir)
	return err
}
