package auth_test

import (
	"strings"
	"testing"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/engine"
)

// TestProfile: the data of a registration belongs to the user, also once verified. Another registration of the
// address replaces it.
func TestProfile(t *testing.T) {
	t.Parallel()
	w, ctx := open(t, auth.Options{}), t.Context()
	_, err := w.RegisterUser(ctx, auth.Registration{Email: "ann@example.com", Password: "password of a thief", Name: "thief", Profile: map[string]string{"city": "none", "more": "x"}})
	must(t, "register", err)
	msg, err := w.RegisterUser(ctx, auth.Registration{Email: "ann@example.com", Password: good, Name: "Ann", Profile: map[string]string{"city": "Oslo"}})
	must(t, "register again", err)
	w.verify("verify", msg.Token, good, "")
	u, err := w.Login(ctx, "ann@example.com", good, "")
	if must(t, "login", err); u.Name != "Ann" || len(u.Profile) != 1 || u.Profile["city"] != "Oslo" {
		t.Errorf("the user is %+v", u)
	}
	given := map[string]string{"city": "Bergen"}
	_, err = w.SetProfile(ctx, u.ID, given)
	must(t, "change it", err)
	given["city"] = "changed later"
	if u, err = w.Get(ctx, engine.Read{}, u.ID); err != nil || u.Profile["city"] != "Bergen" {
		t.Errorf("the user is %+v, %v", u, err)
	}
	_, err = w.SetProfile(ctx, u.ID, nil)
	must(t, "remove it", err)
	if u, err = w.Get(ctx, engine.Read{}, u.ID); err != nil || u.Profile != nil {
		t.Errorf("the user is %+v, %v", u, err)
	}
}

// TestProfileLimits: more than the limit is refused, and so is invalid text.
func TestProfileLimits(t *testing.T) {
	t.Parallel()
	w, ctx := open(t, auth.Options{}), t.Context()
	u := w.verified("ann@example.com")
	many := map[string]string{}
	for i := range auth.MaxProfile {
		many[strings.Repeat("x", i+1)] = ""
	}
	_, err := w.SetProfile(ctx, u.ID, many)
	must(t, "as many as may be", err)
	many["one more"] = ""
	_, err = w.SetProfile(ctx, u.ID, many)
	want(t, "one more", err, engine.CodeLimit)
	_, err = w.SetProfile(ctx, u.ID, map[string]string{"x": strings.Repeat("y", auth.MaxProfileBytes-1)})
	must(t, "as long as may be", err)
	_, err = w.SetProfile(ctx, u.ID, map[string]string{"x": strings.Repeat("y", auth.MaxProfileBytes)})
	want(t, "one byte more", err, engine.CodeLimit)
	for _, value := range []string{"\xff", "a\x00"} {
		_, err = w.SetProfile(ctx, u.ID, map[string]string{"x": value})
		want(t, "no text", err, engine.CodeInvalid)
	}
	_, err = w.RegisterUser(ctx, auth.Registration{Email: "ben@example.com", Password: good, Name: strings.Repeat("x", auth.MaxNameBytes+1)})
	want(t, "a long name", err, engine.CodeLimit)
	_, err = w.RegisterUser(ctx, auth.Registration{Email: "ben@example.com", Password: good, Profile: many})
	want(t, "a long profile", err, engine.CodeLimit)
}
