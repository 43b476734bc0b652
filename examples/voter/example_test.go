package voter_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/examples/voter"
	"github.com/skerrydb/skerry/proc"
)

// In the same process, a procedure is a function with types.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "voter-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := embedded.Open(dir, embedded.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	set, err := proc.New(db, proc.Options{}, voter.Procedures()...)
	if err != nil {
		log.Fatal(err)
	}
	if _, _, err := voter.Initialize.Call(ctx, set, voter.InitializeIn{Contestants: 6}); err != nil {
		log.Fatal(err)
	}

	call := voter.VoteIn{Phone: 212_555_0123, Contestant: 3, MaxVotes: 2}
	for range 3 {
		cast, _, err := voter.Vote.Call(ctx, set, call)
		fmt.Printf("%d %q\n", cast, engine.CodeOf(err))
	}
	results, _, err := voter.Results.Call(ctx, set, struct{}{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%+v\n", results[0])
	// Output:
	// 1 ""
	// 2 ""
	// 0 "too_many_votes"
	// {Contestant:3 Name:Cato Holm Votes:2 BestState:NY}
}
