package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/skerrydb/skerry/engine"
)

// scripted is an Engine whose Update is a function; nothing else may be called.
type scripted struct {
	engine.Engine
	update func(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error)
}

func (s scripted) Update(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
	return s.update(ctx, fn)
}

// eacher is an Engine that accepts many transactions in one call.
type eacher struct {
	engine.Engine
	n int
}

func (e *eacher) UpdateEach(_ context.Context, n int, _ func(engine.Tx, int) error) (engine.Position, error) {
	e.n = n
	return 77, nil
}

func TestUpdateEachHandsOverAtOnce(t *testing.T) {
	e := &eacher{}
	pos, err := engine.UpdateEach(t.Context(), e, 5, nil)
	if pos != 77 || err != nil || e.n != 5 {
		t.Errorf("UpdateEach = %d, %v after %d transactions", pos, err, e.n)
	}
}

func TestUpdateEachFallsBackToSingleTransactions(t *testing.T) {
	own := errors.New("mine")
	var ran []int
	calls := 0
	e := scripted{update: func(_ context.Context, fn func(engine.Tx) error) (engine.Position, error) {
		calls++
		if calls%2 == 0 {
			fn(nil) // an optimistic engine's second try
		}
		if err := fn(nil); err != nil {
			return 0, err
		}
		return engine.Position(10 * calls), nil
	}}
	pos, err := engine.UpdateEach(t.Context(), e, 4, func(_ engine.Tx, i int) error {
		ran = append(ran, i)
		if i == 3 {
			return own
		}
		return nil
	})
	if err != nil || pos != 30 {
		t.Errorf("UpdateEach = %d, %v", pos, err)
	}
	if want := []int{0, 1, 1, 2, 3, 3}; !slices.Equal(ran, want) {
		t.Errorf("ran %v, want %v", ran, want)
	}
	if pos, err := engine.UpdateEach(t.Context(), e, 0, nil); pos != 0 || err != nil || calls != 4 {
		t.Errorf("UpdateEach of nothing = %d, %v after %d calls", pos, err, calls)
	}
}

func TestUpdateEachTellsWhenTheOutcomeIsUnknown(t *testing.T) {
	for _, c := range []struct {
		at      int   // the call that fails
		ran     bool  // after having run fn
		err     error // with this
		unknown bool
	}{
		{1, false, context.Canceled, false},
		{1, false, engine.ErrClosed, false},
		{1, true, engine.ErrConflict, true},
		{2, false, context.Canceled, true},
		{3, true, engine.ErrOutcomeUnknown, true},
	} {
		calls := 0
		e := scripted{update: func(_ context.Context, fn func(engine.Tx) error) (engine.Position, error) {
			if calls++; calls != c.at {
				return engine.Position(calls), fn(nil)
			}
			if c.ran {
				fn(nil)
			}
			return 0, c.err
		}}
		_, err := engine.UpdateEach(t.Context(), e, 3, func(engine.Tx, int) error { return nil })
		if !errors.Is(err, c.err) || errors.Is(err, engine.ErrOutcomeUnknown) != c.unknown {
			t.Errorf("%+v: error is %v", c, err)
		}
		if calls != c.at {
			t.Errorf("%+v: went on to call %d", c, calls)
		}
	}
}

func TestScopeNames(t *testing.T) {
	got := fmt.Sprint([]engine.Scope{engine.OneKey, engine.OnePartition, engine.AllKeys})
	if got != "[one key one partition all keys]" {
		t.Errorf("scopes are %q", got)
	}
}
