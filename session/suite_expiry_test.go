package session_test

import (
	"errors"
	"strings"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/session"
)

// short are lifetimes short enough for tests.
var short = session.Options{Idle: 10 * time.Second, Absolute: time.Minute, RenewShare: 0.2}

// idle checks that unused sessions end, to the millisecond.
func idle(f *fixture) {
	f.use(short)
	token := f.begin("7")
	at := f.env.Now()
	s := f.load(token)
	if !s.Created().Equal(at) || !s.LastSeen().Equal(at) || !s.Expires().Equal(at.Add(f.o.Idle)) {
		f.Errorf("at %v: created %v, last seen %v, expires %v", at, s.Created(), s.LastSeen(), s.Expires())
	}
	f.env.Add(f.o.Idle - time.Millisecond)
	f.again()
	s = f.load(token)
	f.env.Add(time.Millisecond)
	f.gone(token, "idle")
	if hs := f.handles("7"); len(hs) != 0 {
		f.Errorf("listed: %v", hs)
	}
	set(f, s, number, 1)
	f.refused(s, session.CodeNoSession)
	f.gone(token, "saved after its end")
}

// renewal checks that a use is recorded when its share of the life has passed, and that the
// session then lives on from there.
func renewal(f *fixture) {
	f.use(short)
	token := f.begin("7")
	share := 2 * time.Second
	f.env.Add(share - time.Millisecond)
	if s := f.load(token); s.NeedsSave() || s.Changed() {
		f.Error("a renewal is due too early")
	}
	f.env.Add(time.Millisecond)
	s, other := f.load(token), f.load(token)
	if !s.NeedsSave() || s.Changed() {
		f.Errorf("a renewal is not due: to be saved %v, changed %v", s.NeedsSave(), s.Changed())
	}
	seen := f.env.Now()
	if f.save(s) != "" || s.NeedsSave() || !s.LastSeen().Equal(seen) || !s.Expires().Equal(seen.Add(f.o.Idle)) {
		f.Errorf("renewed: last seen %v, expires %v", s.LastSeen(), s.Expires())
	}
	f.env.Add(time.Second)
	if _, pos, err := other.Save(f.Context()); err != nil || pos != 0 || !other.LastSeen().Equal(seen) {
		f.Errorf("it was renewed a second time: position %d, %v, last seen %v", pos, err, other.LastSeen())
	}
	f.env.Add(8 * time.Second) // 9 s after the renewal, 11 s after the start
	f.again()
	s = f.load(token)
	want(f, s, word, "begun")
	set(f, s, number, 1) // a change renews as well
	f.save(s)
	f.env.Add(9 * time.Second)
	f.load(token)
	f.env.Add(time.Second)
	f.gone(token, "idle after renewals")
}

// absolute checks that no use extends a session beyond its absolute life.
func absolute(f *fixture) {
	f.use(short)
	token := f.begin("7")
	end := f.env.Now().Add(f.o.Absolute)
	for range 11 {
		f.env.Add(5 * time.Second)
		f.save(f.load(token))
	}
	s := f.load(token)
	if !s.Expires().Equal(end) {
		f.Errorf("expires %v, want %v", s.Expires(), end)
	}
	f.env.Add(4 * time.Second)
	s.Rotate()
	token = f.save(s)
	f.again()
	f.env.Add(end.Sub(f.env.Now()) - time.Millisecond)
	s = f.load(token)
	s.Login("7") // starts a new life
	next := f.save(s)
	f.env.Add(time.Millisecond)
	f.gone(token, "too old")
	f.load(next)
	f.env.Add(f.o.Idle)
	f.gone(next, "idle")
}

// shorter checks that shorter configured lives apply to existing sessions.
func shorter(f *fixture) {
	token := f.begin("7")
	long := f.load(token)
	f.env.Add(20 * time.Second)
	set(f, long, number, 1) // used now, so that its idle life does not end it
	f.save(long)
	f.env.Add(20 * time.Second)
	f.use(short)
	f.gone(token, "idle by the new options")
	if hs := f.handles("7"); len(hs) != 0 {
		f.Errorf("listed: %v", hs)
	}
	f.use(session.Options{Absolute: session.DefaultIdle})
	if s := f.load(token); !s.Expires().Equal(long.Created().Add(session.DefaultIdle)) {
		f.Errorf("expires %v", s.Expires())
	}
	f.use(session.Options{})
	f.load(token)
	f.use(short)
	if n, _, err := f.st.RevokeAll(f.Context(), "7"); err != nil {
		f.Errorf("revoked %d: %v", n, err)
	}
	f.use(session.Options{})
	f.gone(token, "revoked")
}

