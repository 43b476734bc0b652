package cache_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skerrydb/skerry/cache"
	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
)

// model is a database with a feed of changes that has every fault that the contract of cache.Sink allows. The
// value of a key is the position of its last write, so a reader knows how old an answer is.
type model struct {
	rand func(n int) int // safe for concurrent use
	late sync.WaitGroup  // reports of feeds that have ended

	mu      sync.Mutex // guards the fields below
	log     []written  // the position of a write is its index + 1
	visible int        // writes that new loads see; the rest is committed, and reported already perhaps
	kept    int        // writes up to here are no longer in the feed's history
	history int
}

type written struct {
	key string
	at  time.Time // from here on, a load sees it
}

func (m *model) pause(most time.Duration) { time.Sleep(time.Duration(m.rand(int(most)))) }

// write commits a write, which becomes visible a little later, and returns its position once it is.
func (m *model) write(key string) cache.Position {
	m.mu.Lock()
	m.log = append(m.log, written{key: key})
	pos := len(m.log)
	m.mu.Unlock()
	if m.rand(2) == 0 {
		m.pause(3 * time.Millisecond)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.visible < pos { // with those before it, as a snapshot of everything does
		m.log[m.visible].at = time.Now()
		m.visible++
	}
	return cache.Position(pos)
}

// last returns the position of the last write of key among the first n.
func (m *model) last(key string, n int) (pos int) {
	for i := range m.log[:n] {
		if m.log[i].key == key {
			pos = i + 1
		}
	}
	return pos
}

// oldest returns the oldest value of key that a read may return that begins now.
func (m *model) oldest(key string, staleness time.Duration, atLeast cache.Position) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for n < m.visible && m.log[n].at.Before(time.Now().Add(-staleness)) {
		n++
	}
	return m.last(key, max(n, int(atLeast)))
}

// Load implements cache.Source.
func (m *model) Load(_ context.Context, keys []string) ([]cache.Entry, error) {
	m.pause(2 * time.Millisecond)
	m.mu.Lock()
	entries := make([]cache.Entry, len(keys))
	for i, key := range keys {
		pos := m.last(key, m.visible)
		entries[i] = cache.Entry{Body: strconv.AppendInt(nil, int64(pos), 10), Missing: pos == 0}
	}
	m.mu.Unlock()
	m.pause(20 * time.Millisecond)
	if m.rand(20) == 0 {
		return nil, errors.New("the source has failed")
	}
	return entries, nil
}

// Run implements cache.Feed.
func (m *model) Run(ctx context.Context, sink cache.Sink) error {
	history, after := sink.Resume()
	m.mu.Lock()
	pos := int(after)
	resumed := history == strconv.Itoa(m.history) && pos >= m.kept
	if !resumed {
		pos = m.visible
	}
	name := strconv.Itoa(m.history)
	m.mu.Unlock()
	if resumed && m.rand(3) == 0 && pos > 0 {
		m.mu.Lock()
		pos = max(m.kept, pos-m.rand(3)) // some again
		m.mu.Unlock()
	}
	m.pause(20 * time.Millisecond)
	sink.Begin(name, cache.Position(pos), resumed)
	for ctx.Err() == nil {
		at := time.Now()
		m.mu.Lock()
		committed, visible := len(m.log), m.visible
		m.mu.Unlock()
		if m.rand(2) == 0 {
			m.report(sink, pos, committed) // ahead of what loads see
		}
		m.pause(10 * time.Millisecond)
		m.report(sink, pos, visible)
		pos = visible
		sink.Reached(cache.Position(pos), at)
		if m.rand(4) == 0 {
			sink.Reached(cache.Position(pos), time.Time{})
		}
		switch m.rand(60) {
		case 0:
			return errors.New("cut off")
		case 1: // a connection that hangs, and whose answers come when another one has begun
			m.late.Go(func() {
				m.pause(400 * time.Millisecond)
				sink.Reached(cache.Position(pos+100), time.Now())
				sink.Changed("0")
			})
			return errors.New("half open")
		case 2:
			m.pause(300 * time.Millisecond)
		case 3:
			m.lose()
			return errors.New("the history is lost")
		case 4:
			sink.ChangedAll("schema")
		}
	}
	return ctx.Err()
}

func (m *model) report(sink cache.Sink, from, to int) {
	for i := from; i < to; i++ {
		m.mu.Lock()
		key := m.log[i].key
		m.mu.Unlock()
		sink.Changed(key)
	}
}

