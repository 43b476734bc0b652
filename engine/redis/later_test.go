package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/redisserver"
	"github.com/skerrydb/skerry/engine"
)

// TestDurableNoLonger switches durability off, and on again, under an engine that has promised it.
func TestDurableNoLonger(t *testing.T) {
	t.Parallel() // it waits for the keeper
	s := redisserver.Start(t)
	eng := open(t, at(Scheme, s, "t:"), Options{})
	defer eng.Close()
	for _, c := range []struct{ name, weak, strong string }{{"appendfsync", "everysec", "always"}, {"appendonly", "no", "yes"}} {
		s.Do(t, "CONFIG", "SET", c.name, c.weak)
		var err error
		eventually.True(t, "writes are refused", func() bool { _, err = add(eng); return err != nil })
		refusedWith(t, err, engine.CodeUnavailable, c.name+" is \""+c.weak)
		count(t, eng)
		s.Do(t, "CONFIG", "SET", c.name, c.strong)
		eventually.True(t, "writes succeed again", func() bool { _, err = add(eng); return err == nil })
	}
	if !eng.Promises().Durable {
		t.Error("the promise has changed")
	}
}

// TestDurableNoLongerAfterRestart restarts the server with weaker settings. Not even the first write may succeed.
func TestDurableNoLongerAfterRestart(t *testing.T) {
	s := redisserver.Start(t)
	a, b := open(t, at(Scheme, s, "t:"), Options{}), open(t, at(Scheme, s, "t:"), Options{})
	defer a.Close()
	defer b.Close()
	for _, eng := range []engine.Engine{a, b} {
		if _, err := add(eng); err != nil {
			t.Fatal(err)
		}
	}
	s.Stop(t)
	s.Restart(t, "--appendfsync", "everysec")
	for _, eng := range []engine.Engine{a, b} {
		if _, err := add(eng); err == nil {
			t.Error("a write succeeded")
		} else if !errors.Is(err, engine.ErrOutcomeUnknown) { // it was cut off by the end of the server
			refusedWith(t, err, engine.CodeUnavailable, "no longer durable")
		}
	}
	if n := count(t, a); n != 2 {
		t.Errorf("the number is %d after two additions", n)
	}
}

