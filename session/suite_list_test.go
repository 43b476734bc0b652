package session_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/session"
)

// list checks that a user's own sessions are listed, most recently used first, without
// tokens.
func list(f *fixture) {
	var tokens []string
	for i := range 3 {
		s := f.st.New()
		s.Login("7")
		s.Describe(fmt.Sprint("browser ", i))
		tokens = append(tokens, f.save(s))
		f.env.Add(time.Minute)
	}
	f.begin("70")
	f.begin("")
	s := f.load(tokens[0])
	set(f, s, number, 1)
	f.save(s)
	f.again()
	all, err := f.st.List(f.Context(), "7")
	if err != nil || len(all) != 3 {
		f.Fatalf("list: %+v %v", all, err)
	}
	for i, n := range []int{0, 2, 1} {
		s := f.load(tokens[n])
		want := session.Info{Handle: s.Handle(), Label: fmt.Sprint("browser ", n), Created: s.Created(), LastSeen: s.LastSeen(), Expires: s.Expires()}
		if all[i] != want {
			f.Errorf("item %d: %+v, want %+v", i, all[i], want)
		}
		if slices.Contains(tokens, all[i].Handle) {
			f.Error("a handle is a token")
		}
	}
	if hs := f.handles("nobody"); len(hs) != 0 {
		f.Errorf("sessions of nobody: %v", hs)
	}
	for user, code := range map[string]engine.Code{"": engine.CodeInvalid, strings.Repeat("u", session.MaxUserBytes+1): engine.CodeLimit} {
		_, err := f.st.List(f.Context(), user)
		_, err2 := f.st.Revoke(f.Context(), user, all[0].Handle)
		_, _, err3 := f.st.RevokeAll(f.Context(), user)
		if engine.CodeOf(err) != code || engine.CodeOf(err2) != code || engine.CodeOf(err3) != code {
			f.Errorf("a user of %d bytes: %v, %v, %v", len(user), err, err2, err3)
		}
	}
}

// revoke revokes one of a user's own sessions.
func revoke(f *fixture) {
	one, two, other := f.begin("7"), f.begin("7"), f.begin("8")
	handle, others := f.load(one).Handle(), f.load(other).Handle()
	for _, h := range []string{"", "x", others, handle + "A", handle[1:], one, strings.Repeat("A", 1<<16), handle[:21] + "\n"} {
		if _, err := f.st.Revoke(f.Context(), "7", h); !errors.Is(err, session.ErrNoSession) {
			f.Errorf("revoke %.40q: %v", h, err)
		}
	}
	f.load(one)
	if pos, err := f.st.Revoke(f.Context(), "7", handle); err != nil || !f.wrote(pos) {
		f.Fatalf("revoke: %d %v", pos, err)
	}
	f.again()
	f.gone(one, "revoked")
	f.load(two)
	f.load(other)
	if _, err := f.st.Revoke(f.Context(), "7", handle); !errors.Is(err, session.ErrNoSession) {
		f.Errorf("revoke it again: %v", err)
	}
	if hs := f.handles("7"); len(hs) != 1 || hs[0] != f.load(two).Handle() {
		f.Errorf("left: %v", hs)
	}
}

// revokeAll revokes all sessions of one user, or all but the present one.
func revokeAll(f *fixture) {
	var tokens []string
	for range 5 {
		tokens = append(tokens, f.begin("7"))
	}
	other, near := f.begin("8"), f.begin("70")
	keep := f.load(tokens[2]).Handle()
	if n, pos, err := f.st.RevokeAll(f.Context(), "7", keep); n != 4 || !f.wrote(pos) || err != nil {
		f.Errorf("revoked %d at %d: %v", n, pos, err)
	}
	f.again()
	for i, token := range tokens {
		if i != 2 {
			f.gone(token, "revoked")
		}
	}
	f.load(tokens[2])
	if n, _, err := f.st.RevokeAll(f.Context(), "7"); n != 1 || err != nil {
		f.Errorf("revoked %d: %v", n, err)
	}
	f.gone(tokens[2], "revoked")
	if n, _, err := f.st.RevokeAll(f.Context(), "7"); n != 0 || err != nil {
		f.Errorf("revoked %d: %v", n, err)
	}
	f.load(other)
	f.load(near)
}

