package enginetest

import (
	"bytes"
	"context"
	"errors"

	"github.com/skerrydb/skerry/engine"
)

// fenceFaults are those of fences.
func fenceFaults() []fault {
	const stops, order, kept, process = "fence/stops-writes", "fence/in-order", "fence/kept", "process/fence"
	lift := func(tx engine.Tx) error {
		val, up, err := tx.Get([]byte(engine.FenceKey))
		if err != nil || !up {
			return err
		}
		return tx.Put([]byte(engine.FenceKey), bytes.Clone(val))
	}
	return []fault{
		{"a fence stops nothing", []string{stops, order, kept, process}, func(f *faulty) {
			f.update = func(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
				return f.ref.Update(ctx, func(tx engine.Tx) error { return errors.Join(lift(tx), fn(tx)) })
			}
		}},
		{"a fence stops no deletions", []string{stops}, func(f *faulty) {
			f.inUpdate(func(tx engine.Tx) engine.Tx {
				return &faultyTx{Tx: tx, del: func(key []byte) error {
					if err := lift(tx); err != nil {
						return err
					}
					return tx.Delete(key)
				}}
			})
		}},
		{"a fence stops everything", []string{stops}, func(f *faulty) {
			f.inUpdate(func(tx engine.Tx) engine.Tx {
				_, up, _ := tx.Get([]byte(engine.FenceKey))
				return &faultyTx{Tx: tx, put: func(key, val []byte) error {
					if up {
						return engine.ErrFenced
					}
					return tx.Put(key, val)
				}}
			})
		}},
		{"whoever has seen a fence may write on", []string{stops}, func(f *faulty) {
			seen := false
			f.inUpdate(func(tx engine.Tx) engine.Tx {
				return &faultyTx{Tx: tx, put: func(key, val []byte) error {
					if seen && string(key) != engine.FenceKey {
						if err := lift(tx); err != nil {
							return err
						}
					}
					seen = seen || string(key) == engine.FenceKey
					return tx.Put(key, val)
				}}
			})
		}},
	}
}
