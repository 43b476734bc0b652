package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine"
	"github.com/skerrydb/skerry/transfer"
)

// weaker is an engine with other promises.
type weaker struct {
	engine.Engine
	p engine.Promises
}

func (w weaker) Promises() engine.Promises { return w.p }

// attached is an engine with data that is in no key.
type attached struct{ engine.Engine }

func (a attached) View(ctx context.Context, r engine.Read, fn func(engine.Tx) error) (engine.Position, error) {
	return a.Engine.View(ctx, r, func(tx engine.Tx) error { return fn(attachedTx{tx}) })
}

type attachedTx struct{ engine.Tx }

func (attachedTx) Attached() any                     { return attachedTx{} }
func (attachedTx) Outside(engine.Tx) (string, error) { return "the records of collection posts", nil }

// refused runs a move that must fail, and leave the source as it was.
func refused(t *testing.T, src, dst engine.Engine, o transfer.Options, want error, text string) {
	t.Helper()
	before, err := transfer.Of(src).About(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = transfer.Run(t.Context(), transfer.Of(src), dst, o)
	if !errors.Is(err, want) || !strings.Contains(fmt.Sprint(err), text) {
		t.Errorf("a move: %v, want %v with %q", err, want, text)
	}
	if after, err := transfer.Of(src).About(t.Context()); err != nil || after.Mark != before.Mark || after.Position != before.Position {
		t.Errorf("the source was at %d and is at %d, %v: %v", before.Position, after.Position, after.Mark, err)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	src, dst := open(t), openTarget(t)
	put(t, src, "k", strings.Repeat("v", 2000), strings.Repeat("a", 300), "v")
	with := func(change func(p *engine.Promises)) engine.Engine {
		p := dst.Promises()
		change(&p)
		return weaker{dst, p}
	}
	refused(t, src, with(func(p *engine.Promises) { p.Fence = false }), transfer.Options{}, engine.ErrUnsupported, "target of a move needs a fence")
	refused(t, src, with(func(p *engine.Promises) { p.Ordered = false }), transfer.Options{}, engine.ErrUnsupported, "ordered scans")
	refused(t, src, with(func(p *engine.Promises) { p.MaxValBytes = 1999 }), transfer.Options{}, engine.ErrValueTooLarge, `2000 bytes of the key "k"`)
	refused(t, src, with(func(p *engine.Promises) { p.MaxKeyBytes = 299 }), transfer.Options{}, engine.ErrKeyTooLarge, "of 300 bytes")
	needs := transfer.Options{Needs: map[string]engine.Promises{"carts": {Durable: true}}}
	refused(t, src, with(func(p *engine.Promises) { p.Durable = false }), needs, engine.ErrUnsupported, "carts on the target needs durable")
	p := src.Promises()
	p.Feed = false
	refused(t, weaker{src, p}, dst, transfer.Options{}, engine.ErrUnsupported, "source of a move needs a change feed")
	refused(t, attached{src}, dst, transfer.Options{}, engine.ErrUnsupported, "collection posts")
	if _, err := transfer.Run(t.Context(), transfer.Of(src), src, transfer.Options{}); err == nil {
		t.Error("an engine was moved to itself")
	}

	foreign := open(t)
	put(t, foreign, "\x00mine", "")
	refused(t, foreign, dst, transfer.Options{}, engine.ErrUnsupported, `"\x00mine"`)
	full := openTarget(t)
	put(t, full, "x", "")
	refused(t, src, full, transfer.Options{}, engine.ErrInvalid, `it has the key "x"`)

	ahead := testengine.Open(t, testengine.Options{Memory: true, Now: func() time.Time { return time.Now().Add(time.Hour) }})
	put(t, ahead, "x", "")
	refused(t, ahead, dst, transfer.Options{}, engine.ErrUnsupported, "correct the clocks")
	if low := open(t); !isRaiser(low) {
		refused(t, src, low, transfer.Options{}, engine.ErrUnsupported, "cannot be raised over the source's")
	}
	if n := len(contents(t, dst)); n > 0 {
		t.Errorf("refused moves have written %d pairs", n)
	}
}

func isRaiser(eng engine.Engine) bool {
	_, ok := eng.(engine.Raiser)
	return ok
}

// TestClockAhead: the target opens once its time is after the source's.
func TestClockAhead(t *testing.T) {
	t.Parallel()
	dst := openTarget(t)
	src := testengine.Open(t, testengine.Options{Memory: true, Now: func() time.Time { return time.Now().Add(300 * time.Millisecond) }})
	put(t, src, "x", "")
	if _, err := transfer.Run(t.Context(), transfer.Of(src), dst, transfer.Options{}); err != nil {
		t.Fatal(err)
	}
	moved(t, src, dst)
}

// stopAt returns options that end a move when it reaches a stage.
func stopAt(t *testing.T, s transfer.Stage) (context.Context, transfer.Options) {
	ctx, cancel := context.WithCancel(t.Context())
	return ctx, transfer.Options{From: "here", To: "there", Report: func(p transfer.Progress) {
		if p.Stage == s {
			cancel()
		}
	}}
}

// TestOthers: what an unfinished move holds is refused to others, until it is abandoned.
func TestOthers(t *testing.T) {
	t.Parallel()
	src, dst, other := open(t), openTarget(t), open(t)
	put(t, src, "k", "1")
	put(t, other, "o", "1")
	ctx, o := stopAt(t, transfer.Verifying)
	if _, err := transfer.Run(ctx, transfer.Of(src), dst, o); !errors.Is(err, context.Canceled) {
		t.Fatalf("a move that was stopped: %v", err)
	}
	put(t, src, "k", "2") // it still serves
	if _, err := dst.Update(t.Context(), func(tx engine.Tx) error { return tx.Put([]byte("mine"), nil) }); !errors.Is(err, engine.ErrFenced) {
		t.Errorf("a write to an unfinished target: %v", err)
	}
	refused(t, other, dst, transfer.Options{}, engine.ErrInvalid, "unfinished move from here")
	refused(t, src, openTarget(t), transfer.Options{}, engine.ErrInvalid, "is being moved to there")
	refused(t, dst, testengine.Open(t, testengine.Options{Memory: true, After: 4 << 48}), transfer.Options{}, engine.ErrInvalid, "unfinished move")

	if _, err := transfer.Abandon(t.Context(), transfer.Of(other), dst); !errors.Is(err, engine.ErrInvalid) {
		t.Errorf("another source abandons the move: %v", err)
	}
	if m, err := transfer.Abandon(t.Context(), transfer.Of(src), dst); err != nil || m.To != "there" {
		t.Fatalf("abandon: %+v, %v", m, err)
	}
	if _, err := transfer.Abandon(t.Context(), transfer.Of(src), dst); !errors.Is(err, engine.ErrInvalid) {
		t.Errorf("abandon again: %v", err)
	}
	put(t, src, "k", "3")
	if _, err := dst.Update(t.Context(), func(tx engine.Tx) error { return tx.Put([]byte("mine"), nil) }); !errors.Is(err, engine.ErrFenced) {
		t.Errorf("a write to an abandoned target: %v", err)
	}
	if _, err := transfer.Run(t.Context(), transfer.Of(other), dst, transfer.Options{}); err != nil { // over what was left
		t.Fatal(err)
	}
	moved(t, other, dst)
	if _, err := transfer.Abandon(t.Context(), transfer.Of(other), dst); !errors.Is(err, engine.ErrInvalid) {
		t.Errorf("abandon a complete move: %v", err)
	}
}

// TestAbandonFenced takes the source back after the cut, and without its target.
func TestAbandonFenced(t *testing.T) {
	t.Parallel()
	src := open(t)
	put(t, src, "k", "1")
	m := transfer.Mark{Move: "m", To: "lost"}
	if _, _, err := transfer.Of(src).Mark(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	m.Fenced = true
	if _, _, err := transfer.Of(src).Mark(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if _, err := src.Update(t.Context(), func(tx engine.Tx) error { return tx.Put([]byte("k"), nil) }); !errors.Is(err, engine.ErrFenced) {
		t.Fatalf("a write behind the fence: %v", err)
	}
	if _, err := transfer.Abandon(t.Context(), transfer.Of(src), nil); err != nil {
		t.Fatal(err)
	}
	put(t, src, "k", "2")
	dst := openTarget(t)
	if _, err := transfer.Run(t.Context(), transfer.Of(src), dst, transfer.Options{}); err != nil {
		t.Fatal(err)
	}
	moved(t, src, dst)
}

// forgetful is a Source that has truncated its history at some calls.
type forgetful struct {
	transfer.Source
	times int
	write func()
}

func (f *forgetful) Changes(ctx context.Context, after, to engine.Position) ([]engine.Change, error) {
	f.write()
	if f.times--; f.times >= 0 {
		return nil, engine.ErrTruncated
	}
	return f.Source.Changes(ctx, after, to)
}

// TestTruncated: a copy begins again when changes are lost, over what is there, and gives up after some times.
func TestTruncated(t *testing.T) {
	t.Parallel()
	rng := seed.Rand(t)
	for _, times := range []int{1, transfer.MaxRestarts, transfer.MaxRestarts + 1} {
		src, dst := open(t), openTarget(t)
		const keys = 9000
		fill(t, src, rng, keys)
		f := &forgetful{Source: transfer.Of(src), times: times, write: func() {
			for range 20 {
				_, _ = src.Update(t.Context(), randomWrite(rng, keys)) // until the fence
			}
		}}
		f.write()
		write := transfer.Options{Report: func(transfer.Progress) { f.write() }}
		res, err := transfer.Run(t.Context(), f, dst, write)
		if times > transfer.MaxRestarts {
			if !errors.Is(err, engine.ErrTruncated) || !strings.Contains(err.Error(), "too slowly") {
				t.Errorf("%d times: %v", times, err)
			}
			continue
		}
		if err != nil || res.Restarts != times {
			t.Fatalf("%d restarts, want %d: %v", res.Restarts, times, err)
		}
		moved(t, src, dst)
	}
}

// forger is a target that loses a write.
type forger struct {
	engine.Engine
	key string
}

func (f forger) Update(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
	return f.Engine.Update(ctx, func(tx engine.Tx) error { return fn(forgetTx{tx, f.key}) })
}

func (f forger) Raise(ctx context.Context, p engine.Position) (engine.Position, error) {
	return raise(ctx, f.Engine, p)
}

type forgetTx struct {
	engine.Tx
	key string
}

func (f forgetTx) Put(key, val []byte) error {
	if string(key) == f.key {
		return nil
	}
	return f.Tx.Put(key, val)
}

// TestDifference: a target that lacks a copied or a changed pair is not opened.
func TestDifference(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"copied", "changed"} {
		src, dst := open(t), openTarget(t)
		put(t, src, "a", "1", "copied", "1", "z", "1")
		o := transfer.Options{Report: func(p transfer.Progress) {
			if p.Stage == transfer.Following {
				put(t, src, "changed", "1")
			}
		}}
		_, err := transfer.Run(t.Context(), transfer.Of(src), forger{dst, key}, o)
		if _, ok := errors.AsType[*transfer.DifferenceError](err); !ok {
			t.Errorf("without %q: %v", key, err)
		}
		if _, err := dst.Update(t.Context(), func(tx engine.Tx) error { return tx.Put([]byte("k"), nil) }); !errors.Is(err, engine.ErrFenced) {
			t.Errorf("a write to a target that lacks %q: %v", key, err)
		}
	}
}
