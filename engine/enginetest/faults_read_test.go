package enginetest

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// viewFaults are those of views.
func viewFaults() []fault {
	return []fault{
		{"views see what is not committed", []string{"isolation/no-dirty-read", "isolation/atomic-visibility", "load/bank"}, func(f *faulty) {
			f.inUpdate(func(tx engine.Tx) engine.Tx { return f.unsafeTx(tx) })
			f.inView(func(engine.Tx) engine.Tx {
				runtime.Gosched() // to whoever may write: the views between two transactions show nothing
				st, _, _ := f.current()
				return &refTx{pairs: st.pairs, readOnly: true, now: time.Now()}
			})
		}},
		{"a view is no snapshot", []string{"view/one-snapshot"}, func(f *faulty) {
			f.inView(func(engine.Tx) engine.Tx {
				live := func() *refTx {
					st, _, _ := f.current()
					return &refTx{pairs: st.pairs, readOnly: true, now: time.Now()}
				}
				return &faultyTx{
					Tx:   live(),
					get:  func(key []byte) ([]byte, bool, error) { return live().Get(key) },
					scan: func(lo, hi []byte) iter.Seq2[engine.Pair, error] { return live().Scan(lo, hi) },
				}
			})
		}},
		{"a view is one transaction behind", []string{"view/sees-acknowledged", "view/at-least", "load/counter", "load/set", "isolation/reads-own-acknowledged"}, staleViews(true)},
		{"a view at a level below linearizable forgets AtLeast", []string{"view/at-least", "view/at-least-waits", "view/at-least-times-out"}, staleViews(false)},
		{"a view waits for ever", []string{"close/ends-waiting-views"}, func(f *faulty) {
			f.view = func(ctx context.Context, r engine.Read, fn func(engine.Tx) error) (engine.Position, error) {
				if st, _, err := f.current(); err == nil && st.pos < r.AtLeast {
					time.Sleep(3 * faultWait)
				}
				return f.ref.View(ctx, r, fn)
			}
		}},
	}
}

// txViewFaults are those of transactions within views.
func txViewFaults() []fault {
	return []fault{
		{"a position that does not come is ctx's plain error", []string{"view/at-least-times-out"}, func(f *faulty) {
			f.view = func(ctx context.Context, r engine.Read, fn func(engine.Tx) error) (engine.Position, error) {
				pos, err := f.ref.View(ctx, r, fn)
				if errors.Is(err, engine.ErrPositionTimeout) {
					err = ctx.Err()
				}
				return pos, err
			}
		}},
		{"a view takes writes", []string{"view/read-only"}, func(f *faulty) {
			f.inView(func(tx engine.Tx) engine.Tx {
				return &faultyTx{Tx: tx, put: func(_, _ []byte) error { return nil }}
			})
		}},
		{"a view holds writers up", []string{"view/one-snapshot", "tx/returned-bytes-stay"}, func(f *faulty) {
			var rw sync.RWMutex
			f.view = func(ctx context.Context, r engine.Read, fn func(engine.Tx) error) (engine.Position, error) {
				rw.RLock()
				defer rw.RUnlock()
				return f.ref.View(ctx, r, fn)
			}
			f.update = func(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
				rw.Lock()
				defer rw.Unlock()
				return f.ref.Update(ctx, fn)
			}
		}},
		{"bytes that a view returned are used again", []string{"tx/returned-bytes-stay"}, func(f *faulty) {
			f.inView(func(tx engine.Tx) engine.Tx {
				var buf [refMaxVal]byte
				return &faultyTx{Tx: tx, get: func(key []byte) ([]byte, bool, error) {
					v, ok, err := tx.Get(key)
					return buf[:copy(buf[:], v)], ok, err
				}}
			})
		}},
		{"Count is of the committed state", []string{"ranker/count-and-at"}, func(f *faulty) {
			f.inUpdate(func(tx engine.Tx) engine.Tx {
				st, _, _ := f.current()
				return struct {
					engine.Tx
					engine.Ranker
				}{tx, &refTx{pairs: st.pairs}}
			})
		}},
	}
}

