package auth_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/engine"
)

// TestDelete: everything of a user is deleted, and other users are untouched.
func TestDelete(t *testing.T) {
	t.Parallel()
	s := &sessions{}
	w, ctx := open(t, auth.Options{Sessions: s}), t.Context()
	bob := w.verified("bob@example.com")
	w.login("login", "makes the emails that nobody gets", auth.CodeWrongCredentials)
	w.requestReset("nobody@example.com")
	w.clock.Add(2 * time.Hour)
	w.expire()
	before := w.dump()

	ann := w.verified("ann@example.com")
	for i := range auth.MaxKeys {
		_, _, err := w.CreateKey(ctx, ann.ID, fmt.Sprint("key ", i), []string{"*"}, time.Time{})
		must(t, "create a key", err)
	}
	for i := range auth.MaxIdentities {
		must(t, "link", w.LinkIdentity(ctx, ann.ID, identity(fmt.Sprint("x", i), "", false)))
	}
	for range auth.MaxDevices + 1 {
		_, err := w.OpenDevice(ctx, ann, "phone")
		must(t, "log a device in", err)
	}
	d := w.enrol(ann.ID)
	for i := range auth.MaxTokens - 1 {
		w.requestReset("ann@example.com")
		_, err := w.RequestChange(ctx, ann.ID, fmt.Sprintf("ann%d@example.org", i), "")
		must(t, "request a change of address", err)
	}
	ticket := w.ticket("ann@example.com")
	must(t, "delete", w.Delete(ctx, ann.ID))
	if s.revoked(ann.ID) != 1 {
		t.Error("the deletion did not end the sessions")
	}
	w.loginTOTP("a ticket of a deleted user", ticket, d.code(1), auth.CodeTokenInvalid)
	_, err := w.Get(ctx, engine.Read{}, ann.ID)
	want(t, "get", err, engine.CodeNotFound)
	want(t, "delete again", w.Delete(ctx, ann.ID), engine.CodeNotFound)
	w.clock.Add(2 * time.Hour)
	w.expire() // the counts of attempts
	if after := strings.Replace(w.dump(), "zz-revoked-"+ann.ID+"\n1\n", "", 1); after != before {
		t.Errorf("left behind:\n%q\nwant\n%q", after, before)
	}
	_, err = w.Login(ctx, "bob@example.com", good, "")
	must(t, "login of another", err)
	if again := w.verified("ann@example.com"); again.ID == ann.ID || again.ID == bob.ID {
		t.Error("an id was given twice")
	}
}

func TestDisable(t *testing.T) {
	t.Parallel()
	s := &sessions{}
	w, ctx := open(t, auth.Options{Sessions: s}), t.Context()
	ann := w.verified("ann@example.com")
	msg := w.requestReset("ann@example.com")
	u, err := w.Disable(ctx, ann.ID, true)
	if err != nil || !u.Disabled || s.revoked(ann.ID) != 1 {
		t.Errorf("disable: %+v %v", u, err)
	}
	w.login("login", good, auth.CodeAccountDisabled)
	w.login("login with a wrong password, which must not reveal that", "wrong password", auth.CodeWrongCredentials)
	w.reset("reset", msg.Token, "a new password", auth.CodeTokenInvalid)
	change, err := w.RequestChange(ctx, ann.ID, "ann@example.org", "")
	must(t, "request a change of address", err)
	w.verify("verify another address", change.Token, good, auth.CodeTokenInvalid)
	_, err = w.Disable(ctx, ann.ID, false)
	must(t, "enable", err)
	w.reset("a token from before", msg.Token, "a new password", auth.CodeTokenInvalid)
	w.login("login", good, "")
}

