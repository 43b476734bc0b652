package resp_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/redisserver"
	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/resp"
	"github.com/skerrydb/skerry/resp/wire"
)

func TestWait(t *testing.T) {
	addr := startSkerry(t, resp.Options{})
	a, b := newAsker(t, addr), newAsker(t, addr)
	id := fmt.Sprint(b.ask("CLIENT", "ID").Int)
	start := time.Now()
	if v := a.ask("WAIT", "1", "120"); v.Int != 0 || time.Since(start) < 100*time.Millisecond {
		t.Errorf("WAIT 1 120 returns %v after %v", v, time.Since(start))
	}
	b.send("WAIT 1 0")
	a.awaitInfo("blocked_clients", 1)
	a.want("1", "CLIENT", "UNBLOCK", id, "ERROR")
	if v := b.next(); !strings.HasPrefix(string(v.Str), "UNBLOCKED ") {
		t.Errorf("WAIT ended by an error returns %q", v.Str)
	}
	// Commands sent during the wait are run afterwards, in order.
	b.send("WAIT 1 0\r\nECHO one")
	a.awaitInfo("blocked_clients", 1)
	b.send("ECHO two")
	a.want("1", "CLIENT", "UNBLOCK", id, "TIMEOUT")
	for i, want := range []string{"0", "one", "two"} {
		if got := show(t, b.next()); got != want {
			t.Errorf("reply %d is %s", i, got)
		}
	}
	// A client that disconnects during the wait is detected.
	b.send("WAIT 1 0")
	a.awaitInfo("blocked_clients", 1)
	b.nc.Close()
	a.awaitInfo("connected_clients", 1)
}

// TestMigrate moves keys to a real redis-server and back.
func TestMigrate(t *testing.T) {
	redisAddr, addr := redisserver.InMemory(t, "--requirepass", "pw"), startSkerry(t, resp.Options{})
	a, r := newAsker(t, addr), newAsker(t, redisAddr)
	r.ask("AUTH", "pw")
	host, port, _ := net.SplitHostPort(redisAddr)
	text := strings.Repeat("compressible ", 1000)
	a.ask("MSET", "text", text, "n", "-12345", "bin", "\x00\xff\r\n", "stays", "s")
	a.ask("EXPIRE", "n", "1000")
	if v := a.ask("MIGRATE", host, port, "", "3", "5000", "AUTH", "pw", "KEYS", "text", "n", "bin", "none"); string(v.Str) != "OK" {
		t.Fatalf("MIGRATE: %q", v.Str)
	}
	if v := a.ask("EXISTS", "text", "n", "bin"); v.Int != 0 {
		t.Errorf("%d keys are still here", v.Int)
	}
	r.ask("SELECT", "3")
	if v := r.ask("MGET", "text", "n", "bin"); string(v.List[0].Str) != text || string(v.List[1].Str) != "-12345" || string(v.List[2].Str) != "\x00\xff\r\n" {
		t.Errorf("Redis has %v", v.List)
	}
	if v := r.ask("TTL", "n"); v.Int < 900 || v.Int > 1000 {
		t.Errorf("its TTL is %d", v.Int)
	}
	if v := a.ask("MIGRATE", host, port, "stays", "3", "5000"); !strings.HasPrefix(string(v.Str), "ERR Target instance replied with error: NOAUTH") {
		t.Errorf("without a password: %q", v.Str)
	}
	a.ask("SET", "text", "other")
	if v := a.ask("MIGRATE", host, port, "text", "3", "5000", "AUTH2", "default", "pw"); !strings.HasPrefix(string(v.Str), "ERR Target instance replied with error: BUSYKEY") {
		t.Errorf("over a key that is there: %q", v.Str)
	}
	if v := a.ask("MIGRATE", host, port, "text", "3", "5000", "COPY", "REPLACE", "AUTH", "pw"); string(v.Str) != "OK" || a.ask("EXISTS", "text").Int != 1 {
		t.Errorf("COPY REPLACE: %q", v.Str)
	}
	if v := a.ask("MIGRATE", "127.0.0.1", "1", "text", "0", "500"); string(v.Str) != "IOERR error or timeout connecting to the client" {
		t.Errorf("to a port without a server: %q", v.Str)
	}
	skerryHost, skerryPort, _ := net.SplitHostPort(addr)
	if v := r.ask("MIGRATE", skerryHost, skerryPort, "", "7", "5000", "KEYS", "n", "bin"); string(v.Str) != "OK" {
		t.Fatalf("back: %q", v.Str)
	}
	a.ask("SELECT", "7")
	if v := a.ask("MGET", "n", "bin"); string(v.List[0].Str) != "-12345" || string(v.List[1].Str) != "\x00\xff\r\n" {
		t.Errorf("it came back as %v", v.List)
	}
}

