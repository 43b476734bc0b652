package proc_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/journal/memfs"
	"github.com/skerrydb/skerry/proc"
)

// Transfer is the argument of a procedure.
type Transfer struct {
	From   string `json:"from"`
	To     string `json:"to"`
	Amount int64  `json:"amount"`
}

func Example() {
	errPoor := engine.Errorf("not_enough_money", "there is not enough money in the account")
	deposit := proc.Define("deposit", func(tx *proc.Tx, in Transfer) (int64, error) {
		return tx.KV(0).Add([]byte(in.To), in.Amount)
	})
	transfer := proc.Define("transfer", func(tx *proc.Tx, in Transfer) (int64, error) {
		if _, err := deposit.Run(tx, in); err != nil {
			return 0, err
		}
		left, err := tx.KV(0).Add([]byte(in.From), -in.Amount)
		if err == nil && left < 0 {
			err = errPoor
		}
		return left, err
	})

	db, err := embedded.Open("data", embedded.Options{FS: memfs.New(1), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err)
	}
	defer db.Close()
	set, err := proc.New(db, proc.Options{}, deposit, transfer)
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	fmt.Println(second2(deposit.Call(ctx, set, Transfer{To: "ann", Amount: 100})))
	fmt.Println(second2(transfer.Call(ctx, set, Transfer{From: "ann", To: "ben", Amount: 30})))
	_, _, err = transfer.Call(ctx, set, Transfer{From: "ann", To: "ben", Amount: 80})
	fmt.Println(err, errors.Is(err, errPoor))
	fmt.Println(second2(deposit.Call(ctx, set, Transfer{To: "ben"})))
	// Output:
	// 100 <nil>
	// 70 <nil>
	// there is not enough money in the account [not_enough_money] true
	// 30 <nil>
}

// second2 omits the position.
func second2(n int64, _ engine.Position, err error) (int64, error) { return n, err }
