package dev

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/ci/ports"
	"github.com/skerrydb/skerry/cli/serve"
	"github.com/skerrydb/skerry/cli/verb"
)

// TestDevAddresses: requested addresses are remembered; those in use are reported, with the flag for another
// one.
func TestDevAddresses(t *testing.T) {
	t.Parallel()
	var first claims
	defer first.release()
	first.claim(loopbackAddress(firstHTTP)) // else somebody else has it
	o := &options{nodes: 1, data: t.TempDir()}
	nodes, said, _ := choose(t, o)
	if want := fmt.Sprintf("HTTP: port 7001 is in use; using %s\n", portIn(nodes[0].HTTP)); portIn(nodes[0].HTTP) == "7001" || !strings.Contains(said, want) {
		t.Errorf("HTTP at %s, and it says %s", nodes[0].HTTP, said)
	}
	o = &options{http: "127.0.0.1:0", data: t.TempDir()}
	ownAddresses(t, o.data, 2)
	before := addressesIn(t, o.data)
	nodes, said, _ = choose(t, o)
	if nodes[0].HTTP == nodes[1].HTTP || nodes[0].HTTP == before[0].HTTP || nodes[1].RESP != before[1].RESP || said != "" {
		t.Errorf("%v became %v; it says %s", before, nodes, said)
	}
	if kept := addressesIn(t, o.data); kept[0].HTTP != nodes[0].HTTP || kept[1].HTTP != nodes[1].HTTP {
		t.Errorf("remembered are %v instead of %v", kept, nodes)
	}
	moved := []Node{{}, {}, {}}
	if err := moveHTTP(moved, "localhost:8000"); err != nil || moved[0].HTTP != "localhost:8000" || moved[2].HTTP != "localhost:8002" {
		t.Errorf("moved to %v, %v", moved, err)
	}
}

// choose returns the nodes that `skerry dev` would run, and what it says of them.
func choose(t *testing.T, o *options) (nodes []Node, said string, release func()) {
	t.Helper()
	var out strings.Builder
	nodes, release, err := chooseNodes(verb.Process{Stderr: &out}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return nodes, out.String(), release
}

// addressesIn returns the nodes that a folder of `skerry dev` remembers.
func addressesIn(t *testing.T, dir string) (nodes []Node) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, serve.DevFile))
	if err == nil {
		err = json.Unmarshal(text, &nodes)
	}
	if err != nil {
		t.Fatal(err)
	}
	return nodes
}

// TestDevsAtOnce: those that start at the same moment have no address in common, though
// nothing listens there yet.
func TestDevsAtOnce(t *testing.T) {
	t.Parallel()
	owner := map[string]int{}
	for dev := 1; dev <= 3; dev++ {
		nodes, _, _ := choose(t, &options{nodes: 3, data: t.TempDir()})
		for _, n := range nodes {
			for _, addr := range []string{n.HTTP, n.RESP, n.Admin, n.Addr} {
				if owner[addr] != 0 {
					t.Errorf("%s is of the nodes of %d and of %d", addr, owner[addr], dev)
				}
				owner[addr] = dev
				if port, err := strconv.Atoi(portIn(addr)); err != nil || port >= 10_000 {
					t.Errorf("an outgoing connection may take %s", addr)
				}
			}
		}
	}
}

// TestDevKeepsAddresses: the addresses of a folder are its own for as long as it runs, also
// while a node is down; nothing keeps it from listening there, and they are free at the end.
func TestDevKeepsAddresses(t *testing.T) {
	t.Parallel()
	o := &options{data: t.TempDir()}
	ownAddresses(t, o.data, 2)
	nodes, _, release := choose(t, o)
	listen := func() net.Listener {
		l, err := net.Listen("tcp", nodes[1].HTTP)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	listen().Close()
	refused := func(why, want string) {
		t.Helper()
		_, release, err := chooseNodes(verb.Process{Stderr: io.Discard}, o)
		if err == nil {
			release()
			t.Errorf("%s: it would start", why)
		} else if err.Error() != want {
			t.Errorf("%s: %v", why, err)
		}
	}
	refused("another one has claimed an address", "node 1 needs "+nodes[0].HTTP+", which is in use; --http ADDR chooses another address")
	release()
	l := listen()
	refused("something listens at an address", "node 2 needs "+nodes[1].HTTP+", which is in use; --http ADDR chooses another address")
	l.Close()
	again, _, _ := choose(t, o) // nothing is left of those that were refused
	if again[0] != nodes[0] || again[1] != nodes[1] {
		t.Errorf("remembered are %v instead of %v", again, nodes)
	}
}

// TestDevsAreMany: the ports in place of one that is in use are near it, and not endless.
func TestDevsAreMany(t *testing.T) {
	t.Parallel()
	const first = 30_000 // nothing else on this machine has ports from here on
	var held claims
	defer held.release()
	last := 0
	for range maxDevs + 1 {
		port, err := held.find("127.0.0.1", first)
		if err != nil {
			if want := "port 30000 of 127.0.0.1 is in use, and so are its 29 substitutes up to 32090"; err.Error() != want {
				t.Errorf("when none is left: %v", err)
			}
			return
		}
		if port <= last || port%1000 > 90 || port%10 != 0 {
			t.Fatalf("after %d it chooses %d", last, port)
		}
		last = port
	}
	t.Errorf("%d get ports", maxDevs+1)
}

// ownAddresses gives n nodes of a new folder addresses that no other test has.
func ownAddresses(t *testing.T, dir string, n int) {
	t.Helper()
	var nodes []Node
	for id := range n {
		nodes = append(nodes, Node{ID: id + 1, HTTP: ports.Addr(t), RESP: ports.Addr(t), Admin: ports.Addr(t), Addr: ports.Addr(t)})
	}
	text, err := json.Marshal(nodes)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, serve.DevFile), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
