package session_test

import (
	"errors"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/session"
)

var name = session.NewKey[string]("name")

// TestLife is one session from its first hit to its end.
func TestLife(t *testing.T) {
	st, store, _ := open(t, session.Options{})
	s := st.New()
	if s.NeedsSave() || save(t, s) != "" || s.User() != "" || s.Handle() != "" {
		t.Error("an anonymous hit writes something")
	}
	if err := name.Set(s, "Ada"); err != nil {
		t.Fatal(err)
	}
	first := save(t, s)
	if len(first) != tokenBytes(store) {
		t.Fatalf("token %q", first)
	}
	s = load(t, st, first)
	if v, ok, err := name.Get(s); v != "Ada" || !ok || err != nil || s.NeedsSave() {
		t.Errorf("name %q %v %v", v, ok, err)
	}
	s.Login("7")
	s.Describe("Firefox")
	second := save(t, s)
	if _, err := st.Load(t.Context(), first, engine.Read{}); !errors.Is(err, session.ErrNoSession) {
		t.Errorf("the token before the login: %v", err)
	}
	s = load(t, st, second)
	if v, _, _ := name.Get(s); v != "Ada" || s.User() != "7" {
		t.Errorf("after login: name %q, user %q", v, s.User())
	}
	all, err := st.List(t.Context(), "7")
	if err != nil || len(all) != 1 || all[0].Handle != s.Handle() || all[0].Label != "Firefox" {
		t.Errorf("list: %+v %v", all, err)
	}
	s.Logout()
	if save(t, s) != "" || s.Stored() {
		t.Error("a logout gives a token")
	}
	if _, err := st.Load(t.Context(), second, engine.Read{}); !errors.Is(err, session.ErrNoSession) {
		t.Errorf("after logout: %v", err)
	}
	if all, err := st.List(t.Context(), "7"); err != nil || len(all) != 0 {
		t.Errorf("list: %+v %v", all, err)
	}
}
