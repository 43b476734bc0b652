// Package trio runs clusters of three nodes on this machine, of Skerry and of etcd.
//
// It knows how to create, start, stop and meter them and who leads; it must not know what is measured.
package trio

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/skerrydb/skerry/bench/rig"
)

// Ports of a node. etcd serves HTTP on the port of gRPC.
const (
	PortData = iota
	PortHTTP
	portPeer
	ports
)

// Node is one process of a cluster with its folder.
type Node struct {
	Dir  string
	Addr [ports]string
	Proc *rig.Process // nil: not running
}

// Size is how many a cluster has.
const Size = 3

// Cluster is a cluster of three nodes of one system.
type Cluster struct {
	*Kind
	fleet *rig.Fleet
	Dir   string
	Nodes [Size]*Node
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

// New creates a cluster of the kind in an empty folder and starts it.
func New(k *Kind, f *rig.Fleet, dir string) (*Cluster, error) {
	addrs, err := keptPorts(Size * ports)
	if err != nil {
		return nil, err
	}
	c := &Cluster{Kind: k, fleet: f, Dir: dir}
	for i := range c.Nodes {
		n := &Node{Dir: filepath.Join(dir, "n"+strconv.Itoa(i+1))}
		copy(n.Addr[:], addrs[i*ports:])
		c.Nodes[i] = n
		if err := os.MkdirAll(n.Dir, 0o700); err != nil {
			return nil, err
		}
	}
	if err := k.create(c); err != nil {
		return c, c.Explain(err)
	}
	return c, c.Explain(c.Await(Size))
}

// Start starts a node that is not running.
func (c *Cluster) Start(i int, args ...string) error {
	n := c.Nodes[i]
	var err error
	n.Proc, err = c.fleet.Start(c.command(c, i, args), n.Dir+".log")
	return err
}

// StartAll starts a stopped cluster, and waits until it serves.
func (c *Cluster) StartAll() error {
	for i := range c.Nodes {
		if err := c.Start(i); err != nil {
			return err
		}
	}
	return c.Explain(c.Await(Size))
}

// Stop ends one node.
func (c *Cluster) Stop(i int, sig syscall.Signal) error {
	n := c.Nodes[i]
	if n.Proc == nil {
		return nil
	}
	err := c.fleet.Stop(n.Proc, sig)
	n.Proc = nil
	return err
}

func (c *Cluster) StopAll(sig syscall.Signal) error {
	var errs []error
	for i := range c.Nodes {
		errs = append(errs, c.Stop(i, sig))
	}
	return errors.Join(errs...)
}

// Poll repeats check until it succeeds.
func Poll(limit time.Duration, check func() error) error {
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

// Alive returns an error if a node ended that was not stopped.
func (c *Cluster) Alive() error {
	for _, n := range c.Nodes {
		if n.Proc == nil {
			continue
		}
		select {
		case <-n.Proc.Done():
			return fmt.Errorf("%s: %w", filepath.Base(n.Dir), errDied)
		default:
		}
	}
	return nil
}

// Await waits until that many nodes agree on a leader that has nothing left to send them.
func (c *Cluster) Await(want int) error {
	return Poll(rig.StartLimit, func() error {
		if err := c.Alive(); err != nil {
			return err
		}
		lead, err := c.Leader(c)
		if err != nil {
			return err
		}
		target, err := c.Applied(c.Nodes[lead])
		if err != nil {
			return err
		}
		level := 0
		for _, n := range c.Nodes {
			if n.Proc == nil {
				continue
			}
			if at, err := c.Applied(n); err == nil && at >= target {
				level++
			}
		}
		if level < want {
			return fmt.Errorf("%d of %d nodes are up to date", level, want)
		}
		return nil
	})
}

// Roles returns the index of the leader and those of the followers.
func (c *Cluster) Roles() (lead int, others []int, err error) {
	err = Poll(rig.StartLimit, func() error {
		lead, err = c.Leader(c)
		return err
	})
	for i := range c.Nodes {
		if i != lead {
			others = append(others, i)
		}
	}
	return lead, others, err
}

// Addrs returns the addresses of one port of some nodes.
func (c *Cluster) Addrs(port int, of ...int) []string {
	var all []string
	for _, i := range of {
		all = append(all, c.Nodes[i].Addr[port])
	}
	return all
}

// Usage is the resource use of all nodes of a cluster since each started.
type Usage struct {
	CPU    time.Duration
	Fsyncs float64
}

// Meter reads CPU times last at the beginning of a window and first at its end, so that collecting the other
// values is not measured.
func (c *Cluster) Meter(begin bool) (u Usage, err error) {
	var errs []error
	cpu := func() {
		for _, n := range c.Nodes {
			d, err := rig.CPUTime(n.Proc.PID())
			u.CPU += d
			errs = append(errs, err)
		}
	}
	if !begin {
		cpu()
	}
	for _, n := range c.Nodes {
		f, err := c.fsyncs(n)
		u.Fsyncs += f
		errs = append(errs, err)
	}
	if begin {
		cpu()
	}
	return u, errors.Join(errs...)
}

// Resident returns the memory of all nodes in bytes.
func (c *Cluster) Resident() (sum int64, err error) {
	for _, n := range c.Nodes {
		r, err := rig.RSS(n.Proc.PID())
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

// Explain adds the last log lines of the nodes to an error.
func (c *Cluster) Explain(err error) error {
	if err == nil {
		return nil
	}
	var b strings.Builder
	for _, n := range c.Nodes {
		if n == nil {
			continue
		}
		text, _ := os.ReadFile(n.Dir + ".log")
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		from := max(0, len(lines)-logLines)
		if i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "panic:") || strings.HasPrefix(l, "fatal error:") }); i >= 0 {
			from = max(0, i-2)
		}
		fmt.Fprintf(&b, "\n--- %s %s\n%s", c.Name, filepath.Base(n.Dir), strings.Join(lines[from:min(len(lines), from+logLines)], "\n"))
	}
	return fmt.Errorf("%w%s", err, b.String())
}

// Load writes all keys to a new cluster.
func (c *Cluster) Load(keys uint64) error {
	lead, _, err := c.Roles()
	if err != nil {
		return err
	}
	if err := c.Fill(c, lead, 0, keys); err != nil {
		return fmt.Errorf("load: %w", err)
	}
	return c.Await(Size)
}

// Drop stops a cluster and deletes its data.
func (c *Cluster) Drop() error {
	if err := c.StopAll(syscall.SIGKILL); err != nil {
		return err
	}
	return os.RemoveAll(c.Dir)
}
