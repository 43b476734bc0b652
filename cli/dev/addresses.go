package dev

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/skerrydb/skerry/cli/serve"
	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/journal"
)

// Ports of the first node; each further node has the next port. The substitute for a port in use is ten above
// it, or twenty, and so on: 7011 for 7001. All of these are below the ports that systems use for outgoing
// connections (32768 and up on Linux), so that no connection takes a node's port while the node restarts.
const (
	firstHTTP  = 7001
	firstRESP  = 6380
	firstNode  = 7101
	firstAdmin = 7201
)

// maxDevs is how many `dev` processes get ports on one machine: ten in the ports up to 90 above the first
// ones, ten from 1,000 above them, and ten from 2,000 above them.
const maxDevs = 30

// loopback parses an address that only this machine can reach.
func loopback(p *string) func(string) error {
	return func(v string) error {
		var addr string
		if err := verb.Address(&addr)(v); err != nil || addr == verb.Off {
			return fmt.Errorf("%q is not HOST:PORT", v)
		}
		if verb.Public(addr) {
			return fmt.Errorf("%s is reachable from other machines, which is unsafe in debug mode: use 127.0.0.1:%s", v, portIn(addr))
		}
		*p = addr
		return nil
	}
}

func portIn(addr string) string {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		panic("BUG: address " + addr)
	}
	return port
}

// chooseNodes returns the nodes of the folder: those of the last run, or new ones on ports that are free now.
// No other `dev` uses their addresses until release.
func chooseNodes(p verb.Process, o *options) (nodes []Node, release func(), err error) {
	name := filepath.Join(o.data, serve.DevFile)
	text, err := os.ReadFile(name)
	switch {
	case err == nil:
		if err := json.Unmarshal(text, &nodes); err != nil || len(nodes) == 0 {
			return nil, nil, fmt.Errorf("%s is damaged; delete %s to start over without its data", name, o.data)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, nil, err
	default:
		for i := range o.nodes {
			nodes = append(nodes, Node{ID: i + 1})
		}
	}
	if err := moveHTTP(nodes, o.http); err != nil {
		return nil, nil, err
	}
	claimed := &claims{}
	defer func() {
		if err != nil {
			claimed.release()
		}
	}()
	if err := claimed.take(nodes); err != nil {
		return nil, nil, err
	}
	if err := claimed.choose(p, o, nodes); err != nil {
		return nil, nil, err
	}
	if text, err = json.Marshal(nodes); err != nil {
		return nil, nil, err
	}
	if err := (journal.Files{FS: journal.OS()}).Write(name, text); err != nil {
		return nil, nil, err
	}
	for i := range nodes {
		nodes[i].Dir = filepath.Join(o.data, "n"+strconv.Itoa(nodes[i].ID))
		if i > 0 {
			nodes[i].Join = nodes[0].Addr
		}
	}
	return nodes, claimed.release, nil
}

// moveHTTP gives the nodes the requested address and the ports after it. Port 0 leaves them without one.
func moveHTTP(nodes []Node, http string) error {
	if http == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(http)
	if err != nil {
		return err
	}
	first, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	for i := range nodes {
		nodes[i].HTTP = ""
		if first != 0 {
			nodes[i].HTTP = net.JoinHostPort(host, strconv.Itoa(first+i))
		}
	}
	return nil
}

func loopbackAddress(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// claims are addresses that no other `dev` on this machine uses, even while the node at an address is starting
// or has been killed.
//
// A claim is a UDP socket on the same port, which carries no data and serves as a lock. A second claim fails
// in any process. TCP stays free for the node, and connections to a node that is not running are refused.
// Child processes do not inherit the socket, and the kernel closes it however this process ends.
type claims []net.PacketConn

// claim claims an address. It reports false if another process has claimed it or listens there.
func (c *claims) claim(addr string) bool {
	lock, err := net.ListenPacket("udp", addr)
	if err != nil {
		return false
	}
	// Without the claim, this listener could get in the way of a node of the claim's owner.
	l, err := net.Listen("tcp", addr)
	if err != nil {
		lock.Close()
		return false
	}
	l.Close()
	*c = append(*c, lock)
	return true
}

func (c *claims) release() {
	for _, lock := range *c {
		lock.Close()
	}
	*c = nil
}

// take claims the addresses of the nodes.
func (c *claims) take(nodes []Node) error {
	for _, n := range nodes {
		if n.HTTP != "" && !c.claim(n.HTTP) {
			return fmt.Errorf("node %d needs %s, which is in use; --http ADDR chooses another address", n.ID, n.HTTP)
		}
		for _, addr := range []string{n.RESP, n.Admin, n.Addr} {
			if addr != "" && !c.claim(addr) {
				return fmt.Errorf("node %d needs %s, which is in use; --data DIR chooses another folder, with its own addresses", n.ID, addr)
			}
		}
	}
	return nil
}

// choose assigns missing addresses to the nodes, on ports that are easy to remember. It prints substitutes.
func (c *claims) choose(p verb.Process, o *options, nodes []Node) error {
	host := "127.0.0.1"
	if h, _, err := net.SplitHostPort(o.http); err == nil {
		host = h
	}
	for i := range nodes {
		n := &nodes[i]
		for _, face := range []struct {
			name   string
			addr   *string
			host   string
			port   int
			report bool
		}{
			{"HTTP", &n.HTTP, host, firstHTTP, o.http == ""},
			{"Redis", &n.RESP, "127.0.0.1", firstRESP, true},
			{"admin", &n.Admin, "127.0.0.1", firstAdmin, true},
			{"nodes", &n.Addr, "127.0.0.1", firstNode, len(nodes) > 1},
		} {
			if *face.addr != "" {
				continue
			}
			port, err := c.find(face.host, face.port+i)
			if err != nil {
				return fmt.Errorf("%s: %w", face.name, err)
			}
			if port != face.port+i && face.report {
				fmt.Fprintf(p.Stderr, "%s: port %d is in use; using %d\n", face.name, face.port+i, port)
			}
			*face.addr = net.JoinHostPort(face.host, strconv.Itoa(port))
		}
	}
	return nil
}

// find claims a port, or one of its substitutes, and returns it.
func (c *claims) find(host string, first int) (port int, err error) {
	for i := range maxDevs {
		port = first + i/10*1000 + i%10*10
		if c.claim(net.JoinHostPort(host, strconv.Itoa(port))) {
			return port, nil
		}
	}
	return 0, fmt.Errorf("port %d of %s is in use, and so are its %d substitutes up to %d", first, host, maxDevs-1, port)
}
