package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/transfer"
)

// full is a target that has no room for writes at times.
type full struct {
	engine.Engine
	why atomic.Pointer[engine.Error] // nil: there is room
}

func (f *full) Update(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
	if why := f.why.Load(); why != nil {
		return 0, why
	}
	return f.Engine.Update(ctx, fn)
}

// fullRaiser is a full one that can raise positions, which needs no room.
type fullRaiser struct{ *full }

func (f fullRaiser) Raise(ctx context.Context, p engine.Position) (engine.Position, error) {
	return f.Engine.(engine.Raiser).Raise(ctx, p)
}

func (f *full) target() engine.Engine {
	if isRaiser(f.Engine) {
		return fullRaiser{f}
	}
	return f
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
	for _, code := range []engine.Code{engine.CodeDiskFull, engine.CodeMemoryFull} {
		for _, stage := range []transfer.Stage{transfer.Copying, transfer.Verifying, transfer.Following, transfer.Cutting} {
			t.Run(fmt.Sprint(code, " ", stage), func(t *testing.T) {
				t.Parallel()
				fullAt(t, stage, engine.Errorf(code, "there is no room"))
			})
		}
	}
}

func fullAt(t *testing.T, stage transfer.Stage, why *engine.Error) {
	src, dst := open(t), &full{Engine: openTarget(t)}
	fill(t, src, seed.Rand(t), 9000)
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
	_, err := transfer.Run(t.Context(), from, dst.target(), o)
	if !errors.Is(err, why) || !strings.Contains(err.Error(), "target: there is no room") {
		t.Fatalf("the target was full from stage %s on: %v", stage, err)
	}
	write() // the source serves
	dst.why.Store(nil)
	if _, err := dst.Update(t.Context(), func(tx engine.Tx) error { return tx.Put([]byte("k"), nil) }); !errors.Is(err, engine.ErrFenced) {
		t.Errorf("a write to the part that was copied: %v", err)
	}
	if _, err := transfer.Run(t.Context(), transfer.Of(src), dst.target(), transfer.Options{}); err != nil {
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
			if _, err := transfer.Run(ctx, cutting{transfer.Of(src), func() { fail(dst, cancel) }}, dst.target(), transfer.Options{}); err == nil {
				t.Fatal("the move has ended")
			}
			put(t, src, "k", "2")
			dst.why.Store(nil)
			if _, err := transfer.Run(t.Context(), transfer.Of(src), dst.target(), transfer.Options{}); err != nil {
				t.Fatal(err)
			}
			moved(t, src, dst.Engine)
		})
	}
}

// TestOvertakenAtTheCut: a process that is overtaken at the cut by another one neither stops writes of the source nor lets it take
// them again afterwards.
func TestOvertakenAtTheCut(t *testing.T) {
	t.Parallel()
	src, dst := open(t), openTarget(t)
	put(t, src, "k", "1")
	first := true
	_, err := transfer.Run(t.Context(), cutting{transfer.Of(src), func() {
		if !first {
			return
		}
		first = false
		put(t, dst, engine.FenceKey, stolen(t, dst))
		if _, err := transfer.Run(t.Context(), transfer.Of(src), dst, transfer.Options{}); err != nil {
			t.Errorf("the second process: %v", err)
		}
	}}, dst, transfer.Options{})
	if err == nil {
		t.Fatal("both processes have moved")
	}
	moved(t, src, dst)

	// One that comes late to the cut itself.
	src, dst = open(t), openTarget(t)
	put(t, src, "k", "1")
	_, err = transfer.Run(t.Context(), before{transfer.Of(src), func() {
		if _, err := transfer.Run(t.Context(), transfer.Of(src), dst, transfer.Options{}); err != nil {
			t.Errorf("the second process: %v", err)
		}
	}}, dst, transfer.Options{})
	if !errors.Is(err, engine.ErrInvalid) {
		t.Fatalf("the late process: %v", err)
	}
	moved(t, src, dst)
}
