package cli

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/pgserver"
	"github.com/skerrydb/skerry/ci/redisserver"
	"github.com/skerrydb/skerry/ci/seed"
)

// moveLoad are clients that go on over moves: an acknowledged increment returns a number that no other one does, and
// transfers between accounts keep their sum. Once a server refuses writes, its clients wait for the next one.
type moveLoad struct {
	t      *testing.T
	at     atomic.Pointer[redis.Client]
	stop   atomic.Bool
	done   sync.WaitGroup
	writes atomic.Int64

	mu      sync.Mutex // guards below
	numbers map[int64]bool
	last    int64 // the highest number
	unknown int64
}

const moveAccounts = 10

// startMoveLoad starts clients of a server.
func startMoveLoad(t *testing.T, to *server) *moveLoad {
	t.Helper()
	l := &moveLoad{t: t, numbers: map[int64]bool{}}
	l.serve(to)
	s := seed.Of(t)
	for i := range 4 {
		rng := rand.New(rand.NewPCG(s, uint64(i)))
		l.done.Go(func() {
			for !l.stop.Load() {
				l.step(rng)
			}
		})
	}
	t.Cleanup(func() { l.stop.Store(true); l.done.Wait() })
	return l
}

// serve directs the clients to a server.
func (l *moveLoad) serve(s *server) {
	c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + s.respPort(), MaxRetries: -1})
	l.t.Cleanup(func() { c.Close() })
	l.at.Store(c)
}

func (l *moveLoad) step(rng *rand.Rand) {
	c, ctx := l.at.Load(), context.Background()
	if rng.IntN(2) == 0 {
		n, err := c.Incr(ctx, "number").Result()
		l.mu.Lock()
		if err == nil && l.numbers[n] {
			l.t.Errorf("two increments returned %d", n)
		}
		if err == nil {
			l.numbers[n], l.last = true, max(l.last, n)
		}
		l.mu.Unlock()
		l.ended(c, err)
		return
	}
	from, to, sum := rng.IntN(moveAccounts), rng.IntN(moveAccounts), rng.Int64N(100)
	_, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.DecrBy(ctx, fmt.Sprint("account", from), sum)
		p.IncrBy(ctx, fmt.Sprint("account", to), sum)
		return nil
	})
	l.ended(c, err)
}

// ended waits for another server if writes are refused.
func (l *moveLoad) ended(c *redis.Client, err error) {
	switch {
	case err == nil:
		l.writes.Add(1)
	case strings.Contains(err.Error(), "[fenced]"):
		for l.at.Load() == c && !l.stop.Load() {
			time.Sleep(time.Millisecond)
		}
	default:
		l.mu.Lock()
		l.unknown++
		l.mu.Unlock()
	}
}

// more waits for some more writes.
func (l *moveLoad) more() {
	l.t.Helper()
	upTo := l.writes.Load() + 200
	eventually.True(l.t, "writes go on", func() bool { return l.writes.Load() > upTo })
}

// check ends the clients and checks what must hold.
func (l *moveLoad) check() {
	l.t.Helper()
	l.stop.Store(true)
	l.done.Wait()
	c, ctx := l.at.Load(), l.t.Context()
	n, err := c.Get(ctx, "number").Int64()
	if err != nil || n < l.last || n > int64(len(l.numbers))+l.unknown {
		l.t.Errorf("the number is %d, after %d acknowledged increments up to %d and %d unknown outcomes: %v", n, len(l.numbers), l.last, l.unknown, err)
	}
	sum := int64(0)
	for i := range moveAccounts {
		v, err := c.Get(ctx, fmt.Sprint("account", i)).Int64()
		if err != nil {
			l.t.Errorf("account %d: %v", i, err)
		}
		sum += v
	}
	if sum != 0 {
		l.t.Errorf("the accounts have %d in sum, want 0", sum)
	}
}

