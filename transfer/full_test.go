package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/transfer"
)

// full is a target that has no room for writes at times.
type full struct {
	engine.Engine
	why    atomic.Pointer[engine.Error] // nil: there is room
	raised func()                       // called after positions were raised, right before the target is opened; nil: nothing
}

func (f *full) Update(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
	if why := f.why.Load(); why != nil {
		return 0, why
	}
	return f.Engine.Update(ctx, fn)
}

func (f *full) Raise(ctx context.Context, p engine.Position) (engine.Position, error) {
	pos, err := raise(ctx, f.Engine, p)
	if f.raised != nil {
		f.raised()
	}
	return pos, err
}

// raise raises the positions of a target, which openTarget has made high enough if it is no engine.Raiser.
func raise(ctx context.Context, eng engine.Engine, p engine.Position) (engine.Position, error) {
	if r, ok := eng.(engine.Raiser); ok {
		return r.Raise(ctx, p)
	}
	return eng.View(ctx, engine.Read{}, func(engine.Tx) error { return nil })
}

// cutting calls at once the writes of the source are stopped.
type cutting struct {
	transfer.Source
	cut func()
}

func (c cutting) Mark(ctx context.Context, m transfer.Mark) (engine.Position, time.Time, error) {
	pos, at, err := c.Source.Mark(ctx, m)
	if m.Fenced {
		c.cut()
	}
	return pos, at, err
}

// TestFull: when the target is full, in whatever stage, the move ends with that code, and the source takes writes. When
// there is room it continues.
func TestFull(t *testing.T) {
	t.Parallel()
	for i, stage := range []transfer.Stage{transfer.Copying, transfer.Verifying, transfer.Following, transfer.Cutting, transfer.Done} {
		t.Run(string(stage), func(t *testing.T) {
			t.Parallel()
			fullAt(t, stage, engine.Errorf([]engine.Code{engine.CodeDiskFull, engine.CodeMemoryFull}[i%2], "there is no room"))
		})
	}
}

// fullAt is full from a stage on; at Done, when it is to be opened.
func fullAt(t *testing.T, stage transfer.Stage, why *engine.Error) {
	src, dst := open(t), &full{Engine: openTarget(t)}
	for i := range 3 { // more than one range
		put(t, src, fmt.Sprint("k", i), strings.Repeat("v", 1100<<10))
	}
	dst.raised = func() {
		if stage == transfer.Done {
			dst.why.Store(why)
		}
	}
	written := 0
	write := func() { put(t, src, fmt.Sprint("written ", written), "x"); written++ }
	o := transfer.Options{Report: func(p transfer.Progress) {
		switch {
		case p.Stage == stage:
			dst.why.Store(why)
			write()
		case p.Stage == transfer.Following && stage == transfer.Cutting:
			write() // so that there is something to do at the cut
		}
	}}
	from := cutting{transfer.Of(src), func() {
		if stage == transfer.Cutting {
			dst.why.Store(why)
		}
	}}
	_, err := transfer.Run(t.Context(), from, dst, o)
	if !errors.Is(err, why) || !strings.Contains(err.Error(), "target: there is no room") {
		t.Fatalf("the target was full from stage %s on: %v", stage, err)
	}
	write() // the source serves
	dst.why.Store(nil)
	dst.raised = nil
	if _, err := dst.Update(t.Context(), func(tx engine.Tx) error { return tx.Put([]byte("k"), nil) }); !errors.Is(err, engine.ErrFenced) {
		t.Errorf("a write to the part that was copied: %v", err)
	}
	if _, err := transfer.Run(t.Context(), transfer.Of(src), dst, transfer.Options{}); err != nil {
		t.Fatal(err)
	}
	moved(t, src, dst.Engine)
}

// TestRetreat: whatever fails at the cut, and whoever gives up there, leaves a source that takes writes.
func TestRetreat(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(dst *full, cancel func()){
		"interrupted": func(_ *full, cancel func()) { cancel() },
		"corrupt":     func(dst *full, _ func()) { dst.why.Store(engine.Errorf(engine.CodeCorrupt, "damaged")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src, dst := open(t), &full{Engine: openTarget(t)}
			put(t, src, "k", "1")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if _, err := transfer.Run(ctx, cutting{transfer.Of(src), func() { fail(dst, cancel) }}, dst, transfer.Options{}); err == nil {
				t.Fatal("the move has ended")
			}
			put(t, src, "k", "2")
			dst.why.Store(nil)
			if _, err := transfer.Run(t.Context(), transfer.Of(src), dst, transfer.Options{}); err != nil {
				t.Fatal(err)
			}
			moved(t, src, dst.Engine)
		})
	}
}

