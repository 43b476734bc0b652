package graphs_test

import (
	"context"
	"errors"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine"
	"github.com/skerrydb/skerry/web/graphs"
	"github.com/skerrydb/skerry/web/gremlin"
)

// failing is an engine whose calls fail, once it is told with what.
type failing struct {
	engine.Engine
	view, update error
}

func (f *failing) View(ctx context.Context, r engine.Read, fn func(engine.Tx) error) (engine.Position, error) {
	if f.view != nil {
		return 0, f.view
	}
	return f.Engine.View(ctx, r, fn)
}

func (f *failing) Update(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
	if f.update != nil {
		return 0, f.update
	}
	return f.Engine.Update(ctx, fn)
}

// TestNotLeader: only a write, and a session, is for the leader. A read without a
// majority fails here.
func TestNotLeader(t *testing.T) {
	eng := &failing{Engine: testengine.Open(t, testengine.Options{}), update: engine.ErrNotLeader}
	b, err := graphs.New(eng)
	if err != nil {
		t.Fatal(err)
	}
	want(t, b, "g.V().count()", "0")
	code := func(err error) any {
		e, ok := errors.AsType[*gremlin.Error](err)
		if !ok {
			t.Fatalf("the client does not see %v", err)
		}
		c, _ := e.Attributes.Get("code")
		return c
	}
	if _, err := ask(t, b, "g.addV('a')"); !errors.Is(err, engine.ErrNotLeader) || code(err) != "not_leader" {
		t.Errorf("a write: %v", err)
	}
	if _, err := ask(t, b, "g.call('skerry.addIndex', ['keys': ['a']])"); !errors.Is(err, engine.ErrNotLeader) || code(err) != "not_leader" {
		t.Errorf("a declaration: %v", err)
	}
	eng.view = engine.ErrNotLeader
	if _, err := ask(t, b, "g.V()"); errors.Is(err, engine.ErrNotLeader) || code(err) != "not_leader" {
		t.Errorf("a read: %v", err)
	}
	if _, err := b.Begin(t.Context(), gremlin.Request{Source: "g"}); !errors.Is(err, engine.ErrNotLeader) || code(err) != "not_leader" {
		t.Errorf("a session: %v", err)
	}
	eng.update = engine.Errorf(engine.CodeOutcomeUnknown, "the time was up: %w", context.DeadlineExceeded)
	if _, err := ask(t, b, "g.addV('a')"); code(err) != "outcome_unknown" {
		t.Errorf("a write that was cut off: %v", err)
	}
}