// fillMoved writes keys that make a copy take a while.
func fillMoved(t *testing.T, p *server, keys int) {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + p.respPort()})
	defer c.Close()
	for lo := 0; lo < keys; lo += 1000 {
		if _, err := c.Pipelined(t.Context(), func(p redis.Pipeliner) error {
			for i := range 1000 {
				p.Set(t.Context(), fmt.Sprint("k", lo+i), strings.Repeat("v", 200), 0)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// moveAll runs a move, which is killed some times before, and returns what it prints.
func moveAll(s *shell, kills int, from, to string) string {
	s.t.Helper()
	for i := range kills {
		if out := s.run(fmt.Sprintf("timeout -s KILL %.2f skerry move --from %s --to %s", 0.1+0.1*float64(i), from, to)); strings.Contains(out, "moved") {
			s.t.Logf("a move that was to be killed has ended: %s", out)
			return out
		} else if out != "[-1]\n" {
			s.t.Fatalf("a move that was to be killed: %s", out)
		}
	}
	out := s.run(fmt.Sprintf("skerry move --from %s --to %s", from, to))
	if !strings.HasPrefix(out, "moved ") {
		s.t.Fatalf("move: %s", out)
	}
	s.t.Log(out)
	return out
}

// TestMoveServer moves a server's data to another folder under load, and kills the move in the middle.
func TestMoveServer(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	p := s.serve()
	fillMoved(t, p, 100_000)
	l := startMoveLoad(t, p)
	moveAll(s, 4, p.HTTP, "embedded:moved")
	if got := p.ask("SET late 1"); !strings.Contains(got, "[fenced]") {
		t.Errorf("a write to the source: %s", got)
	}
	if out := s.run("skerry move --from " + p.HTTP + " --to embedded:moved"); !strings.Contains(out, "has moved") || !strings.HasSuffix(out, "[1]\n") {
		t.Errorf("a second move: %s", out)
	}
	next := s.serve("--data", "moved")
	l.serve(next)
	l.more()
	l.check()
	p.stop(syscall.SIGTERM)
	again := s.serve() // the fence is kept
	if got := again.ask("SET late 1"); !strings.Contains(got, "[fenced]") {
		t.Errorf("a write to the source after a restart: %s", got)
	}
	if got := again.ask("GET k0"); len(got) != 200 {
		t.Errorf("a read of the source: %s", got)
	}
}

// TestMoveAbandoned: a server does not serve a part of the data, and its source serves again.
func TestMoveAbandoned(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	p := s.serve()
	fillMoved(t, p, 200_000)
	// It is killed when the first values are copied: both sides know of the move then.
	if out := s.run("skerry move --from " + p.HTTP + " --to embedded:part & until grep -qas vvvvvvvv part/log/0000000000000001.log; do sleep 0.01; done; kill -9 $!; wait $!"); strings.Contains(out, "moved") {
		t.Fatalf("the move has ended before it was killed: %s", out)
	}
	if out := s.run("timeout 60 skerry serve --data part --http 127.0.0.1:0 --resp off 2>&1 | grep -v level="); !strings.Contains(out, "`skerry move` has not finished") {
		t.Errorf("serve a part: %s", out)
	}
	if out := s.run("skerry move --from " + p.HTTP + " --to embedded:part --abandon"); !strings.Contains(out, "takes writes") {
		t.Errorf("abandon: %s", out)
	}
	if got := p.ask("SET k 1"); got != "+OK" {
		t.Errorf("a write after the end: %s", got)
	}
	moveAll(s, 0, p.HTTP, "embedded:part") // over what is left
}

// TestMoveCluster moves a cluster of three nodes to PostgreSQL and back under load.
func TestMoveCluster(t *testing.T) {
	t.Parallel()
	url := pgserver.Shared(t).Database(t)
	c := newNodes(t, 3)
	fillMoved(t, c.proc[1], 20_000)
	l := startMoveLoad(t, c.proc[2])
	moveAll(c.s, 2, c.proc[3].HTTP, url)
	pg := c.s.serve("--engine", url)
	l.serve(pg)
	l.more()
	for id := range c.proc {
		if id > 0 {
			c.proc[id].stop(syscall.SIGTERM)
		}
	}
	moveAll(c.s, 1, url, "embedded:back")
	if got := pg.ask("SET late 1"); !strings.Contains(got, "[fenced]") {
		t.Errorf("a write to PostgreSQL after the move: %s", got)
	}
	if out := c.s.run("skerry cluster init --data back --node " + c.addr[1]); !strings.HasPrefix(out, "back is node 1 of the new cluster ") {
		t.Fatalf("init: %s", out)
	}
	first := c.s.serve("--data", "back")
	for id := 2; id <= 3; id++ {
		if out := c.s.run(fmt.Sprintf("skerry cluster invite --data back > b%d.invite", id)); out != "" {
			t.Fatalf("invite: %s", out)
		}
		c.proc[id] = c.s.serve("--data", fmt.Sprint("b", id), "--invite", fmt.Sprintf("b%d.invite", id), "--node", c.addr[id], "--join", c.addr[1])
	}
	c.proc[1] = first
	c.awaitVoters(3)
	l.serve(c.proc[2])
	l.more()
	l.check()
}

// TestMoveDatabases moves a server's data under load to Redis, PostgreSQL, Redis again and back to a folder. Some moves
// are killed and continue.
func TestMoveDatabases(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	rd := redisserver.Start(t)
	at := []string{"embedded:first", rd.URL(), pgserver.Shared(t).Database(t), rd.URL() + "/1?prefix=second:", "embedded:last"}
	p := s.serve("--data", "first")
	fillMoved(t, p, 20_000)
	l := startMoveLoad(t, p)
	from := p.HTTP
	for i, to := range at[1:] {
		moveAll(s, 2-i, from, to)
		if got := p.ask("SET late 1"); !strings.Contains(got, "[fenced]") {
			t.Errorf("a write to %s after the move: %s", from, got)
		}
		p, from = s.serve("--engine", to), to
		l.serve(p)
		l.more()
	}
	l.check()
}
