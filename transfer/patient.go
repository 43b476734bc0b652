package transfer

import (
	"context"
	"errors"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// patience is how long a call of a source or a target is tried again: longer than an election or the restart of a server.
const (
	patience   = 30 * time.Second
	firstPause = 50 * time.Millisecond
)

// patient is a Source whose calls are tried again while they fail for a reason that passes.
type patient struct{ s Source }

// retry calls a function until it succeeds, fails for a reason that does not pass, or patience ends.
func retry[T any](ctx context.Context, call func() (T, error)) (T, error) {
	pause := firstPause
	for end := time.Now().Add(patience); ; pause = min(2*pause, time.Second) {
		v, err := call()
		if err == nil || !passes(err) || time.Now().After(end) {
			return v, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return v, errors.Join(ctx.Err(), err)
		}
	}
}

func (p patient) About(ctx context.Context) (About, error) {
	return retry(ctx, func() (About, error) { return p.s.About(ctx) })
}

func (p patient) Range(ctx context.Context, lo, hi []byte, atLeast engine.Position) (Range, error) {
	return retry(ctx, func() (Range, error) { return p.s.Range(ctx, lo, hi, atLeast) })
}

func (p patient) Sum(ctx context.Context, lo, hi []byte, atLeast engine.Position) (Sum, error) {
	return retry(ctx, func() (Sum, error) { return p.s.Sum(ctx, lo, hi, atLeast) })
}

func (p patient) Changes(ctx context.Context, after, to engine.Position) ([]engine.Change, error) {
	return retry(ctx, func() ([]engine.Change, error) { return p.s.Changes(ctx, after, to) })
}

func (p patient) Mark(ctx context.Context, m Mark) (pos engine.Position, at time.Time, err error) {
	at, err = retry(ctx, func() (at time.Time, err error) {
		pos, at, err = p.s.Mark(ctx, m)
		return at, err
	})
	return pos, at, err
}
