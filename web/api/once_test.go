package api_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/web/api"
)

func TestOnceKeyLimit(t *testing.T) {
	s := serve(t, api.Options{})
	longest := strings.Repeat("k", kv.MaxOnceKeyBytes)
	for key, want := range map[string]int{longest: 201, `"` + longest + `"`: 201, longest + "k": 400, `"` + longest + `k"`: 400} {
		got := s.do(t, "PUT", "/db/a", strings.NewReader("x"), "Idempotency-Key", key)
		if got.status != want || want == 400 && got.code() != engine.CodeLimit {
			t.Errorf("a key of %d characters: %d %s", len(key), got.status, got.body)
		}
	}
}

// TestOnceHidden: stored responses are in no listing, and clients cannot reach their space.
func TestOnceHidden(t *testing.T) {
	s := serve(t, api.Options{RememberFor: time.Minute})
	if got := s.do(t, "PUT", "/db/a", strings.NewReader("x"), "Idempotency-Key", "k"); got.status != 201 {
		t.Fatal(got.status)
	}
	if keys, _, _ := s.follow(t, "/db/"); len(keys) != 1 {
		t.Errorf("the listing has %q", keys)
	}
	e, ok, _, err := s.store.Get(t.Context(), engine.Read{}, kv.OnceSpace, []byte("k"))
	if err != nil || !ok || !e.Expires.Equal(s.clock.now().Add(time.Minute)) {
		t.Errorf("remembered until %v: %v %v", e.Expires, ok, err)
	}
}

// TestOnceAfterUnknown: the leader commits, but its response is lost. The same request is sent again
// automatically and gets the lost response.
func TestOnceAfterUnknown(t *testing.T) {
	for at := range 2 { // asked of the leader itself, and of another node
		c := serveCluster(t, 2, api.Options{})
		var lost atomic.Int32
		c.nodes[0].update = func(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
			pos, err := c.db.Update(ctx, fn)
			if lost.Add(1) == 1 {
				return 0, engine.Errorf(engine.CodeOutcomeUnknown, "leadership was lost")
			}
			return pos, err
		}
		got := c.nodes[at].put(t, "/db/a", "x", "If-None-Match", "*", "Idempotency-Key", "k")
		if got.status != 201 || got.header.Get("Idempotent-Replayed") != "true" || lost.Load() != 2 {
			t.Errorf("answered %d %v %s", got.status, got.header, got.body)
		}
	}
}

// TestOnceEverywhere: writes are sent again and again, at the same time, to all
// nodes, while the leader changes and clients give up. Each is carried out once.
func TestOnceEverywhere(t *testing.T) {
	const writes, copies = 40, 4
	c := serveCluster(t, 3, api.Options{})
	rnd := seed.Rand(t)
	stop, moved := make(chan struct{}), make(chan struct{})
	moves := rand.New(rand.NewPCG(rnd.Uint64(), 1))
	go func() {
		defer close(moved)
		for {
			select {
			case <-stop:
				c.lead(1)
				return
			case <-time.After(time.Duration(moves.IntN(5)) * time.Millisecond):
				c.lead(uint64(moves.IntN(4)))
			}
		}
	}()
	var wg sync.WaitGroup
	var applied [writes]atomic.Int32
	tags := make([]sync.Map, writes)
	for w := range writes {
		for range copies {
			n := c.nodes[rnd.IntN(3)]
			patience := time.Duration(1+rnd.IntN(20)) * time.Millisecond
			if rnd.IntN(3) > 0 {
				patience = 20 * time.Second
			}
			wg.Go(func() {
				if tag, first := n.sendOnce(t, w, patience); tag != "" {
					tags[w].Store(tag, true)
					if first {
						applied[w].Add(1)
					}
				}
			})
		}
		if w%8 == 7 {
			wg.Wait()
		}
	}
	wg.Wait()
	close(stop)
	<-moved
	for w := range writes {
		distinct := 0
		tags[w].Range(func(any, any) bool { distinct++; return true })
		if distinct > 1 || applied[w].Load() > 1 {
			t.Errorf("write %d was carried out %d times, with %d revisions", w, applied[w].Load(), distinct)
		}
	}
	// The engine's history is the truth: each key was written once.
	seen := map[string]int{}
	for _, key := range c.written(t) {
		if seen[key]++; seen[key] > 1 {
			t.Errorf("%s was written %d times", key, seen[key])
		}
	}
	if len(seen) < writes/2 {
		t.Errorf("only %d of %d writes were carried out: the test tests little", len(seen), writes)
	}
}

// sendOnce sends write w once. It returns the revision that it made, and whether the response says that this
// request made it.
func (n *node) sendOnce(t *testing.T, w int, patience time.Duration) (tag string, first bool) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "PUT", n.url(fmt.Sprintf("/db/w%d", w)), strings.NewReader("x"))
	if err != nil {
		t.Error(err)
		return "", false
	}
	req.Header.Set("Idempotency-Key", fmt.Sprintf("key-%d", w))
	tr := &http.Transport{DisableKeepAlives: true}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		if ctx.Err() == nil {
			t.Error(err)
		}
		return "", false
	}
	defer resp.Body.Close()
	if resp.StatusCode != 201 {
		if ctx.Err() == nil {
			t.Errorf("write %d: %d", w, resp.StatusCode)
		}
		return "", false
	}
	return resp.Header.Get("ETag"), resp.Header.Get("Idempotent-Replayed") == ""
}

// written lists the keys of every event in space 0, from the engine's history.
func (c *cluster) written(t *testing.T) (keys []string) {
	t.Helper()
	end, _, err := c.nodes[0].store.Set(t.Context(), 1, []byte("end"), nil, kv.SetOptions{})
	if err != nil || !end.Written {
		t.Fatal(err)
	}
	for change, err := range c.db.Changes(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		for e := range kv.Events(change) {
			if e.Space == 1 {
				return keys
			}
			if e.Space == 0 {
				keys = append(keys, string(e.Key))
			}
		}
	}
	return keys
}
