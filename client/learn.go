package client

import (
	"bytes"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/skerrydb/skerry/resp/wire"
)

// learn records what n reported about the nodes of its cluster. Each line of CLUSTER NODES
// is id, host:port@bus, flags, and more. The caller holds c.mu.
func (c *Client) learn(n *node, g *greeting) {
	var leader *node
	leaders := 0
	var members []*node
	for line := range bytes.Lines(g.nodes) {
		f := bytes.Fields(line)
		if len(f) < 3 {
			continue
		}
		flags := string(f[2])
		where, _, _ := strings.Cut(string(f[1]), "@")
		at, ok := parseAddr(where)
		peer := c.byAddr(at)
		if strings.Contains(flags, "myself") {
			if n.announced = at; peer != nil && peer != n && !peer.given {
				c.replace(peer, n) // n is the same server under another name
			}
			peer = n
		}
		if peer == nil && ok && len(*c.nodes.Load()) < MaxAddrs {
			peer = c.addNode(at)
		}
		members = append(members, peer)
		if strings.Contains(flags, "master") {
			leader = peer
			leaders++
		}
	}
	for _, old := range *c.nodes.Load() {
		if len(members) > 0 && !old.given && !old.up() && !slices.Contains(members, old) {
			c.retire(old)
		}
	}
	if leaders == 1 && leader != nil {
		c.leader, n.leads = leader, leader
	}
}

// parseAddr parses an address in Redis's format, in which the last colon precedes the port.
func parseAddr(s string) (string, bool) {
	i := strings.LastIndexByte(s, ':')
	if i <= 0 {
		return "", false
	}
	if n, ok := number(s[i+1:]); !ok || n < 1 || n > 65535 {
		return "", false
	}
	return net.JoinHostPort(strings.Trim(s[:i], "[]"), s[i+1:]), true
}

// push handles an out-of-band message of the server.
func (l *link) push(raw []byte) {
	it, rest, ok := wire.Cut(raw)
	if !ok || it.Len == 0 {
		return
	}
	name, rest, _ := wire.Cut(rest)
	switch string(name.Str) {
	case "leader":
		l.pushLeader(rest)
	case "invalidate":
		l.pushInvalidate(rest)
	}
}

// pushLeader handles a message with id, host and port of the new leader.
func (l *link) pushLeader(b []byte) {
	_, b, _ = wire.Cut(b)
	host, b, ok := wire.Cut(b)
	if !ok || len(host.Str) == 0 {
		return
	}
	port, _, ok := wire.Cut(b)
	p := string(port.Str)
	if port.Kind == wire.KindInt {
		p = strconv.FormatInt(port.Int, 10)
	}
	at, good := parseAddr(string(host.Str) + ":" + p)
	if !ok || !good {
		return
	}
	c := l.c
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.byAddr(at)
	if n == nil && len(*c.nodes.Load()) < MaxAddrs {
		n = c.addNode(at)
	}
	if n != nil {
		c.leader, l.node.leads = n, n
		c.choose()
	}
}