// cachingClient caches what it has read until it receives an invalidation.
type cachingClient struct {
	*asker
	mu    sync.Mutex
	cache map[string]string
}

// run reads keys until stop is closed, and then once more: all invalidations precede the
// last reply. It handles replies and pushes in the order in which the server sent them.
func (c *cachingClient) run(keys []string, rng *rand.Rand, stop chan struct{}) error {
	for last := false; !last; {
		select {
		case <-stop:
			last = true
		default:
		}
		key := keys[rng.IntN(len(keys))]
		c.mu.Lock()
		_, have := c.cache[key]
		c.mu.Unlock()
		if have {
			key = keys[0] + " none" // lets the pushes arrive
		}
		if _, err := c.nc.Write(wire.AppendCommandStrings(nil, "GET", key)); err != nil {
			return err
		}
		for {
			v, err := c.rd.Read()
			if err != nil {
				return err
			}
			if v.Kind != wire.KindPush {
				if !have {
					c.mu.Lock()
					c.cache[key] = string(v.Str)
					c.mu.Unlock()
				}
				break
			}
			c.invalidate(v)
		}
	}
	return nil
}

func (c *cachingClient) invalidate(v wire.Value) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range v.List[1].List {
		delete(c.cache, string(k.Str))
	}
	if v.List[1].IsNull() {
		clear(c.cache)
	}
}

// TestTrackingTruth has clients cache what they read while others write. When all is quiet,
// no cache contains an old value.
func TestTrackingTruth(t *testing.T) {
	addr := startSkerry(t, resp.Options{})
	s := seed.Of(t)
	var keys []string
	for i := range 20 {
		keys = append(keys, fmt.Sprint("k", i))
	}
	stop := make(chan struct{})
	var readers, writers sync.WaitGroup
	var clients []*cachingClient
	for i := range 4 {
		c := &cachingClient{asker: newAsker(t, addr), cache: map[string]string{}}
		if v := c.ask("CLIENT", "TRACKING", "ON"); string(v.Str) != "OK" {
			t.Fatal(v)
		}
		clients = append(clients, c)
		readers.Go(func() {
			if err := c.run(keys, rand.New(rand.NewPCG(s, uint64(i))), stop); err != nil {
				t.Error(err)
			}
		})
	}
	for i := range 2 {
		w := newAsker(t, addr)
		rng := rand.New(rand.NewPCG(s, uint64(100+i)))
		writers.Go(func() {
			for end := time.Now().Add(3 * time.Second); time.Now().Before(end); {
				w.ask("SET", keys[rng.IntN(len(keys))], fmt.Sprint(rng.Uint64()))
			}
		})
	}
	writers.Wait()
	close(stop)
	readers.Wait()
	a := newAsker(t, addr)
	cached := 0
	for i, c := range clients {
		cached += len(c.cache)
		for key, val := range c.cache {
			if v := a.ask("GET", key); string(v.Str) != val {
				t.Errorf("client %d has cached %s as %s, but it is %s", i, key, val, v.Str)
			}
		}
	}
	if cached == 0 {
		t.Error("no client has cached anything, so the test proves nothing")
	}
}

