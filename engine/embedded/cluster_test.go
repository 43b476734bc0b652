package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/ports"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/journal"
	"github.com/skerrydb/skerry/peer"
)

// trio is a cluster of nodes in one process, over real ports and files.
type trio struct {
	t     testing.TB
	addrs map[uint64]string
	dirs  map[uint64]string
	dbs   map[uint64]*DB
	with  func(node uint64, o *Options) // changes the options that a node is opened with
}

// newTrio makes a cluster of n nodes, of which all have a vote.
func newTrio(t testing.TB, n int) *trio {
	t.Helper()
	return newTrioOf(t, n, plainNode)
}

func plainNode(uint64, *Options) {}

func newTrioLeased(t testing.TB, n int, lease bool) *trio {
	t.Helper()
	return newTrioOf(t, n, func(_ uint64, o *Options) { o.Cluster.Lease = lease })
}

func newTrioOf(t testing.TB, n int, with func(node uint64, o *Options)) *trio {
	t.Helper()
	c := &trio{t, map[uint64]string{}, map[uint64]string{}, map[uint64]*DB{}, with}
	c.dirs[1], c.addrs[1] = t.TempDir(), ports.Addr(t)
	id, _, err := InitCluster(t.Context(), c.dirs[1], c.addrs[1], Options{Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	c.start(1)
	for node := uint64(2); node <= uint64(n); node++ {
		c.invite(id, node)
		c.start(node)
	}
	eventually.True(c.t, "all to have a vote", func() bool {
		voters := 0
		for _, m := range c.dbs[1].Cluster().State().Nodes {
			if m.Voter {
				voters++
			}
		}
		return voters == n
	})
	return c
}

func (c *trio) invite(id *peer.Identity, node uint64) {
	c.t.Helper()
	inv, err := id.Invite()
	if err != nil {
		c.t.Fatal(err)
	}
	c.dirs[node], c.addrs[node] = c.t.TempDir(), ports.Addr(c.t)
	if _, err := peer.Accept(journal.Files{FS: journal.OS()}, filepath.Join(c.dirs[node], clusterDir), inv); err != nil {
		c.t.Fatal(err)
	}
}

func (c *trio) start(node uint64) *DB {
	c.t.Helper()
	o := Options{Logger: quiet(), SnapshotBytes: 1 << 20, Cluster: ClusterOptions{
		Addr: c.addrs[node], Join: []string{c.addrs[1]}, Version: "0.1.0", Tick: 10 * time.Millisecond,
	}}
	c.with(node, &o)
	db, err := Open(c.dirs[node], o)
	if err != nil {
		c.t.Fatal(err)
	}
	c.dbs[node] = db
	c.t.Cleanup(func() { _ = db.Close() })
	return db
}

// leader returns the leader.
func (c *trio) leader() *DB {
	c.t.Helper()
	var led *DB
	eventually.True(c.t, "a leader", func() bool {
		for _, db := range c.dbs {
			if s := db.Cluster().State(); s.Leader == s.Self && db.group.view.Load().serves {
				led = db
				return true
			}
		}
		return false
	})
	return led
}

// transfer transfers the leadership to another node, or to the named one. Raft gives up a
// transfer that takes too long, so it retries.
func (c *trio) transfer(to uint64) {
	c.t.Helper()
	old := c.leader()
	eventually.True(c.t, "the hand-over", func() bool {
		ctx, cancel := context.WithTimeout(c.t.Context(), time.Second)
		defer cancel()
		_ = c.leader().group.onLeader(ctx, methodTransfer, fmt.Appendf(nil, `{"id":%d}`, to)) // what counts is who leads
		now := c.leader()
		return to == 0 && now != old || to != 0 && now == c.dbs[to]
	})
}

// put writes on the leader until the write is acknowledged.
func (c *trio) put(key, val string) engine.Position {
	c.t.Helper()
	var pos engine.Position
	eventually.True(c.t, "a write of "+key, func() bool {
		var err error
		pos, err = c.leader().Update(c.t.Context(), func(tx engine.Tx) error { return tx.Put([]byte(key), []byte(val)) })
		if err != nil && !errors.Is(err, engine.ErrNotLeader) && !errors.Is(err, engine.ErrOutcomeUnknown) {
			c.t.Fatal(err)
		}
		return err == nil
	})
	return pos
}

// get reads on one node.
func (c *trio) get(node uint64, key string, r engine.Read) (val string, err error) {
	_, err = c.dbs[node].View(c.t.Context(), r, func(tx engine.Tx) error {
		v, _, err := tx.Get([]byte(key))
		val = string(v)
		return err
	})
	return val, err
}

func TestClusterOfThree(t *testing.T) {
	t.Parallel()
	c := newTrio(t, 3)
	for i := range 20 {
		key, val := fmt.Sprint("key", i), fmt.Sprint("val", i)
		pos := c.put(key, val)
		for node := range c.dbs {
			if got, err := c.get(node, key, engine.Read{}); err != nil || got != val {
				t.Fatalf("node %d: a linearizable read of %s: %q, %v", node, key, got, err)
			}
			if got, err := c.get(node, key, engine.Read{Level: engine.Session, AtLeast: pos}); err != nil || got != val {
				t.Fatalf("node %d: a session read of %s: %q, %v", node, key, got, err)
			}
		}
	}
	for node, db := range c.dbs {
		if db == c.leader() {
			continue
		}
		ran := false
		_, err := db.Update(t.Context(), func(engine.Tx) error { ran = true; return nil })
		if !errors.Is(err, engine.ErrNotLeader) || ran {
			t.Errorf("node %d follows and accepted a call: %v, ran %v", node, err, ran)
		}
		n := 0
		for ch, err := range db.Changes(t.Context(), 0) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; ch.Pos != engine.Position(n) || string(ch.Writes[0].Key) != fmt.Sprint("key", n-1) {
				t.Fatalf("node %d: change %d is %v", node, n, ch)
			}
			if n == 20 {
				break
			}
		}
	}
}

// TestClusterWithLeases: reads see what was written, through changes of leader.
func TestClusterWithLeases(t *testing.T) {
	t.Parallel()
	c := newTrioLeased(t, 3, true)
	for i := range 30 {
		val := fmt.Sprint(i)
		c.put("key", val)
		for node := range c.dbs {
			if got, err := c.get(node, "key", engine.Read{}); err != nil || got != val {
				t.Fatalf("node %d: %q instead of %q, %v", node, got, val, err)
			}
		}
		if i%10 == 9 {
			c.transfer(0)
		}
	}
}

// TestClusterKeepsData: what was there before the folder became a node stays,
// reaches the others, and survives a restart of all.
func TestClusterKeepsData(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db := open(t, dir, Options{Logger: quiet()})
	if _, err := db.Update(t.Context(), func(tx engine.Tx) error { return tx.Put([]byte("old"), []byte("data")) }); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	c := &trio{t, map[uint64]string{1: ports.Addr(t)}, map[uint64]string{1: dir}, map[uint64]*DB{}, plainNode}
	id, sum, err := InitCluster(t.Context(), dir, c.addrs[1], Options{Logger: quiet()})
	if err != nil || sum.Keys != 1 {
		t.Fatal(sum, err)
	}
	if _, _, err := InitCluster(t.Context(), dir, c.addrs[1], Options{Logger: quiet()}); !errors.Is(err, engine.ErrInvalid) {
		t.Errorf("InitCluster of a node: %v", err)
	}
	c.start(1)
	c.put("new", "1")
	c.invite(id, 2)
	c.start(2)
	eventually.True(c.t, "the newcomer's vote", func() bool { n, ok := state(c.dbs[1]).Node(2); return ok && n.Voter })
	for _, key := range []string{"old", "new"} {
		if got, err := c.get(2, key, engine.Read{}); err != nil || got == "" {
			t.Fatalf("the newcomer has %s = %q, %v", key, got, err)
		}
	}
	for _, db := range c.dbs {
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	c.start(1)
	c.start(2)
	c.put("newer", "2")
	if got, err := c.get(2, "old", engine.Read{}); err != nil || got != "data" {
		t.Errorf("after a restart: %q, %v", got, err)
	}
}

func state(db *DB) *engine.ClusterState {
	s := db.Cluster().State()
	return &s
}

// TestClusterLostVote: a node that has forgotten its vote could vote twice, so it
// does not start, and check says so.
func TestClusterLostVote(t *testing.T) {
	t.Parallel()
	c := newTrio(t, 2)
	c.put("a", "1")
	if err := c.dbs[2].Close(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(c.dirs[2], voteName)
	for what, spoil := range map[string]func() error{
		"short":   func() error { return os.Truncate(name, 7) },
		"missing": func() error { return os.Remove(name) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		rep, err := Check(c.dirs[2], Options{Logger: quiet()}, nil)
		if err != nil || len(rep.Problems) == 0 {
			t.Errorf("%s: check finds %v, %v", what, rep.Problems, err)
		}
		if db, err := Open(c.dirs[2], Options{Logger: quiet(), Cluster: ClusterOptions{Addr: c.addrs[2]}}); !errors.Is(err, engine.ErrCorrupt) {
			t.Errorf("%s: the node started: %v", what, err)
			_ = db.Close()
		}
	}
}

// TestClusterFailOver: the leader is gone, and comes back after many writes, when
// only a snapshot can bring it up to date.
func TestClusterFailOver(t *testing.T) {
	t.Parallel()
	c := newTrio(t, 3)
	c.put("a", "1")
	old := c.leader()
	node := state(old).Self
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	delete(c.dbs, node)
	big := string(make([]byte, 100<<10))
	for i := range 60 {
		c.put(fmt.Sprint("big", i), big)
	}
	eventually.True(c.t, "snapshots", func() bool { return c.leader().counts.snapshots.Load() > 0 })
	c.put("b", "2")
	c.start(node)
	if got, err := c.get(node, "b", engine.Read{}); err != nil || got != "2" {
		t.Errorf("node %d came back and reads %q, %v", node, got, err)
	}
}

// TestClusterWithoutMajority: writes fail, and so do reads that could be stale.
func TestClusterWithoutMajority(t *testing.T) {
	t.Parallel()
	c := newTrio(t, 2)
	c.put("a", "1")
	if got, err := c.get(1, "a", engine.Read{}); err != nil || got != "1" {
		t.Fatalf("%q, %v", got, err)
	}
	if err := c.dbs[2].Close(); err != nil {
		t.Fatal(err)
	}
	left := c.dbs[1]
	left.opts.PositionWait = 300 * time.Millisecond
	eventually.True(c.t, "writes to be refused", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		_, err := left.Update(ctx, func(tx engine.Tx) error { return tx.Put([]byte("b"), []byte("2")) })
		if err == nil {
			t.Fatal("a write without a majority")
		}
		return errors.Is(err, engine.ErrNotLeader)
	})
	if _, err := c.get(1, "a", engine.Read{}); !errors.Is(err, engine.ErrNotLeader) {
		t.Errorf("a linearizable read without a majority: %v", err)
	}
	eventually.True(c.t, "local reads to be refused", func() bool {
		_, err := c.get(1, "a", engine.Read{Level: engine.Local, MaxStale: 50 * time.Millisecond})
		return errors.Is(err, engine.ErrNotLeader)
	})
	if got, err := c.get(1, "a", engine.Read{Level: engine.Local, MaxStale: time.Hour}); err != nil || got != "1" {
		t.Errorf("a local read that may be old: %q, %v", got, err)
	}
}

// TestClusterMembers: a node is removed, cannot come back, and another replaces it. Two
// nodes cannot have one id.
func TestClusterMembers(t *testing.T) {
	t.Parallel()
	c := newTrio(t, 3)
	c.put("a", "1")
	c.transfer(1)
	if err := c.dbs[1].group.onLeader(t.Context(), methodRemove, []byte(`{"id":3}`)); err != nil {
		t.Fatal(err)
	}
	if err := c.dbs[3].group.onLeader(t.Context(), methodRemove, []byte(`{"id":3}`)); err != nil {
		t.Errorf("a removed node does not report that it left: %v", err)
	}
	select {
	case <-c.dbs[3].Stopped():
	case <-time.After(30 * time.Second):
		t.Error("a removed node still runs")
	}
	if err := c.dbs[3].group.onLeader(t.Context(), methodRemove, []byte(`{"id":3}`)); err != nil {
		t.Errorf("a node that stopped because it was removed does not report that it left: %v", err)
	}
	_ = c.dbs[3].Close()
	c.leaves(3)
	delete(c.dbs, 3)
	id, err := peer.Load(journal.Files{FS: journal.OS()}, filepath.Join(c.dirs[1], clusterDir))
	if err != nil {
		t.Fatal(err)
	}
	c.invite(id, 4)
	c.start(4)
	eventually.True(c.t, "the new node's vote", func() bool { n, ok := state(c.dbs[1]).Node(4); return ok && n.Voter })
	if got, err := c.get(4, "a", engine.Read{}); err != nil || got != "1" {
		t.Errorf("the new node reads %q, %v", got, err)
	}
}

// leaves has a node, which was removed and does not run, leave the cluster: the
// others refuse it, and that is the answer.
func (c *trio) leaves(node uint64) {
	c.t.Helper()
	a, err := OpenAdmin(c.dirs[node], "0.1.0")
	if err == nil {
		err = a.Remove(c.t.Context(), node)
	}
	if err != nil {
		c.t.Errorf("to leave twice: %v", err)
	}
	if err = a.Transfer(c.t.Context(), node); !saysRemoved(err) {
		c.t.Errorf("a node that was removed has the leadership handed over: %v", err)
	}
}

// TestClusterKeepsItsMajority: a node that the others need is not removed.
func TestClusterKeepsItsMajority(t *testing.T) {
	t.Parallel()
	c := newTrio(t, 3)
	c.transfer(1)
	if err := c.dbs[3].Close(); err != nil {
		t.Fatal(err)
	}
	eventually.True(c.t, "the loss of node 3 to be seen", func() bool {
		for _, p := range c.dbs[1].group.port.Peers() {
			if p.ID == 3 {
				return !p.Connected
			}
		}
		return false
	})
	if err := c.dbs[1].group.onLeader(t.Context(), methodRemove, []byte(`{"id":2}`)); !errors.Is(err, engine.ErrInvalid) {
		t.Errorf("a node that is needed was removed: %v", err)
	}
	if err := c.dbs[1].group.onLeader(t.Context(), methodRemove, []byte(`{"id":3}`)); err != nil {
		t.Errorf("a node that is gone cannot be removed: %v", err)
	}
	c.put("a", "1")
}

// interruptRecovery does what a crash in the middle of RecoverCluster leaves. The
// folder must not be opened as a node of the cluster that it was taken out of.
func interruptRecovery(t *testing.T, dir, addr string) {
	t.Helper()
	err := offline(dir, Options{Logger: quiet()}, func(db *DB) error {
		term, err := db.applyLog(db.snap.Load())
		if err == nil {
			err = db.become(db.snap.Load(), term+1, addr, db.id.Cluster)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if db, err := Open(dir, Options{Logger: quiet(), Cluster: ClusterOptions{Addr: addr}}); !errors.Is(err, engine.ErrInvalid) {
		t.Errorf("a half recovered folder was opened: %v", err)
		_ = db.Close()
	}
}

// TestClusterRecover: two of three nodes are lost, and the third continues alone.
func TestClusterRecover(t *testing.T) {
	t.Parallel()
	c := newTrio(t, 3)
	for i := range 10 {
		c.put(fmt.Sprint("key", i), "1")
	}
	if _, err := c.get(3, "key9", engine.Read{}); err != nil {
		t.Fatal(err)
	}
	for _, db := range c.dbs {
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	interruptRecovery(t, c.dirs[3], c.addrs[3])
	_, sum, err := RecoverCluster(t.Context(), c.dirs[3], c.addrs[3], Options{Logger: quiet()})
	if err != nil || sum.Keys != 10 {
		t.Fatal(sum, err)
	}
	lone := &trio{t, map[uint64]string{1: c.addrs[3]}, map[uint64]string{1: c.dirs[3]}, map[uint64]*DB{}, plainNode}
	lone.start(1)
	lone.put("more", "2")
	if got, err := lone.get(1, "key9", engine.Read{}); err != nil || got != "1" {
		t.Errorf("after the recovery: %q, %v", got, err)
	}
	if _, err := os.Stat(filepath.Join(c.dirs[3], clusterDir, "node.key")); err != nil {
		t.Error(err)
	}
}
