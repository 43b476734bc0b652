package record_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine/recordengine"
	"github.com/skerrydb/skerry/feed"
	"github.com/skerrydb/skerry/record"
)

// scramble makes some changes of orders, and finds those with n > 1 then.
func scramble(tx *record.Tx, rng *rand.Rand) (has map[string]string, err error) {
	for range 1 + rng.IntN(3) {
		id := fmt.Sprint("r", rng.IntN(5))
		data := fmt.Appendf(nil, `{"n":%d}`, rng.IntN(4))
		_, err := tx.Update("orders", id, data, 0)
		switch {
		case errors.Is(err, record.ErrNotFound):
			if _, err = tx.Create("orders", id, data); errors.Is(err, record.ErrExists) { // in the trash
				_, err = tx.Restore("orders", id, 0)
			}
		case err == nil && rng.IntN(4) == 0:
			_, err = tx.Delete("orders", id, 0)
		}
		if err != nil {
			return nil, err
		}
	}
	has = map[string]string{}
	for i := range 5 {
		r, err := tx.Get("orders", fmt.Sprint("r", i))
		if errors.Is(err, record.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if n, _ := r.Value("n").Int(); n > 1 {
			has["orders/"+r.ID] = string(r.AppendJSON(nil))
		}
	}
	return has, nil
}

// truth is what subscribers have to have after each transaction.
type truth struct {
	mu sync.Mutex // guards at
	at map[engine.Position]map[string]string
}

// write scrambles in a transaction.
func (x *truth) write(h *house, a, b uint64) engine.Position {
	var has map[string]string
	pos, err := h.Update(h.t.Context(), record.Program(), func(tx *record.Tx) (err error) {
		has, err = scramble(tx, rand.New(rand.NewPCG(a, b)))
		return err
	})
	if err != nil {
		h.t.Error(err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.at[pos] = has
	return pos
}

// seen is what a subscriber had at a position.
type seen struct {
	pos engine.Position
	has map[string]string
}

// check compares what a subscriber had with what was there after the last transaction up to the position.
func (x *truth) check(t testing.TB, all []seen) {
	t.Helper()
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, s := range all {
		last := engine.Position(0)
		for pos := range x.at {
			if pos <= s.pos {
				last = max(last, pos)
			}
		}
		if !maps.Equal(s.has, x.at[last]) {
			t.Fatalf("at position %d the subscriber has %v, want %v", s.pos, s.has, x.at[last])
		}
	}
}

// bell is a record that ends the reading of all subscribers.
const bell = "orders/bell"

// read reads n messages, or up to the bell. It reports whether that was there.
func (r *reader) read(n int, all *[]seen) (rang bool) {
	for range n {
		r.next()
		if _, rang := r.has[bell]; rang {
			return true
		}
		*all = append(*all, seen{r.pos, maps.Clone(r.has)})
	}
	return false
}

// resume subscribes after what r has read.
func (h *house) resume(r *reader) *reader {
	r.Close()
	next := h.subscribe(record.Actor{}, record.Subscription{Filter: "n > 1", Resume: r.last}, "orders/*")
	next.has, next.pos = r.has, r.pos
	return next
}

// TestJoinStress subscribes and resumes while others write. What every subscriber has after a message is what was there
// at its position.
func TestJoinStress(t *testing.T) {
	h := openHouse(t, recordengine.Open(t, recordengine.Options{Memory: true}), feed.Options{Buffer: 2})
	rng := seed.Rand(t)
	const writers, changes, readers = 3, 60, 30
	x := &truth{at: map[engine.Position]map[string]string{}}
	var writing, reading sync.WaitGroup
	wrote := make(chan bool)
	for range writers {
		rng := rand.New(rand.NewPCG(rng.Uint64(), 0))
		writing.Go(func() {
			for range changes {
				x.write(h, rng.Uint64(), rng.Uint64())
				wrote <- true
			}
		})
	}
	results := make([][]seen, readers)
	for i := range readers {
		for range writers * changes / readers { // so that subscriptions begin between all the changes
			<-wrote
		}
		reading.Go(func() {
			r := h.subscribe(record.Actor{}, record.Subscription{Filter: "n > 1"}, "orders/*")
			for !r.read(1+i%4, &results[i]) {
				r = h.resume(r)
			}
		})
	}
	writing.Wait()
	h.create("orders", "bell", `{"n":9}`)
	reading.Wait()
	n := 0
	for _, all := range results {
		x.check(t, all)
		n += len(all)
	}
	t.Logf("%d messages", n) // on a busy machine few: the states then have many changes at once
}

// hooked is an engine that calls the function hook of a context before and after each View with it.
type hooked struct{ engine.Engine }

type hook struct{}

func (e *hooked) View(ctx context.Context, r engine.Read, fn func(engine.Tx) error) (engine.Position, error) {
	if call, ok := ctx.Value(hook{}).(func()); ok {
		call()
		defer call()
	}
	return e.Engine.View(ctx, r, fn)
}

// TestJoinForced forces changes between all steps of a subscription, with the hub behind them or not. Each bit of the
// order is one place.
func TestJoinForced(t *testing.T) {
	h := openHouse(t, &hooked{recordengine.Open(t, recordengine.Options{Memory: true})}, feed.Options{})
	x := &truth{at: map[engine.Position]map[string]string{}}
	rng := seed.Rand(t)
	for order := range 1 << 6 {
		x.write(h, rng.Uint64(), rng.Uint64())
		var all []seen
		r := h.subscribe(record.Actor{}, record.Subscription{Filter: "n > 1"}, "orders/*")
		r.read(1, &all)
		x.write(h, rng.Uint64(), rng.Uint64())
		if order>>5&1 == 0 {
			r.last = "" // the state again
		}
		place := 0
		h.ctx = context.WithValue(t.Context(), hook{}, func() {
			at := place
			if place++; at > 3 || order>>at&1 == 0 {
				return
			}
			pos := x.write(h, rng.Uint64(), rng.Uint64())
			if order>>4&1 == 1 {
				must(t, h.feed.Wait(t.Context(), pos))
			}
		})
		r = h.resume(r)
		h.ctx = t.Context()
		x.write(h, rng.Uint64(), rng.Uint64())
		h.do(func(tx *record.Tx) error {
			_, err := tx.Create("orders", "bell", []byte(`{"n":9}`))
			return err
		})
		if !r.read(100, &all) {
			t.Fatal("more messages than changes")
		}
		h.remove("orders", "bell")
		h.do(func(tx *record.Tx) error { return tx.Purge("orders", "bell", 0) })
		x.check(t, all)
		r.Close()
	}
}
