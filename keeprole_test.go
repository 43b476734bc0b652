package skerry_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/pgserver"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/postgres"
	"github.com/skerrydb/skerry/kv"
)

// pairedEngine keeps a paired transaction from committing until the other one has begun, or waits for it.
type pairedEngine struct {
	engine.Engine
	begun func()
	both  func()
}

type pairedKey struct{}

func (p *pairedEngine) Update(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
	if ctx.Value(pairedKey{}) == nil {
		return p.Engine.Update(ctx, fn)
	}
	p.begun()
	return p.Engine.Update(ctx, func(tx engine.Tx) error {
		err := fn(tx)
		p.both()
		return err
	})
}

// takings are the calls that take a role from a user.
func takings() map[string]func(ctx context.Context, a *auth.Auth, id string) error {
	return map[string]func(ctx context.Context, a *auth.Auth, id string) error{
		"disable": func(ctx context.Context, a *auth.Auth, id string) error {
			_, err := a.Disable(ctx, id, true)
			return err
		},
		"roles": func(ctx context.Context, a *auth.Auth, id string) error {
			_, err := a.SetRoles(ctx, id, []string{"other"})
			return err
		},
		"delete": func(ctx context.Context, a *auth.Auth, id string) error { return a.Delete(ctx, id) },
	}
}

// TestKeepRoleOfTwoServers: of two servers on one PostgreSQL that each take the role of the other's last user away at the same time,
// one is refused.
func TestKeepRoleOfTwoServers(t *testing.T) {
	t.Parallel()
	at, err := url.Parse(pgserver.Shared(t).Database(t))
	if err != nil {
		t.Fatal(err)
	}
	var met atomic.Int32
	both := make(chan struct{})
	begun := func() {
		if met.Add(1) == 2 {
			close(both)
		}
	}
	wait := func() {
		select {
		case <-both:
		case <-time.After(eventually.Limit):
			t.Error("the other transaction does not begin")
		}
	}
	const role = "keeper"
	var servers [2]*auth.Auth
	var store *kv.Store
	for i := range servers {
		eng, err := postgres.Open(t.Context(), at, postgres.Options{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = eng.Close() })
		if store, err = kv.New(&pairedEngine{eng, begun, wait}, kv.Options{}); err != nil {
			t.Fatal(err)
		}
		if servers[i], err = auth.New(store, auth.Options{KeepRole: role, Argon2: auth.Params{MemoryKiB: 64, Passes: 1}}); err != nil {
			t.Fatal(err)
		}
	}
	free, err := auth.New(store, auth.Options{}) // keeps nobody
	if err != nil {
		t.Fatal(err)
	}
	for name, remove := range takings() {
		met.Store(0)
		both = make(chan struct{})
		var ids [2]string
		for i := range ids {
			u, err := servers[i].Add(t.Context(), auth.NewUser{Email: fmt.Sprintf("%s%d@example.org", name, i), Password: "correct horse battery", Verified: true, Roles: []string{role}})
			if err != nil {
				t.Fatal(err)
			}
			ids[i] = u.ID
		}
		var errs [2]error
		var all sync.WaitGroup
		for i, a := range servers {
			all.Go(func() { errs[i] = remove(context.WithValue(t.Context(), pairedKey{}, true), a, ids[1-i]) })
		}
		all.Wait()
		if (errs[0] == nil) == (errs[1] == nil) || engine.CodeOf(cmp.Or(errs[0], errs[1])) != engine.CodePreconditionFailed {
			t.Errorf("%s: %v, %v", name, errs[0], errs[1])
		}
		for _, id := range ids { // those of the next removal must be the only ones
			if err := free.Delete(t.Context(), id); err != nil && engine.CodeOf(err) != engine.CodeNotFound {
				t.Fatal(err)
			}
		}
	}
}
