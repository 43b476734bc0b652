package enginetest

import (
	"context"
	"iter"

	"github.com/skerrydb/skerry/engine"
)

// caughtRaising are the cases that find the faults of engine.Raiser.
var caughtRaising = []string{"raiser/continues"}

// raiserFaults are those of engine.Raiser.
func raiserFaults() []fault { return append(raiseFaults(), afterRaiseFaults()...) }

// afterRaiseFaults are those that show after Raise.
func afterRaiseFaults() []fault {
	// raising makes f raise by rises, and returns what returns the highest position that it led to.
	raising := func(f *faulty, rises func(ctx context.Context, p engine.Position) (engine.Position, error)) func() engine.Position {
		var to engine.Position
		f.raise = func(ctx context.Context, p engine.Position) (engine.Position, error) {
			pos, err := rises(ctx, p)
			to = max(to, pos)
			return pos, err
		}
		return func() engine.Position { return to }
	}
	return []fault{
		{"a raise loses the data", caughtRaising, func(f *faulty) {
			f.raise = func(ctx context.Context, p engine.Position) (engine.Position, error) {
				f.change(func(st *refState) { st.pairs = nil })
				return f.ref.Raise(ctx, p)
			}
		}},
		{"any position is accepted", caughtRaising, func(f *faulty) {
			f.raise = func(ctx context.Context, p engine.Position) (engine.Position, error) {
				if p > refMaxPos {
					f.change(func(st *refState) { st.pos, st.changes = p, nil })
				}
				return f.ref.Raise(ctx, min(p, refMaxPos))
			}
		}},
		{"readers continue over a raise", caughtRaising, func(f *faulty) {
			to := raising(f, f.ref.Raise)
			f.changes = func(ctx context.Context, after engine.Position) iter.Seq2[engine.Change, error] {
				return f.ref.Changes(ctx, max(after, to()))
			}
		}},
		{"a view of a position from before a raise is refused", caughtRaising, func(f *faulty) {
			from := engine.Position(0)
			to := raising(f, func(ctx context.Context, p engine.Position) (engine.Position, error) {
				if now := f.ref.Position(); p > now {
					from = now
				}
				return f.ref.Raise(ctx, p)
			})
			f.view = func(ctx context.Context, r engine.Read, fn func(engine.Tx) error) (engine.Position, error) {
				if r.AtLeast > from && r.AtLeast < to() {
					return 0, engine.ErrTruncated
				}
				return f.ref.View(ctx, r, fn)
			}
		}},
	}
}

// raiseFaults are those of Raise itself.
func raiseFaults() []fault {
	return []fault{
		{"positions are not raised", caughtRaising, func(f *faulty) {
			f.raise = func(_ context.Context, p engine.Position) (engine.Position, error) {
				return max(p, f.ref.Position()), nil
			}
		}},
		{"positions are raised once", caughtRaising, func(f *faulty) {
			times := 0
			f.raise = func(ctx context.Context, p engine.Position) (engine.Position, error) {
				if times++; times > 1 {
					p = 0
				}
				return f.ref.Raise(ctx, p)
			}
		}},
		{"raising to a lower position lowers it", caughtRaising, func(f *faulty) {
			f.raise = func(ctx context.Context, p engine.Position) (engine.Position, error) {
				f.change(func(st *refState) { st.pos, st.changes = p, nil })
				return f.ref.Raise(ctx, p)
			}
		}},
		{"raising again raises", caughtRaising, func(f *faulty) {
			f.raise = func(ctx context.Context, p engine.Position) (engine.Position, error) {
				return f.ref.Raise(ctx, max(p, f.ref.Position()+1))
			}
		}},
		{"a raise leaves a gap", caughtRaising, func(f *faulty) {
			gap := false
			f.raise = func(ctx context.Context, p engine.Position) (engine.Position, error) {
				gap = gap || p > f.ref.Position()
				return f.ref.Raise(ctx, p)
			}
			f.update = func(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
				if gap {
					f.change(func(st *refState) { st.pos++ })
				}
				gap = false
				return f.ref.Update(ctx, fn)
			}
		}},
		{"a raise stops at a fence", caughtRaising, func(f *faulty) {
			f.raise = func(ctx context.Context, p engine.Position) (engine.Position, error) {
				up := false
				if _, err := f.ref.View(ctx, engine.Read{}, func(tx engine.Tx) (err error) { _, up, err = tx.Get([]byte(engine.FenceKey)); return err }); err != nil {
					return 0, err
				}
				if up {
					return 0, engine.ErrFenced
				}
				return f.ref.Raise(ctx, p)
			}
		}},
		{"a raise takes down the fence", caughtRaising, func(f *faulty) {
			f.raise = func(ctx context.Context, p engine.Position) (engine.Position, error) {
				if _, err := f.ref.Update(ctx, func(tx engine.Tx) error { return tx.Delete([]byte(engine.FenceKey)) }); err != nil {
					return 0, err
				}
				return f.ref.Raise(ctx, p)
			}
		}},
	}
}

// change changes the state.
func (f *faulty) change(fn func(st *refState)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fn(&f.state)
}