// lose makes the feed forget what it could resume from, or become another one.
func (m *model) lose() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kept = m.visible
	if m.rand(2) == 0 {
		m.history++
	}
}

const (
	modelStaleness = 100 * time.Millisecond
	modelKeys      = 6
)

func newModel(r *rand.Rand) *model {
	var mu sync.Mutex
	return &model{rand: func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return r.IntN(n)
	}}
}

// use reads and writes for a while and fails if a read is older than promised. It returns how many reads had a
// value.
func (m *model) use(t *testing.T, c *cache.Cache, steps int) (answered int) {
	var own cache.Position
	for range steps {
		m.pause(8 * time.Millisecond)
		key := strconv.Itoa(m.rand(modelKeys))
		if m.rand(6) == 0 {
			own = m.write(key)
			continue
		}
		r := cache.Read{}
		if m.rand(2) == 0 {
			r.AtLeast = own
		}
		oldest := m.oldest(key, modelStaleness, r.AtLeast)
		e, err := c.Get(t.Context(), key, r)
		got, code := 0, engine.CodeOf(err)
		switch {
		case err == nil:
			got, _ = strconv.Atoi(string(e.Body))
			answered++
		case code != engine.CodeNotFound:
			continue // of the source, or no position in time
		}
		if got < oldest {
			t.Errorf("key %s at %v: read value %d; %d was promised (at least %d)", key, time.Now().UnixMilli(), got, oldest, r.AtLeast)
			return answered
		}
	}
	return answered
}

// TestChecker: no read is older than promised, whatever the feed does, and most reads come from the tiers.
func TestChecker(t *testing.T) {
	t.Parallel()
	r := seed.Rand(t)
	rounds := 40
	if testing.Short() {
		rounds = 8
	}
	check(t, r, rounds, func(r *rand.Rand, m *model) cache.Options {
		o := cache.Options{Gather: 1 + r.IntN(3), Loads: 1 + r.IntN(4)}
		if r.IntN(3) == 0 {
			o.TTL, o.RefreshAhead = 50*time.Millisecond, 20*time.Millisecond
		}
		return o
	}, 1)
}

// TestCheckerRestarts: the same for a cache with a disk tier that is closed and opened again while the database goes
// on, or loses the history of its feed.
func TestCheckerRestarts(t *testing.T) {
	t.Parallel()
	r := seed.Rand(t)
	rounds := 6
	if testing.Short() {
		rounds = 2
	}
	check(t, r, rounds, func(r *rand.Rand, m *model) cache.Options {
		return cache.Options{Dir: t.TempDir(), DiskBytes: 1 << 20, MemoryBytes: 64 << 10, Identity: "model"}
	}, 4)
}

// check runs readers and writers of a model through as many caches, one after the other, with the same options.
func check(t *testing.T, r *rand.Rand, rounds int, options func(r *rand.Rand, m *model) cache.Options, caches int) {
	t.Helper()
	var reads, hits uint64
	for range rounds {
		synctest.Test(t, func(t *testing.T) {
			m := newModel(rand.New(rand.NewPCG(r.Uint64(), 0)))
			o := options(r, m)
			o.Source, o.Feed, o.Staleness, o.Wait = m, m, modelStaleness, time.Second
			for range caches {
				s, answered := m.run(t, o)
				reads += answered
				hits += s.MemoryHits + s.DiskHits
				for range m.rand(20) {
					m.write(strconv.Itoa(m.rand(modelKeys)))
				}
				if m.rand(4) == 0 {
					m.lose()
				}
			}
		})
		if t.Failed() {
			return
		}
	}
	if hits < reads/10 {
		t.Errorf("%d of %d reads came from a tier: the test shows little", hits, reads)
	}
}

// run uses one cache for a while, and returns its metrics and how many reads had a value.
func (m *model) run(t *testing.T, o cache.Options) (s cache.Stats, answered uint64) {
	t.Helper()
	c, err := cache.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running, users sync.WaitGroup
	running.Go(func() { c.Run(ctx) })
	counts := make([]int, 6)
	for i := range counts {
		users.Go(func() { counts[i] = m.use(t, c, 150) })
	}
	users.Wait()
	for _, n := range counts {
		answered += uint64(n)
	}
	s = c.Stats()
	cancel()
	running.Wait()
	m.late.Wait()
	return s, answered
}