// perUser checks that a login over the limit ends the least recently used session.
func perUser(f *fixture) {
	o := short
	o.PerUser = 3
	f.use(o)
	var tokens []string
	begin := func() {
		f.env.Add(100 * time.Millisecond)
		tokens = append(tokens, f.begin("7"))
	}
	for range 3 {
		begin()
	}
	f.env.Add(time.Second)
	s := f.load(tokens[0])
	set(f, s, number, 1)
	f.save(s)
	begin()
	f.again()
	f.gone(tokens[1], "over the limit")
	s = f.load(tokens[2])
	s.Login("7") // replaces its own old session
	tokens[2] = f.save(s)
	s = f.load(tokens[3])
	s.Rotate()
	tokens[3] = f.save(s)
	for _, i := range []int{0, 2, 3} {
		f.load(tokens[i])
	}
	if hs := f.handles("7"); len(hs) != 3 {
		f.Errorf("listed: %v", hs)
	}
	f.env.Add(o.Idle) // all end, but their entries still exist
	for range 3 {
		begin()
	}
	for _, token := range tokens[4:] {
		f.load(token)
	}
	if hs := f.handles("7"); len(hs) != 3 {
		f.Errorf("listed: %v", hs)
	}
	o.PerUser = 1 // configured later
	f.use(o)
	begin()
	if hs := f.handles("7"); len(hs) != 1 {
		f.Errorf("listed: %v", hs)
	}
	f.load(tokens[7])
}

// inTransaction checks that operations in one transaction are committed together.
func inTransaction(f *fixture) {
	token, other := f.begin("7"), f.begin("7")
	handle := f.load(token).Handle()
	no := errors.New("not today")
	if err := f.update(func(tx engine.Tx) error {
		if err := f.st.RevokeAllIn(tx, "7"); err != nil {
			return err
		}
		if _, err := f.st.LoadIn(tx, token); !errors.Is(err, session.ErrNoSession) {
			f.Errorf("load in the transaction that revoked it: %v", err)
		}
		return no
	}); !errors.Is(err, no) {
		f.Fatal(err)
	}
	f.load(token)
	s, user := f.st.New(), "9"
	if f.parted() {
		user = "7" // of the same partition
	}
	s.Login(user)
	var issued string
	var committed func(engine.Position)
	save := func(fail error) error {
		return f.update(func(tx engine.Tx) (err error) {
			if err := f.st.RevokeOthersIn(tx, "7", handle); err != nil {
				return err
			}
			if issued, committed, err = s.SaveIn(tx); err != nil {
				return err
			}
			if in, err := f.st.LoadIn(tx, issued); err != nil || in.User() != user {
				f.Errorf("load what the transaction saved: %v", err)
			}
			return fail
		})
	}
	if err := save(no); !errors.Is(err, no) || !s.NeedsSave() || s.Stored() {
		f.Fatalf("undone: %v, to be saved %v", err, s.NeedsSave())
	}
	f.gone(issued, "undone")
	f.load(other)
	if err := save(nil); err != nil || s.Stored() {
		f.Fatalf("done: %v, already known to be %v", err, s.Stored())
	}
	if committed(7); s.NeedsSave() || !s.Stored() {
		f.Fatalf("committed: to be saved %v", s.NeedsSave())
	}
	if _, pos, err := s.Save(f.Context()); pos != 7 || err != nil {
		f.Errorf("the position of the commit is lost: %d %v", pos, err)
	}
	f.again()
	f.load(issued)
	f.load(token)
	f.gone(other, "revoked with the others")
}
