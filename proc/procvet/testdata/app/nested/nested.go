// Package nested has procedures that begin other transactions.
package nested

import (
	"context"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/proc"
)

type none = struct{}

var inner = proc.Define("inner", func(tx *proc.Tx, _ none) (int, error) { return 0, nil })

// Make makes a procedure that captures an engine.
func Make(set *proc.Set, store *kv.Store, eng engine.Engine) proc.Procedure {
	return proc.Define("outer", func(tx *proc.Tx, in none) (int, error) {
		ctx := context.Background()
		inner.Call(ctx, set, in)                                           // want `^calls proc.Func.Call: that is another transaction.*deadlock.*\(procedure outer\)$`
		store.Get(ctx, engine.Read{}, 0, nil)                              // want `calls kv.Store.Get`
		store.Set(ctx, 0, nil, nil, kv.SetOptions{})                       // want `calls kv.Store.Set`
		eng.Update(ctx, func(engine.Tx) error { return nil })              // want `calls engine.Engine.Update`
		eng.View(ctx, engine.Read{}, func(engine.Tx) error { return nil }) // want `calls engine.Engine.View`
		engine.UpdateEach(ctx, eng, 1, nil)                                // want `calls engine.UpdateEach`
		indirect(store)                                                    // want `calls nested.indirect, which calls kv.Store.Delete`
		c, err := set.Begin([]byte("inner"))
		if err != nil {
			return 0, err
		}
		c.Do(ctx, engine.Read{}, nil) // want `calls proc.Call.Do`
		return inner.Run(tx, in)
	})
}

func indirect(s *kv.Store) { s.Delete(context.Background(), 0, nil, 0) }
