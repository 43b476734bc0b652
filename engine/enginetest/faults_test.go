package enginetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// fault is a way to break an engine, and the cases that must catch it: each of
// them fails, whatever the others say.
type fault struct {
	name   string
	caught []string
	broken func(f *faulty)
}

// faultWait is the suite's timeout for faulty engines. Those that hang never return, so it
// need only be long enough for the others.
const faultWait = 500 * time.Millisecond

// TestEveryFaultIsCaught checks that the suite catches every fault.
func TestEveryFaultIsCaught(t *testing.T) {
	for _, x := range allFaults() {
		t.Run(x.name, func(t *testing.T) {
			open, o := refSuite(func(r *ref) engine.Engine {
				f := &faulty{ref: r}
				x.broken(f)
				return f
			})
			o.Wait, o.grace, o.Steps = faultWait, faultWait/5, 500
			failed := map[string]string{}
			o.Only = func(name string) bool { return slices.Contains(x.caught, name) }
			for v := range Conform(open, o) {
				if v.Status == Fail {
					failed[v.Case] = strings.Join(v.Log, "; ")
				}
			}
			for _, name := range x.caught {
				why, ok := failed[name]
				if !ok {
					t.Errorf("%s lets it through", name)
				}
				t.Logf("%s: %s", name, short(strings.ReplaceAll(why, "\n", " ")))
			}
		})
	}
}

func allFaults() []fault {
	return slices.Concat(writeFaults(), rollbackFaults(), savepointFaults(), positionFaults(), ctxFaults(),
		txFaults(), limitFaults(), valueFaults(), viewFaults(), txViewFaults(),
		changeFaults(), contentFaults(), tailFaults(),
		eachFaults(), eachResultFaults(), endFaults(), reopenFaults(), optionalFaults(), expecterFaults(), memberFaults(), fenceFaults(), raiserFaults())
}

// writeFaults are those of commits.
func writeFaults() []fault {
	return []fault{
		{"a write is lost now and then", []string{"load/set", "load/append", "load/counter", "model/random-transactions"}, func(f *faulty) {
			lose := everyNth(50)
			f.inUpdate(func(tx engine.Tx) engine.Tx {
				return &faultyTx{Tx: tx, put: func(key, val []byte) error {
					if lose() {
						return nil
					}
					return tx.Put(key, val)
				}}
			})
		}},
		{"a whole transaction is lost now and then", []string{"load/set", "load/append", "load/counter"}, func(f *faulty) {
			lose := everyNth(50)
			f.update = func(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
				if !lose() {
					return f.ref.Update(ctx, fn)
				}
				gone := errors.New("gone")
				_, err := f.ref.Update(ctx, func(tx engine.Tx) error {
					if err := fn(tx); err != nil {
						return err
					}
					return gone
				})
				if err == gone {
					err = nil
				}
				st, _, _ := f.current()
				return st.pos, err
			}
		}},
		{"a transaction is made twice now and then", []string{"load/append", "load/counter"}, func(f *faulty) {
			twice := everyNth(50)
			f.update = func(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
				if twice() {
					f.ref.Update(ctx, fn)
				}
				return f.ref.Update(ctx, fn)
			}
		}},
		{"transactions read beside each other and the last one wins",
			[]string{"load/counter", "load/append", "load/bank", "isolation/no-write-skew", "isolation/no-read-only-anomaly", "each/beside-others"}, lostUpdates},
	}
}

// rollbackFaults are those of transactions that fail.
func rollbackFaults() []fault {
	return []fault{
		{"an error does not roll back", []string{"update/error-rolls-back", "each/failures-are-alone", "model/random-transactions"}, func(f *faulty) {
			f.update = func(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
				var failed error
				pos, err := f.ref.Update(ctx, func(tx engine.Tx) error { failed = fn(tx); return nil })
				return pos, errors.Join(err, failed)
			}
		}},
		{"what ends its goroutine is committed", []string{"update/goexit"}, func(f *faulty) {
			f.update = func(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
				return f.ref.Update(ctx, func(tx engine.Tx) error {
					var err error
					ended := make(chan struct{})
					go func() { defer close(ended); err = fn(tx) }()
					<-ended
					return err
				})
			}
		}},
		{"a panic does not roll back", []string{"update/panic-rolls-back", "each/panic"}, func(f *faulty) {
			f.update = func(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
				return f.ref.Update(ctx, func(tx engine.Tx) error {
					defer func() { recover() }()
					return fn(tx)
				})
			}
		}},
		{"an error comes back wrapped", []string{"update/error-unchanged", "view/error-unchanged"}, func(f *faulty) {
			f.update = func(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
				pos, err := f.ref.Update(ctx, fn)
				if err != nil {
					err = fmt.Errorf("update: %w", err)
				}
				return pos, err
			}
			f.view = func(ctx context.Context, r engine.Read, fn func(engine.Tx) error) (engine.Position, error) {
				pos, err := f.ref.View(ctx, r, fn)
				if err != nil {
					err = fmt.Errorf("view: %w", err)
				}
				return pos, err
			}
		}},
	}
}

