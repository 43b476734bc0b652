package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/redisserver"
	"github.com/skerrydb/skerry/engine"
)

// pairs changes two keys of each of several partitions together, sometimes with a third one that is new or removed, until
// its context ends, and views them. It counts what became of the changes of each partition.
type pairs struct {
	eng            engine.Engine
	acked, unknown [16]atomic.Int64
	failed         atomic.Int64
}

func (p *pairs) key(part int, name string) []byte { return fmt.Appendf(nil, "{p%d}%s", part, name) }

func number(tx engine.Tx, key []byte) (int64, error) {
	v, _, err := tx.Get(key)
	n, _ := strconv.ParseInt(string(v), 10, 64)
	return n, err
}

func (p *pairs) change(ctx context.Context, part int) error {
	_, err := p.eng.Update(ctx, func(tx engine.Tx) error {
		n, err := number(tx, p.key(part, "a"))
		if err != nil {
			return err
		}
		if m, err := number(tx, p.key(part, "b")); err != nil || m != n {
			return cmpErr(err, part, n, m)
		}
		for _, name := range []string{"a", "b"} {
			if err := tx.Put(p.key(part, name), fmt.Append(nil, n+1)); err != nil {
				return err
			}
		}
		if n%2 == 0 {
			return tx.Put(p.key(part, "c"), nil)
		}
		return tx.Delete(p.key(part, "c"))
	})
	switch {
	case err == nil:
		p.acked[part].Add(1)
	case errors.Is(err, engine.ErrOutcomeUnknown):
		p.unknown[part].Add(1)
	}
	return err
}

func cmpErr(err error, part int, n, m int64) error {
	if err != nil {
		return err
	}
	return engine.Errorf(engine.CodeCorrupt, "partition %d has %d and %d", part, n, m)
}

func (p *pairs) look(ctx context.Context, part int) (n int64, err error) {
	_, err = p.eng.View(ctx, engine.Read{}, func(tx engine.Tx) error {
		var err error
		if n, err = number(tx, p.key(part, "a")); err != nil {
			return err
		}
		if m, err := number(tx, p.key(part, "b")); err != nil || m != n {
			return cmpErr(err, part, n, m)
		}
		return nil
	})
	return n, err
}

// run changes and views all partitions while disturb runs. Only errors that say that it may be tried again, or that the
// outcome is unknown, are in order.
func (p *pairs) run(t *testing.T, disturb func()) {
	t.Helper()
	stop := make(chan struct{})
	var bg sync.WaitGroup
	for i := range 4 {
		bg.Go(func() {
			for part := i; ; part = (part + 4) % len(p.acked) {
				select {
				case <-stop:
					return
				default:
				}
				err := p.change(context.Background(), part)
				if err == nil {
					_, err = p.look(context.Background(), part)
				}
				if err != nil {
					p.failed.Add(1)
				}
				if err != nil && !engine.Retryable(err) && !errors.Is(err, engine.ErrOutcomeUnknown) {
					t.Errorf("partition %d: %v", part, err)
					return
				}
			}
		})
	}
	disturb()
	close(stop)
	bg.Wait()
}

// check compares each partition's number with what was acknowledged. lost allows for acknowledged changes that are gone.
func (p *pairs) check(t *testing.T, lost bool) {
	t.Helper()
	var acked, unknown, found int64
	for part := range p.acked {
		n, err := p.look(t.Context(), part)
		a, u := p.acked[part].Load(), p.unknown[part].Load()
		if err != nil || n > a+u || n < a && !lost {
			t.Errorf("partition %d has %d changes; %d were acknowledged and %d are unknown: %v", part, n, a, u, err)
		}
		acked, unknown, found = acked+a, unknown+u, found+n
	}
	t.Logf("%d changes acknowledged, %d unknown, %d found, %d errors", acked, unknown, found, p.failed.Load())
	if acked == 0 {
		t.Error("nothing was written")
	}
}

// command sends a command to one node and returns its reply.
func command(t *testing.T, s *redisserver.Server, args ...string) rueidis.RedisResult {
	t.Helper()
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.Addr()}, ForceSingleClient: true, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.Do(t.Context(), c.B().Arbitrary(args...).Build())
}