// staleViews shows the state of before the last commit, and says that it is
// the newest one.
func staleViews(linearizable bool) func(*faulty) {
	return func(f *faulty) {
		var mu sync.Mutex
		var last, before refState
		f.update = func(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
			pos, err := f.ref.Update(ctx, fn)
			mu.Lock()
			defer mu.Unlock()
			if st, _, e := f.current(); e == nil && st.pos > last.pos {
				before, last = last, st
			}
			return pos, err
		}
		f.view = func(ctx context.Context, r engine.Read, fn func(engine.Tx) error) (engine.Position, error) {
			if r.Level == engine.Linearizable && !linearizable {
				return f.ref.View(ctx, r, fn)
			}
			mu.Lock()
			st := before
			mu.Unlock()
			return max(st.pos, r.AtLeast), fn(&refTx{pairs: st.pairs, readOnly: true, now: time.Now()})
		}
	}
}

type yielder = func(engine.Change) bool

// changeFaults are those of which changes come and in what order.
func changeFaults() []fault {
	return []fault{
		{"two changes change places", []string{"changes/exact", "changes/live-under-writers", "load/set", "load/append"}, func(f *faulty) {
			f.stream(func(yield yielder) yielder {
				var held *engine.Change
				return func(c engine.Change) bool {
					if c.Pos%10 == 5 {
						held = &c
						return true
					}
					if !yield(c) {
						return false
					}
					if held != nil {
						c, held = *held, nil
						return yield(c)
					}
					return true
				}
			})
		}},
		{"a change is left out", []string{"changes/exact", "changes/live-under-writers", "changes/slow-reader", "load/set", "load/append", "load/bank"}, func(f *faulty) {
			f.stream(func(yield yielder) yielder {
				return func(c engine.Change) bool { return c.Pos%20 == 7 || yield(c) }
			})
		}},
		{"a change comes twice", []string{"changes/exact", "changes/live-under-writers", "load/set"}, func(f *faulty) {
			f.stream(func(yield yielder) yielder {
				return func(c engine.Change) bool { return yield(c) && (c.Pos%20 != 7 || yield(c)) }
			})
		}},
		{"resuming gives the change at the position again", []string{"changes/resume-from-every-position", "changes/final-values-once"}, func(f *faulty) {
			f.changes = func(ctx context.Context, after engine.Position) iter.Seq2[engine.Change, error] {
				return f.ref.Changes(ctx, max(after, 1)-1)
			}
		}},
		{"resuming leaves the next change out", []string{"changes/resume-from-every-position", "changes/waits-for-the-future"}, func(f *faulty) {
			f.changes = func(ctx context.Context, after engine.Position) iter.Seq2[engine.Change, error] {
				return f.ref.Changes(ctx, after+1)
			}
		}},
	}
}

// contentFaults are those of what a change holds.
func contentFaults() []fault {
	return []fault{
		{"a change has a write more than once", []string{"changes/final-values-once", "changes/exact"}, func(f *faulty) {
			f.stream(func(yield yielder) yielder {
				return func(c engine.Change) bool {
					c.Writes = append(slices.Clip(c.Writes), c.Writes[0])
					return yield(c)
				}
			})
		}},
		{"a change lacks its deletes", []string{"changes/final-values-once", "changes/exact"}, func(f *faulty) {
			f.stream(func(yield yielder) yielder {
				return func(c engine.Change) bool {
					c.Writes = slices.DeleteFunc(slices.Clone(c.Writes), func(w engine.Write) bool { return w.Deleted })
					return yield(c)
				}
			})
		}},
		{"a transaction comes as several changes", []string{"changes/final-values-once", "load/bank"}, func(f *faulty) {
			f.stream(func(yield yielder) yielder {
				return func(c engine.Change) bool {
					for i := range c.Writes {
						one := c
						one.Writes = c.Writes[i : i+1]
						if !yield(one) {
							return false
						}
					}
					return true
				}
			})
		}},
		{"a change has the time at which it is read", []string{"changes/exact"}, func(f *faulty) {
			f.stream(func(yield yielder) yielder {
				return func(c engine.Change) bool { c.Time = time.Now(); return yield(c) }
			})
		}},
		{"a change's memory is used again", []string{"changes/may-be-kept"}, func(f *faulty) {
			f.stream(func(yield yielder) yielder {
				buf := make([]engine.Write, 1)
				return func(c engine.Change) bool {
					if len(c.Writes) == 1 {
						copy(buf, c.Writes)
						c.Writes = buf
					}
					return yield(c)
				}
			})
		}},
	}
}