// TestMemoryFull fills an engine with a small limit.
func TestMemoryFull(t *testing.T) {
	a := newAsker(t, serveOn(t, openEngine(t, embedded.Options{MemoryBytes: 1 << 20}), resp.Options{}))
	val := strings.Repeat("x", 100_000)
	n := 0
	for ; n < 20; n++ {
		if v := a.ask("SET", fmt.Sprint(n), val); v.IsError() {
			if !strings.HasPrefix(string(v.Str), "OOM ") || !strings.HasSuffix(string(v.Str), "[memory_full]") {
				t.Errorf("over the limit: %q", v.Str)
			}
			break
		}
	}
	if n < 5 || n == 20 {
		t.Fatalf("%d values of 100 kB fit into 1 MiB", n)
	}
	// A transaction is undone as a whole; reading and deleting work.
	a.ask("MULTI")
	a.ask("SET", "small", "1")
	a.ask("SET", "large", val)
	if v := a.ask("EXEC"); !strings.HasPrefix(string(v.Str), "OOM ") {
		t.Errorf("EXEC: %v %q", v, v.Str)
	}
	if v := a.ask("MGET", "0", "small"); string(v.List[0].Str) != val || !v.List[1].IsNull() {
		t.Error("data is wrong after the refusal")
	}
	if v := a.ask("DEL", "0"); v.Int != 1 {
		t.Errorf("DEL: %q", v.Str)
	}
	if v := a.ask("SET", "large", val); v.IsError() {
		t.Errorf("SET after DEL: %q", v.Str)
	}
	if v := a.ask("CLIENT", "TRACKING", "ON"); !strings.HasSuffix(string(v.Str), "[unsupported]") {
		t.Errorf("tracking without a feed: %q", v.Str)
	}
}

// TestShutdown ends Serve while clients write. Each write gets a reply or was not sent, and
// all connections end.
func TestShutdown(t *testing.T) {
	l := loopback(t)
	srv := serveSkerry(t, l, resp.Options{})
	var wg sync.WaitGroup
	var replies atomic.Int64
	for i := range 8 {
		a := newAsker(t, l.Addr().String())
		wg.Go(func() {
			for n := 0; ; n++ {
				if _, err := a.nc.Write(wire.AppendCommandStrings(nil, "SET", fmt.Sprint(i), fmt.Sprint(n))); err != nil {
					return
				}
				v, err := a.rd.Read()
				if err != nil {
					return
				}
				if replies.Add(1); v.IsError() {
					t.Errorf("a reply at shutdown: %q", v.Str)
				}
			}
		})
	}
	eventually.True(t, "some writes", func() bool { return replies.Load() > 100 })
	srv.Close()
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(5 * time.Second):
		t.Fatal("connections outlive Close")
	}
	if _, err := net.Dial("tcp", l.Addr().String()); err == nil {
		t.Error("it still listens")
	}
	if err := srv.Serve(t.Context(), l); err == nil || errors.Is(err, net.ErrClosed) {
		t.Errorf("Serve after Close: %v", err)
	}
}

// TestMigrateTime checks that the remaining life of a migrated key is computed with the
// time of the store, regardless of the machine's clock.
func TestMigrateTime(t *testing.T) {
	l := loopback(t)
	ahead := func() time.Time { return time.Now().Add(time.Hour) }
	serve(t, openEngine(t, embedded.Options{Now: ahead}), l, resp.Options{})
	from, to := newAsker(t, l.Addr().String()), newAsker(t, startSkerry(t, resp.Options{}))
	from.want("OK", "SET", "k", "v", "PX", "100000")
	host, port, _ := net.SplitHostPort(to.nc.RemoteAddr().String())
	from.want("OK", "MIGRATE", host, port, "k", "0", "5000")
	if ms := to.ask("PTTL", "k").Int; ms <= 0 || ms > 100_000 {
		t.Errorf("the remaining life is %d ms, want at most 100,000", ms)
	}
}