// move moves a slot as redis-cli --cluster reshard does.
func move(t *testing.T, slot string, from, to *redisserver.Server, between func(moved int)) {
	t.Helper()
	ids := map[*redisserver.Server]string{from: from.Do(t, "CLUSTER", "MYID"), to: to.Do(t, "CLUSTER", "MYID")}
	host, port, _ := net.SplitHostPort(to.Addr())
	to.Do(t, "CLUSTER", "SETSLOT", slot, "IMPORTING", ids[from])
	from.Do(t, "CLUSTER", "SETSLOT", slot, "MIGRATING", ids[to])
	for moved := 0; ; moved++ {
		keys, err := command(t, from, "CLUSTER", "GETKEYSINSLOT", slot, "1").AsStrSlice()
		if err != nil {
			t.Fatal(err)
		}
		if len(keys) == 0 {
			break
		}
		between(moved)
		from.Do(t, "MIGRATE", host, port, keys[0], "0", "20000")
	}
	to.Do(t, "CLUSTER", "SETSLOT", slot, "NODE", ids[to])
	from.Do(t, "CLUSTER", "SETSLOT", slot, "NODE", ids[to])
}

// TestMovedSlots moves slots to and fro under load. No change fails or is lost, none is seen in part.
func TestMovedSlots(t *testing.T) {
	nodes := redisserver.Cluster(t, 2)
	eng := open(t, at(SchemeCluster, nodes[0], "t:"), Options{patience: time.Minute}) // a move takes as long as the machine lets it
	defer eng.Close()
	p := &pairs{eng: eng}
	tries := &eng.(*slots).retries
	p.run(t, func() {
		for part := range p.acked {
			eventually.True(t, "all keys are there", func() bool { return p.acked[part].Load() > 0 })
		}
		for round := range 3 {
			for part := range 6 {
				slot := nodes[0].Do(t, "CLUSTER", "KEYSLOT", string(p.key(part, "")))
				n, _ := strconv.Atoi(slot)
				from, to := nodes[0], nodes[1]
				if (n >= 8192) == (round%2 == 0) {
					from, to = to, from
				}
				move(t, slot, from, to, func(moved int) {
					load := func() int64 { return p.acked[14].Load() + p.acked[15].Load() } // one of them waits for the slot at most
					before, busy := load(), tries.Load()
					eventually.True(t, "the load goes on", func() bool {
						return load() > before && (moved != 1 || tries.Load() > busy)
					})
				})
			}
		}
	})
	if p.failed.Load() > 0 {
		t.Errorf("%d calls failed", p.failed.Load())
	}
	p.check(t, false)
}

// TestDeadNode opens a cluster one of whose nodes is dead and has no replica, by a URL that begins with that node. What the
// others have is served.
func TestDeadNode(t *testing.T) {
	nodes := redisserver.Cluster(t, 3, "--cluster-require-full-coverage", "no")
	prefix := newPrefix()
	live := func(key string) bool {
		n, _ := strconv.Atoi(nodes[1].Do(t, "CLUSTER", "KEYSLOT", key))
		return n >= 16384/3
	}
	for !live(prefix + "format") {
		prefix = newPrefix()
	}
	nodes[0].Kill(t)
	u := at(SchemeCluster, nodes[0], prefix)
	u.Host += "," + nodes[1].Addr()
	eng := open(t, u, Options{patience: time.Second})
	defer eng.Close()
	p := &pairs{eng: eng}
	served, refused := 0, 0
	for part := range p.acked {
		switch serves := live(string(p.key(part, ""))); {
		case serves:
			if served++; p.change(t.Context(), part) != nil {
				t.Errorf("partition %d is not served", part)
			}
		case refused == 0: // one is enough, as it takes a while
			refused++
			refusedWith(t, p.change(t.Context(), part), engine.CodeUnavailable, "")
		}
	}
	if served == 0 || refused == 0 {
		t.Errorf("%d of %d partitions are served, %d refused", served, len(p.acked), refused)
	}
}