// TestNeverDurable opens an engine that promises no durability. Settings do not stop its writes.
func TestNeverDurable(t *testing.T) {
	s := redisserver.Start(t, "--appendfsync", "everysec")
	eng := open(t, at(Scheme, s, "t:"), Options{})
	defer eng.Close()
	s.Do(t, "CONFIG", "SET", "appendonly", "no")
	if err := eng.(*db).look(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := add(eng); err != nil {
		t.Error(err)
	}
}

// TestReplaced removes all data under an engine that is open, and lets another process begin anew. The first must not go on
// with positions that it has used.
func TestReplaced(t *testing.T) {
	s := redisserver.Start(t)
	eng := open(t, at(Scheme, s, "t:"), Options{})
	defer eng.Close()
	var pos engine.Position
	for range 3 {
		var err error
		if pos, err = add(eng); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	fed := make(chan error, 1)
	go func() {
		for _, err := range eng.Changes(ctx, pos) {
			fed <- err
			return
		}
	}()
	s.Do(t, "FLUSHALL")
	other := open(t, at(Scheme, s, "t:"), Options{})
	defer other.Close()
	if _, err := add(other); err != nil {
		t.Fatal(err)
	}
	_, err := add(eng)
	refusedWith(t, err, engine.CodeCorrupt, "went back")
	_, err = eng.View(t.Context(), engine.Read{AtLeast: pos}, func(engine.Tx) error { return nil })
	refusedWith(t, err, engine.CodeCorrupt, "went back")
	select {
	case err := <-fed:
		refusedWith(t, err, engine.CodeCorrupt, "went back")
	case <-t.Context().Done():
	}
	if n := count(t, other); n != 1 {
		t.Errorf("the number is %d after one addition", n)
	}
}

// TestEmptiedFeed removes all data under an engine whose feed waits for more.
func TestEmptiedFeed(t *testing.T) {
	s := redisserver.Start(t)
	eng := open(t, at(Scheme, s, "t:"), Options{})
	defer eng.Close()
	pos, err := add(eng)
	if err != nil {
		t.Fatal(err)
	}
	s.Do(t, "FLUSHALL")
	for _, err := range eng.Changes(t.Context(), pos) {
		refusedWith(t, err, engine.CodeCorrupt, "removed")
		break
	}
}

// TestNoReplicas takes the last replica away from a server that wants one for every write.
func TestNoReplicas(t *testing.T) {
	s := redisserver.Start(t)
	eng := open(t, at(Scheme, s, "t:"), Options{})
	defer eng.Close()
	if _, err := add(eng); err != nil {
		t.Fatal(err)
	}
	s.Do(t, "CONFIG", "SET", "min-replicas-to-write", "1")
	_, err := add(eng)
	refusedWith(t, err, engine.CodeUnavailable, "min-replicas-to-write")
	if n := count(t, eng); n != 1 {
		t.Errorf("the number is %d after one addition", n)
	}
	replica := redisserver.Start(t)
	host, port, _ := net.SplitHostPort(s.Addr())
	replica.Do(t, "REPLICAOF", host, port)
	eventually.True(t, "writes succeed again", func() bool { _, err = add(eng); return err == nil })
	if n := count(t, eng); n != 2 {
		t.Errorf("the number is %d after two additions", n)
	}
}

// TestFullMemory fills the server's memory by batches, the last of which are refused whole. What only deletes and reads works
// on, also for a process that comes later, and after a restart.
func TestFullMemory(t *testing.T) {
	s := redisserver.Start(t)
	eng := open(t, at(Scheme, s, "t:"), Options{HistoryBytes: 64 << 10})
	defer func() { eng.Close() }()
	var used int
	for line := range strings.Lines(s.Do(t, "INFO", "memory")) {
		_, _ = fmt.Sscanf(line, "used_memory:%d", &used)
	}
	s.Do(t, "CONFIG", "SET", "maxmemory", fmt.Sprint(used+8<<20))
	val := strings.Repeat("x", 100<<10)
	batch := func(i int) error {
		_, err := eng.Update(t.Context(), func(tx engine.Tx) error {
			for j := range 4 {
				if err := tx.Put(fmt.Appendf(nil, "k%04d-%d", i, j), []byte(val)); err != nil {
					return err
				}
			}
			return tx.Put([]byte("n"), fmt.Append(nil, i+1))
		})
		return err
	}
	whole := 0
	var err error
	for err == nil && whole < 1000 {
		if err = batch(whole); err == nil {
			whole++
		}
	}
	refusedWith(t, err, engine.CodeMemoryFull, "maxmemory")
	check := func() { t.Helper(); holdsBatches(t, eng, whole) }
	check()
	eng.Close()
	eng = open(t, at(Scheme, s, "t:"), Options{HistoryBytes: 64 << 10})
	check()
	s.Kill(t)
	s.Restart(t, "--maxmemory", "1mb") // so that a new epoch begins without room for it
	eng.Close()
	eng = open(t, at(Scheme, s, "t:"), Options{HistoryBytes: 64 << 10})
	check()
	if _, err := eng.Update(t.Context(), func(tx engine.Tx) error {
		for j := range 4 {
			if err := tx.Delete(fmt.Appendf(nil, "k%04d-%d", whole-1, j)); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Errorf("a batch that only deletes: %v", err)
	}
	refusedWith(t, batch(whole), engine.CodeMemoryFull, "maxmemory")
	s.Do(t, "CONFIG", "SET", "maxmemory", "0")
	for i := range 2 {
		if err := batch(whole - 1 + i); err != nil {
			t.Fatal(err)
		}
	}
	whole++
	check()
}

// holdsBatches expects the keys of whole batches of TestFullMemory.
func holdsBatches(t *testing.T, eng engine.Engine, whole int) {
	t.Helper()
	n := int64(0)
	if _, err := eng.View(t.Context(), engine.Read{}, func(tx engine.Tx) error {
		n = 0
		for _, err := range tx.Scan([]byte("k"), []byte("l")) {
			if err != nil {
				return err
			}
			n++
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if n != int64(whole)*4 || count(t, eng) != int64(whole) {
		t.Errorf("there are %d keys, the number is %d, after %d batches", n, count(t, eng), whole)
	}
}

// TestUnsent stops the server. A write that cannot have reached it fails with an error that says so.
func TestUnsent(t *testing.T) {
	s := redisserver.Start(t)
	eng := open(t, at(Scheme, s, "t:"), Options{patience: time.Second})
	defer eng.Close()
	blind := func() error {
		_, err := eng.Update(t.Context(), func(tx engine.Tx) error { return tx.Put([]byte("a"), nil) })
		return err
	}
	for range 2 { // the second one reads nothing
		if err := blind(); err != nil {
			t.Fatal(err)
		}
	}
	s.Stop(t)
	// A connection that is not known to be gone takes a write, which may have reached the server.
	eventually.True(t, "all connections are known to be gone", func() bool { return !errors.Is(blind(), engine.ErrOutcomeUnknown) })
	refusedWith(t, blind(), engine.CodeUnavailable, "cannot reach the server")
	s.Restart(t)
	eventually.True(t, "writes succeed again", func() bool { return blind() == nil })
}
