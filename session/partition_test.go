package session_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/session"
)

// openParted returns a fixture on an engine that is atomic over one partition, with a hook
// before its next update.
func openParted(t *testing.T, o session.Options) (*fixture, *refusing) {
	t.Helper()
	var r *refusing
	env := partitioned(t, func(eng engine.Engine) engine.Engine {
		r = &refusing{Engine: eng}
		return r
	})
	f := &fixture{T: t, env: env}
	f.use(o)
	return f, r
}

// TestMove stops a save between its two transactions, where it needs two: then the old
// session has ended and there is no other. It also revokes all sessions in between.
func TestMove(t *testing.T) {
	cut := errors.New("cut off")
	for name, c := range map[string]struct {
		from string // the user before
		ask  func(f *fixture, s *session.Session)
		user string // the user after
	}{
		"login":               {"", func(_ *fixture, s *session.Session) { s.Login("7") }, "7"},
		"login of another":    {"8", func(_ *fixture, s *session.Session) { s.Login("7") }, "7"},
		"logout and a value":  {"8", func(f *fixture, s *session.Session) { s.Logout(); set(f, s, number, 1) }, ""},
		"anonymous and anew":  {"", func(f *fixture, s *session.Session) { s.Logout(); set(f, s, number, 1) }, ""},
		"the same user again": {"7", func(_ *fixture, s *session.Session) { s.Logout(); s.Login("7") }, "7"},
	} {
		for _, fails := range []bool{true, false} {
			f, r := openParted(t, session.Options{})
			token := f.begin(c.from)
			s := f.load(token)
			c.ask(f, s)
			moves := name != "the same user again"
			between := func() error {
				f.gone(token, name)
				if n := f.stored(); n != 0 {
					f.Errorf("%s: %d keys between the transactions", name, n)
				}
				if fails {
					return cut
				}
				_, _, err := f.st.RevokeAll(f.Context(), "7")
				return err
			}
			r.before = func() error {
				if moves {
					r.before = between
				}
				return nil
			}
			next, _, err := s.Save(f.Context())
			if moves && fails {
				if !errors.Is(err, cut) || engine.CodeOf(err) != engine.CodeOutcomeUnknown || next != "" {
					t.Errorf("%s, cut off: %q, %v", name, next, err)
				}
				next, _, err = s.Save(f.Context()) // again
			}
			if err != nil || len(next) != partedToken {
				t.Fatalf("%s: %q, %v", name, next, err)
			}
			if user := f.load(next).User(); user != c.user {
				t.Errorf("%s: user %q", name, user)
			}
			if a, b := len(f.handles("7")), len(f.handles("8")); c.user == "7" && a != 1 || b != 0 {
				t.Errorf("%s: %d and %d sessions", name, a, b)
			}
		}
	}
}