// failover is a cluster whose first node has a replica, and an engine on it.
func failover(t *testing.T) (u *url.URL, p *pairs, primary, replica *redisserver.Server) {
	if testing.Short() {
		t.Skip("failovers take seconds")
	}
	t.Parallel() // it waits for Redis
	nodes := redisserver.Cluster(t, 3, "--cluster-node-timeout", "3000")
	replica = redisserver.Replica(t, nodes, nodes[0], "--cluster-node-timeout", "3000")
	u = at(SchemeCluster, nodes[0], "t:")
	u.Host += "," + nodes[1].Addr()
	eng := open(t, u, Options{})
	t.Cleanup(func() { eng.Close() })
	return u, &pairs{eng: eng}, nodes[0], replica
}

func leads(t *testing.T, s *redisserver.Server) func() bool {
	return func() bool { return strings.Contains(s.Do(t, "INFO", "replication"), "role:master") }
}

// written waits until a change of each partition has succeeded from now on.
func (p *pairs) written(t *testing.T) {
	t.Helper()
	for part := range p.acked {
		before := p.acked[part].Load()
		eventually.True(t, "writes succeed again", func() bool { return p.acked[part].Load() > before })
	}
}

// TestFailover promotes a replica on command and then the former primary, which loses nothing.
func TestFailover(t *testing.T) {
	_, p, primary, replica := failover(t)
	p.run(t, func() {
		servers := []*redisserver.Server{replica, primary}
		for i, next := range servers {
			former := servers[1-i]
			// Redis gives up after 5 seconds, as when votes are late, and asks for votes again 4 times the node timeout after
			// it last did.
			eventually.True(t, "the other server is the primary", func() bool {
				next.Do(t, "CLUSTER", "FAILOVER")
				return eventually.Within(13*time.Second, leads(t, next))
			})
			// The former primary can be promoted once its link is up.
			eventually.True(t, "the former primary follows, and the load goes on", func() bool {
				link := former.Do(t, "INFO", "replication")
				return strings.Contains(link, "role:slave") && strings.Contains(link, "master_link_status:up") &&
					strings.Contains(next.Do(t, "CLUSTER", "INFO"), "cluster_state:ok")
			})
			p.written(t)
		}
	})
	p.check(t, false)
}

// TestPrimaryDies kills a primary, which may lose what was acknowledged shortly before. The replica has never been promoted:
// for twice the node timeout after an election, Redis 7.0 takes the votes of that one for those of the next, and the others
// do not follow it.
func TestPrimaryDies(t *testing.T) {
	u, p, primary, replica := failover(t)
	p.run(t, func() {
		p.written(t)
		primary.Kill(t)
		eventually.True(t, "the replica is the primary", leads(t, replica))
		p.written(t)
	})
	p.check(t, true)

	second := open(t, u, Options{}) // the first address of the URL is dead
	defer second.Close()
	p.eng = second
	if _, err := p.look(t.Context(), 0); err != nil {
		t.Error(err)
	}
}

// TestSlotNotServed takes a slot away from the cluster, and leaves another in the middle of a move. Calls fail after a while
// with an error that says so, and succeed once that is over.
func TestSlotNotServed(t *testing.T) {
	nodes := redisserver.Cluster(t, 2)
	eng := open(t, at(SchemeCluster, nodes[0], "t:"), Options{patience: 500 * time.Millisecond})
	defer eng.Close()
	p := &pairs{eng: eng}
	for part := range 2 {
		if err := p.change(t.Context(), part); err != nil {
			t.Fatal(err)
		}
	}
	owner := func(part int) (slot string, has, other *redisserver.Server) {
		slot = nodes[0].Do(t, "CLUSTER", "KEYSLOT", string(p.key(part, "")))
		if n, _ := strconv.Atoi(slot); n < 8192 {
			return slot, nodes[0], nodes[1]
		}
		return slot, nodes[1], nodes[0]
	}
	slot, has, other := owner(0)
	other.Do(t, "CLUSTER", "SETSLOT", slot, "IMPORTING", has.Do(t, "CLUSTER", "MYID"))
	has.Do(t, "CLUSTER", "SETSLOT", slot, "MIGRATING", other.Do(t, "CLUSTER", "MYID"))
	put := func() error { // of a key that is there and one that is not
		_, err := eng.Update(t.Context(), func(tx engine.Tx) error {
			if err := tx.Put(p.key(0, "c"), nil); err != nil {
				return err
			}
			return tx.Put(p.key(0, "d"), nil)
		})
		return err
	}
	refusedWith(t, put(), engine.CodeUnavailable, "being moved")
	has.Do(t, "CLUSTER", "SETSLOT", slot, "STABLE")
	other.Do(t, "CLUSTER", "SETSLOT", slot, "STABLE")
	eventually.True(t, "writes succeed again", func() bool { return put() == nil })

	slot, has, _ = owner(1)
	has.Do(t, "CLUSTER", "DELSLOTS", slot)
	refusedWith(t, p.change(t.Context(), 1), engine.CodeUnavailable, "does not serve the slot")
	has.Do(t, "CLUSTER", "ADDSLOTS", slot)
	eventually.True(t, "writes succeed again", func() bool { return p.change(t.Context(), 1) == nil })
	for part := range 2 {
		if n, err := p.look(t.Context(), part); err != nil || n != p.acked[part].Load() {
			t.Errorf("partition %d: %d, %v, want %d", part, n, err, p.acked[part].Load())
		}
	}
}

