// Package keys has procedures that write the engine's own keys.
package keys

import (
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/proc"
)

type none = struct{}

// Keys writes them in every way.
var Keys = proc.Define("keys", func(tx *proc.Tx, _ none) (int, error) {
	tx.Engine().Put([]byte("key1"), nil) // want `^calls engine.Tx.Put on what proc.Tx.Engine gave: the engine's keys belong to the capabilities: use tx.KV \(procedure keys\)`
	(tx.Engine()).Delete([]byte("key1")) // want `^calls engine.Tx.Delete on what proc.Tx.Engine gave: the engine's keys`
	et := tx.Engine()
	et.Put(nil, nil) // want `calls engine.Tx.Put on what`
	var other engine.Tx = et
	other.Delete(nil)          // want `calls engine.Tx.Delete on what`
	engineOf(tx).Put(nil, nil) // want `calls engine.Tx.Put on what`
	put(tx)                    // want `calls keys.put, which calls engine.Tx.Put on what proc.Tx.Engine gave at keys/keys.go:\d+`
	et.Put(nil, nil)           //skerry:allow an own layout, made with care
	et.Get(nil)
	capability(et)
	return kv.In(tx.Engine(), 0).Count()
})

func engineOf(tx *proc.Tx) engine.Tx { return tx.Engine() }

func put(tx *proc.Tx) error { return tx.Engine().Put(nil, nil) }

// capability is handed the keys that are its own.
func capability(tx engine.Tx) error { return tx.Put(nil, nil) }
