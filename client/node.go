package client

import (
	"maps"
	"sync/atomic"
)

// node is one server, identified by the address at which it is dialled.
type node struct {
	addr      string
	announced string // its own address as it reported it, or ""; guarded by the client's mu
	leads     *node  // the leader that it named last, or nil; guarded by the client's mu
	given     bool   // from Options; the others were learned
	links     []*link
	leaving   atomic.Bool   // another node is the same server: no new calls
	turn      atomic.Uint32 // selects among links

	bytesOut, bytesIn    atomic.Uint64
	connects, dialErrors atomic.Uint64

	procs atomic.Pointer[map[string]*procStats] // replaced, never modified
}

func newNode(c *Client, addr string) *node {
	n := &node{addr: addr}
	n.procs.Store(&map[string]*procStats{})
	for range c.o.Conns {
		n.links = append(n.links, &link{c: c, node: n, done: make(chan struct{}), wake: make(chan struct{}, 1)})
	}
	return n
}

// usable reports whether calls can be sent to n now. The caller holds the client's mu.
func (n *node) usable() bool {
	return n != nil && n.up() && !n.retired() && !n.leaving.Load()
}

// link returns a link for the next call, preferably a connected one.
func (n *node) link() *link {
	if len(n.links) == 1 {
		return n.links[0]
	}
	first := int(n.turn.Add(1))
	for i := range n.links {
		if l := n.links[(first+i)%len(n.links)]; l.up.Load() {
			return l
		}
	}
	return n.links[0]
}

// retired reports whether the node was removed.
func (n *node) retired() bool {
	select {
	case <-n.links[0].done:
		return true
	default:
		return false
	}
}

// up reports whether the node has a connection.
func (n *node) up() bool {
	for _, l := range n.links {
		if l.up.Load() {
			return true
		}
	}
	return false
}

// rest is the name under which procedures beyond MaxProcedures are counted.
const rest = "…"

// procedure returns the statistics for a name, or nil for "".
func (n *node) procedure(name string) *procStats {
	if name == "" {
		return nil
	}
	for {
		old := n.procs.Load()
		if p := (*old)[name]; p != nil {
			return p
		}
		if len(*old) >= MaxProcedures {
			name = rest
			if p := (*old)[name]; p != nil {
				return p
			}
		}
		own := string(append([]byte(nil), name...))
		p := &procStats{name: own}
		next := maps.Clone(*old)
		next[own] = p
		if n.procs.CompareAndSwap(old, &next) {
			return p
		}
	}
}