// positionFaults are those of the positions that commits return.
func positionFaults() []fault {
	return []fault{
		{"a position is that of the transaction before", []string{"view/position-not-newer", "changes/exact", "load/set", "load/append"}, func(f *faulty) {
			f.update = func(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
				pos, err := f.ref.Update(ctx, fn)
				return max(pos, 1) - 1, err
			}
			f.view = func(ctx context.Context, r engine.Read, fn func(engine.Tx) error) (engine.Position, error) {
				pos, err := f.ref.View(ctx, r, fn)
				return max(pos, 1) - 1, err
			}
		}},
		{"what writes nothing has no position", []string{"update/position-of-no-write"}, func(f *faulty) {
			f.update = func(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
				before, _, _ := f.current()
				pos, err := f.ref.Update(ctx, fn)
				if pos == before.pos {
					pos = 0
				}
				return pos, err
			}
		}},
	}
}

// ctxFaults are those of calls that are cut off.
func ctxFaults() []fault {
	return []fault{
		{"ctx is not looked at", []string{"cancel/before", "cancel/while-it-waits", "each/ctx-ended-before"}, func(f *faulty) {
			f.update = func(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
				return f.ref.Update(context.WithoutCancel(ctx), fn)
			}
		}},
		{"ctx's error although it was written", []string{"cancel/inside", "load/set-cut-off", "load/append-cut-off", "load/counter-cut-off"}, func(f *faulty) {
			f.update = func(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
				pos, err := f.ref.Update(ctx, fn)
				time.Sleep(time.Millisecond) // as a disk would take
				if err == nil && ctx.Err() != nil {
					return 0, ctx.Err()
				}
				return pos, err
			}
		}},
		{"fn runs on after the end of ctx", []string{"cancel/waits-for-fn"}, func(f *faulty) {
			f.update = func(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
				done := make(chan error, 1)
				go func() {
					_, err := f.ref.Update(ctx, fn)
					done <- err
				}()
				select {
				case err := <-done:
					return 0, err
				case <-ctx.Done():
					return 0, engine.Errorf(engine.CodeOutcomeUnknown, "given up: %w", ctx.Err())
				}
			}
		}},
		{"an unknown outcome hides its cause", []string{"cancel/inside"}, func(f *faulty) {
			f.update = func(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
				pos, err := f.ref.Update(ctx, fn)
				if err == nil && ctx.Err() != nil {
					err = engine.ErrOutcomeUnknown
				}
				return pos, err
			}
		}},
	}
}

