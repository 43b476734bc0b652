package record_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/journal/memfs"
	"github.com/skerrydb/skerry/proc"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
)

// Order is a record.
type Order struct {
	record.Meta
	Customer string `record:",required,omitzero,default=@auth.id"`
	Item     string `record:",required,max=100,index"`
	Price    string `record:",scale=2,min=0"`
	State    string `record:",options=open|paid|sent,default=open"`
}

// Orders are the records of the collection orders: customers see and create their own.
var Orders = record.Of[Order](schema.Collection{
	Name:  "orders",
	Rules: schema.Rules{List: `customer = @auth.id`, View: `customer = @auth.id`, Create: `customer = @auth.id && state = "open"`},
})

// Records as Go structs.
func ExampleOf() {
	ctx := context.Background()
	eng, err := embedded.Open("data", embedded.Options{FS: memfs.New(1), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err)
	}
	defer eng.Close()
	db, err := record.Open(eng, record.Options{})
	if err != nil {
		panic(err)
	}
	if err := db.Use(Orders); err != nil {
		panic(err)
	}

	// One operation is one transaction.
	ann, bob := db.As(ctx, record.Actor{ID: "ann"}), db.As(ctx, record.Actor{ID: "bob"})
	o := Order{Item: "tea", Price: "3.5"}
	err = Orders.Create(ann, &o)
	fmt.Println(err, o.Price, o.State, o.Customer)
	_, err = Orders.Get(bob, o.ID)
	fmt.Println(errors.Is(err, record.ErrNotFound))
	o.State = "paid"
	fmt.Println(errors.Is(Orders.Save(ann, &o), record.ErrRefused)) // there is no rule for updates

	// Several of them are one transaction of Update.
	_, err = db.Update(ctx, record.Program(), func(tx *record.Tx) error {
		o, err := Orders.Get(tx, o.ID)
		if err != nil {
			return err
		}
		o.State = "paid"
		return Orders.Save(tx, o)
	})
	got, _ := Orders.Get(ann, o.ID)
	fmt.Println(err, got.State, got.Rev)
	// Output:
	// <nil> 3.50 open ann
	// true
	// true
	// <nil> paid 2
}

// payment is the argument of pay.
type payment struct {
	Order string `json:"order"`
	Cents int64  `json:"cents"`
}

// pay takes money from an account, which is a plain key, for an order, which is a record: both or neither.
func pay(tx *proc.Tx, in payment) (left int64, err error) {
	records, err := record.From(tx, record.Program())
	if err != nil {
		return 0, err
	}
	o, err := Orders.Get(records, in.Order)
	if err != nil {
		return 0, err
	}
	if left, err = tx.KV(16).Add([]byte("cents of "+o.Customer), -in.Cents); err != nil {
		return 0, err
	}
	o.State = "paid"
	if err := Orders.Save(records, o); err != nil {
		return 0, err
	}
	if left < 0 {
		return 0, engine.Errorf("not_enough_money", "there is not enough money in the account")
	}
	return left, nil
}

// state returns the state of an order. It only reads.
func state(tx *proc.Tx, in payment) (string, error) {
	records, err := record.From(tx, record.Program())
	if err != nil {
		return "", err
	}
	o, err := Orders.Get(records, in.Order)
	if err != nil {
		return "", err
	}
	return o.State, nil
}

// Records in a procedure are part of its transaction.
func ExampleFrom() {
	ctx := context.Background()
	eng, err := embedded.Open("data", embedded.Options{FS: memfs.New(1), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err)
	}
	defer eng.Close()
	db, err := record.Open(eng, record.Options{})
	if err != nil {
		panic(err)
	}
	if err := db.Use(Orders); err != nil {
		panic(err)
	}
	fill := proc.Define("fill", func(tx *proc.Tx, in payment) (int64, error) { return tx.KV(16).Add([]byte("cents of ann"), in.Cents) })
	pay := proc.Define("pay", pay)
	state := proc.DefineRead("state", state)
	procs, err := proc.New(eng, proc.Options{Value: func(any) any { return db }}, fill, pay, state) // as a skerry.Server does
	if err != nil {
		panic(err)
	}

	_, _, err = state.Call(ctx, procs, payment{Order: "first"})
	fmt.Println(err)

	ann := db.As(ctx, record.Actor{ID: "ann"})
	o := Order{Item: "tea", Price: "3.5"}
	fmt.Println(Orders.Create(ann, &o))
	_, _, err = pay.Call(ctx, procs, payment{o.ID, 350})
	got, _ := Orders.Get(ann, o.ID)
	fmt.Println(err, "- the order is", got.State)
	_, _, err = fill.Call(ctx, procs, payment{Cents: 500})
	fmt.Println(err)
	left, _, err := pay.Call(ctx, procs, payment{o.ID, 350})
	now, _, _ := state.Call(ctx, procs, payment{Order: o.ID})
	fmt.Println(left, err, "- the order is", now)
	// Output:
	// there is no record "first" in orders [record_not_found]
	// <nil>
	// there is not enough money in the account [not_enough_money] - the order is open
	// <nil>
	// 150 <nil> - the order is paid
}