// edgeOfLife checks that a session lives up to its last millisecond and not in the next
// one, even if its options and not its stored expiry determine that.
func edgeOfLife(f *fixture) {
	for name, o := range map[string]session.Options{"stored": {}, "by the new options": short} {
		f.use(session.Options{})
		token := f.begin("7")
		f.use(o)
		s := f.load(token)
		f.env.Add(s.Expires().Sub(s.LastSeen()) - time.Millisecond)
		f.load(token)
		if hs := f.handles("7"); len(hs) != 1 {
			f.Errorf("%s: in its last millisecond %d sessions are listed", name, len(hs))
		}
		f.env.Add(time.Millisecond)
		f.gone(token, "its end has come, "+name)
		if hs := f.handles("7"); len(hs) != 0 {
			f.Errorf("%s: after its end it is listed", name)
		}
	}
}

// namespaces checks that sessions of one namespace are invisible in others.
func namespaces(f *fixture) {
	names := []string{"", "a", "ab", "a-b.C_9", strings.Repeat("n", session.MaxNamespaceBytes)}
	tokens := map[string]string{}
	for _, n := range names {
		f.use(session.Options{Namespace: n})
		tokens[n] = f.begin("7")
	}
	for _, n := range names {
		f.use(session.Options{Namespace: n})
		for of, token := range tokens {
			_, err := f.st.Load(f.Context(), token, engine.Read{})
			if of == n && err != nil || of != n && !errors.Is(err, session.ErrNoSession) {
				f.Errorf("token of %q in %q: %v", of, n, err)
			}
		}
		hs := f.handles("7")
		if len(hs) != 1 {
			f.Errorf("namespace %q lists %v", n, hs)
		}
		for _, of := range names {
			f.use(session.Options{Namespace: of})
			if _, err := f.st.Revoke(f.Context(), "7", hs[0]); of != n && !errors.Is(err, session.ErrNoSession) {
				f.Errorf("handle of %q in %q: %v", n, of, err)
			} else if of == n && err != nil {
				f.Errorf("revoke in %q: %v", n, err)
			}
		}
		f.use(session.Options{Namespace: n})
		f.gone(tokens[n], "revoked")
	}
	f.use(session.Options{Namespace: "shared"}) // of two applications
	token := f.begin("7")
	f.use(session.Options{Namespace: "shared"})
	want(f, f.load(token), word, "begun")
}

// describe checks that the client's description is cut, and is not a reason to write.
func describe(f *fixture) {
	s := f.st.New()
	s.Describe("one")
	set(f, s, number, 1)
	token := f.save(s)
	f.again()
	s = f.load(token)
	if s.Label() != "one" {
		f.Errorf("label %q", s.Label())
	}
	s.Describe(strings.Repeat("é", 200) + "\xff")
	if s.NeedsSave() || s.Label() != strings.Repeat("é", session.MaxLabelBytes/2) {
		f.Errorf("label of %d bytes, to be saved %v", len(s.Label()), s.NeedsSave())
	}
	set(f, s, number, 2)
	f.save(s)
	if l := f.load(token).Label(); l != strings.Repeat("é", session.MaxLabelBytes/2) {
		f.Errorf("stored label of %d bytes", len(l))
	}
	s.Describe("a\xffb")
	if s.Label() != "ab" {
		f.Errorf("label %q", s.Label())
	}
	set(f, s, number, 3)
	f.save(s)
	other := f.load(token)
	other.Describe("other")
	set(f, other, number, 4)
	f.save(other)
	set(f, s, number, 5) // without a description this time
	f.save(s)
	if l := f.load(token).Label(); l != "other" {
		f.Errorf("label %q, a later request has said %q", l, "other")
	}
}
