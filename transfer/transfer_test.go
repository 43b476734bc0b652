package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine"
	"github.com/skerrydb/skerry/transfer"
	"github.com/skerrydb/skerry/workload"
)

func open(t *testing.T) engine.Engine {
	return testengine.Open(t, testengine.Options{Memory: true})
}

// openTarget opens an engine that can be the target of moves from those of open, one after the other.
func openTarget(t *testing.T) engine.Engine {
	return testengine.Open(t, testengine.Options{Memory: true, After: transfer.NextEpoch(0)})
}

func put(t *testing.T, eng engine.Engine, pairs ...string) engine.Position {
	t.Helper()
	pos, err := eng.Update(t.Context(), func(tx engine.Tx) error {
		for i := 0; i < len(pairs); i += 2 {
			if err := tx.Put([]byte(pairs[i]), []byte(pairs[i+1])); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return pos
}

// contents returns all pairs but those of moves.
func contents(t *testing.T, eng engine.Engine) map[string]string {
	t.Helper()
	var all map[string]string
	if _, err := eng.View(t.Context(), engine.Read{}, func(tx engine.Tx) error {
		all = map[string]string{}
		for p, err := range tx.Scan([]byte{1}, nil) {
			if err != nil {
				return err
			}
			all[string(p.Key)] = string(p.Val)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

func same(t *testing.T, src, dst engine.Engine) {
	t.Helper()
	if a, b := contents(t, src), contents(t, dst); !maps.Equal(a, b) {
		t.Fatalf("the source has %d pairs and the target %d, or they differ", len(a), len(b))
	}
}

// moved checks what holds after a move: equal data, a source that refuses writes, a target that takes them
// with later times and has nothing of the move.
func moved(t *testing.T, src, dst engine.Engine) {
	t.Helper()
	same(t, src, dst)
	if _, err := src.Update(t.Context(), func(tx engine.Tx) error { return tx.Put([]byte("late"), nil) }); !errors.Is(err, engine.ErrFenced) {
		t.Errorf("a write to the source after the move: %v", err)
	}
	about, err := transfer.Of(src).About(t.Context())
	if err != nil || !about.Mark.Fenced {
		t.Fatalf("the source after the move: %+v, %v", about.Mark, err)
	}
	continues(t, dst, about.Position)
	if _, err := dst.Update(t.Context(), func(tx engine.Tx) error {
		for p, err := range tx.Scan(nil, []byte{1}) {
			return errors.Join(err, fmt.Errorf("the target has %q", p.Key))
		}
		if !tx.Now().After(lastWrite(t, src)) {
			return fmt.Errorf("the target is at %v, and the source's last write at %v", tx.Now(), lastWrite(t, src))
		}
		return tx.Put([]byte("after"), nil)
	}); err != nil {
		t.Error(err)
	}
}

// continues checks that no position of the source, up to last, is one of the target's history. Reads may ask for it.
func continues(t *testing.T, dst engine.Engine, last engine.Position) {
	t.Helper()
	if pos, err := dst.View(t.Context(), engine.Read{}, func(engine.Tx) error { return nil }); err != nil || pos <= last {
		t.Errorf("the target is at %d, after the source was at %d: %v", pos, last, err)
		return
	}
	for _, p := range []engine.Position{1, last / 2, last - 1, last} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		pos, err := dst.View(ctx, engine.Read{Level: engine.Session, AtLeast: p}, func(engine.Tx) error { return nil })
		if err != nil || pos <= last {
			t.Errorf("a view of the source's position %d is at %d: %v", p, pos, err)
		}
		for c, err := range dst.Changes(ctx, p) {
			if !errors.Is(err, engine.ErrTruncated) {
				t.Errorf("after the source's position %d comes the target's change %d: %v", p, c.Pos, err)
			}
			break
		}
		cancel()
	}
}

// lastWrite returns the time of the fence, the last write of a moved source.
func lastWrite(t *testing.T, src engine.Engine) (at time.Time) {
	t.Helper()
	pos, err := src.View(t.Context(), engine.Read{}, func(engine.Tx) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	for c, err := range src.Changes(t.Context(), pos-1) {
		if err != nil {
			t.Fatal(err)
		}
		return c.Time
	}
	return at
}

// randomWrite writes or deletes some keys, now and then with a long value.
func randomWrite(rng *rand.Rand, keys int) func(tx engine.Tx) error {
	type op struct {
		key string
		val []byte
	}
	var ops []op
	for range 1 + rng.IntN(4) {
		o := op{key: fmt.Sprintf("k%06d", rng.IntN(keys))}
		switch rng.IntN(10) {
		case 0, 1, 2:
		case 3:
			o.val = bytes.Repeat([]byte{byte(rng.Uint32())}, rng.IntN(50<<10))
		default:
			o.val = fmt.Append(nil, rng.Uint64())
		}
		ops = append(ops, o)
	}
	return func(tx engine.Tx) (err error) {
		for _, o := range ops {
			if o.val == nil {
				err = tx.Delete([]byte(o.key))
			} else {
				err = tx.Put([]byte(o.key), o.val)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
}

func fill(t *testing.T, eng engine.Engine, rng *rand.Rand, keys int) {
	t.Helper()
	for i := range keys {
		if i%500 == 0 {
			lo := i
			if _, err := eng.Update(t.Context(), func(tx engine.Tx) error {
				for j := lo; j < min(lo+500, keys); j++ {
					if err := tx.Put(fmt.Appendf(nil, "k%06d", j), fmt.Append(nil, rng.Uint64())); err != nil {
						return err
					}
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	put(t, eng, "empty", "", "\xff\xff last", "x", "long", strings.Repeat("long ", 1<<20))
}

// TestMove moves data while it changes.
func TestMove(t *testing.T) {
	t.Parallel()
	rng := seed.Rand(t)
	src, dst := open(t), openTarget(t)
	const keys = 20_000
	fill(t, src, rng, keys)
	// A move cannot catch up with writers that are always faster than it. Every report allows some more writes, so
	// that the history holds those of several reports.
	allowed := make(chan struct{}, 400)
	allow := func() {
		for range cap(allowed) / 2 {
			select {
			case allowed <- struct{}{}:
			default:
			}
		}
	}
	allow()
	var writers sync.WaitGroup
	for range 4 {
		rng := rand.New(rand.NewPCG(rng.Uint64(), 0))
		writers.Go(func() {
			for {
				<-allowed
				_, err := src.Update(t.Context(), randomWrite(rng, keys))
				if errors.Is(err, engine.ErrFenced) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	stages := map[transfer.Stage]bool{}
	res, err := transfer.Run(t.Context(), transfer.Of(src), dst, transfer.Options{From: "a", To: "b", Report: func(p transfer.Progress) {
		stages[p.Stage] = true
		allow()
	}})
	close(allowed)
	if err != nil {
		t.Fatal(err)
	}
	writers.Wait()
	moved(t, src, dst)
	if res.Changes == 0 || res.Pairs == 0 || res.Paused == 0 || res.From == 0 || res.To == 0 {
		t.Errorf("result %+v", res)
	}
	for _, s := range []transfer.Stage{transfer.Copying, transfer.Verifying, transfer.Following, transfer.Cutting, transfer.Done} {
		if !stages[s] {
			t.Errorf("stage %s was not reported", s)
		}
	}
	t.Logf("%+v", res)
}

// TestMoveLoads moves under loads with invariants, which the clients continue on the target.
func TestMoveLoads(t *testing.T) {
	t.Parallel()
	s := seed.Of(t)
	for _, w := range []workload.Workload{&workload.Bank{}, &workload.Set{}} {
		t.Run(w.Name(), func(t *testing.T) {
			t.Parallel()
			src, dst := open(t), openTarget(t)
			if err := w.Setup(t.Context(), src); err != nil {
				t.Fatal(err)
			}
			on := later{dst}
			after := make(chan struct{})
			var clients sync.WaitGroup
			for i := range 4 {
				rng := rand.New(rand.NewPCG(s, uint64(i)))
				clients.Go(func() {
					for range 200 {
						_ = w.Step(t.Context(), src, rng) // it records the outcome
					}
					for err := error(nil); !errors.Is(err, engine.ErrFenced); {
						err = w.Step(t.Context(), src, rng)
					}
					<-after
					for range 200 {
						if err := w.Step(t.Context(), on, rng); err != nil {
							t.Errorf("on the target: %v", err)
						}
					}
				})
			}
			if _, err := transfer.Run(t.Context(), transfer.Of(src), dst, transfer.Options{}); err != nil {
				t.Fatal(err)
			}
			same(t, src, dst)
			close(after)
			clients.Wait()
			if err := w.Check(t.Context(), on); err != nil {
				t.Error(err)
			}
		})
	}
}

// later is a target without a feed, as the changes from before the move are not in it.
type later struct{ engine.Engine }

func (l later) Promises() engine.Promises {
	p := l.Engine.Promises()
	p.Feed = false
	return p
}

// broken is a Source and a target that fail at a call, before or after it has been carried out, as if the
// process were killed there: everything after it fails too.
type broken struct {
	transfer.Source
	engine.Engine
	left  int // calls until the kill
	after bool
	write func() // to the source, before each call
}

var errKilled = errors.New("killed")

// call runs one call.
func (b *broken) call(fn func() error) error {
	b.write()
	if b.left--; b.left < 0 || b.left == 0 && !b.after {
		return errKilled
	}
	err := fn()
	if b.left == 0 {
		return errKilled
	}
	return err
}

func (b *broken) About(ctx context.Context) (a transfer.About, err error) {
	err = b.call(func() error { a, err = b.Source.About(ctx); return err })
	return a, err
}

func (b *broken) Range(ctx context.Context, lo, hi []byte, atLeast engine.Position) (r transfer.Range, err error) {
	err = b.call(func() error { r, err = b.Source.Range(ctx, lo, hi, atLeast); return err })
	return r, err
}

func (b *broken) Sum(ctx context.Context, lo, hi []byte, atLeast engine.Position) (s transfer.Sum, err error) {
	err = b.call(func() error { s, err = b.Source.Sum(ctx, lo, hi, atLeast); return err })
	return s, err
}

func (b *broken) Mark(ctx context.Context, m transfer.Mark) (pos engine.Position, at time.Time, err error) {
	err = b.call(func() error { pos, at, err = b.Source.Mark(ctx, m); return err })
	return pos, at, err
}

func (b *broken) View(ctx context.Context, r engine.Read, fn func(engine.Tx) error) (pos engine.Position, err error) {
	err = b.call(func() error { pos, err = b.Engine.View(ctx, r, fn); return err })
	return pos, err
}

func (b *broken) Update(ctx context.Context, fn func(engine.Tx) error) (pos engine.Position, err error) {
	err = b.call(func() error { pos, err = b.Engine.Update(ctx, fn); return err })
	return pos, err
}

// source is the Source of a broken, whose Changes would hide those of the engine.
type source struct{ *broken }

func (s source) Changes(ctx context.Context, after, to engine.Position) (list []engine.Change, err error) {
	err = s.call(func() error { list, err = s.Source.Changes(ctx, after, to); return err })
	return list, err
}

func (b *broken) Changes(context.Context, engine.Position) iter.Seq2[engine.Change, error] {
	panic("nobody follows the target")
}

// TestKilledAnywhere kills a move at each of its calls, before and after the call takes effect, continues it,
// and changes the source before every call.
func TestKilledAnywhere(t *testing.T) {
	t.Parallel()
	rng := seed.Rand(t)
	const keys = 5000
	most := 3 // the calls from one that is killed to the next
	if testing.Short() {
		most = 12
	}
	base := open(t)
	fill(t, base, rng, keys)
	pairs := contents(t, base)
	for _, after := range []bool{false, true} {
		for left, done := 1, false; !done; left += 1 + rng.IntN(most) {
			t.Run(fmt.Sprintf("call %d, after %v", left, after), func(t *testing.T) { // it closes the engines
				done = killedAt(t, rng, pairs, keys, left, after)
			})
		}
	}
}

func (b *broken) Raise(ctx context.Context, p engine.Position) (pos engine.Position, err error) {
	err = b.call(func() error { pos, err = raise(ctx, b.Engine, p); return err })
	return pos, err
}

// killedAt reports whether the move ended before the kill.
func killedAt(t *testing.T, rng *rand.Rand, pairs map[string]string, keys, left int, after bool) bool {
	t.Helper()
	src, dst := open(t), openTarget(t)
	if _, err := src.Update(t.Context(), func(tx engine.Tx) error {
		for k, v := range pairs {
			if err := tx.Put([]byte(k), []byte(v)); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	write := func() {
		if _, err := src.Update(t.Context(), randomWrite(rng, keys)); err != nil && !errors.Is(err, engine.ErrFenced) {
			t.Error(err)
		}
	}
	b := &broken{Source: transfer.Of(src), Engine: dst, left: left, after: after, write: write}
	_, err := transfer.Run(t.Context(), source{b}, b, transfer.Options{})
	if err == nil && b.left <= 0 || err != nil && !errors.Is(err, errKilled) {
		t.Fatalf("killed at call %d, %v: %v", left, after, err)
	}
	if err == nil {
		moved(t, src, dst)
		return true
	}
	_, err = dst.Update(t.Context(), func(tx engine.Tx) error { return tx.Put([]byte("k1"), nil) })
	complete := err == nil // it was killed when all was done
	if complete {
		_, err = dst.Update(t.Context(), func(tx engine.Tx) error { return tx.Delete([]byte("k1")) })
	}
	if err != nil && !errors.Is(err, engine.ErrFenced) {
		t.Fatal(err)
	}
	b.left = 1 << 30
	_, err = transfer.Run(t.Context(), source{b}, b, transfer.Options{})
	if complete && (left > 1 || after) && !errors.Is(err, engine.ErrInvalid) && err != nil || !complete && err != nil {
		t.Fatalf("killed at call %d, %v, and continued: %v", left, after, err)
	}
	moved(t, src, dst)
	return false
}
