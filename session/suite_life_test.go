package session_test

import (
	"cmp"
	"errors"
	"strings"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/session"
)

// stored counts the keys in the sessions' space.
func (f *fixture) stored() (n int) {
	f.Helper()
	_, err := cmp.Or(f.env.Whole, f.env.KV).View(f.Context(), engine.Read{}, session.DefaultSpace, func(t *kv.Tx) (err error) {
		n = 0
		for _, err := range t.Scan(nil, nil) { // Count includes tombstones
			if n++; err != nil {
				return err
			}
		}
		return err
	})
	if err != nil {
		f.Fatal(err)
	}
	return n
}

// lazy checks that a session that was only read is not stored.
func lazy(f *fixture) {
	s := f.st.New()
	wantNone(f, s, word)
	set(f, s, word, "a")
	word.Delete(s)
	s.Rotate()
	s.Describe("a browser")
	s.Logout()
	if s.Changed() || s.NeedsSave() || s.Stored() || f.save(s) != "" || f.stored() != 0 {
		f.Error("an anonymous session without values is stored")
	}
	if !s.Created().IsZero() || !s.Expires().IsZero() || !s.LastSeen().IsZero() || s.Handle() != "" || s.User() != "" {
		f.Error("a session that is not stored has times or a handle")
	}
	set(f, s, word, "b")
	if !s.NeedsSave() || f.stored() != 0 {
		f.Error("a value is not to be saved, or was at once")
	}
	token := f.save(s)
	if len(token) != tokenBytes(f.env.KV) || f.stored() != 1 || !s.Stored() || s.NeedsSave() {
		f.Errorf("saved as %q, %d keys, stored %v, still to be saved %v", token, f.stored(), s.Stored(), s.NeedsSave())
	}
	if f.save(s) != "" {
		f.Error("nothing was to be saved")
	}
	f.again()
	s = f.load(token)
	if s.NeedsSave() || s.User() != "" || s.Handle() == "" {
		f.Errorf("loaded: to be saved %v, user %q, handle %q", s.NeedsSave(), s.User(), s.Handle())
	}
	want(f, s, word, "b")
}

// values checks that values of any type are stored.
func values(f *fixture) {
	type point struct{ X, Y int }
	p := session.NewKey[point]("point")
	list := session.NewKey[[]string]("list")
	maybe := session.NewKey[*int]("maybe")
	s := f.st.New()
	set(f, s, p, point{1, -2})
	set(f, s, list, []string{"<b>", "\u2028"})
	set(f, s, maybe, nil)
	set(f, s, number, 1<<53+1)
	set(f, s, word, "")
	token := f.save(s)
	f.again()
	s = f.load(token)
	want(f, s, p, point{1, -2})
	want(f, s, maybe, nil)
	want(f, s, number, 1<<53+1)
	want(f, s, word, "")
	if v, ok, err := list.Get(s); !ok || err != nil || strings.Join(v, ",") != "<b>,\u2028" {
		f.Errorf("list %q %v %v", v, ok, err)
	}
	set(f, s, number, 5)
	word.Delete(s)
	want(f, s, number, 5)
	wantNone(f, s, word)
	if f.save(s) != "" {
		f.Error("a change of values gives a token")
	}
	f.again()
	s = f.load(token)
	want(f, s, number, 5)
	want(f, s, p, point{1, -2})
	wantNone(f, s, word)
}

// wrongType checks that a value that the program can no longer decode is an error that
// names it, and affects nothing else.
func wrongType(f *fixture) {
	token := f.begin("")
	s := f.load(token)
	v, ok, err := session.NewKey[int]("word").Get(s)
	if v != 0 || ok || !errors.Is(err, session.ErrValueType) || !strings.Contains(err.Error(), `"word" as int`) {
		f.Errorf("get a word as a number: %d %v %v", v, ok, err)
	}
	err = session.NewKey[int]("word").Update(f.Context(), s, func(int, bool) (int, error) { return 1, nil })
	if !errors.Is(err, session.ErrValueType) {
		f.Errorf("update a word as a number: %v", err)
	}
	if err := session.NewKey[func()]("f").Set(s, func() {}); !errors.Is(err, engine.ErrInvalid) || !strings.Contains(err.Error(), `"f" of func()`) {
		f.Errorf("set a function: %v", err)
	}
	set(f, s, number, 1)
	f.save(s)
	s = f.load(token)
	want(f, s, word, "begun")
	want(f, s, number, 1)
}

// forged checks that no bytes but an issued token load a session, and that none cause a
// panic.
func forged(f *fixture) {
	token := f.begin("7")
	bad := []string{
		"", "A", token[1:], token + "A", token + "\n", "\n" + token[1:], token[:42] + "\n", token[:42] + "=", token[:42] + "+",
		strings.Repeat("A", len(token)), strings.Repeat("\x00", len(token)), strings.Repeat("ü", 21) + "a",
		strings.Repeat("A", 1<<20), "../../" + token[6:], f.load(token).Handle(), strings.ToUpper(token), " " + token[1:],
	}
	for i := range token { // every bit of every character
		for bit := range 8 {
			b := []byte(token)
			b[i] ^= 1 << bit
			bad = append(bad, string(b))
		}
	}
	for _, b := range bad {
		if s, err := f.st.Load(f.Context(), b, engine.Read{}); s != nil || !errors.Is(err, session.ErrNoSession) {
			f.Errorf("load %.60q: %v", b, err)
		}
		if err := f.update(func(tx engine.Tx) error { _, err := f.st.LoadIn(tx, b); return err }); !errors.Is(err, session.ErrNoSession) {
			f.Errorf("load %.60q in a transaction: %v", b, err)
		}
	}
	f.load(token)
}