// lostUpdates runs fn on a snapshot and commits its writes later.
func lostUpdates(f *faulty) {
	f.update = func(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		st, _, err := f.current()
		if err != nil {
			return 0, err
		}
		mine := &refTx{pairs: slices.Clone(st.pairs), now: st.now, wrote: map[string]bool{}}
		if err := fn(mine); err != nil {
			return 0, err
		}
		time.Sleep(50 * time.Microsecond)
		return f.ref.Update(ctx, func(tx engine.Tx) error {
			for k := range mine.wrote {
				v, ok, _ := mine.Get([]byte(k))
				if !ok {
					tx.Delete([]byte(k))
				} else if err := tx.Put([]byte(k), v); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// putFault replaces Put alone.
func putFault(put func(tx engine.Tx, key, val []byte) error) func(*faulty) {
	return func(f *faulty) {
		f.inUpdate(func(tx engine.Tx) engine.Tx {
			return &faultyTx{Tx: tx, put: func(key, val []byte) error { return put(tx, key, val) }}
		})
	}
}

// rangeFault replaces both scans by ones of another range, everywhere.
func rangeFault(other func(lo, hi []byte) ([]byte, []byte)) func(*faulty) {
	return func(f *faulty) {
		wrap := func(tx engine.Tx) engine.Tx {
			return &faultyTx{
				Tx:   tx,
				scan: func(lo, hi []byte) iter.Seq2[engine.Pair, error] { return tx.Scan(other(lo, hi)) },
				back: func(lo, hi []byte) iter.Seq2[engine.Pair, error] { return tx.ScanBack(other(lo, hi)) },
			}
		}
		f.inUpdate(wrap)
		f.inView(wrap)
	}
}

// txFaults are those within one transaction.
func txFaults() []fault {
	return []fault{
		{"hi is within the range", []string{"scan/bounds", "model/random-transactions"}, rangeFault(func(lo, hi []byte) ([]byte, []byte) {
			if hi != nil {
				hi = append(bytes.Clone(hi), 0)
			}
			return lo, hi
		})},
		{"lo is not within the range", []string{"scan/bounds", "scan/own-writes-in-all-ranges"}, rangeFault(func(lo, hi []byte) ([]byte, []byte) {
			if lo != nil {
				lo = append(bytes.Clone(lo), 0)
			}
			return lo, hi
		})},
		{"an empty hi is none", []string{"scan/bounds"}, rangeFault(func(lo, hi []byte) ([]byte, []byte) {
			if len(hi) == 0 {
				hi = nil
			}
			return lo, hi
		})},
		{"scans do not see the transaction's own writes", []string{"tx/own-writes", "scan/own-writes-in-all-ranges"}, func(f *faulty) {
			f.inUpdate(func(tx engine.Tx) engine.Tx {
				st, _, _ := f.current()
				return &faultyTx{Tx: tx, scan: (&refTx{pairs: st.pairs}).Scan}
			})
		}},
		{"Get does not see the transaction's own deletes", []string{"tx/own-writes"}, func(f *faulty) {
			f.inUpdate(func(tx engine.Tx) engine.Tx {
				st, _, _ := f.current()
				return &faultyTx{Tx: tx, get: func(key []byte) ([]byte, bool, error) {
					if v, ok, err := tx.Get(key); ok {
						return v, ok, err
					}
					return (&refTx{pairs: st.pairs}).Get(key)
				}}
			})
		}},
	}
}

// limitFaults are those of what is too large.
func limitFaults() []fault {
	return []fault{
		{"a key one byte too long is taken", []string{"limits/key"}, putFault(func(tx engine.Tx, key, val []byte) error {
			return tx.Put(key[:min(len(key), refMaxKey)], val)
		})},
		{"the longest key is refused", []string{"limits/key"}, putFault(func(tx engine.Tx, key, val []byte) error {
			if len(key) == refMaxKey {
				return engine.ErrKeyTooLarge
			}
			return tx.Put(key, val)
		})},
		{"a value that is too long is written and refused", []string{"limits/value"}, putFault(func(tx engine.Tx, key, val []byte) error {
			if len(val) > refMaxVal {
				tx.Put(key, val[:refMaxVal])
				return engine.ErrValueTooLarge
			}
			return tx.Put(key, val)
		})},
		{"an empty key is taken", []string{"limits/key-empty"}, putFault(func(tx engine.Tx, key, val []byte) error {
			if len(key) == 0 {
				return nil
			}
			return tx.Put(key, val)
		})},
		{"a refused Put fails its transaction", []string{"limits/key", "limits/value", "limits/key-empty", "limits/transaction"}, func(f *faulty) {
			f.update = func(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
				return f.ref.Update(ctx, func(tx engine.Tx) error {
					var refused error
					err := fn(&faultyTx{Tx: tx, put: func(key, val []byte) error {
						err := tx.Put(key, val)
						if err != nil {
							refused = err
						}
						return err
					}})
					if err == nil {
						err = refused
					}
					return err
				})
			}
		}},
		{"the size of a transaction has no limit", []string{"limits/transaction"}, func(f *faulty) {
			f.inUpdate(func(tx engine.Tx) engine.Tx {
				return &faultyTx{Tx: tx, put: func(key, val []byte) error {
					tx.(*refTx).size = 0
					return tx.Put(key, val)
				}}
			})
		}},
	}
}

// valueFaults are those of values and times.
func valueFaults() []fault {
	return []fault{
		{"an argument is kept, not copied", []string{"tx/copies-arguments"}, func(f *faulty) {
			f.inUpdate(func(tx engine.Tx) engine.Tx {
				return &faultyTx{Tx: tx, put: func(key, val []byte) error {
					if err := tx.Put(key, val); err != nil {
						return err
					}
					t := tx.(*refTx)
					i, _ := t.find(key)
					t.pairs[i].Val = val
					return nil
				}}
			})
		}},
		{"an empty value is nothing", []string{"tx/empty-value"}, putFault(func(tx engine.Tx, key, val []byte) error {
			if len(val) == 0 {
				return tx.Delete(key)
			}
			return tx.Put(key, val)
		})},
		{"Now moves within a transaction", []string{"tx/now"}, func(f *faulty) {
			f.inUpdate(func(tx engine.Tx) engine.Tx {
				return &faultyTx{Tx: tx, now: func() time.Time { return time.Now().Truncate(time.Microsecond) }}
			})
		}},
		{"AsOf is not Now", []string{"tx/now", "tx/as-of-view"}, func(f *faulty) {
			f.inUpdate(func(tx engine.Tx) engine.Tx { return &faultyTx{Tx: tx, asOf: time.Hour} })
			f.inView(func(tx engine.Tx) engine.Tx { return &faultyTx{Tx: tx, asOf: -time.Hour} })
		}},
		{"Now goes back", []string{"tx/now", "tx/now-of-view", "each/now", "changes/exact"}, func(f *faulty) {
			f.inUpdate(func(tx engine.Tx) engine.Tx {
				t := tx.(*refTx)
				t.now = t.now.Add(-2 * time.Since(time.Now().Truncate(time.Minute))).Truncate(time.Microsecond)
				return tx
			})
			f.inView(func(tx engine.Tx) engine.Tx {
				return &faultyTx{Tx: tx, now: func() time.Time { return tx.Now().Add(-time.Hour) }}
			})
		}},
	}
}
