package session_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/session"
)

// saveAgain checks that a Session can be used after it was saved.
func saveAgain(f *fixture) {
	token := f.begin("")
	s := f.load(token)
	want(f, s, word, "begun")
	set(f, s, word, "second")
	f.save(s)
	set(f, s, word, "third") // after its own write: no conflict
	f.save(s)
	s.Rotate()
	next := f.save(s)
	set(f, s, number, 4)
	f.save(s)
	other := f.load(next)
	set(f, other, word, "other")
	f.save(other)
	set(f, s, word, "fourth")
	f.refused(s, engine.CodeConflict)
	s.Logout()
	f.save(s)
	set(f, s, number, 5)
	last := f.save(s)
	f.again()
	f.gone(next, "logged out")
	s = f.load(last)
	want(f, s, number, 5)
	wantNone(f, s, word)
}

// blind checks that two requests that set different values both succeed, in either order.
func blind(f *fixture) {
	token := f.begin("")
	a, b := f.load(token), f.load(token)
	set(f, a, word, "a")
	set(f, b, number, 1)
	f.save(b)
	f.save(a)
	f.again()
	s := f.load(token)
	want(f, s, word, "a")
	want(f, s, number, 1)
	a, b = f.load(token), f.load(token)
	set(f, a, word, "first") // without reading: the last one wins
	set(f, b, word, "last")
	word2 := session.NewKey[string]("word2")
	set(f, b, word2, "x")
	number.Delete(a)
	f.save(a)
	f.save(b)
	s = f.load(token)
	want(f, s, word, "last")
	want(f, s, word2, "x")
	wantNone(f, s, number)
}

// conflict checks that a value that was read and then set must not have changed in between.
func conflict(f *fixture) {
	for name, change := range map[string]func(s *session.Session){
		"set":             func(s *session.Session) { set(f, s, word, "other") },
		"set to the same": func(s *session.Session) { set(f, s, word, "mine") },
		"delete":          func(s *session.Session) { word.Delete(s) },
	} {
		token := f.begin("")
		mine, other := f.load(token), f.load(token)
		want(f, mine, word, "begun")
		set(f, mine, word, "mine")
		change(other)
		f.save(other)
		f.refused(mine, engine.CodeConflict)
		if !engine.Retryable(errConflict(f, mine)) || !strings.Contains(errConflict(f, mine).Error(), `"word"`) {
			f.Errorf("%s: %v", name, errConflict(f, mine))
		}
		now := f.load(token)
		if v, _, _ := word.Get(now); v == "mine" && name != "set to the same" {
			f.Errorf("%s: the conflicting write was made", name)
		}
	}
	token := f.begin("")
	mine, other := f.load(token), f.load(token)
	wantNone(f, mine, number) // reading a missing value counts as reading
	set(f, mine, number, 1)
	set(f, other, number, 2)
	f.save(other)
	f.refused(mine, engine.CodeConflict)
	mine, other = f.load(token), f.load(token)
	want(f, mine, number, 2) // read but not written
	set(f, mine, word, "mine")
	set(f, other, number, 3)
	f.save(other)
	f.save(mine)
	want(f, f.load(token), number, 3)
	mine, other = f.load(token), f.load(token)
	want(f, mine, number, 3)
	number.Delete(mine)
	set(f, other, number, 4)
	f.save(other)
	f.refused(mine, engine.CodeConflict)
	want(f, f.load(token), number, 4)
}

func errConflict(f *fixture, s *session.Session) error {
	_, _, err := s.Save(f.Context())
	return err
}

// conflictWhole checks that nothing at all is written after a conflict.
func conflictWhole(f *fixture) {
	token := f.begin("7")
	mine, other := f.load(token), f.load(token)
	want(f, mine, word, "begun")
	set(f, mine, word, "mine")
	set(f, mine, number, 1)
	mine.Rotate()
	set(f, other, word, "other")
	f.save(other)
	f.refused(mine, engine.CodeConflict)
	f.again()
	s := f.load(token)
	want(f, s, word, "other")
	wantNone(f, s, number)
}

// updateRace checks that no concurrent update is lost.
func updateRace(f *fixture) {
	const browsers, rounds = 8, 25
	token := f.begin("")
	var wg sync.WaitGroup
	for i := range browsers {
		wg.Go(func() {
			for n := range rounds {
				s, err := f.st.Load(f.Context(), token, engine.Read{})
				if err != nil {
					f.Error(err)
					return
				}
				if err := number.Update(f.Context(), s, func(old int, _ bool) (int, error) { return old + 1, nil }); err != nil {
					f.Error(err)
				}
				if err := session.NewKey[int](fmt.Sprint("own", i)).Set(s, n); err != nil {
					f.Error(err)
				}
				if _, _, err := s.Save(f.Context()); err != nil {
					f.Error(err)
				}
			}
		})
	}
	wg.Wait()
	f.again()
	s := f.load(token)
	want(f, s, number, browsers*rounds)
	for i := range browsers {
		want(f, s, session.NewKey[int](fmt.Sprint("own", i)), rounds-1)
	}
}

