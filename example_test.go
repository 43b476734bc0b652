package skerry_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/kv"
)

// A Go program has the database inside: a transaction is a function, and what it
// writes is durable when Update returns. The same keys can be served to others.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	dir, err := os.MkdirTemp("", "skerry-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	quiet := slog.New(slog.DiscardHandler)

	db, err := embedded.Open(dir, embedded.Options{Logger: quiet})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	store, err := kv.New(db, kv.Options{})
	if err != nil {
		log.Fatal(err)
	}

	// Both counters change, or neither does.
	pos, err := store.Update(ctx, 0, func(tx *kv.Tx) error {
		if _, err := tx.Add([]byte("account:anna"), -10); err != nil {
			return err
		}
		_, err := tx.Add([]byte("account:ben"), 10)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}

	ben, _, _, err := store.Get(ctx, engine.Read{AtLeast: pos}, 0, []byte("account:ben"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("ben has %s\n", ben.Val)

	// Serve the same keys over HTTP and the Redis protocol until ctx ends.
	srv, err := skerry.Open(db, skerry.Options{HTTP: "127.0.0.1:0", RESP: "127.0.0.1:0", Logger: quiet})
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()
	stop() // a real program waits for a signal here
	if err := srv.Run(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("stopped cleanly")
	// Output:
	// ben has 10
	// stopped cleanly
}
