package postgres

import (
	"net/url"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/pgserver"
	"github.com/skerrydb/skerry/engine"
)

// TestPooler opens the engine through pgbouncer. Sessions of its own work; shared ones are refused by name, and other
// programs that get them next find nothing changed.
func TestPooler(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	s := pgserver.Shared(t)
	refused := func(t *testing.T, at string, probe time.Duration, code engine.Code, text string) {
		t.Helper()
		u, err := url.Parse(at)
		if err != nil {
			t.Fatal(err)
		}
		d, err := Open(t.Context(), u, Options{limits: limits{statement: statementTime, idle: idleTime, lock: lockTime, probe: probe}})
		if err == nil {
			_ = d.Close()
		}
		wantCode(t, err, code, text)
	}
	t.Run("session", func(t *testing.T) {
		at := s.Database(t)
		b := s.Bouncer(t, "pool_mode=session", "max_client_conn=100", "default_pool_size=25")
		d := openT(t, b.URL(t, at), Options{})
		works(t, d)
		if view, update := setting(t, d, "lock_timeout"); view != "10s" || update != "10s" {
			t.Errorf("lock_timeout is %s in views and %s in updates", view, update)
		}
		direct := openT(t, at, Options{})
		last := put(t, direct, "a", "1")
		if list, err := collect(t, d, last-1, last); err != nil || len(list) != 1 {
			t.Errorf("changes through pgbouncer: %v, %v", list, err)
		}
	})
	t.Run("no reset", func(t *testing.T) {
		b := s.Bouncer(t, "pool_mode=session", "server_reset_query=")
		at := b.URL(t, s.Database(t))
		exec(t, at, "SELECT set_config('skerry.session', 'of an earlier Skerry', false)")
		refused(t, at, probeTime, engine.CodeUnsupported, "set its server_reset_query to DISCARD ALL")
	})
	t.Run("transaction", func(t *testing.T) {
		b := s.Bouncer(t, "pool_mode=transaction")
		at := b.URL(t, s.Database(t))
		exec(t, at, "SELECT 1")
		for range 3 { // as often as one likes
			refused(t, at, probeTime, engine.CodeUnsupported, "use pool_mode=session")
		}
		simple := at + "&default_query_exec_mode=simple_protocol"
		if got := query[string](t, simple, "SHOW lock_timeout"); got != "0" {
			t.Errorf("a shared session was left with lock_timeout=%s", got)
		}
	})
	t.Run("statement", func(t *testing.T) {
		b := s.Bouncer(t, "pool_mode=statement")
		refused(t, b.URL(t, s.Database(t)), probeTime, engine.CodeUnsupported, "use pool_mode=session")
	})
	t.Run("small pool", func(t *testing.T) {
		for _, mode := range []string{"session", "transaction"} {
			b := s.Bouncer(t, "pool_mode="+mode, "default_pool_size=1")
			refused(t, b.URL(t, s.Database(t)), 500*time.Millisecond, engine.CodeUnavailable, "Skerry needs up to 21 connections")
		}
	})
	t.Run("startup parameter", func(t *testing.T) {
		b := s.Bouncer(t, "pool_mode=session")
		refused(t, b.URL(t, s.Database(t))+"&work_mem=8MB", probeTime, engine.CodeInvalid, "work_mem")
	})
}
