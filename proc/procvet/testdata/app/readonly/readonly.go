// Package readonly has procedures that only read, and try to write.
package readonly

import (
	"example.com/app/clean"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/proc"
)

type none = struct{}

var writer = proc.Define("writer", func(tx *proc.Tx, _ none) (int, error) {
	return 0, nested(tx)
}).Hint(nil)

var reader = proc.DefineRead("reader", func(tx *proc.Tx, _ none) (int, error) { return 0, nil }).Describe("x").Hint(nil)

// Read tries to write in every way.
var Read = proc.DefineRead("read", func(tx *proc.Tx, in none) (int, error) {
	reader.Run(tx, in)
	writer.Run(tx, in) // want `^runs the procedure writer, which writes: a write in a procedure that only reads always fails`
	clean.Read.Run(tx, clean.In{})
	clean.Vote.Run(tx, clean.In{})          // want `runs the procedure clean.Vote, which writes`
	tx.Engine().Put(nil, nil)               // want `calls engine.Tx.Put: a write in a procedure that only reads` `calls engine.Tx.Put on what proc.Tx.Engine gave`
	tx.KV(0).Set(nil, nil, kv.SetOptions{}) // want `calls kv.Tx.Set`
	return 0, nested(tx)                    // want `calls readonly.nested, which calls kv.Tx.Add`
})

func nested(tx *proc.Tx) error {
	_, err := tx.KV(0).Add(nil, 1)
	return err
}
