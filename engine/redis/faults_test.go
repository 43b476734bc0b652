package redis

import (
	"bytes"
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

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/redisserver"
	"github.com/skerrydb/skerry/engine"
)

// TestRefused opens servers that cannot hold data, or refuse the client.
func TestRefused(t *testing.T) {
	plain := redisserver.Start(t)
	locked := redisserver.Start(t, "--requirepass", "secret")
	replica := redisserver.Start(t)
	host, port, _ := net.SplitHostPort(plain.Addr())
	replica.Do(t, "REPLICAOF", host, port)
	evicting := redisserver.Start(t, "--maxmemory-policy", "allkeys-lru")
	newer := redisserver.Start(t)
	newer.Do(t, "HSET", "t:meta", "format", "2", "pos", "1", "at", "1", "replid", "x")
	gone := redisserver.Start(t)
	gone.Do(t, "HSET", "t:value", "a", "1")
	node := redisserver.Cluster(t, 1)[0]
	for name, c := range map[string]struct {
		scheme string
		s      *redisserver.Server
		code   engine.Code
		text   string
	}{
		"eviction":         {Scheme, evicting, engine.CodeUnsupported, "noeviction"},
		"a replica":        {Scheme, replica, engine.CodeUnavailable, "replica"},
		"no password":      {Scheme, locked, engine.CodeUnauthenticated, "password"},
		"a newer format":   {Scheme, newer, engine.CodeFormatNewer, "\"2\""},
		"no meta key":      {Scheme, gone, engine.CodeCorrupt, "removed"},
		"a cluster's node": {Scheme, node, engine.CodeUnsupported, SchemeCluster},
		"no cluster":       {SchemeCluster, plain, engine.CodeUnsupported, "scheme redis"},
		"another scheme":   {"http", plain, engine.CodeInvalid, "scheme"},
	} {
		eng, err := Open(t.Context(), at(c.scheme, c.s, "t:"), Options{})
		if err == nil {
			eng.Close()
		}
		if engine.CodeOf(err) != c.code || !strings.Contains(fmt.Sprint(err), c.text) {
			t.Errorf("%s: %v, want %s with %q", name, err, c.code, c.text)
		}
	}
	u := at(Scheme, locked, "t:")
	u.User = url.UserPassword("u", "wrongsecret")
	if _, err := Open(t.Context(), u, Options{}); engine.CodeOf(err) != engine.CodeUnauthenticated || strings.Contains(err.Error(), "wrongsecret") {
		t.Errorf("a wrong password: %v", err)
	}
}

// TestDurableOnlyIfConfigured opens servers that may lose acknowledged commits.
func TestDurableOnlyIfConfigured(t *testing.T) {
	for _, args := range [][]string{{"--appendonly", "no"}, {"--appendfsync", "everysec"}, {"--rename-command", "CONFIG", ""}} {
		eng := open(t, at(Scheme, redisserver.Start(t, args...), "t:"), Options{})
		if eng.Promises().Durable {
			t.Errorf("durable with %q", args)
		}
		eng.Close()
	}
}

// add increments a number.
func add(eng engine.Engine) (engine.Position, error) {
	return eng.Update(context.Background(), func(tx engine.Tx) error {
		v, _, err := tx.Get([]byte("n"))
		if err != nil {
			return err
		}
		n, _ := strconv.Atoi(string(v))
		return tx.Put([]byte("n"), []byte(strconv.Itoa(n+1)))
	})
}

func count(t *testing.T, eng engine.Engine) (n int64) {
	t.Helper()
	if _, err := eng.View(t.Context(), engine.Read{}, func(tx engine.Tx) error {
		v, _, err := tx.Get([]byte("n"))
		n, _ = strconv.ParseInt(string(v), 10, 64)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

// adders increments from several goroutines of all engines while disturb runs, and checks the sum.
func adders(t *testing.T, engines []engine.Engine, disturb func()) {
	t.Helper()
	var acked, unknown atomic.Int64
	var seen sync.Map
	stop := make(chan struct{})
	var bg sync.WaitGroup
	for i := range 6 {
		bg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				pos, err := add(engines[i%len(engines)])
				switch {
				case err == nil:
					if acked.Add(1); pos > 0 {
						if _, dup := seen.LoadOrStore(pos, true); dup {
							t.Errorf("position %d was given twice", pos)
						}
					}
				case errors.Is(err, engine.ErrOutcomeUnknown):
					unknown.Add(1)
				case !engine.Retryable(err):
					t.Errorf("add: %v", err)
					return
				}
			}
		})
	}
	disturb()
	close(stop)
	bg.Wait()
	n := count(t, engines[0])
	t.Logf("%d acknowledged, %d unknown, the number is %d", acked.Load(), unknown.Load(), n)
	if n < acked.Load() || n > acked.Load()+unknown.Load() || acked.Load() == 0 {
		t.Errorf("the number is %d; %d additions were acknowledged and %d are unknown", n, acked.Load(), unknown.Load())
	}
}

