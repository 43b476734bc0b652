package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/skerrydb/skerry/bench/rig"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/examples/voter"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/proc"
)

// TestEveryLane lets every system take some votes in every lane: what the server
// has counted must be what it has acknowledged.
func TestEveryLane(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three servers")
	}
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(d, 0o755); err != nil { // PostgreSQL runs as another user
			t.Fatal(err)
		}
	}
	for name, open := range map[string]func() (*system, error){
		"skerry":   func() (*system, error) { return newSkerry("skerry", dir, dir, false) },
		"redis":    func() (*system, error) { return newRedis("redis", dir, false) },
		"postgres": func() (*system, error) { return newPostgres(dir) },
		"engine":   func() (*system, error) { return newEngine("engine", dir), nil },
	} {
		t.Run(name, func(t *testing.T) {
			s, err := open()
			if err != nil {
				t.Skip(err) // what is missing here
			}
			ports, err := rig.FreePorts(1)
			if err != nil {
				t.Fatal(err)
			}
			s.addr = ports[0]
			if err := s.start(); err != nil {
				t.Fatal(err)
			}
			defer s.stop()
			for _, l := range s.lanes {
				if l.driver == "pgbench" {
					continue // takes at least a second, twice
				}
				oneLane(t, s, l)
			}
			if err := s.check(); err != nil {
				t.Error(err)
			}
		})
	}
}

// oneLane runs a lane's driver in this process.
func oneLane(t *testing.T, s *system, l lane) {
	t.Helper()
	m := &meter{job: job{
		Driver: l.driver, Addr: s.addr, Dir: s.dir, Conns: l.conns, Flight: min(l.flight, 2000), Phones: 1000,
		Warm: 30 * time.Millisecond, Window: 100 * time.Millisecond, Seed: 1,
	}}
	m.finish(drivers()[l.driver](m))
	out := m.out
	s.cast += out.Cast
	s.doubt += out.Doubt
	if out.Err != "" || out.Votes == 0 || out.Votes > out.Cast || out.Took < m.Window {
		t.Errorf("%s %s: %+v", s.name, l.name, out)
	}
}

func TestBallotsStayInRange(t *testing.T) {
	m := &meter{job: job{Phones: 50, Seed: 7}}
	b, seen := m.ballot(0), map[int64]int{}
	for range 5000 {
		phone, contestant := b.next()
		if contestant < 1 || contestant > 12 {
			t.Fatalf("contestant %d", contestant)
		}
		seen[phone]++
	}
	if len(seen) != 50 {
		t.Errorf("%d phones call, want 50", len(seen))
	}
}

func TestRepliesAreReadWhole(t *testing.T) {
	for _, c := range []struct {
		reply string
		want  int // values; -1: not all there
	}{
		{":1\r\n", 1}, {"$2\r\nab\r\n", 1}, {"$2\r\nab", -1}, {"*2\r\n:1\r\n", -1}, {"*2\r\n:1\r\n$1\r\nx\r\n", 2}, {"*0\r\n", 0}, {"-ERR no\r\n", 1}, {"", -1},
	} {
		values, whole := flat([]byte(c.reply))
		if whole != (c.want >= 0) || whole && len(values) != c.want {
			t.Errorf("%q: %q, %v", c.reply, values, whole)
		}
	}
}

// expecting is an engine that wants keys to be announced.
type expecting struct {
	engine.Engine
	got []int // how many together
	all []string
}

type expectingTx struct {
	engine.Tx
	e *expecting
}

func (e *expecting) Update(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
	return e.Engine.Update(ctx, func(tx engine.Tx) error { return fn(expectingTx{tx, e}) })
}

func (expectingTx) Expects() bool { return true }

func (t expectingTx) Expect(keys [][]byte) {
	t.e.got = append(t.e.got, len(keys))
	for _, key := range keys {
		t.e.all = append(t.e.all, string(key[2:]))
	}
}

// TestPhonesAreAnnounced checks that the keys of a batch's phones are announced together, and
// are those that its votes use.
func TestPhonesAreAnnounced(t *testing.T) {
	const calls = 2*kv.MaxExpected + 2
	db, set := newVote(t)
	m := &meter{job: job{Phones: 1_000_000, Seed: 1}}
	e := &expecting{Engine: db}
	if err := newPipeline(set, m.ballot(0), calls).run(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	if want := []int{kv.MaxExpected, kv.MaxExpected, 2}; !slices.Equal(e.got, want) {
		t.Errorf("announced %v keys together, want %v", e.got, want)
	}
	if _, err := db.View(t.Context(), engine.Read{}, func(tx engine.Tx) error {
		keys := kv.In(tx, 0)
		for _, key := range e.all {
			if _, ok, err := keys.Get([]byte(key)); err != nil || !ok {
				t.Errorf("%s: %v, %v", key, ok, err)
			}
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// newVote returns an engine, and the vote on it with all contestants.
func newVote(t testing.TB) (*embedded.DB, *proc.Set) {
	t.Helper()
	db, err := embedded.Open(t.TempDir(), embedded.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	set, err := proc.New(db, proc.Options{}, voter.Procedures()...)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := voter.Initialize.Call(t.Context(), set, voter.InitializeIn{Contestants: voter.MaxContestants}); err != nil {
		t.Fatal(err)
	}
	return db, set
}

// BenchmarkEngine is the lane "in process, 1 × 64 calls", to profile: an
// operation is 64 votes.
func BenchmarkEngine(b *testing.B) {
	const n = 64
	db, set := newVote(b)
	m := &meter{job: job{Phones: 1_000_000, Seed: 1}}
	p := newPipeline(set, m.ballot(0), n)
	b.ReportAllocs()
	for b.Loop() {
		if err := p.run(b.Context(), db); err != nil {
			b.Fatal(err)
		}
	}
}
