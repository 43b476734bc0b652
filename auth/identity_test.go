package auth_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/engine"
)

const issuer = "https://id.example"

func identity(subject, email string, verified bool) auth.Identity {
	return auth.Identity{Issuer: issuer, Subject: subject, Email: email, EmailVerified: verified, Name: "N " + subject}
}

// TestIdentities: which users identities are linked to, and which never.
func TestIdentities(t *testing.T) {
	t.Parallel()
	w, ctx := open(t, auth.Options{AllowUnverified: true}), t.Context()
	ann := w.verified("ann@example.com")
	u, err := w.LoginIdentity(ctx, identity("1", "ANN@example.com", true))
	if err != nil || u.ID != ann.ID {
		t.Errorf("both have verified the address: %+v %v", u, err)
	}
	u, err = w.LoginIdentity(ctx, identity("1", "not an address", false))
	if err != nil || u.ID != ann.ID {
		t.Errorf("an identity that is known, whatever its address: %+v %v", u, err)
	}
	for _, email := range []string{"ann@example.com", "new@example.com"} {
		_, err = w.LoginIdentity(ctx, identity("2", email, false))
		want(t, "the provider has not verified "+email, err, auth.CodeIdentityUnverified)
	}
	w.register("bob@example.com", good)
	bob, err := w.Login(ctx, "bob@example.com", good, "")
	must(t, "login", err)
	_, err = w.LoginIdentity(ctx, identity("3", "bob@example.com", true))
	want(t, "the user has not verified the address", err, auth.CodeIdentityConflict)
	if u, err := w.Get(ctx, engine.Read{}, bob.ID); err != nil || u.Verified() {
		t.Errorf("the conflict changed the user: %+v %v", u, err)
	}
	msg := w.register("cid@example.com", "password of a thief")
	cid, err := w.LoginIdentity(ctx, identity("4", "cid@example.com", true))
	if err != nil || cid.ID == msg.User.ID || !cid.Verified() || cid.Password || cid.Name != "N 4" {
		t.Errorf("an address that was registered and never used: %+v %v", cid, err)
	}
	_, err = w.Login(ctx, "cid@example.com", "password of a thief", "")
	want(t, "the thief's password", err, auth.CodeWrongCredentials)
	w.verify("the thief's email", msg.Token, good, auth.CodeTokenInvalid)
	dan, err := w.LoginIdentity(ctx, identity("5", "", false))
	if err != nil || dan.Email != "" || dan.Verified() {
		t.Errorf("no address: %+v %v", dan, err)
	}
	again, err := w.LoginIdentity(ctx, identity("5", "", false))
	if err != nil || again.ID != dan.ID {
		t.Errorf("again: %+v %v", again, err)
	}
	_, err = w.LoginIdentity(ctx, auth.Identity{Issuer: "https://other.example", Subject: "5"})
	must(t, "the same subject of another issuer", err)
	for _, id := range []auth.Identity{{Issuer: issuer}, {Subject: "1"}, {Issuer: "a\n", Subject: "b"}} {
		_, err = w.LoginIdentity(ctx, id)
		want(t, fmt.Sprintf("%+v", id), err, engine.CodeInvalid)
	}
	_, err = w.LoginIdentity(ctx, identity(strings.Repeat("s", auth.MaxIdentityBytes+1), "", false))
	want(t, "a subject that is too long", err, engine.CodeLimit)
	_, err = w.LoginIdentity(ctx, identity("6", "a@b\r\nBcc: c@d", true))
	want(t, "an address with a line break", err, engine.CodeInvalid)
}

// TestIdentityBounds: a part of one identity cannot be taken for another's.
func TestIdentityBounds(t *testing.T) {
	t.Parallel()
	w, ctx := open(t, auth.Options{}), t.Context()
	one, err := w.LoginIdentity(ctx, auth.Identity{Issuer: "ab", Subject: "c"})
	must(t, "login", err)
	two, err := w.LoginIdentity(ctx, auth.Identity{Issuer: "a", Subject: "bc"})
	must(t, "login", err)
	if one.ID == two.ID {
		t.Error("two identities are one user")
	}
}

func TestLinkUnlink(t *testing.T) {
	t.Parallel()
	w, ctx := open(t, auth.Options{}), t.Context()
	ann := w.verified("ann@example.com")
	must(t, "link", w.LinkIdentity(ctx, ann.ID, identity("1", "other@example.com", false)))
	must(t, "link again", w.LinkIdentity(ctx, ann.ID, identity("1", "", false)))
	u, err := w.LoginIdentity(ctx, identity("1", "", false))
	if err != nil || u.ID != ann.ID {
		t.Errorf("login: %+v %v", u, err)
	}
	bob, err := w.LoginIdentity(ctx, identity("2", "bob@example.com", true))
	must(t, "login", err)
	want(t, "link another's", w.LinkIdentity(ctx, bob.ID, identity("1", "", false)), auth.CodeIdentityConflict)
	want(t, "unlink another's", w.UnlinkIdentity(ctx, bob.ID, issuer, "1"), engine.CodeNotFound)
	want(t, "unlink the only way", w.UnlinkIdentity(ctx, bob.ID, issuer, "2"), engine.CodePreconditionFailed)
	list, err := w.Identities(ctx, engine.Read{}, ann.ID)
	if err != nil || len(list) != 1 || list[0].Issuer != issuer || list[0].Subject != "1" || list[0].Email != "other@example.com" {
		t.Errorf("identities: %+v %v", list, err)
	}
	if u, err := w.FindIdentity(ctx, engine.Read{}, issuer, "1"); err != nil || u.ID != ann.ID {
		t.Errorf("find: %+v %v", u, err)
	}
	must(t, "unlink", w.UnlinkIdentity(ctx, ann.ID, issuer, "1"))
	_, err = w.FindIdentity(ctx, engine.Read{}, issuer, "1")
	want(t, "find an unlinked identity", err, engine.CodeNotFound)
	if u, err := w.LoginIdentity(ctx, identity("1", "", false)); err != nil || u.ID == ann.ID {
		t.Errorf("login with an unlinked identity: %+v %v", u, err)
	}
	for i := range auth.MaxIdentities {
		must(t, "link", w.LinkIdentity(ctx, ann.ID, identity(fmt.Sprint("x", i), "", false)))
	}
	want(t, "one too many", w.LinkIdentity(ctx, ann.ID, identity("y", "", false)), engine.CodeLimit)
	msg := w.requestReset("bob@example.com")
	_, err = w.ChangePassword(ctx, bob.ID, "", good)
	want(t, "change a password that does not exist", err, engine.CodePreconditionFailed)
	w.reset("the first password, by a reset", msg.Token, good, "")
	must(t, "unlink an identity that is no longer the only way to log in", w.UnlinkIdentity(ctx, bob.ID, issuer, "2"))
}

// TestIdentitySecondFactor: a provider's word does not replace it.
func TestIdentitySecondFactor(t *testing.T) {
	t.Parallel()
	w, ctx := open(t, auth.Options{}), t.Context()
	u, err := w.LoginIdentity(ctx, identity("1", "ann@example.com", true))
	must(t, "login", err)
	d := w.enrol(u.ID)
	_, err = w.LoginIdentity(ctx, identity("1", "", false))
	want(t, "login", err, auth.CodeSecondFactor)
	ticket, _ := auth.Ticket(err)
	w.loginTOTP("login", ticket, d.code(1), "")
	_, err = w.Disable(ctx, u.ID, true)
	must(t, "disable", err)
	_, err = w.LoginIdentity(ctx, identity("1", "", false))
	want(t, "a disabled user", err, auth.CodeAccountDisabled)
}
