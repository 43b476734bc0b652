package auth_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/kv"
)

// A user registers, follows the link in the email and logs in.
func Example() {
	dir, err := os.MkdirTemp("", "auth")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := embedded.Open(dir, embedded.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if err := walk(context.Background(), db); err != nil {
		log.Print(err)
	}
	// Output:
	// verify Ann@example.com
	// Ann@Example.com is verified: true
	// log in: the email address or the password is wrong [wrong_credentials]
}

func walk(ctx context.Context, db *embedded.DB) error {
	store, err := kv.New(db, kv.Options{})
	if err != nil {
		return err
	}
	users, err := auth.New(store, auth.Options{Issuer: "Example"})
	if err != nil {
		return err
	}
	const email, password, from = "Ann@Example.com", "correct horse battery staple", "192.0.2.1"
	msg, err := users.Register(ctx, email, password, from)
	if err != nil {
		return err
	}
	fmt.Println(msg.Kind, msg.To)
	if _, err := users.Verify(ctx, msg.Token, auth.Proof{Password: password}); err != nil {
		return err
	}
	u, err := users.Login(ctx, email, password, from)
	if err != nil {
		return err
	}
	fmt.Println(email, "is verified:", u.Verified())
	_, err = users.Login(ctx, email, "a wrong password", from)
	fmt.Println(err)
	return nil
}
