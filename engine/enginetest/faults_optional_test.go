package enginetest

import (
	"context"
	"errors"
	"io"
	"iter"
	"slices"

	"github.com/skerrydb/skerry/engine"
)

// optionalFaults are those of the optional interfaces.
func optionalFaults() []fault {
	return []fault{
		{"the position is behind what was answered", []string{"positioner/covers-answers"}, func(f *faulty) { f.shift = -1 }},
		{"the position is ahead of what is committed", []string{"positioner/covers-answers"}, func(f *faulty) { f.shift = 1 }},
		{"a broken transaction is committed", []string{"breaker/not-committed"}, func(f *faulty) {
			f.inUpdate(func(tx engine.Tx) engine.Tx {
				return struct {
					engine.Tx
					engine.Breaker
				}{tx, new(refTx)}
			})
		}},
		{"Count goes on after the end", []string{"ranker/ended"}, func(f *faulty) {
			f.inView(func(tx engine.Tx) engine.Tx {
				return struct {
					engine.Tx
					engine.Ranker
				}{tx, new(refTx)}
			})
		}},
		{"a backup is of long ago", []string{"backuper/under-writers"}, func(f *faulty) {
			f.backup = func(ctx context.Context, w io.Writer) (engine.Position, error) { return 0, nil }
		}},
		{"a backup keeps its errors", []string{"backuper/writer-fails"}, func(f *faulty) {
			f.backup = func(ctx context.Context, w io.Writer) (engine.Position, error) {
				pos, _ := f.ref.Backup(ctx, w)
				return pos, nil
			}
		}},
		{"a lost connection loses a write", []string{"connection/lost"}, func(f *faulty) {
			f.update = func(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
				pos, err := f.ref.Update(ctx, fn)
				if errors.Is(err, engine.ErrUnavailable) {
					return f.ref.Position(), nil
				}
				return pos, err
			}
		}},
		{"a lost connection is a fault of its own", []string{"connection/lost"}, func(f *faulty) {
			f.update = func(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
				pos, err := f.ref.Update(ctx, fn)
				if errors.Is(err, engine.ErrUnavailable) {
					err = errors.New("connection reset by peer")
				}
				return pos, err
			}
		}},
		{"a transaction over all keys crosses half", []string{"partition/crossing"}, func(f *faulty) {
			f.inUpdate(func(tx engine.Tx) engine.Tx {
				return &faultyTx{Tx: tx, put: func(key, val []byte) error {
					if string(engine.Partition(key)) == "other" {
						return nil
					}
					return tx.Put(key, val)
				}}
			})
		}},
		{"of many, empty values are nothing", []string{"many/as-get"}, func(f *faulty) {
			f.inView(func(tx engine.Tx) engine.Tx { return emptyIsNil{tx.(*refTx)} })
		}},
		{"the engine stops when it is closed", []string{"stopper/healthy"}, func(f *faulty) { f.err = engine.ErrClosed }},
		{"a counter falls", []string{"meter/metrics"}, func(f *faulty) {
			value := 1e9
			f.metrics = func() iter.Seq[engine.Metric] {
				value--
				return slices.Values([]engine.Metric{{Name: "falls_total", Help: "It falls.", Counter: true, Value: value}})
			}
		}},
	}
}

// expecterFaults are those of engine.Expecter and engine.Preparer.
func expecterFaults() []fault {
	return []fault{
		{"what is expected is created", []string{"expecter/changes-nothing"}, func(f *faulty) {
			f.inUpdate(func(tx engine.Tx) engine.Tx { return expectPuts{tx.(*refTx)} })
		}},
		{"what is expected is read once", []string{"expecter/changes-nothing"}, func(f *faulty) {
			f.inUpdate(func(tx engine.Tx) engine.Tx { return expectKeeps{tx.(*refTx), map[string][]byte{}} })
		}},
		{"what is prepared is created", []string{"preparer/changes-nothing"}, func(f *faulty) {
			f.of = func(ctx context.Context, keys [][]byte, fn func(engine.Tx) error) (engine.Position, error) {
				return f.ref.Update(ctx, func(tx engine.Tx) error {
					expectPuts{tx.(*refTx)}.Expect(keys)
					return fn(tx)
				})
			}
		}},
		{"what is prepared is read once", []string{"preparer/changes-nothing"}, func(f *faulty) {
			f.of = func(ctx context.Context, keys [][]byte, fn func(engine.Tx) error) (engine.Position, error) {
				return f.ref.Update(ctx, func(tx engine.Tx) error {
					t := expectKeeps{tx.(*refTx), map[string][]byte{}}
					t.Expect(keys)
					return fn(t)
				})
			}
		}},
	}
}

// emptyIsNil has no empty values in GetMany.
type emptyIsNil struct{ *refTx }

func (t emptyIsNil) GetMany(keys [][]byte) ([][]byte, error) {
	vals, err := t.refTx.GetMany(keys)
	for i := range vals {
		if len(vals[i]) == 0 {
			vals[i] = nil
		}
	}
	return vals, err
}

// expectPuts creates the keys that it expects.
type expectPuts struct{ *refTx }

func (t expectPuts) Expect(keys [][]byte) {
	for _, key := range keys {
		if _, ok, _ := t.Get(key); !ok {
			_ = t.Put(key, nil)
		}
	}
}

// expectKeeps returns the values that were there when keys were announced.
type expectKeeps struct {
	*refTx
	seen map[string][]byte
}

func (t expectKeeps) Expect(keys [][]byte) {
	for _, key := range keys {
		if v, ok, _ := t.refTx.Get(key); ok {
			t.seen[string(key)] = v
		}
	}
}

func (t expectKeeps) Get(key []byte) ([]byte, bool, error) {
	if v, ok := t.seen[string(key)]; ok {
		return v, true, nil
	}
	return t.refTx.Get(key)
}