// updatePending checks that an update continues from what the request itself has set.
func updatePending(f *fixture) {
	add := func(s *session.Session) error {
		return number.Update(f.Context(), s, func(old int, ok bool) (int, error) { return old + 10, nil })
	}
	s := f.st.New()
	if err := add(s); err != nil || s.Stored() {
		f.Fatalf("update a session that is not stored: %v", err)
	}
	want(f, s, number, 10)
	token := f.save(s)
	s, other := f.load(token), f.load(token)
	set(f, s, number, 1)
	if err := add(s); err != nil || s.Changed() {
		f.Errorf("update: %v, still changed %v", err, s.Changed())
	}
	want(f, s, number, 11)
	want(f, f.load(token), number, 11)
	if err := add(other); err != nil {
		f.Error(err)
	}
	set(f, s, number, 0) // it has read 11, but 21 is stored
	f.refused(s, engine.CodeConflict)
	if err := add(s); !errors.Is(err, engine.ErrConflict) {
		f.Errorf("update of what conflicts: %v", err)
	}
	want(f, f.load(token), number, 21)
	no := errors.New("not today")
	if err := number.Update(f.Context(), other, func(int, bool) (int, error) { return 0, no }); !errors.Is(err, no) {
		f.Errorf("update that fails: %v", err)
	}
	want(f, other, number, 21)
	if _, pos, err := other.Save(f.Context()); err != nil || !f.wrote(pos) {
		f.Errorf("the position of an update is lost: %d %v", pos, err)
	}
	other.Logout()
	if err := add(other); err != nil {
		f.Error(err)
	}
	next := f.save(other)
	want(f, f.load(next), number, 10)
	f.gone(token, "logged out")
	if err := add(s); !errors.Is(err, engine.ErrConflict) && !errors.Is(err, session.ErrNoSession) {
		f.Errorf("update of an ended session: %v", err)
	}
}

// twoRotations checks that of two concurrent rotations one succeeds, and that there is one
// session.
func twoRotations(f *fixture) {
	for _, user := range []string{"", "7"} {
		token := f.begin(user)
		a, b := f.load(token), f.load(token)
		a.Rotate()
		b.Rotate()
		set(f, b, number, 1)
		next := f.save(a)
		f.refused(b, session.CodeNoSession)
		f.again()
		f.gone(token, "rotated")
		wantNone(f, f.load(next), number)
		if n := len(f.handles("7")); user != "" && n != 1 {
			f.Errorf("%d sessions", n)
		}
	}
}

// twoLogins checks that a user who has authenticated gets a session, even if another login
// was faster or all sessions have been revoked.
func twoLogins(f *fixture) {
	token := f.begin("")
	a, b := f.load(token), f.load(token)
	want(f, b, word, "begun")
	set(f, b, word, "mine")
	a.Login("7")
	b.Login("7")
	one, two := f.save(a), f.save(b)
	f.again()
	f.gone(token, "logged in")
	want(f, f.load(one), word, "begun")
	s := f.load(two)
	want(f, s, word, "mine")
	if hs := f.handles("7"); len(hs) != 2 {
		f.Errorf("sessions: %v", hs)
	}
	if _, _, err := f.st.RevokeAll(f.Context(), "7"); err != nil {
		f.Fatal(err)
	}
	s.Login("7")
	three := f.save(s)
	f.gone(two, "revoked")
	s = f.load(three)
	wantNone(f, s, word)
	if hs := f.handles("7"); len(hs) != 1 || hs[0] != s.Handle() {
		f.Errorf("sessions: %v", hs)
	}
}

// rotatedThenLogin checks that a login ends the session that it came from, even if its
// token was rotated in the meantime.
func rotatedThenLogin(f *fixture) {
	token := f.begin("7")
	a, b := f.load(token), f.load(token)
	a.Rotate()
	next := f.save(a)
	b.Login("7")
	last := f.save(b)
	f.again()
	f.gone(token, "rotated")
	f.gone(next, "logged in anew")
	if hs := f.handles("7"); len(hs) != 1 || hs[0] != f.load(last).Handle() {
		f.Errorf("sessions: %v", hs)
	}
}