func TestRolesAndName(t *testing.T) {
	t.Parallel()
	w, ctx := open(t, auth.Options{}), t.Context()
	ann := w.verified("ann@example.com")
	u, err := w.SetRoles(ctx, ann.ID, []string{"staff", "admin", "staff"})
	if err != nil || !slices.Equal(u.Roles, []string{"admin", "staff"}) || !u.Has("admin") || u.Has("adm") {
		t.Errorf("roles: %+v %v", u, err)
	}
	u, err = w.SetName(ctx, ann.ID, "Ann Ümlaut")
	if err != nil || u.Name != "Ann Ümlaut" || !u.Has("staff") {
		t.Errorf("name: %+v %v", u, err)
	}
	u, err = w.Find(ctx, engine.Read{}, "ANN@example.com")
	if err != nil || u.Name != "Ann Ümlaut" || !u.Has("staff") {
		t.Errorf("find: %+v %v", u, err)
	}
	var many []string
	for i := range auth.MaxRoles + 1 {
		many = append(many, fmt.Sprint("r", i))
	}
	_, err = w.SetRoles(ctx, ann.ID, many)
	want(t, "too many roles", err, engine.CodeLimit)
	_, err = w.SetRoles(ctx, ann.ID, []string{strings.Repeat("r", auth.MaxRoleBytes+1)})
	want(t, "a role that is too long", err, engine.CodeLimit)
	_, err = w.SetRoles(ctx, ann.ID, []string{"two words"})
	want(t, "a role of two words", err, engine.CodeInvalid)
	_, err = w.SetName(ctx, ann.ID, strings.Repeat("n", auth.MaxNameBytes+1))
	want(t, "a name that is too long", err, engine.CodeLimit)
	_, err = w.SetName(ctx, ann.ID, "a\u009b2J") // what clears some terminals
	want(t, "a name with a control character of another kind", err, engine.CodeInvalid)
	_, err = w.SetName(ctx, ann.ID, "a\r\nSubject: b")
	want(t, "a name with a line break", err, engine.CodeInvalid)
	_, err = w.SetName(ctx, "nobody", "x")
	want(t, "nobody", err, engine.CodeNotFound)

	// Roles given to an unverified registration must not go to the next one of the address.
	w.register("boss@example.com", good)
	boss, err := w.Find(ctx, engine.Read{}, "boss@example.com")
	must(t, "find", err)
	_, err = w.SetRoles(ctx, boss.ID, []string{"admin"})
	must(t, "set roles", err)
	msg, err := w.Register(ctx, "boss@example.com", "password of a thief", "")
	if err != nil || msg.Kind != auth.Known {
		t.Errorf("register again: %+v %v", msg, err)
	}
}

func TestCreateAndList(t *testing.T) {
	t.Parallel()
	w, ctx := open(t, auth.Options{}), t.Context()
	var ids []string
	for i := range 5 {
		u, err := w.Create(ctx, fmt.Sprintf("u%d@example.com", i), "", i%2 == 0)
		must(t, "create", err)
		if u.Verified() != (i%2 == 0) || u.Password {
			t.Errorf("created: %+v", u)
		}
		ids = append(ids, u.ID)
	}
	_, err := w.Create(ctx, "U1@example.com", good, true)
	want(t, "create a taken one", err, auth.CodeEmailTaken)
	_, err = w.Create(ctx, "x@example.com", "short", true)
	want(t, "create with a short password", err, auth.CodePasswordRefused)
	slices.Sort(ids)
	var got []string
	for o := (auth.ListOptions{Limit: 2}); ; {
		page, err := w.List(ctx, engine.Read{}, o)
		must(t, "list", err)
		for _, u := range page.Users {
			got = append(got, u.ID)
		}
		if !page.More {
			break
		}
		o.After = got[len(got)-1]
	}
	if !slices.Equal(got, ids) {
		t.Errorf("listed %q, want %q", got, ids)
	}
	_, err = w.List(ctx, engine.Read{}, auth.ListOptions{Limit: auth.MaxPage + 1})
	want(t, "a page that is too long", err, engine.CodeLimit)
	_, err = w.Login(ctx, "u0@example.com", "", "")
	want(t, "login without a password", err, auth.CodeWrongCredentials)
}