// TestKilledConnections ends all connections ten times a second, while two processes write.
func TestKilledConnections(t *testing.T) {
	s := redisserver.Start(t)
	u := at(Scheme, s, newPrefix())
	a, b := open(t, u, Options{}), open(t, u, Options{})
	defer a.Close()
	defer b.Close()
	adders(t, []engine.Engine{a, b}, func() {
		for range 20 {
			time.Sleep(100 * time.Millisecond)
			s.Do(t, "CLIENT", "KILL", "TYPE", "normal")
		}
	})
}

// TestKilledServer kills the server in the middle of batches and starts it again. Each time a new epoch begins.
func TestKilledServer(t *testing.T) {
	s := redisserver.Start(t)
	eng := open(t, at(Scheme, s, newPrefix()), Options{})
	defer eng.Close()
	before, err := add(eng)
	if err != nil {
		t.Fatal(err)
	}
	adders(t, []engine.Engine{withOne{eng}}, func() {
		for range 3 {
			time.Sleep(150 * time.Millisecond)
			s.Kill(t)
			s.Restart(t)
		}
		time.Sleep(150 * time.Millisecond)
	})
	after, err := add(eng)
	if err != nil || epochOf(after) != epochOf(before)+3 {
		t.Errorf("after three restarts a commit is of epoch %d: %v", epochOf(after), err)
	}
	if _, err := eng.View(t.Context(), engine.Read{AtLeast: before}, func(engine.Tx) error { return nil }); err != nil {
		t.Errorf("a view of a position that was kept: %v", err)
	}
}

// withOne is an engine with one write that adders does not know of.
type withOne struct{ engine.Engine }

func (w withOne) View(ctx context.Context, r engine.Read, fn func(engine.Tx) error) (engine.Position, error) {
	return w.Engine.View(ctx, r, func(tx engine.Tx) error { return fn(lessOne{tx}) })
}

type lessOne struct{ engine.Tx }

func (l lessOne) Get(key []byte) ([]byte, bool, error) {
	v, ok, err := l.Tx.Get(key)
	n, _ := strconv.Atoi(string(v))
	return []byte(strconv.Itoa(n - 1)), ok, err
}

// TestPromoted opens a replica that was promoted without the last commits.
func TestPromoted(t *testing.T) {
	old, next := redisserver.Start(t), redisserver.Start(t)
	a := open(t, at(Scheme, old, "t:"), Options{})
	defer a.Close()
	host, port, _ := net.SplitHostPort(old.Addr())
	next.Do(t, "REPLICAOF", host, port)
	eventually.True(t, "the replica is connected", func() bool {
		return strings.Contains(next.Do(t, "INFO", "replication"), "master_link_status:up")
	})
	kept, err := add(a) // of a new epoch: the first replica changes the replication id
	if err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the replica has the commit", func() bool {
		return next.Do(t, "HGET", "t:meta", "pos") == formatPos(kept)
	})
	next.Do(t, "REPLICAOF", "NO", "ONE")
	lost, err := add(a)
	if err != nil {
		t.Fatal(err)
	}
	b := open(t, at(Scheme, next, "t:"), Options{})
	defer b.Close()
	pos, err := add(b)
	if err != nil || pos <= lost || epochOf(pos) != epochOf(lost)+1 || count(t, b) != 2 {
		t.Fatalf("after the promotion a commit is at %d, after %d was lost: %v", pos, lost, err)
	}
	nothing := func(engine.Tx) error { return nil }
	if _, err := b.View(t.Context(), engine.Read{AtLeast: lost}, nothing); !errors.Is(err, engine.ErrTruncated) {
		t.Errorf("a view of a lost position: %v", err)
	}
	if _, err := b.View(t.Context(), engine.Read{AtLeast: kept}, nothing); err != nil {
		t.Errorf("a view of a kept position: %v", err)
	}
	for c, err := range b.Changes(t.Context(), lost) {
		if !errors.Is(err, engine.ErrTruncated) {
			t.Errorf("changes after a lost position: %v, %v", c, err)
		}
		break
	}
	for c, err := range b.Changes(t.Context(), kept) {
		if err != nil {
			t.Fatalf("changes after a kept position: %v", err)
		}
		if len(c.Writes) > 0 {
			if c.Pos != pos {
				t.Errorf("the change after %d is %d, want %d", kept, c.Pos, pos)
			}
			break
		}
	}
	if _, err := b.(*db).Raise(t.Context(), pos+1); err != nil {
		t.Fatal(err)
	}
	if _, err := b.View(t.Context(), engine.Read{AtLeast: lost}, nothing); err != nil {
		t.Errorf("a view of a position that was lost before positions were raised: %v", err)
	}
}

