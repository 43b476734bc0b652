package admin

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/keyspace"
	"github.com/skerrydb/skerry/kv"
)

// newEngine returns an engine that closes with the test.
func newEngine(t *testing.T) engine.Engine {
	t.Helper()
	eng, err := embedded.Open(t.TempDir(), embedded.Options{Logger: slog.New(slog.DiscardHandler), LogReserveBytes: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := eng.Close(); err != nil {
			t.Error(err)
		}
	})
	return eng
}

// newAdmin returns an admin page on an engine, as one of several servers may have it.
func newAdmin(t *testing.T, eng engine.Engine, now func() time.Time) *Admin {
	t.Helper()
	store, err := kv.New(eng, kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	a, err := New(Options{Store: store, Engine: eng, Hashing: auth.Params{MemoryKiB: 64, Passes: 1}, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

// TestLastSuperadmin: of two servers on one store that each remove the other's superadmin at the same time, one is refused.
func TestLastSuperadmin(t *testing.T) {
	t.Parallel()
	eng := newEngine(t)
	servers := [2]*Admin{newAdmin(t, eng, time.Now), newAdmin(t, eng, time.Now)}
	var ids [2]string
	for i := range ids {
		u, err := servers[i].users.Add(t.Context(), auth.NewUser{Email: fmt.Sprintf("s%d@example.org", i), Password: "correct horse battery", Verified: true, Roles: []string{RoleSuperadmin}})
		if err != nil {
			t.Fatal(err)
		}
		ids[i] = u.ID
	}
	for range 20 {
		var errs [2]error
		var all sync.WaitGroup
		for i, a := range servers {
			all.Go(func() { _, errs[i] = a.users.SetRoles(t.Context(), ids[1-i], []string{RoleViewer}) })
		}
		all.Wait()
		if (errs[0] == nil) == (errs[1] == nil) || engine.CodeOf(cmp.Or(errs[0], errs[1])) != engine.CodePreconditionFailed {
			t.Fatalf("%v, %v", errs[0], errs[1])
		}
		for _, id := range ids {
			if _, err := servers[0].users.SetRoles(t.Context(), id, []string{RoleSuperadmin}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// lines counts the lines of the log of actions.
func (a *Admin) lines(t *testing.T) (n int) {
	t.Helper()
	_, err := a.o.Store.View(t.Context(), engine.Read{}, keyspace.AdminPage, func(tx *kv.Tx) error {
		n = 0
		for _, err := range tx.ScanPrefix([]byte(logPrefix)) {
			if err != nil {
				return err
			}
			n++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestAttempts: attempts at once are one line with their number; after AttemptsEvery there is another.
func TestAttempts(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)
	a := newAdmin(t, newEngine(t), func() time.Time { return at })
	u := auth.User{ID: "x", Email: "x@example.org"}
	attempt := func(after time.Duration, request string) (begun bool) {
		l := Line{At: at.Add(after), Action: "account.login", RequestID: request, Failed: errors.New("wrong").Error()}
		begun, err := a.countAttempt(t.Context(), l, u)
		if err != nil {
			t.Error(err)
		}
		return begun
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { attempt(0, "r") })
	}
	all.Wait()
	if n := a.lines(t); n != 1 {
		t.Errorf("%d lines of attempts at once", n)
	}
	var l Line
	_, err := a.o.Store.View(t.Context(), engine.Read{}, keyspace.AdminPage, func(tx *kv.Tx) (err error) {
		_, l, err = attemptLine(tx, []byte(attemptPrefix+"account.login/x"))
		return err
	})
	if err != nil || l.Count != 8 || l.RequestID != "r" {
		t.Errorf("%+v %v", l, err)
	}
	if attempt(AttemptsEvery-time.Second, "s") || !attempt(AttemptsEvery, "t") {
		t.Error("the line does not end after AttemptsEvery")
	}
	if n := a.lines(t); n != 2 {
		t.Errorf("%d lines", n)
	}
}
