package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/journal"
)

// devReadyWait is how long the nodes may take until one leads.
const devReadyWait = 60 * time.Second

// devOptions is what `skerry dev` takes.
type devOptions struct {
	nodes   int
	data    string
	memory  int64
	verbose bool
	json    bool
}

var devVerb = verb{
	name: "dev", short: "run a cluster of several nodes on this machine, to try and to develop with",
	long: `Starts one process a node, on loopback and without a password. The first start makes
the cluster; data and addresses stay in the folder for the next one. A node that
ends is started again: kill one and see. Ctrl-C stops all.`,
	start: func(App) action {
		o := &devOptions{}
		settings := []setting{
			{"nodes", "N", "3", "how many; a folder that has been used keeps its number", false, whole(&o.nodes, 1, embedded.MaxNodes)},
			{"data", "DIR", "./data-dev", "folder of all nodes' data", false, text(&o.data)},
			{"memory", "SIZE", "", "most that the data of one node may take (default the nodes' share of half of this machine's)", false, size(&o.memory, minMemory)},
			{"v", "", "", "show all that the nodes log, not only errors", false, toggle(&o.verbose)},
			jsonSetting(&o.json),
		}
		return action{settings, noArguments, func(ctx context.Context, p process, _ []string) error {
			return dev(ctx, p, o)
		}, false}
	},
}

// devNode is one node's addresses and folder.
type devNode struct {
	ID   int    `json:"node"`
	HTTP string `json:"http"`
	RESP string `json:"resp"`
	Addr string `json:"node_addr"`
	Dir  string `json:"-"`
	Join string `json:"-"` // a node to ask for admission; "" for the first one
}

// devFile remembers the addresses, in the folder of `skerry dev`.
const devFile = "dev.json"

// dev runs the nodes until ctx ends.
func dev(ctx context.Context, p process, o *devOptions) (err error) {
	unlock, err := journal.LockDir(journal.OS(), o.data)
	if locked, ok := errors.AsType[*journal.LockedError](err); ok {
		return engine.Errorf(engine.CodeLocked, "%s is in use by process %d", o.data, locked.Pid)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	nodes, err := devNodes(o)
	if err != nil {
		return err
	}
	if err := makeCluster(ctx, p, nodes); err != nil {
		return err
	}
	if o.memory == 0 {
		o.memory = max(minMemory, memoryLimit(0)/int64(len(nodes)))
	}
	run := newNursery(p, o)
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

// devNodes returns the nodes of the folder: those of the last time, or new ones
// on ports that are free now.
func devNodes(o *devOptions) (nodes []devNode, err error) {
	name := filepath.Join(o.data, devFile)
	text, err := os.ReadFile(name)
	switch {
	case err == nil:
		if err := json.Unmarshal(text, &nodes); err != nil || len(nodes) == 0 {
			return nil, fmt.Errorf("%s is damaged; remove %s to begin anew, without its data", name, o.data)
		}
		for _, n := range nodes {
			for _, addr := range []string{n.HTTP, n.RESP, n.Addr} {
				if !free(addr) {
					return nil, fmt.Errorf("node %d needs %s, which is in use; `--data` chooses another folder, with addresses of its own", n.ID, addr)
				}
			}
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	default:
		if nodes, err = chooseAddresses(o.nodes); err != nil {
			return nil, err
		}
		if text, err = json.Marshal(nodes); err != nil {
			return nil, err
		}
		if err := os.WriteFile(name, text, 0o600); err != nil {
			return nil, err
		}
	}
	for i := range nodes {
		nodes[i].Dir = filepath.Join(o.data, "n"+strconv.Itoa(nodes[i].ID))
		if i > 0 {
			nodes[i].Join = nodes[0].Addr
		}
	}
	return nodes, nil
}

func free(addr string) bool {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return false
	}
	return l.Close() == nil
}

// Ports of the first node; the next ones have the next.
const (
	devHTTP  = 7001
	devRESP  = 6380
	devNode1 = 7101
)

// chooseAddresses takes ports that are easily remembered, or if one of them is
// in use, any.
func chooseAddresses(n int) (nodes []devNode, err error) {
	easy := true
	for i := range n {
		at := func(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port+i)) }
		nodes = append(nodes, devNode{ID: i + 1, HTTP: at(devHTTP), RESP: at(devRESP), Addr: at(devNode1)})
		easy = easy && free(nodes[i].HTTP) && free(nodes[i].RESP) && free(nodes[i].Addr)
	}
	if easy {
		return nodes, nil
	}
	var taken []net.Listener
	defer func() {
		for _, l := range taken {
			l.Close()
		}
	}()
	for i := range nodes {
		for _, addr := range []*string{&nodes[i].HTTP, &nodes[i].RESP, &nodes[i].Addr} {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return nil, err
			}
			taken = append(taken, l)
			*addr = l.Addr().String()
		}
	}
	return nodes, nil
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
	_, err := fmt.Fprintf(w, "%s cluster status --data %s shows them; Ctrl-C stops them, the data stays\n", p.app.Name, nodes[0].Dir)
	return err
}
