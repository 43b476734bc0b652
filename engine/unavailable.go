package engine

import (
	"context"
	"iter"
)

// Unavailable returns an Engine that promises nothing, and all of whose methods but
// Close fail with err.
func Unavailable(err error) Engine { return unavailable{err} }

type unavailable struct{ err error }

func (u unavailable) Promises() Promises { return Promises{} }
func (u unavailable) Close() error       { return nil }

func (u unavailable) View(context.Context, Read, func(Tx) error) (Position, error) { return 0, u.err }

func (u unavailable) Update(context.Context, func(Tx) error) (Position, error) { return 0, u.err }

func (u unavailable) Changes(context.Context, Position) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) { yield(Change{}, u.err) }
}