// TestKilledAtTheCut: a move that was killed there leaves the writes stopped, until it continues: they go on while it verifies again.
func TestKilledAtTheCut(t *testing.T) {
	t.Parallel()
	src, dst := open(t), openTarget(t)
	put(t, src, "k", "1")
	b := &broken{Engine: dst, left: 1 << 30, write: func() {}}
	b.Source = cutting{transfer.Of(src), func() { b.left = 1 }}
	if _, err := transfer.Run(t.Context(), source{b}, b, transfer.Options{}); !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	if _, err := src.Update(t.Context(), func(tx engine.Tx) error { return tx.Put([]byte("k"), nil) }); !errors.Is(err, engine.ErrFenced) {
		t.Fatalf("a write to the source, whose move was killed at the cut: %v", err)
	}
	if _, err := transfer.Run(t.Context(), transfer.Of(src), dst, transfer.Options{Report: func(p transfer.Progress) {
		if p.Stage == transfer.Verifying {
			put(t, src, "k", "2")
		}
	}}); err != nil {
		t.Fatal(err)
	}
	moved(t, src, dst)
}

// late calls before the writes of the source are stopped.
type late struct {
	transfer.Source
	before func()
}

func (l late) Mark(ctx context.Context, m transfer.Mark) (engine.Position, time.Time, error) {
	if m.Fenced {
		l.before()
	}
	return l.Source.Mark(ctx, m)
}

// TestLastChange: what is written right before the fence is moved.
func TestLastChange(t *testing.T) {
	t.Parallel()
	src, dst := open(t), openTarget(t)
	put(t, src, "k", "1", "gone", "1")
	if _, err := transfer.Run(t.Context(), late{transfer.Of(src), func() {
		put(t, src, "k", "2", "new", "1")
		if _, err := src.Update(t.Context(), func(tx engine.Tx) error { return tx.Delete([]byte("gone")) }); err != nil {
			t.Error(err)
		}
	}}, dst, transfer.Options{}); err != nil {
		t.Fatal(err)
	}
	moved(t, src, dst)
}

// TestOvertaken: a process that comes to the cut, or is there, when another one has taken over neither stops writes of the
// source nor lets it take them again.
func TestOvertaken(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]func(s transfer.Source, then func()) transfer.Source{
		"before the fence": func(s transfer.Source, then func()) transfer.Source { return late{s, then} },
		"behind the fence": func(s transfer.Source, then func()) transfer.Source { return cutting{s, then} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src, dst := open(t), openTarget(t)
			put(t, src, "k", "1")
			fenced, goOn, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			_, err := transfer.Run(t.Context(), at(transfer.Of(src), func() {
				go func() {
					_, err := transfer.Run(t.Context(), cutting{transfer.Of(src), func() { close(fenced); <-goOn }}, dst, transfer.Options{})
					done <- err
				}()
				<-fenced
			}), dst, transfer.Options{})
			if !errors.Is(err, engine.ErrInvalid) || !strings.Contains(err.Error(), "another process") {
				t.Errorf("the process that was overtaken: %v", err)
			}
			if _, err := src.Update(t.Context(), func(tx engine.Tx) error { return tx.Put([]byte("k"), nil) }); !errors.Is(err, engine.ErrFenced) {
				t.Errorf("a write to the source, while the other process is at the cut: %v", err)
			}
			close(goOn)
			if err := <-done; err != nil {
				t.Fatalf("the process that has taken over: %v", err)
			}
			moved(t, src, dst)
		})
	}
}

// narrow is a target with small transactions.
type narrow struct {
	engine.Engine
	most int
}

func (n narrow) Promises() engine.Promises {
	p := n.Engine.Promises()
	p.MaxTxBytes = n.most
	return p
}

func (n narrow) Update(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
	return n.Engine.Update(ctx, func(tx engine.Tx) error { return fn(&narrowTx{Tx: tx, left: n.most}) })
}

func (n narrow) Raise(ctx context.Context, p engine.Position) (engine.Position, error) {
	return raise(ctx, n.Engine, p)
}

type narrowTx struct {
	engine.Tx
	left int
}

func (n *narrowTx) Put(key, val []byte) error {
	if n.left -= len(key) + len(val); n.left < 0 {
		return engine.ErrTxTooLarge
	}
	return n.Tx.Put(key, val)
}

// TestSmallTransactions: what the source holds is split into transactions that the target accepts. A pair that fits
// into none is refused beforehand.
func TestSmallTransactions(t *testing.T) {
	t.Parallel()
	src, dst := open(t), openTarget(t)
	const most = 100 << 10
	for i := range 40 {
		put(t, src, fmt.Sprint("k", i), strings.Repeat("v", i<<10))
	}
	put(t, src, "too long", strings.Repeat("v", most))
	to := narrow{dst, most}
	refused(t, src, to, transfer.Options{}, engine.ErrTxTooLarge, `the key "too long" with its value of 102400 bytes`)
	put(t, src, "too long", "no more")
	o := transfer.Options{Report: func(p transfer.Progress) {
		if p.Stage == transfer.Copying { // one change of a size that needs two transactions
			put(t, src, "k1", strings.Repeat("a", 60<<10), "k2", strings.Repeat("b", 60<<10))
		}
	}}
	if _, err := transfer.Run(t.Context(), transfer.Of(src), to, o); err != nil {
		t.Fatal(err)
	}
	moved(t, src, dst)
}
