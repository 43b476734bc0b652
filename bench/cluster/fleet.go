package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/skerrydb/skerry/bench/rig"
)

// fleet has all processes that this run has started and not yet stopped.
type fleet struct {
	mu    sync.Mutex // guards what follows
	procs map[*rig.Process]struct{}
	ended bool // no more processes are started
}

var errEnded = errors.New("the run was ended")

func (f *fleet) start(cmd *exec.Cmd, log string) (*rig.Process, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return nil, errEnded
	}
	p, err := rig.Start(cmd, log)
	if err == nil {
		f.procs[p] = struct{}{}
	}
	return p, err
}

func (f *fleet) stop(p *rig.Process, sig syscall.Signal) error {
	err := p.Stop(sig)
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.procs, p)
	return err
}

// end kills all of them by their ids, including stopped ones.
func (f *fleet) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
	for p := range f.procs {
		_ = p.Signal(syscall.SIGKILL) // it may have ended by itself
	}
	for p := range f.procs {
		<-p.Done()
	}
	clear(f.procs)
}

// Ports of a node. etcd serves HTTP on the port of gRPC.
const (
	portData = iota
	portHTTP
	portPeer
	ports
)

// node is one process of a cluster with its folder.
type node struct {
	dir  string
	addr [ports]string
	proc *rig.Process // nil: not running
}

// nodes is how many a cluster has.
const nodes = 3

// cluster is a cluster of three nodes of one system.
type cluster struct {
	*kind
	fleet *fleet
	dir   string
	nodes [nodes]*node
}

// lowestPort and highestPort bound the ports of nodes, which keep theirs over restarts: below those that Linux
// uses for outgoing connections.
const lowestPort, highestPort = 20_000, 32_000

// keptPorts returns loopback addresses that are free.
func keptPorts(n int) ([]string, error) {
	var addrs []string
	for try := 0; len(addrs) < n; try++ {
		l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(lowestPort+rand.IntN(highestPort-lowestPort)))
		if err != nil {
			if try > 1000 {
				return nil, err
			}
			continue
		}
		defer l.Close()
		addrs = append(addrs, l.Addr().String())
	}
	return addrs, nil
}

// newCluster creates a cluster of the kind in an empty folder and starts it.
func newCluster(k *kind, f *fleet, dir string) (*cluster, error) {
	addrs, err := keptPorts(nodes * ports)
	if err != nil {
		return nil, err
	}
	c := &cluster{kind: k, fleet: f, dir: dir}
	for i := range c.nodes {
		n := &node{dir: filepath.Join(dir, "n"+strconv.Itoa(i+1))}
		copy(n.addr[:], addrs[i*ports:])
		c.nodes[i] = n
		if err := os.MkdirAll(n.dir, 0o700); err != nil {
			return nil, err
		}
	}
	if err := k.create(c); err != nil {
		return c, c.explain(err)
	}
	return c, c.explain(c.await(nodes))
}

// start starts a node that is not running.
func (c *cluster) start(i int, args ...string) error {
	n := c.nodes[i]
	var err error
	n.proc, err = c.fleet.start(c.command(c, i, args), n.dir+".log")
	return err
}

// startAll starts a stopped cluster, and waits until it serves.
func (c *cluster) startAll() error {
	for i := range c.nodes {
		if err := c.start(i); err != nil {
			return err
		}
	}
	return c.explain(c.await(nodes))
}

// stop ends one node.
func (c *cluster) stop(i int, sig syscall.Signal) error {
	n := c.nodes[i]
	if n.proc == nil {
		return nil
	}
	err := c.fleet.stop(n.proc, sig)
	n.proc = nil
	return err
}

func (c *cluster) stopAll(sig syscall.Signal) error {
	var errs []error
	for i := range c.nodes {
		errs = append(errs, c.stop(i, sig))
	}
	return errors.Join(errs...)
}

// poll repeats check until it succeeds.
func poll(limit time.Duration, check func() error) error {
	for end := time.Now().Add(limit); ; time.Sleep(20 * time.Millisecond) {
		err := check()
		if err == nil || errors.Is(err, errDied) {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("not after %v: %w", limit, err)
		}
	}
}

var errDied = errors.New("a node ended by itself")

// alive returns an error if a node ended that was not stopped.
func (c *cluster) alive() error {
	for _, n := range c.nodes {
		if n.proc == nil {
			continue
		}
		select {
		case <-n.proc.Done():
			return fmt.Errorf("%s: %w", filepath.Base(n.dir), errDied)
		default:
		}
	}
	return nil
}

// await waits until that many nodes agree on a leader that has nothing left to send them.
func (c *cluster) await(want int) error {
	return poll(rig.StartLimit, func() error {
		if err := c.alive(); err != nil {
			return err
		}
		lead, err := c.leader(c)
		if err != nil {
			return err
		}
		target, err := c.applied(c.nodes[lead])
		if err != nil {
			return err
		}
		level := 0
		for _, n := range c.nodes {
			if n.proc == nil {
				continue
			}
			if at, err := c.applied(n); err == nil && at >= target {
				level++
			}
		}
		if level < want {
			return fmt.Errorf("%d of %d nodes are up to date", level, want)
		}
		return nil
	})
}

// roles returns the index of the leader and those of the followers.
func (c *cluster) roles() (lead int, others []int, err error) {
	err = poll(rig.StartLimit, func() error {
		lead, err = c.leader(c)
		return err
	})
	for i := range c.nodes {
		if i != lead {
			others = append(others, i)
		}
	}
	return lead, others, err
}

// addrs returns the addresses of one port of some nodes.
func (c *cluster) addrs(port int, of ...int) []string {
	var all []string
	for _, i := range of {
		all = append(all, c.nodes[i].addr[port])
	}
	return all
}

// usage is the resource use of all nodes of a cluster since each started.
type usage struct {
	cpu    time.Duration
	fsyncs float64
}

// meter reads CPU times last at the beginning of a window and first at its end, so that collecting the other
// values is not measured.
func (c *cluster) meter(begin bool) (u usage, err error) {
	var errs []error
	cpu := func() {
		for _, n := range c.nodes {
			d, err := rig.CPUTime(n.proc.PID())
			u.cpu += d
			errs = append(errs, err)
		}
	}
	if !begin {
		cpu()
	}
	for _, n := range c.nodes {
		f, err := c.fsyncs(n)
		u.fsyncs += f
		errs = append(errs, err)
	}
	if begin {
		cpu()
	}
	return u, errors.Join(errs...)
}

// resident returns the memory of all nodes in bytes.
func (c *cluster) resident() (sum int64, err error) {
	for _, n := range c.nodes {
		r, err := rig.RSS(n.proc.PID())
		if err != nil {
			return 0, err
		}
		sum += r
	}
	return sum, nil
}

// logLines is how many lines of each node's log explain a failure: from its end, or from where the program
// crashed.
const logLines = 15

// explain adds the last log lines of the nodes to an error.
func (c *cluster) explain(err error) error {
	if err == nil {
		return nil
	}
	var b strings.Builder
	for _, n := range c.nodes {
		if n == nil {
			continue
		}
		text, _ := os.ReadFile(n.dir + ".log")
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		from := max(0, len(lines)-logLines)
		if i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "panic:") || strings.HasPrefix(l, "fatal error:") }); i >= 0 {
			from = max(0, i-2)
		}
		fmt.Fprintf(&b, "\n--- %s %s\n%s", c.name, filepath.Base(n.dir), strings.Join(lines[from:min(len(lines), from+logLines)], "\n"))
	}
	return fmt.Errorf("%w%s", err, b.String())
}