// TestClusterLater changes one primary of a cluster under an engine that is open.
func TestClusterLater(t *testing.T) {
	t.Parallel() // it waits for the keeper
	nodes := redisserver.Cluster(t, 2)
	eng := open(t, at(SchemeCluster, nodes[0], "t:"), Options{})
	defer eng.Close()
	p := &pairs{eng: eng}
	for _, c := range []struct {
		setting, bad, good string
		code               engine.Code
	}{
		{"appendfsync", "everysec", "always", engine.CodeUnavailable},
		{"appendonly", "no", "yes", engine.CodeUnavailable},
		{"maxmemory-policy", "allkeys-lru", "noeviction", engine.CodeUnsupported},
	} {
		if err := p.change(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		nodes[1].Do(t, "CONFIG", "SET", c.setting, c.bad)
		var err error
		eventually.True(t, "writes are refused", func() bool { err = p.change(t.Context(), 0); return err != nil })
		refusedWith(t, err, c.code, nodes[1].Addr())
		refusedWith(t, err, c.code, c.bad)
		if _, err := p.look(t.Context(), 0); err != nil {
			t.Errorf("a view: %v", err)
		}
		nodes[1].Do(t, "CONFIG", "SET", c.setting, c.good)
		eventually.True(t, "writes succeed again", func() bool { return p.change(t.Context(), 0) == nil })
	}
	for _, s := range nodes {
		s.Do(t, "CONFIG", "SET", "min-replicas-to-write", "1")
	}
	err := p.change(t.Context(), 0)
	refusedWith(t, err, engine.CodeUnavailable, "min-replicas-to-write")
	p.check(t, false) // its views read several keys, which a script compares
	for _, s := range nodes {
		s.Do(t, "CONFIG", "SET", "min-replicas-to-write", "0")
		s.Do(t, "FLUSHALL")
	}
	eventually.True(t, "reads are refused", func() bool { _, err = p.look(t.Context(), 0); return err != nil })
	refusedWith(t, err, engine.CodeCorrupt, "removed")
	refusedWith(t, p.change(t.Context(), 0), engine.CodeCorrupt, "removed")
}

// TestClusterClock runs two processes whose clocks are wrong by ten minutes. What one writes for a time stays that long.
func TestClusterClock(t *testing.T) {
	nodes := redisserver.Cluster(t, 1)
	off := func(by time.Duration) engine.Engine {
		return open(t, at(SchemeCluster, nodes[0], "t:"), Options{Now: func() time.Time { return time.Now().Add(by) }})
	}
	late, early := off(-10*time.Minute), off(10*time.Minute)
	defer late.Close()
	defer early.Close()
	if _, err := late.Update(t.Context(), func(tx engine.Tx) error {
		return tx.(engine.Expirer).PutUntil([]byte("a"), []byte("x"), tx.Now().Add(time.Hour))
	}); err != nil {
		t.Fatal(err)
	}
	if n, _ := strconv.Atoi(nodes[0].Do(t, "TTL", "t:k:a")); n < 59*60 {
		t.Errorf("the key goes in %d s, want an hour", n)
	}
	for _, eng := range []engine.Engine{early, late} {
		if _, err := eng.View(t.Context(), engine.Read{}, func(tx engine.Tx) error {
			if v, ok, err := tx.Get([]byte("a")); err != nil || !ok || string(v) != "x" {
				return fmt.Errorf("%q, %v, %w", v, ok, err)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
}