// TestForgedPartition checks that a token with the partition of a user, which is no secret,
// is as unknown as any other, and that nothing is written.
func TestForgedPartition(t *testing.T) {
	f, r := openParted(t, session.Options{})
	raw := func(token string) []byte {
		b, err := base64.RawURLEncoding.DecodeString(token)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	const user = "somebody@example.org"
	token, other, anonymous := f.begin(user), f.begin(user), f.begin("")
	if !bytes.Equal(raw(token)[:16], raw(other)[:16]) || bytes.Contains(raw(token), []byte(user[:4])) {
		t.Errorf("tokens of one user: %x, %x", raw(token), raw(other))
	}
	n := f.stored()
	r.before = func() error { t.Error("a forged token writes"); return nil }
	for _, b := range [][]byte{
		slices.Concat(raw(token)[:16], raw(anonymous)[16:]),
		slices.Concat(raw(anonymous)[:16], raw(token)[16:]),
		slices.Concat(raw(token)[:16], make([]byte, 32)),
		make([]byte, 48),
		raw(token)[16:], // as on an engine that promises everything
	} {
		forged := base64.RawURLEncoding.EncodeToString(b)
		f.gone(forged, "forged")
		if s, err := f.st.Load(t.Context(), forged, engine.Read{}); s != nil || err.Error() != session.ErrNoSession.Error() {
			t.Errorf("%x: %v", b, err)
		}
	}
	if r.before = nil; f.stored() != n {
		t.Errorf("%d keys, want %d", f.stored(), n)
	}
}

// TestPartedTransactions checks that sessions in a caller's transaction stay in one
// partition, and that a refused one writes nothing.
func TestPartedTransactions(t *testing.T) {
	f, _ := openParted(t, session.Options{})
	token, anonymous := f.begin("7"), f.begin("")
	for name, fn := range map[string]func(tx engine.Tx) error{
		"two users": func(tx engine.Tx) error {
			return errors.Join(f.st.RevokeAllIn(tx, "7"), f.st.RevokeAllIn(tx, "8"))
		},
		"another key": func(tx engine.Tx) error {
			return errors.Join(f.st.RevokeAllIn(tx, "7"), tx.Put([]byte("k"), nil))
		},
		"a login": func(tx engine.Tx) error {
			s, err := f.st.LoadIn(tx, anonymous)
			if err != nil {
				return err
			}
			s.Login("7")
			_, _, err = s.SaveIn(tx)
			return err
		},
	} {
		if err := f.update(fn); !errors.Is(err, engine.ErrCrossPartition) {
			t.Errorf("%s: %v", name, err)
		}
		f.load(token)
		f.load(anonymous)
	}
	if err := f.update(func(tx engine.Tx) error { return f.st.RevokeAllIn(tx, "7") }); err != nil {
		t.Error(err)
	}
	f.gone(token, "revoked")
}

// TestPartedRace checks that a revocation of all sessions ends those whose logins and
// rotations were acknowledged before it began, and that lists and sessions agree afterwards.
func TestPartedRace(t *testing.T) {
	f, _ := openParted(t, session.Options{PerUser: 5})
	var mu sync.Mutex // guards done
	var done []string // tokens that a browser has received
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for range 25 {
				s := f.st.New()
				if err := word.Set(s, fmt.Sprint(i)); err != nil {
					t.Error(err)
				}
				for _, ask := range []func(){func() {}, func() { s.Login("7") }, s.Rotate} {
					ask()
					token, _, err := s.Save(t.Context())
					if err != nil && !errors.Is(err, session.ErrNoSession) {
						t.Error(err)
					}
					if err != nil {
						break
					}
					if s.User() != "" {
						mu.Lock()
						done = append(done, token)
						mu.Unlock()
					}
				}
			}
		})
	}
	for range 10 {
		mu.Lock()
		before := slices.Clone(done)
		mu.Unlock()
		if _, _, err := f.st.RevokeAll(t.Context(), "7"); err != nil {
			t.Error(err)
		}
		for _, token := range before {
			f.gone(token, "revoked with all")
		}
	}
	wg.Wait()
	if hs := f.handles("7"); len(hs) > 5 {
		t.Errorf("%d sessions", len(hs))
	}
}

// TestFullList checks that the list of as many sessions as a user may have fits into the
// smallest value that an engine may allow, and that entries of ended sessions leave it.
func TestFullList(t *testing.T) {
	o := short
	o.PerUser = session.MaxPerUser
	f, _ := openParted(t, o)
	login := func(n int) {
		if err := f.update(func(tx engine.Tx) error {
			for range n {
				s := f.st.New()
				s.Login("7")
				if _, _, err := s.SaveIn(tx); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	size := func() (n int) {
		_, err := f.env.Whole.View(t.Context(), engine.Read{}, session.DefaultSpace, func(tx *kv.Tx) error {
			for it, err := range tx.ScanPrefix([]byte("l")) {
				if n = len(it.Val); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	login(session.MaxPerUser)
	if n := size(); n < session.MaxPerUser*50 || n > 64<<10-25 { // kv adds up to 25 bytes
		t.Errorf("the list of %d sessions has %d bytes", session.MaxPerUser, n)
	}
	login(2)
	if hs := f.handles("7"); len(hs) != session.MaxPerUser {
		t.Errorf("%d sessions", len(hs))
	}
	f.env.Add(o.Absolute)
	login(1)
	if n := size(); n > 100 {
		t.Errorf("the list of one session has %d bytes", n)
	}
	if n, _, err := f.st.RevokeAll(t.Context(), "7"); n != 1 || err != nil || f.stored() != 0 {
		t.Errorf("revoked %d, %d keys are left: %v", n, f.stored(), err)
	}
}