// TestCutOffCommit loses the answers of commits that the server has carried out.
func TestCutOffCommit(t *testing.T) {
	s := redisserver.Start(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var drop atomic.Bool
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go dropping(c, s.Addr(), &drop)
		}
	}()
	u := at(Scheme, s, newPrefix())
	u.Host = l.Addr().String()
	eng := open(t, u, Options{})
	defer eng.Close()
	if _, err := add(eng); err != nil { // so that the server knows the script
		t.Fatal(err)
	}
	for i := range 10 {
		drop.Store(true)
		if _, err := add(eng); err != nil {
			t.Fatalf("a commit whose answer was lost: %v", err)
		}
		if n := count(t, eng); n != int64(i+2) {
			t.Fatalf("the number is %d after %d additions", n, i+2)
		}
	}
	if n := eng.(*db).settled.Load(); n != 10 {
		t.Errorf("%d batches were settled, want 10", n)
	}
}

// dropping forwards a connection, and ends it instead of forwarding the answer to a commit if drop is set.
func dropping(c net.Conn, addr string, drop *atomic.Bool) {
	defer c.Close()
	up, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer up.Close()
	var mute atomic.Bool
	go func() {
		buf := make([]byte, 1<<16)
		for {
			n, err := up.Read(buf)
			if muted := mute.Load(); err != nil || muted && bytes.Contains(buf[:n], []byte("\r\nok\r\n")) {
				c.Close()
				return
			} else if muted { // the answer to something before it: Redis does not carry out what it reads after a reset
				continue
			}
			if _, err := c.Write(buf[:n]); err != nil {
				return
			}
		}
	}()
	buf := make([]byte, 1<<16)
	for {
		n, err := c.Read(buf)
		if err != nil {
			return
		}
		if bytes.Contains(buf[:n], []byte(":turn\r\n")) && drop.Swap(false) {
			mute.Store(true)
		}
		if _, err := up.Write(buf[:n]); err != nil {
			return
		}
	}
}

// TestBigScan scans many keys, forwards and backwards, while all of them are overwritten or deleted.
func TestBigScan(t *testing.T) {
	eng := open(t, at(Scheme, redisserver.Start(t), newPrefix()), Options{})
	defer eng.Close()
	const keys = 5000
	write := func(val string) {
		t.Helper()
		if _, err := eng.Update(t.Context(), func(tx engine.Tx) error {
			for i := range keys {
				var err error
				if key := fmt.Appendf(nil, "k%05d", i); val != "" && i%3 == 0 {
					err = tx.Delete(key)
				} else {
					err = tx.Put(key, []byte(val+"x"))
				}
				if err != nil {
					return err
				}
			}
			return tx.Put([]byte("k00000a"+val), nil)
		}); err != nil {
			t.Fatal(err)
		}
	}
	write("")
	if _, err := eng.View(t.Context(), engine.Read{}, func(tx engine.Tx) error {
		for round, scan := range []func(lo, hi []byte) func(func(engine.Pair, error) bool){
			func(lo, hi []byte) func(func(engine.Pair, error) bool) { return tx.Scan(lo, hi) },
			func(lo, hi []byte) func(func(engine.Pair, error) bool) { return tx.ScanBack(lo, hi) },
		} {
			n := 0
			for p, err := range scan(nil, nil) {
				if err != nil {
					return err
				}
				if v := string(p.Val); v != "x" && string(p.Key) != "k00000a" {
					return fmt.Errorf("%q = %q was written after the view began", p.Key, v)
				}
				if n++; n == 100 {
					write(fmt.Sprint("new", round))
				}
			}
			if n != keys+1 {
				return fmt.Errorf("a scan yields %d of %d keys", n, keys+1)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
