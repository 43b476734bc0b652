package sqldriver_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/skerrydb/skerry/client"
	"github.com/skerrydb/skerry/client/sqldriver"
)

// TestPassword checks that a wrong password is reported, but not repeated in the error.
func TestPassword(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.end()
	s.pass = "right"
	s.start(t)
	for user, ok := range map[string]bool{":right@": true, "default:right@": true, "": false, ":wrong@": false} {
		db := openDB(t, "skerry://"+user+s.addr+"/?timeout=2s")
		var n int
		err := db.QueryRowContext(t.Context(), "CALL echo_int(5)").Scan(&n)
		if (err == nil) != ok {
			t.Errorf("%q: %v", user, err)
		}
		if err != nil && (strings.Contains(err.Error(), "wrong@") || errors.Is(err, client.ErrOutcomeUnknown)) {
			t.Errorf("%q: %v", user, err)
		}
	}
}

// TestKeys checks that the real server runs a call with a key once.
func TestKeys(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	db := openDB(t, s.dsn("?once=auto"))
	db.SetMaxIdleConns(20)
	keyed := sqldriver.WithKey(t.Context(), client.NewKey())
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			var n int64
			if err := db.QueryRowContext(keyed, "CALL add('same', 5)").Scan(&n); err != nil || n != 5 {
				t.Errorf("%d, %v", n, err)
			}
			if err := db.QueryRowContext(t.Context(), "CALL add('fresh', 1)").Scan(&n); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for name, want := range map[string]int64{"same": 5, "fresh": 20} {
		var n int64
		if err := db.QueryRowContext(t.Context(), "CALL sum(?)", name).Scan(&n); err != nil || n != want {
			t.Errorf("%s is %d, not %d (%v)", name, n, want, err)
		}
	}
	if _, err := db.ExecContext(keyed, "CALL add('same', 6)"); !errors.Is(err, &client.Error{Code: "idempotency_key_reused"}) {
		t.Errorf("a key with other arguments: %v", err)
	}
}
