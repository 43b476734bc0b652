package cli

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// faultNet is the network between the nodes: a proxy in front of every node port. It knows which node dialled,
// so that each direction between two nodes can be disturbed separately. A cut delays data, like a network that
// loses packets, until it is healed.
type faultNet struct {
	owner func(port int) uint64 // which node has a local TCP port; 0: none of them

	mu      sync.Mutex // guards what follows
	rules   map[faultLink]faultRule
	changed chan struct{}
	conns   map[net.Conn]struct{}
	doors   []net.Listener
	closed  bool
	running sync.WaitGroup
}

// faultLink is one direction between two nodes.
type faultLink struct{ from, to uint64 }

// faultRule is what happens to bytes in one direction.
type faultRule struct {
	cut   bool
	delay time.Duration // of every chunk
	rate  int           // bytes a second; 0: as they come
}

func newFaultNet(owner func(port int) uint64) *faultNet {
	return &faultNet{owner: owner, rules: map[faultLink]faultRule{}, changed: make(chan struct{}), conns: map[net.Conn]struct{}{}}
}

// door opens a proxy to a node's port and returns its address.
func (n *faultNet) door(id uint64, target string) (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.doors = append(n.doors, l)
	n.running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			n.running.Go(func() { n.carry(c, id, target) })
		}
	})
	return l.Addr().String(), nil
}

// carry connects c to the node behind a door until one side ends.
func (n *faultNet) carry(c net.Conn, to uint64, target string) {
	defer n.drop(c)
	if !n.keep(c) {
		return
	}
	from := n.owner(c.RemoteAddr().(*net.TCPAddr).Port)
	back, err := net.DialTimeout("tcp", target, 5*time.Second)
	if err != nil {
		return // as if nobody listened
	}
	defer n.drop(back)
	if !n.keep(back) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { n.pump(back, c, faultLink{from, to}) })
	both.Go(func() { n.pump(c, back, faultLink{to, from}) })
	both.Wait()
}

func (n *faultNet) keep(c net.Conn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.closed {
		n.conns[c] = struct{}{}
	}
	return !n.closed
}

// drop resets a connection.
func (n *faultNet) drop(c net.Conn) {
	n.mu.Lock()
	delete(n.conns, c)
	n.mu.Unlock()
	c.(*net.TCPConn).SetLinger(0)
	c.Close()
}

// pump carries bytes in one direction. Its end ends the connection, which is not
// heard of through a cut either.
func (n *faultNet) pump(to io.Writer, from net.Conn, l faultLink) {
	buf := make([]byte, 32<<10)
	for {
		k, err := from.Read(buf)
		n.pass(l, k)
		if k > 0 {
			if _, werr := to.Write(buf[:k]); werr != nil {
				err = werr
			}
		}
		if err != nil {
			from.Close()
			to.(net.Conn).Close()
			return
		}
	}
}

// pass returns when k bytes may go on.
func (n *faultNet) pass(l faultLink, k int) {
	for {
		n.mu.Lock()
		rule, changed, closed := n.rules[l], n.changed, n.closed
		n.mu.Unlock()
		if closed {
			return
		}
		if !rule.cut {
			if rule.rate > 0 {
				rule.delay += time.Duration(k) * time.Second / time.Duration(rule.rate)
			}
			if rule.delay > 0 {
				select {
				case <-time.After(rule.delay):
				case <-changed:
				}
			}
			return
		}
		<-changed
	}
}

// set puts a rule on some directions and takes the others' away.
func (n *faultNet) set(rule faultRule, links ...faultLink) {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.rules)
	for _, l := range links {
		n.rules[l] = rule
	}
	close(n.changed)
	n.changed = make(chan struct{})
}

func (n *faultNet) heal() { n.set(faultRule{}) }

// reset breaks all connections between nodes.
func (n *faultNet) reset() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.conns {
		c.(*net.TCPConn).SetLinger(0)
		c.Close()
	}
	return len(n.conns)
}

func (n *faultNet) close() {
	n.mu.Lock()
	n.closed = true
	for _, l := range n.doors {
		l.Close()
	}
	n.mu.Unlock()
	n.heal()
	n.reset()
	n.running.Wait()
}

// ownerOf returns which of some processes has a local TCP port of IPv4; 0: none.
func ownerOf(port int, pids map[uint64]int) uint64 {
	text, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return 0
	}
	local := fmt.Sprintf("0100007F:%04X", port)
	inode := ""
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 9 && f[1] == local && f[9] != "0" {
			inode = "socket:[" + f[9] + "]"
			break
		}
	}
	if inode == "" {
		return 0
	}
	for id, pid := range pids {
		dir := filepath.Join("/proc", strconv.Itoa(pid), "fd")
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, e := range entries {
			if at, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil && at == inode {
				return id
			}
		}
	}
	return 0
}