// revokedMeanwhile checks that no save restores an ended session.
func revokedMeanwhile(f *fixture) {
	for name, ask := range map[string]func(s *session.Session){
		"set":    func(s *session.Session) { set(f, s, number, 1) },
		"delete": func(s *session.Session) { word.Delete(s) },
		"rotate": func(s *session.Session) { s.Rotate() },
	} {
		token := f.begin("7")
		s, u := f.load(token), f.load(token)
		ask(s)
		if _, err := f.st.Revoke(f.Context(), "7", s.Handle()); err != nil {
			f.Fatal(err)
		}
		f.refused(s, session.CodeNoSession)
		f.refused(s, session.CodeNoSession) // nor the second time
		if err := number.Update(f.Context(), u, func(int, bool) (int, error) { return 1, nil }); !errors.Is(err, session.ErrNoSession) {
			f.Errorf("%s: update: %v", name, err)
		}
		f.again()
		f.gone(token, name)
		if hs := f.handles("7"); len(hs) != 0 || f.stored() != 0 {
			f.Errorf("%s: sessions %v, %d keys", name, hs, f.stored())
		}
	}
	token := f.begin("7")
	s := f.load(token)
	s.Logout() // an ended session can be logged out
	if _, _, err := f.st.RevokeAll(f.Context(), "7"); err != nil {
		f.Fatal(err)
	}
	f.save(s)
}

// renewalAfterRevocation checks that recording a use does not restore a session either.
func renewalAfterRevocation(f *fixture) {
	f.use(short)
	token := f.begin("7")
	f.env.Add(3 * time.Second)
	s := f.load(token)
	if !s.NeedsSave() || s.Changed() {
		f.Fatal("no renewal is due")
	}
	if _, err := f.st.Revoke(f.Context(), "7", s.Handle()); err != nil {
		f.Fatal(err)
	}
	f.refused(s, session.CodeNoSession)
	f.again()
	f.gone(token, "revoked")
	if n := f.stored(); n != 0 {
		f.Errorf("%d keys", n)
	}
}

// rotatedThenLogout checks that a logout ends the session even if another request has
// rotated the token in the meantime.
func rotatedThenLogout(f *fixture) {
	token := f.begin("7")
	a, b := f.load(token), f.load(token)
	a.Rotate()
	next := f.save(a)
	b.Logout()
	f.save(b)
	f.again()
	f.gone(next, "logged out")
	if hs := f.handles("7"); len(hs) != 0 || f.stored() != 0 {
		f.Errorf("sessions %v, %d keys", hs, f.stored())
	}
}

// limits checks that exceeding each limit is an error with a code, and that nothing is
// written.
func limits(f *fixture) {
	s := f.st.New()
	if err := word.Set(s, strings.Repeat("v", session.MaxValueBytes-1)); !errors.Is(err, engine.ErrLimit) { // one over, with its quotes
		f.Errorf("a value over the limit: %v", err)
	}
	set(f, s, word, strings.Repeat("v", session.MaxValueBytes-2))
	for _, name := range []string{"", strings.Repeat("k", session.MaxKeyBytes+1)} {
		k := session.NewKey[int](name)
		err := k.Set(s, 1)
		_, ok, err2 := k.Get(s)
		err3 := k.Update(f.Context(), s, func(int, bool) (int, error) { return 1, nil })
		if k.Delete(s); !errors.Is(err, engine.ErrInvalid) || !errors.Is(err2, engine.ErrInvalid) || !errors.Is(err3, engine.ErrInvalid) || ok {
			f.Errorf("a key of %d bytes: %v, %v, %v", len(name), err, err2, err3)
		}
	}
	set(f, s, session.NewKey[int](strings.Repeat("k", session.MaxKeyBytes)), 1)
	token := f.save(s)
	for i := range 4 { // 4 × 64 KiB are the limit, and there is some more
		set(f, s, session.NewKey[string](fmt.Sprint("big", i)), strings.Repeat("v", session.MaxValueBytes-2))
	}
	f.refused(s, engine.CodeLimit)
	wantNone(f, f.load(token), session.NewKey[string]("big0"))
	s = f.load(token)
	for i := range session.MaxValues - 2 { // in addition to the two that exist
		set(f, s, session.NewKey[int](fmt.Sprint("n", i)), i)
	}
	f.save(s)
	set(f, s, number, 1)
	f.refused(s, engine.CodeLimit)
	word.Delete(s)
	f.save(s)
	s = f.load(token)
	var err error
	for i := 0; i < 1000 && err == nil; i++ {
		err = session.NewKey[int](fmt.Sprint("m", i)).Set(s, i)
	}
	if !errors.Is(err, engine.ErrLimit) {
		f.Errorf("values without end: %v", err)
	}
	f.refused(s, engine.CodeLimit)
}