// rotate checks that the token is new, the old one is unknown, and everything else is
// unchanged.
func rotate(f *fixture) {
	for _, user := range []string{"", "7"} {
		first := f.begin(user)
		s := f.load(first)
		handle, created, expires := s.Handle(), s.Created(), s.Expires()
		f.env.Add(time.Second)
		if s.Rotate(); !s.NeedsSave() {
			f.Error("a rotation is not to be saved")
		}
		second := f.save(s)
		if second == first || len(second) != tokenBytes(f.env.KV) {
			f.Errorf("rotated from %q to %q", first, second)
		}
		f.again()
		f.gone(first, "rotated")
		s = f.load(second)
		if s.Handle() != handle || !s.Created().Equal(created) || s.User() != user || !s.Expires().Equal(expires.Add(time.Second)) {
			f.Errorf("after a rotation: handle %q, created %v, user %q, expires %v", s.Handle(), s.Created(), s.User(), s.Expires())
		}
		want(f, s, word, "begun")
		if user != "" {
			if _, err := f.st.Revoke(f.Context(), user, handle); err != nil {
				f.Errorf("revoke what was rotated: %v", err)
			}
			f.gone(second, "revoked")
		}
	}
}

// login checks that the earlier token is unknown and that the values are kept.
func login(f *fixture) {
	first := f.begin("")
	s := f.load(first)
	handle := s.Handle()
	f.env.Add(time.Hour)
	s.Login("7")
	if s.User() != "7" || !s.Changed() {
		f.Error("the login is not seen by the request")
	}
	second := f.save(s)
	f.again()
	f.gone(first, "logged in")
	s = f.load(second)
	want(f, s, word, "begun")
	if s.User() != "7" || s.Handle() == handle || !s.Created().Equal(f.env.Now()) {
		f.Errorf("user %q, handle %q after %q, created %v", s.User(), s.Handle(), handle, s.Created())
	}
	s.Login("7") // again, for example with a second factor
	third := f.save(s)
	f.gone(second, "logged in again")
	want(f, f.load(third), word, "begun")
	if hs := f.handles("7"); len(hs) != 1 || hs[0] != s.Handle() {
		f.Errorf("sessions of the user: %v", hs)
	}
	s = f.st.New()
	s.Login("")
	f.refused(s, engine.CodeInvalid)
	s = f.st.New()
	s.Login(strings.Repeat("u", session.MaxUserBytes+1))
	f.refused(s, engine.CodeLimit)
}

// loginOther checks that nobody inherits another user's values.
func loginOther(f *fixture) {
	first := f.begin("7")
	s := f.load(first)
	want(f, s, word, "begun")
	s.Login("8")
	wantNone(f, s, word)
	set(f, s, number, 1)
	second := f.save(s)
	f.again()
	f.gone(first, "another user logged in")
	s = f.load(second)
	wantNone(f, s, word)
	want(f, s, number, 1)
	if s.User() != "8" || len(f.handles("7")) != 0 || len(f.handles("8")) != 1 {
		f.Errorf("user %q; sessions %v and %v", s.User(), f.handles("7"), f.handles("8"))
	}
}

// logout checks that nothing is left.
func logout(f *fixture) {
	for _, user := range []string{"", "7"} {
		token := f.begin(user)
		s := f.load(token)
		s.Logout()
		wantNone(f, s, word)
		if s.User() != "" || s.Stored() || !s.Ended() || !s.NeedsSave() || s.Handle() != "" {
			f.Errorf("logged out: user %q, stored %v, ended %v, to be saved %v", s.User(), s.Stored(), s.Ended(), s.NeedsSave())
		}
		if f.save(s) != "" || s.Stored() || s.NeedsSave() {
			f.Error("a logout leaves a session")
		}
		f.again()
		f.gone(token, "logged out")
		if n := f.stored(); n != 0 {
			f.Errorf("%d keys are left", n)
		}
	}
}

// logoutThenSet checks that values set after a logout belong to a new session.
func logoutThenSet(f *fixture) {
	first := f.begin("7")
	s := f.load(first)
	s.Logout()
	set(f, s, number, 2)
	if s.Ended() {
		f.Error("a session that goes on has ended")
	}
	second := f.save(s)
	f.again()
	f.gone(first, "logged out")
	s = f.load(second)
	wantNone(f, s, word)
	want(f, s, number, 2)
	if s.User() != "" || len(f.handles("7")) != 0 {
		f.Errorf("user %q, sessions %v", s.User(), f.handles("7"))
	}
}
