package cache_test

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/skerrydb/skerry/cache"
	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine"
	"github.com/skerrydb/skerry/feed"
)

const prefix = "x/"

// overChanges returns a running cache of the keys below prefix.
func overChanges(t *testing.T, eng engine.Engine, o feed.Options, staleness time.Duration) *cache.Cache {
	t.Helper()
	changes, err := feed.New(eng, o)
	if err != nil {
		t.Fatal(err)
	}
	f, err := cache.Changes(cache.ChangesOptions{
		Engine: eng, Feed: changes, Prefixes: [][]byte{[]byte(prefix)}, Every: 20 * time.Millisecond,
		Keys: func(c engine.Change, drop func(string)) (all bool) {
			for _, w := range c.Writes {
				if string(w.Key) == prefix+"all" {
					return true
				}
				drop(string(w.Key[len(prefix):]))
			}
			return false
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	source := cache.Func(func(ctx context.Context, key string) (e cache.Entry, err error) {
		_, err = eng.View(ctx, engine.Read{}, func(tx engine.Tx) error {
			v, ok, err := tx.Get([]byte(prefix + key))
			e = cache.Entry{Body: append([]byte(nil), v...), Missing: !ok}
			return err
		})
		return e, err
	})
	c, err := cache.New(cache.Options{Source: source, Feed: f, Staleness: staleness, Wait: time.Minute, LoadTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { changes.Run(ctx) })
	running.Go(func() { c.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return c
}

// put writes key and returns the position of the write.
func put(t *testing.T, eng engine.Engine, key string, n int) cache.Position {
	t.Helper()
	pos, err := eng.Update(t.Context(), func(tx engine.Tx) error { return tx.Put([]byte(prefix+key), strconv.AppendInt(nil, int64(n), 10)) })
	if err != nil {
		t.Fatal(err)
	}
	return pos
}

// TestChangesQuiet: a cache over an engine that nobody writes to becomes fresh, from the beginning and later.
func TestChangesQuiet(t *testing.T) {
	t.Parallel()
	for _, writes := range []int{0, 3} {
		eng := testengine.Open(t, testengine.Options{Memory: true})
		for i := range writes {
			put(t, eng, "k", i)
		}
		c := overChanges(t, eng, feed.Options{}, time.Minute)
		eventually.True(t, "the cache is fresh", func() bool { return c.Stats().Fresh })
		if writes > 0 {
			if e, err := c.Get(t.Context(), "k", cache.Read{}); err != nil || string(e.Body) != "2" {
				t.Errorf("Get returned %q, %v", e.Body, err)
			}
		}
	}
}

// TestChangesCoherent: readers see their own writes at once and those of others in time, also when the feed
// cuts off a cache that is too slow.
func TestChangesCoherent(t *testing.T) {
	t.Parallel()
	r := seed.Rand(t)
	eng := testengine.Open(t, testengine.Options{Memory: true})
	const staleness, keys = 10 * time.Second, 5
	c := overChanges(t, eng, feed.Options{Buffer: 2}, staleness)
	eventually.True(t, "the cache is fresh", func() bool { return c.Stats().Fresh })
	steps := 400
	if testing.Short() {
		steps = 100
	}
	var mu sync.Mutex
	latest := map[string][]time.Time{} // when each value of a key was acknowledged
	var users sync.WaitGroup
	for i := range 4 { // each user writes a key of its own, and reads all
		u := rand.New(rand.NewPCG(r.Uint64(), 0))
		mine := strconv.Itoa(i)
		users.Go(func() {
			var own cache.Position
			for n := range steps {
				if u.IntN(3) == 0 {
					own = put(t, eng, mine, len(latestOf(&mu, latest, mine)))
					mu.Lock()
					latest[mine] = append(latest[mine], time.Now())
					mu.Unlock()
				}
				key, read := strconv.Itoa(u.IntN(keys)), cache.Read{}
				if key == mine {
					read.AtLeast = own
				}
				oldest := -1
				for v, at := range latestOf(&mu, latest, key) {
					if key == mine || time.Since(at) > staleness {
						oldest = v
					}
				}
				e, err := c.Get(t.Context(), key, read)
				got := -1
				if err == nil {
					got, _ = strconv.Atoi(string(e.Body))
				} else if engine.CodeOf(err) != engine.CodeNotFound {
					t.Errorf("user %d, step %d: %v", i, n, err)
					return
				}
				if got < oldest {
					t.Errorf("user %d, step %d: key %s is %d; %d was promised", i, n, key, got, oldest)
					return
				}
			}
		})
	}
	users.Wait()
	if s := c.Stats(); s.MemoryHits == 0 || s.Invalidations == 0 {
		t.Errorf("nothing came from memory or nothing was invalidated: %+v", s)
	}
}

func latestOf(mu *sync.Mutex, latest map[string][]time.Time, key string) []time.Time {
	mu.Lock()
	defer mu.Unlock()
	return latest[key]
}

// TestChangesOwnWrites: whoever passes the position of a write sees it, without waiting for a proof.
func TestChangesOwnWrites(t *testing.T) {
	t.Parallel()
	eng := testengine.Open(t, testengine.Options{Memory: true})
	c := overChanges(t, eng, feed.Options{}, time.Minute)
	eventually.True(t, "the cache is fresh", func() bool { return c.Stats().Fresh })
	for n := range 100 {
		pos := put(t, eng, "k", n)
		if e, err := c.Get(t.Context(), "k", cache.Read{AtLeast: pos}); err != nil || string(e.Body) != strconv.Itoa(n) {
			t.Fatalf("read %q, %v after writing %d", e.Body, err, n)
		}
	}
}

// TestChangesOfAll: a change that may concern every entry empties the cache.
func TestChangesOfAll(t *testing.T) {
	t.Parallel()
	eng := testengine.Open(t, testengine.Options{Memory: true})
	c := overChanges(t, eng, feed.Options{}, time.Minute)
	eventually.True(t, "the cache is fresh", func() bool { return c.Stats().Fresh })
	pos := put(t, eng, "k", 1)
	if _, err := c.Get(t.Context(), "k", cache.Read{AtLeast: pos}); err != nil {
		t.Fatal(err)
	}
	before := c.Stats().Loaded
	pos = put(t, eng, "all", 1)
	if _, err := c.Get(t.Context(), "k", cache.Read{AtLeast: pos}); err != nil || c.Stats().Loaded == before {
		t.Errorf("the entry was not loaded again (%v)", err)
	}
}
