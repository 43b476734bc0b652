package resp_test

import (
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/resp"
	"github.com/skerrydb/skerry/resp/wire"
)

const outOfRange = "ERR DB index is out of range"

// TestDatabasesClosed checks that by default no command has access to the application's
// keys.
func TestDatabasesClosed(t *testing.T) {
	t.Parallel()
	a := newAsker(t, startSkerry(t, resp.Options{}))
	a.want("OK", "SET", "k", "v")
	for _, db := range []string{"16", "17", "127", "128", "253", "255", "256", "-1"} {
		a.want(outOfRange, "SELECT", db)
		a.want(outOfRange, "MOVE", "k", db)
		a.want(outOfRange, "COPY", "k", "to", "DB", db)
		a.want(outOfRange, "SWAPDB", "0", db)
	}
	a.want("[databases 16]", "CONFIG", "GET", "databases")
	for _, n := range []int{-1, 1, 15, resp.MaxDatabases + 1} {
		if _, err := resp.New(nil, nil, resp.Options{Databases: n}); engine.CodeOf(err) != engine.CodeInvalid {
			t.Errorf("%d databases: %v", n, err)
		}
	}
}

// TestDatabasesOpen checks that with more databases an operator can read and change the
// application's keys, including on followers, but never Skerry's own. FLUSHALL does not
// remove them.
func TestDatabasesOpen(t *testing.T) {
	t.Parallel()
	all := startNodes(t, 2, resp.Options{Databases: resp.MaxDatabases})
	leader, follower := newAsker(t, all.list[0].addr), newAsker(t, all.list[1].addr)
	for _, a := range []*asker{follower, leader} {
		a.want("OK", "SELECT", "17")
		a.want("OK", "SET", "k", "v")
		a.want("1", "COPY", "k", "k", "DB", "127", "REPLACE")
		for _, db := range []string{"128", "253", "255"} {
			a.want(outOfRange, "SELECT", db)
		}
		a.want("OK", "FLUSHALL")
		a.want("v", "GET", "k")
		a.want("OK", "SELECT", "127")
		a.want("v", "GET", "k")
		a.want("OK", "FLUSHDB")
		a.want("nil", "GET", "k")
		a.want("OK", "SELECT", "17")
		a.want("1", "DEL", "k")
	}
}

// TestDatabasesOfAnotherNode checks that a node does not repeat the check of another node,
// whose options may differ.
func TestDatabasesOfAnotherNode(t *testing.T) {
	t.Parallel()
	all := startNodes(t, 2, resp.Options{})
	nc, err := all.list[1].Dial(t.Context(), 1, resp.NodeProtocol)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	a := &asker{t, nc, wire.NewReplies(nc, &wire.Buffers{}, 0)}
	a.want("OK", "SELECT", "127")
	a.want("OK", "SET", "k", "v")
	a.want(outOfRange, "SELECT", "128")
}
