package client_test

import (
	"slices"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/client"
	"github.com/skerrydb/skerry/resp/wire"
)

// TestStats checks the counters by node and procedure, including after a reconnect.
func TestStats(t *testing.T) {
	noLeaks(t)
	f := startFake(t, func(w *wire.Writer, _ int, args [][]byte) bool {
		if string(args[1]) == "bad" {
			w.Error("ERR bad [bad_thing]")
			return true
		}
		if string(args[1]) == "slow" {
			time.Sleep(20 * time.Millisecond)
		}
		w.Int(1)
		return true
	})
	c := open(t, client.Options{Addrs: []string{f.addr()}})
	call := func(name string) {
		_, _ = c.Call(background, name) // errors are counted below
	}
	for range 98 {
		call("quick")
	}
	call("bad")
	call("slow")
	node := func() client.NodeStats { return c.Stats().Nodes[0] }
	n := node()
	if n.Addr != f.addr() || n.Connected != 1 || n.Connects != 1 || n.InFlight != 0 || n.BytesIn < 400 || n.BytesOut < 2000 {
		t.Errorf("the node's metrics are %+v", n)
	}
	want := map[string][2]uint64{"quick": {98, 0}, "bad": {1, 1}, "slow": {1, 0}}
	for _, p := range n.Procedures {
		if got := [2]uint64{p.Calls, p.Errors}; got != want[p.Name] {
			t.Errorf("%s has %v calls and errors, want %v", p.Name, got, want[p.Name])
		}
		delete(want, p.Name)
		total := uint64(0)
		for _, n := range p.Histogram() {
			total += n
		}
		if total != p.Calls {
			t.Errorf("the histogram of %s has %d of %d calls", p.Name, total, p.Calls)
		}
		q := p.Quantile(0.5)
		if p.Name == "slow" && q < 20*time.Millisecond || q <= 0 {
			t.Errorf("half of the calls of %s took %v", p.Name, q)
		}
	}
	if len(want) > 0 {
		t.Errorf("there are no statistics of %v", want)
	}
	f.cut()
	eventually.True(t, "it connects again", func() bool { return node().Connects == 2 })
	if got := (&client.ProcedureStats{}).Quantile(0.5); got != 0 {
		t.Errorf("a quantile of nothing is %v", got)
	}
}

// TestManyNames checks that the number of procedures with statistics is bounded, and that
// the others are counted together.
func TestManyNames(t *testing.T) {
	f := startFake(t, one)
	c := open(t, client.Options{Addrs: []string{f.addr()}, Timeout: patience})
	name := make([]byte, 2)
	for i := range client.MaxProcedures + 10 {
		name[0], name[1] = byte(i), byte(i>>8)
		if _, err := c.Call(background, string(name)); err != nil {
			t.Fatal(err)
		}
	}
	list := c.Stats().Nodes[0].Procedures
	i := slices.IndexFunc(list, func(p client.ProcedureStats) bool { return p.Name == "…" })
	if len(list) != client.MaxProcedures+1 || i < 0 || list[i].Calls != 10 {
		t.Errorf("%d names; the shared one has index %d", len(list), i)
	}
}