// tailFaults are those of how changes come.
func tailFaults() []fault {
	return []fault{
		{"a change comes before it can be seen", []string{"changes/visible-at-their-position"}, func(f *faulty) {
			staleViews(true)(f)
		}},
		{"a history that is gone is passed over", []string{"changes/truncated"}, func(f *faulty) {
			f.changes = func(ctx context.Context, after engine.Position) iter.Seq2[engine.Change, error] {
				st, _, _ := f.current()
				if len(st.changes) > 0 {
					after = max(after, st.changes[0].Pos-1)
				}
				return f.ref.Changes(ctx, after)
			}
		}},
		{"one change is lost at the edge of the history", []string{"changes/edge-of-the-history"}, func(f *faulty) {
			f.changes = func(ctx context.Context, after engine.Position) iter.Seq2[engine.Change, error] {
				if st, _, _ := f.current(); after+engine.Position(len(st.changes))+1 == st.pos {
					after++
				}
				return f.ref.Changes(ctx, after)
			}
		}},
		{"the oldest change that is kept is lost", []string{"changes/edge-of-the-history"}, func(f *faulty) {
			f.changes = func(ctx context.Context, after engine.Position) iter.Seq2[engine.Change, error] {
				if st, _, _ := f.current(); len(st.changes) == f.keep && after+1 == st.changes[0].Pos {
					after++
				}
				return f.ref.Changes(ctx, after)
			}
		}},
		{"a reader whose next change is gone goes on at the edge", []string{"changes/trimmed-under-readers"}, goesOnAtTheEdge},
		{"a heartbeat runs ahead of its changes", []string{"changes/exact", "load/set"}, func(f *faulty) {
			f.stream(func(yield yielder) yielder {
				return func(c engine.Change) bool {
					return (c.Pos%20 != 7 || yield(engine.Change{Pos: c.Pos + 1})) && yield(c)
				}
			})
		}},
		{"a tail does not end with its ctx", []string{"changes/end-with-ctx"}, func(f *faulty) {
			f.changes = func(ctx context.Context, after engine.Position) iter.Seq2[engine.Change, error] {
				return f.ref.Changes(context.WithoutCancel(ctx), after)
			}
		}},
		{"a tail is cut off at a slow reader, without a word", []string{"changes/slow-reader"}, func(f *faulty) {
			f.stream(func(yield yielder) yielder {
				return func(c engine.Change) bool {
					start := time.Now()
					return yield(c) && time.Since(start) < time.Millisecond
				}
			})
		}},
	}
}

// goesOnAtTheEdge passes over what is lost while it reads, but not before.
func goesOnAtTheEdge(f *faulty) {
	f.changes = func(ctx context.Context, after engine.Position) iter.Seq2[engine.Change, error] {
		return func(yield func(engine.Change, error) bool) {
			for begun := false; ctx.Err() == nil; {
				for c, err := range f.ref.Changes(ctx, after) {
					if begun && errors.Is(err, engine.ErrTruncated) {
						st, _, _ := f.current()
						after = st.changes[0].Pos - 1
						break
					}
					begun = true
					if !yield(c, err) || err != nil {
						return
					}
					after = c.Pos
				}
			}
		}
	}
}

type eacher = func(context.Context, int, func(engine.Tx, int) error) (engine.Position, error)

// with replaces UpdateEach.
func with(each func(f *faulty) eacher) func(*faulty) {
	return func(f *faulty) { f.each = each(f) }
}

// eachFaults are those of UpdateEach.
func eachFaults() []fault {
	return []fault{
		{"many are one transaction", []string{"eacher/as-one-by-one", "each/failures-are-alone", "each/changes", "each/over-a-limit", "each/now"}, with(func(f *faulty) eacher {
			return func(ctx context.Context, n int, fn func(engine.Tx, int) error) (engine.Position, error) {
				return f.Update(ctx, func(tx engine.Tx) error {
					for i := range n {
						if err := fn(tx, i); err != nil {
							return err
						}
					}
					return nil
				})
			}
		})},
		{"many run in another order", []string{"each/own-transactions-in-order", "each/changes"}, with(func(f *faulty) eacher {
			return func(ctx context.Context, n int, fn func(engine.Tx, int) error) (last engine.Position, err error) {
				for _, i := range rand.Perm(n) {
					pos, _ := f.Update(ctx, func(tx engine.Tx) error { return fn(tx, i) })
					last = max(last, pos)
				}
				return last, nil
			}
		})},
	}
}

