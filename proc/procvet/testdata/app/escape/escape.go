// Package escape has procedures that let their transaction go.
package escape

import (
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/proc"
)

type none = struct{}

type holder struct {
	tx *proc.Tx
	kv *kv.Tx
	n  int
}

var (
	last  *proc.Tx
	any_  any
	later []func() error
	txs   []engine.Tx
	ch    = make(chan *proc.Tx, 1)
	kept  holder
)

// Escape lets it go in every way.
var Escape = proc.Define("escape", func(tx *proc.Tx, _ none) (int, error) {
	last = tx                            // want `^keeps the Tx in the package variable last: a Tx is valid until`
	any_ = tx                            // want `keeps the Tx in the package variable any_`
	kept.kv = tx.KV(0)                   // want `keeps the Tx in the package variable kept`
	kept = holder{tx: tx}                // want `keeps the Tx in the package variable kept`
	txs = append(txs, tx.Engine())       // want `keeps the Tx in the package variable txs`
	ch <- tx                             // want `sends on a channel` `sends the Tx on a channel`
	later = append(later, func() error { // want `keeps the Tx in the package variable later`
		return tx.Engine().Delete([]byte("k")) // want `calls engine.Tx.Delete on what`
	})
	go use(tx)  // want `starts a goroutine` `hands the Tx to a goroutine`
	go func() { // want `starts a goroutine` `hands the Tx to a goroutine`
		tx.Engine().Get(nil)
	}()
	h := holder{tx: tx}
	h.kv = tx.KV(0)
	kept.n = h.n // want `writes the package variable kept`
	keep(tx)     // want `calls escape.keep, which keeps the Tx in the package variable last`
	return use(tx)
})

func keep(tx *proc.Tx) { last = tx }

func use(tx *proc.Tx) (int, error) { return tx.KV(0).Count() }
