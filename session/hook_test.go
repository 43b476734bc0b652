package session_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/session"
)

// between returns a store whose next write is preceded by r.before.
func between(t *testing.T) (*session.Store, *refusing, *clock) {
	t.Helper()
	c := newClock()
	r := &refusing{Engine: openEngine(t, c)}
	store, err := kv.New(r, kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	st, err := session.New(store, session.Options{Idle: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return st, r, c
}

// TestBetween runs one request's transaction between another request's decision to save and
// its transaction.
func TestBetween(t *testing.T) {
	add := func(old int, _ bool) (int, error) { return old + 1, nil }
	for _, c := range []struct {
		name        string
		first, then func(ctx context.Context, st *session.Store, s *session.Session) error // then runs last
		code        engine.Code                                                            // of then
		live        int                                                                    // sessions that are left
	}{
		{"save after revocation", revokeIt, setHits, session.CodeNoSession, 0},
		{"renewal after revocation", revokeIt, renewIt, session.CodeNoSession, 0},
		{"rotation after revocation", revokeIt, rotateIt, session.CodeNoSession, 0},
		{"update after revocation", revokeIt, func(ctx context.Context, _ *session.Store, s *session.Session) error {
			return hits.Update(ctx, s, add)
		}, session.CodeNoSession, 0},
		{"revocation after save", setHits, revokeIt, "", 0},
		{"revocation after renewal", renewIt, revokeIt, "", 0},
		{"revocation after rotation", rotateIt, revokeIt, "", 0},
		{"logout after rotation", rotateIt, logoutIt, "", 0},
		{"rotation after logout", logoutIt, rotateIt, session.CodeNoSession, 0},
		{"rotation after rotation", rotateIt, rotateIt, session.CodeNoSession, 1},
		{"save after rotation", rotateIt, setHits, session.CodeNoSession, 1},
		{"renewal after renewal", renewIt, renewIt, "", 1},
		{"blind set after set", setHits, setHits, "", 1},
		{"set of what was read after set", setHits, readAndSetHits, engine.CodeConflict, 1},
		{"login after revocation", revokeIt, loginIt, "", 1},
		{"login after login", loginIt, loginIt, "", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			st, r, clock := between(t)
			token := filled(t, st, "7")
			clock.Add(5 * time.Second) // a renewal is due
			one, two := load(t, st, token), load(t, st, token)
			r.before = func() error { return c.first(t.Context(), st, one) }
			if err := c.then(t.Context(), st, two); engine.CodeOf(err) != c.code {
				t.Errorf("then: %v, want %q", err, c.code)
			}
			if all, err := st.List(t.Context(), "7"); len(all) != c.live || err != nil {
				t.Errorf("%d sessions are left: %v", len(all), err)
			}
		})
	}
}

func saved(ctx context.Context, s *session.Session) error {
	_, _, err := s.Save(ctx)
	return err
}

func revokeIt(ctx context.Context, st *session.Store, s *session.Session) error {
	_, err := st.Revoke(ctx, "7", s.Handle())
	return err
}

func setHits(ctx context.Context, _ *session.Store, s *session.Session) error {
	if err := hits.Set(s, 100); err != nil {
		return err
	}
	return saved(ctx, s)
}

func readAndSetHits(ctx context.Context, st *session.Store, s *session.Session) error {
	if _, _, err := hits.Get(s); err != nil {
		return err
	}
	return setHits(ctx, st, s)
}

func renewIt(ctx context.Context, _ *session.Store, s *session.Session) error {
	if !s.NeedsSave() {
		return errors.New("no renewal is due")
	}
	return saved(ctx, s)
}

func rotateIt(ctx context.Context, _ *session.Store, s *session.Session) error {
	s.Rotate()
	return saved(ctx, s)
}

func loginIt(ctx context.Context, _ *session.Store, s *session.Session) error {
	s.Login("7")
	return saved(ctx, s)
}

func logoutIt(ctx context.Context, _ *session.Store, s *session.Session) error {
	s.Logout()
	return saved(ctx, s)
}

// TestPassedThrough checks that the engine's errors are returned, that nothing is written,
// and that the pending changes can be saved later.
func TestPassedThrough(t *testing.T) {
	for _, want := range []*engine.Error{engine.ErrNotLeader, engine.ErrOutcomeUnknown, engine.ErrMemoryFull} {
		st, r, _ := between(t)
		token := filled(t, st, "7")
		s := load(t, st, token)
		if err := hits.Set(s, 100); err != nil {
			t.Fatal(err)
		}
		s.Rotate()
		fails := map[string]func() error{
			"save":       func() error { return saved(t.Context(), s) },
			"update":     func() error { return hits.Update(t.Context(), s, func(int, bool) (int, error) { return 1, nil }) },
			"revoke":     func() error { return revokeIt(t.Context(), st, s) },
			"revoke all": func() error { _, _, err := st.RevokeAll(t.Context(), "7"); return err },
		}
		for name, call := range fails {
			r.before = func() error { return want }
			if err := call(); !errors.Is(err, want) || r.before != nil {
				t.Errorf("%s: %v, want %v", name, err, want)
			}
		}
		if v, _, err := hits.Get(load(t, st, token)); v != 7 || err != nil {
			t.Errorf("a write that failed was made: %d %v", v, err)
		}
		next := save(t, s)
		if v, _, err := hits.Get(load(t, st, next)); v != 100 || err != nil {
			t.Errorf("the save after the failed one: %d %v", v, err)
		}
	}
}