// eachResultFaults are those of what UpdateEach returns.
func eachResultFaults() []fault {
	return []fault{
		{"the first failure ends the rest", []string{"each/failures-are-alone", "each/changes"}, with(func(f *faulty) eacher {
			return func(ctx context.Context, n int, fn func(engine.Tx, int) error) (last engine.Position, err error) {
				for i := range n {
					pos, err := f.Update(ctx, func(tx engine.Tx) error { return fn(tx, i) })
					if err != nil {
						break
					}
					last = pos
				}
				return last, nil
			}
		})},
		{"the last of many is lost", []string{"each/own-transactions-in-order", "each/many", "load/set"}, with(func(f *faulty) eacher {
			return func(ctx context.Context, n int, fn func(engine.Tx, int) error) (engine.Position, error) {
				return engine.UpdateEach(ctx, f.ref, max(0, n-1), fn)
			}
		})},
		{"the position is that of the first", []string{"each/changes", "load/set"}, with(func(f *faulty) eacher {
			return func(ctx context.Context, n int, fn func(engine.Tx, int) error) (first engine.Position, err error) {
				for i := range n {
					pos, _ := f.Update(ctx, func(tx engine.Tx) error { return fn(tx, i) })
					if first == 0 {
						first = pos
					}
				}
				return first, nil
			}
		})},
		{"an error although some have run", []string{"each/ctx-ends-during", "load/set-cut-off"}, with(func(f *faulty) eacher {
			return func(ctx context.Context, n int, fn func(engine.Tx, int) error) (last engine.Position, err error) {
				for i := range n {
					pos, _ := f.ref.Update(context.WithoutCancel(ctx), func(tx engine.Tx) error { return fn(tx, i) })
					last = pos
				}
				time.Sleep(time.Millisecond) // as a disk would take
				return last, ctx.Err()
			}
		})},
	}
}

// endFaults are those of Close and of opening again.
func endFaults() []fault {
	return []fault{
		{"calls work after Close", []string{"close/calls-afterwards"}, func(f *faulty) {
			f.end = func() error { return nil }
		}},
		{"a second Close panics", []string{"close/twice"}, func(f *faulty) {
			closed := false
			f.end = func() error {
				if closed {
					panic("closed twice")
				}
				closed = true
				return f.ref.Close()
			}
		}},
		{"tails live on after Close", []string{"close/ends-waiting-changes"}, func(f *faulty) {
			f.changes = func(ctx context.Context, after engine.Position) iter.Seq2[engine.Change, error] {
				return func(yield func(engine.Change, error) bool) {
					for c, err := range f.ref.Changes(ctx, after) {
						if err != nil {
							<-ctx.Done()
							return
						}
						if !yield(c, nil) {
							return
						}
					}
				}
			}
		}},
		{"a goroutine is left behind", []string{"tx/get-put-delete"}, func(f *faulty) {
			go time.Sleep(3 * faultWait)
		}},
		{"Close fails", []string{"tx/get-put-delete"}, func(f *faulty) {
			f.end = func() error { f.ref.Close(); return errors.New("no") }
		}},
	}
}

// reopenFaults are those of the data that stays after Close, and of metrics.
func reopenFaults() []fault {
	return []fault{
		{"what Close cuts off is written and refused", []string{"close/under-load"}, func(f *faulty) {
			f.end = func() error {
				f.ref.mu.Lock() // a commit that waits here is late
				time.Sleep(5 * time.Millisecond)
				f.ref.mu.Unlock()
				return f.ref.Close()
			}
			last := everyNth(7)
			f.update = func(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
				pos, err := f.ref.Update(ctx, fn)
				if err == nil && last() {
					return 0, engine.ErrClosed
				}
				return pos, err
			}
		}},
		{"the last commit is gone after opening again", []string{"reopen/keeps-everything", "reopen/positions-and-time-go-on", "reopen/changes-go-on", "close/under-load"}, func(f *faulty) {
			var before refState
			f.update = func(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
				f.ref.mu.Lock()
				st := f.ref.state
				f.ref.mu.Unlock()
				pos, err := f.ref.Update(ctx, fn)
				if pos > st.pos {
					f.ref.mu.Lock()
					before = st
					f.ref.mu.Unlock()
				}
				return pos, err
			}
			f.end = func() error {
				f.ref.mu.Lock()
				f.ref.state = before
				f.ref.mu.Unlock()
				return f.ref.Close()
			}
		}},
		{"positions begin again after opening", []string{"reopen/positions-and-time-go-on", "reopen/changes-go-on"}, func(f *faulty) {
			f.end = func() error {
				f.ref.mu.Lock()
				f.ref.state.pos, f.ref.state.changes = 0, nil
				f.ref.mu.Unlock()
				return f.ref.Close()
			}
		}},
	}
}
