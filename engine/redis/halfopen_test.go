package redis

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/redisserver"
	"github.com/skerrydb/skerry/engine"
)

// proxy forwards connections to a server until they are muted. Then it reads on, forwards nothing, and closes nothing.
type proxy struct {
	net.Listener
	to      string
	silent  atomic.Bool // new connections are mute
	mu      sync.Mutex  // guards mutes
	mutes   []*atomic.Bool
	started atomic.Int64
}

func newProxy(t *testing.T, to string) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	p := &proxy{Listener: l, to: to}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.started.Add(1)
			go p.forward(c)
		}
	}()
	return p
}

func (p *proxy) forward(c net.Conn) {
	up, err := net.Dial("tcp", p.to)
	if err != nil {
		c.Close()
		return
	}
	var mute atomic.Bool
	mute.Store(p.silent.Load())
	p.mu.Lock()
	p.mutes = append(p.mutes, &mute)
	p.mu.Unlock()
	for _, pair := range [][2]net.Conn{{c, up}, {up, c}} {
		go func() {
			defer c.Close()
			defer up.Close()
			buf := make([]byte, 1<<16)
			for {
				n, err := pair[0].Read(buf)
				if err != nil {
					return
				}
				if mute.Load() {
					continue
				}
				if _, err := pair[1].Write(buf[:n]); err != nil {
					return
				}
			}
		}()
	}
}

// mute mutes all connections, and those that are to come if all is set.
func (p *proxy) mute(all bool) {
	p.silent.Store(all)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.mutes {
		m.Store(true)
	}
}

// mutedWithin bounds calls in these tests. It is far more than silence, patience and the last try, for slow machines.
const mutedWithin = time.Minute

// TestHalfOpen mutes the connections that there are. The engine gives them up and goes on with new ones: nothing fails, the
// feed included.
func TestHalfOpen(t *testing.T) {
	t.Parallel() // it waits for silence
	s := redisserver.Start(t)
	p := newProxy(t, s.Addr())
	u := at(Scheme, s, "t:")
	other := open(t, u, Options{})
	defer other.Close()
	u.Host = p.Addr().String()
	eng := open(t, u, Options{silence: 3 * time.Second, patience: 3 * time.Second})
	defer eng.Close()
	pos, err := add(eng)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), mutedWithin)
	defer cancel()
	p.mute(false)

	var all sync.WaitGroup
	all.Go(func() {
		seen := 0
		for _, err := range eng.Changes(ctx, pos) {
			if err != nil {
				t.Errorf("the feed: %v", err)
				return
			}
			if seen++; seen == 2 {
				return
			}
		}
		t.Errorf("the feed brought %d of 2 changes", seen)
	})
	all.Go(func() {
		if _, err := eng.View(ctx, engine.Read{}, func(tx engine.Tx) error { _, _, err := tx.Get([]byte("n")); return err }); err != nil {
			t.Errorf("a view: %v", err)
		}
	})
	all.Go(func() {
		if _, err := add(other); err != nil {
			t.Errorf("a write of another process: %v", err)
		}
		if _, err := add(eng); err != nil {
			t.Errorf("a write: %v", err)
		}
	})
	all.Wait()
	if n := count(t, other); n != 3 {
		t.Errorf("the number is %d after three additions", n)
	}
}

// TestMute mutes all connections, and new ones too. Calls fail within a bounded time, and succeed when the network is back.
func TestMute(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for seconds")
	}
	t.Parallel() // it waits for silence and patience
	s := redisserver.Start(t)
	p := newProxy(t, s.Addr())
	u := at(Scheme, s, "t:")
	u.Host = p.Addr().String()
	hasty := Options{silence: 2 * time.Second, patience: time.Second}
	eng := open(t, u, hasty)
	defer eng.Close()
	if _, err := add(eng); err != nil {
		t.Fatal(err)
	}
	p.mute(true)
	began := time.Now()
	var all sync.WaitGroup
	var unknown atomic.Int64
	all.Go(func() {
		if _, err := add(eng); errors.Is(err, engine.ErrOutcomeUnknown) {
			unknown.Add(1)
		} else {
			refusedWith(t, err, engine.CodeUnavailable, "cannot reach the server")
		}
	})
	all.Go(func() {
		_, err := eng.View(t.Context(), engine.Read{}, func(tx engine.Tx) error { _, _, err := tx.Get([]byte("n")); return err })
		refusedWith(t, err, engine.CodeUnavailable, "cannot reach the server")
	})
	all.Go(func() {
		_, err := Open(t.Context(), u, hasty)
		refusedWith(t, err, engine.CodeUnavailable, "cannot reach the server")
	})
	all.Wait()
	if took := time.Since(began); took > mutedWithin {
		t.Errorf("calls took %v", took)
	}
	p.silent.Store(false)
	eventually.True(t, "writes succeed again", func() bool { _, err := add(eng); return err == nil })
	if n := count(t, eng); n < 2 || n > 2+unknown.Load() {
		t.Errorf("the number is %d after two additions, and %d of which it is not known", n, unknown.Load())
	}
}

// TestClusterHalfOpen mutes the connections to a node of a cluster.
func TestClusterHalfOpen(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for seconds")
	}
	t.Parallel() // it waits for silence
	s := redisserver.Cluster(t, 1)[0]
	p := newProxy(t, s.Addr())
	_, port, _ := net.SplitHostPort(p.Addr().String())
	s.Do(t, "CONFIG", "SET", "cluster-announce-port", port)
	u := at(SchemeCluster, s, "t:")
	u.Host = p.Addr().String()
	eng := open(t, u, Options{silence: 2 * time.Second})
	defer eng.Close()
	all := &pairs{eng: eng}
	if err := all.change(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), mutedWithin)
	defer cancel()
	before := p.started.Load()
	p.mute(false)
	if err := all.change(ctx, 0); err != nil {
		t.Errorf("a write: %v", err)
	}
	if n, err := all.look(ctx, 0); err != nil || n != 2 {
		t.Errorf("after two changes: %d, %v", n, err)
	}
	if p.started.Load() == before {
		t.Error("no new connection was made")
	}
}

// TestStalled stops the server for longer than a connection waits, as an overloaded machine may, while two processes write.
func TestStalled(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for seconds")
	}
	t.Parallel() // it waits for the server
	s := redisserver.Start(t, "--enable-debug-command", "yes")
	a, b := open(t, at(Scheme, s, "t:"), Options{silence: 2 * time.Second}), open(t, at(Scheme, s, "t:"), Options{})
	defer a.Close()
	defer b.Close()
	adders(t, []engine.Engine{a, b}, func() { s.Do(t, "DEBUG", "SLEEP", "4") })
}
