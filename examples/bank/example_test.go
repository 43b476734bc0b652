package bank_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/examples/bank"
	"github.com/skerrydb/skerry/proc"
)

// In the same process, a procedure is a function with types.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "bank-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := embedded.Open(dir, embedded.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	set, err := proc.New(db, proc.Options{}, bank.Procedures()...)
	if err != nil {
		log.Fatal(err)
	}
	for _, account := range []bank.AmountIn{{Account: "anna", Cents: 100}, {Account: "ben"}} {
		if _, _, err := bank.Open.Call(ctx, set, account); err != nil {
			log.Fatal(err)
		}
	}

	out, _, err := bank.Transfer.Call(ctx, set, bank.TransferIn{From: "anna", To: "ben", Cents: 70})
	fmt.Println(out, err)
	_, _, err = bank.Transfer.Call(ctx, set, bank.TransferIn{From: "anna", To: "ben", Cents: 70})
	fmt.Println(engine.CodeOf(err))
	anna, _, err := bank.Balance.Call(ctx, set, bank.AccountIn{Account: "anna"})
	fmt.Println(anna, err)
	// Output:
	// {30 70} <nil>
	// insufficient_funds
	// 30 <nil>
}
