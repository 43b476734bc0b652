package api_test

import (
	"context"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/skerrydb/skerry/gate"
	"github.com/skerrydb/skerry/web/api"
)

// TestGuessedPasswords: clients that guess the password over HTTP are slowed down on any connection, except on
// one that has sent the right password before.
func TestGuessedPasswords(t *testing.T) {
	raw, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := gate.New(raw, gate.Options{Max: 1})
	defer l.Close()
	nc, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	conn, err := l.Accept() // which stands for that of all requests
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	guesses := gate.NewGuesses(nil, nil)
	s := serve(t, api.Options{Password: "secret", Guesses: guesses}, func(srv *http.Server) {
		srv.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
			return gate.NewContext(ctx, conn.(*gate.Conn))
		}
	})
	ask := func(password string) (int, time.Duration) {
		start := time.Now()
		return s.do(t, "GET", "/db/", nil, "Authorization", "Bearer "+password).status, time.Since(start)
	}
	for range gate.FreeGuesses + 4 {
		if status, _ := ask("wrong"); status != http.StatusUnauthorized {
			t.Fatalf("a wrong password: %d", status)
		}
	}
	if n := guesses.Stats(); n.Wrong != gate.FreeGuesses+4 || n.Delayed < 2 {
		t.Errorf("%+v", n)
	}
	if status, took := ask("secret"); status != http.StatusOK || took < 300*time.Millisecond {
		t.Errorf("the right password after many wrong ones: %d after %v", status, took)
	}
	delayed := guesses.Stats().Delayed
	if status, took := ask("secret"); status != http.StatusOK || guesses.Stats().Delayed != delayed {
		t.Errorf("the right password again: %d after %v", status, took)
	}
	if status := s.do(t, "GET", "/db/", nil).status; status != http.StatusUnauthorized || guesses.Stats().Wrong != gate.FreeGuesses+4 {
		t.Errorf("no password: %d, and %+v", status, guesses.Stats())
	}
	ask("wrong") // over the same connection, as a proxy's has requests of many
	if ask("secret"); guesses.Stats().Delayed != delayed+1 {
		t.Errorf("after another wrong password: %+v", guesses.Stats())
	}
}
