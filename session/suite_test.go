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

// suiteEnv is the storage for sessions, with a clock that the suite controls.
type suiteEnv struct {
	KV  *kv.Store
	Now func() time.Time      // the engine's clock, in whole milliseconds
	Add func(d time.Duration) // advances it

	// Again closes the engine and opens it again from what it stored, or does nothing.
	// Sessions that were loaded before are not used after it.
	Again func() *kv.Store

	Whole *kv.Store // of the engine below that can scan; nil: KV
}

// Lengths of tokens.
const (
	plainToken  = 43
	partedToken = session.MaxTokenBytes
)

func tokenBytes(store *kv.Store) int {
	if store.Lacks() != nil {
		return partedToken
	}
	return plainToken
}

// parted reports whether the engine is atomic over one partition only.
func (f *fixture) parted() bool { return f.env.KV.Lacks() != nil }

// wrote reports whether pos can be the position of a write.
func (f *fixture) wrote(pos engine.Position) bool { return (pos != 0) == f.env.KV.Promises().Positions }

// runSuite tests the promises of sessions on any engine. open returns an empty suiteEnv for
// one test.
func runSuite(t *testing.T, open func(t testing.TB) suiteEnv) {
	for _, test := range []struct {
		name string
		run  func(f *fixture)
	}{
		{"Lazy", lazy},
		{"Values", values},
		{"ValuesOfAnotherType", wrongType},
		{"Forged", forged},
		{"Rotate", rotate},
		{"Login", login},
		{"LoginOfSomebodyElse", loginOther},
		{"Logout", logout},
		{"LogoutThenSet", logoutThenSet},
		{"Idle", idle},
		{"Renewal", renewal},
		{"Absolute", absolute},
		{"ShorterLives", shorter},
		{"EdgeOfLife", edgeOfLife},
		{"Namespaces", namespaces},
		{"Describe", describe},
		{"List", list},
		{"Revoke", revoke},
		{"RevokeAll", revokeAll},
		{"PerUser", perUser},
		{"InTransaction", inTransaction},
		{"SaveAgain", saveAgain},
		{"BlindSetsStay", blind},
		{"Conflict", conflict},
		{"ConflictKeepsNothing", conflictWhole},
		{"UpdateRace", updateRace},
		{"UpdateSeesPending", updatePending},
		{"TwoRotations", twoRotations},
		{"TwoLogins", twoLogins},
		{"RevokedMeanwhile", revokedMeanwhile},
		{"RenewalAfterRevocation", renewalAfterRevocation},
		{"RotatedThenLogout", rotatedThenLogout},
		{"RotatedThenLogin", rotatedThenLogin},
		{"Limits", limits},
		{"Model", model},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := &fixture{T: t, env: open(t)}
			f.use(session.Options{})
			test.run(f)
		})
	}
}

// fixture is one test of the suite.
type fixture struct {
	*testing.T
	env suiteEnv
	o   session.Options
	st  *session.Store
}

// use replaces f's store by one with o.
func (f *fixture) use(o session.Options) {
	f.Helper()
	st, err := session.New(f.env.KV, o)
	if err != nil {
		f.Fatal(err)
	}
	f.o, f.st = o, st
}

// again reopens everything if the suiteEnv supports it.
func (f *fixture) again() {
	f.Helper()
	if f.env.Again != nil {
		f.env.KV = f.env.Again()
		f.use(f.o)
	}
}

// load loads a session that must exist.
func (f *fixture) load(token string) *session.Session {
	f.Helper()
	return load(f, f.st, token)
}

// gone fails unless token is unknown.
func (f *fixture) gone(token, why string) {
	f.Helper()
	if s, err := f.st.Load(f.Context(), token, engine.Read{}); s != nil || !errors.Is(err, session.ErrNoSession) {
		f.Errorf("%s: the token is still known (%v)", why, err)
	}
}

// save saves a session and fails the test on errors.
func (f *fixture) save(s *session.Session) (token string) {
	f.Helper()
	return save(f, s)
}

// refused fails unless saving s returns code.
func (f *fixture) refused(s *session.Session, code engine.Code) {
	f.Helper()
	token, pos, err := s.Save(f.Context())
	if engine.CodeOf(err) != code || token != "" || pos != 0 {
		f.Errorf("save: token %q, position %d, error %v, want %s", token, pos, err, code)
	}
}

// begin returns the token of a new session of user, or of an anonymous one if user is "",
// with a value.
func (f *fixture) begin(user string) string {
	f.Helper()
	s := f.st.New()
	set(f, s, word, "begun")
	if user != "" {
		s.Login(user)
	}
	return f.save(s)
}

// word and number are values of the suite's sessions.
var (
	word   = session.NewKey[string]("word")
	number = session.NewKey[int]("number")
)

// set sets a value and fails the test on errors.
func set[T any](f *fixture, s *session.Session, k session.Key[T], v T) {
	f.Helper()
	if err := k.Set(s, v); err != nil {
		f.Fatalf("set %s: %v", k.Name(), err)
	}
}

// want fails unless s has the value under k.
func want[T comparable](f *fixture, s *session.Session, k session.Key[T], v T) {
	f.Helper()
	if got, ok, err := k.Get(s); got != v || !ok || err != nil {
		f.Errorf("get %s: %v %v %v, want %v", k.Name(), got, ok, err, v)
	}
}

// wantNone fails if s has a value under k.
func wantNone[T any](f *fixture, s *session.Session, k session.Key[T]) {
	f.Helper()
	if got, ok, err := k.Get(s); ok || err != nil {
		f.Errorf("get %s: %v %v, want none", k.Name(), got, err)
	}
}

// handles returns the handles of user's list, in its order.
func (f *fixture) handles(user string) (hs []string) {
	f.Helper()
	all, err := f.st.List(f.Context(), user)
	if err != nil {
		f.Fatalf("list: %v", err)
	}
	for _, i := range all {
		hs = append(hs, i.Handle)
	}
	return hs
}

// update runs fn as a transaction of the caller.
func (f *fixture) update(fn func(tx engine.Tx) error) error {
	_, err := f.env.KV.Update(context.WithoutCancel(f.Context()), 0, func(t *kv.Tx) error { return fn(t.Engine()) })
	return err
}
