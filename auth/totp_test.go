package auth_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/engine"
)

func unix(s int64) time.Time { return time.Unix(s, 0).UTC() }

// TestSecondFactor: a password alone is not enough to log in, and a code is used once.
func TestSecondFactor(t *testing.T) {
	t.Parallel()
	w, ctx := open(t, auth.Options{Issuer: "Bank of Skerry"}), t.Context()
	ann := w.verified("ann@example.com")
	d := w.enrol(ann.ID)
	u, err := url.Parse(d.url)
	if err != nil || u.Scheme != "otpauth" || u.Host != "totp" || u.Path != "/Bank of Skerry:ann@example.com" ||
		u.Query().Get("secret") != d.secret || u.Query().Get("issuer") != "Bank of Skerry" || len(d.secret) != 32 {
		t.Errorf("url %q: %v", d.url, err)
	}
	ticket := w.ticket("ann@example.com")
	w.loginTOTP("the code that has confirmed the app", ticket, d.code(0), auth.CodeCodeWrong)
	got, err := w.LoginTOTP(ctx, ticket, d.code(1))
	if err != nil || got.ID != ann.ID || !got.TOTP {
		t.Errorf("login: %+v %v", got, err)
	}
	w.loginTOTP("the ticket again", ticket, d.code(1), auth.CodeTokenInvalid)
	ticket = w.ticket("ann@example.com")
	w.loginTOTP("the code again", ticket, d.code(1), auth.CodeCodeWrong)
	w.clock.Add(30 * time.Second)
	w.loginTOTP("the code again, when its time has come", ticket, d.code(0), auth.CodeCodeWrong)
	w.loginTOTP("a code before the one that was used", ticket, d.code(-1), auth.CodeCodeWrong)
	w.loginTOTP("a code that is two steps ahead", ticket, d.code(2), auth.CodeCodeWrong)
	w.clock.Add(60 * time.Second)
	w.loginTOTP("a code that is two steps behind", ticket, d.code(-2), auth.CodeCodeWrong)
	w.loginTOTP("a code one step behind", ticket, " "+d.code(-1)+" ", "")
	w.clock.Add(ticketLife)
	ticket = w.ticket("ann@example.com")
	w.clock.Add(ticketLife)
	w.loginTOTP("an expired ticket", ticket, d.code(0), auth.CodeTokenInvalid)
}

const ticketLife = 5 * time.Minute

// TestRecoveryCodes: each works once, and only as what it is.
func TestRecoveryCodes(t *testing.T) {
	t.Parallel()
	w, ctx := open(t, auth.Options{}), t.Context()
	ann := w.verified("ann@example.com")
	d := w.enrol(ann.ID)
	if len(d.recovery) != 10 || len(d.recovery[0]) != 19 {
		t.Fatalf("recovery codes: %q", d.recovery)
	}
	ticket := w.ticket("ann@example.com")
	w.loginTOTP("a recovery code as an app's", ticket, d.recovery[3], auth.CodeCodeWrong)
	_, err := w.LoginRecovery(ctx, ticket, d.code(1))
	want(t, "an app's code as a recovery code", err, auth.CodeCodeWrong)
	_, err = w.LoginRecovery(ctx, ticket, strings.ToUpper(strings.ReplaceAll(d.recovery[3], "-", " ")))
	must(t, "login", err)
	_, err = w.LoginRecovery(ctx, w.ticket("ann@example.com"), d.recovery[3])
	want(t, "a recovery code again", err, auth.CodeCodeWrong)
	if n, err := w.RecoveryCodesLeft(ctx, engine.Read{}, ann.ID); n != 9 || err != nil {
		t.Errorf("%d codes are left: %v", n, err)
	}
	fresh, err := w.NewRecoveryCodes(ctx, ann.ID, d.code(1))
	must(t, "new codes", err)
	_, err = w.LoginRecovery(ctx, w.ticket("ann@example.com"), d.recovery[4])
	want(t, "a code that was replaced", err, auth.CodeCodeWrong)
	_, err = w.LoginRecovery(ctx, w.ticket("ann@example.com"), fresh[0])
	must(t, "login", err)
	want(t, "remove with a used code", w.DisableTOTP(ctx, ann.ID, fresh[0]), auth.CodeCodeWrong)
	must(t, "remove", w.DisableTOTP(ctx, ann.ID, fresh[1]))
	u, err := w.Login(ctx, "ann@example.com", good, "")
	if err != nil || u.TOTP {
		t.Errorf("login without the second factor: %+v %v", u, err)
	}
}

// TestEnrol: nothing asks for a factor that is not confirmed.
func TestEnrol(t *testing.T) {
	t.Parallel()
	s := &sessions{}
	w, ctx := open(t, auth.Options{Sessions: s}), t.Context()
	ann := w.verified("ann@example.com")
	_, err := w.ConfirmTOTP(ctx, ann.ID, "123456")
	want(t, "confirm without enrolling", err, engine.CodePreconditionFailed)
	first, err := w.EnrolTOTP(ctx, ann.ID)
	must(t, "enrol", err)
	w.login("login", good, "")
	want(t, "remove a second factor that is not on", w.DisableTOTP(ctx, ann.ID, "123456"), engine.CodePreconditionFailed)
	d := w.enrol(ann.ID)
	if d.secret == first.Secret {
		t.Error("a second enrolment has the same secret")
	}
	_, err = w.EnrolTOTP(ctx, ann.ID)
	want(t, "enrol over one that is on", err, engine.CodePreconditionFailed)
	_, err = w.ConfirmTOTP(ctx, ann.ID, d.code(1))
	want(t, "confirm again", err, engine.CodePreconditionFailed)
	ticket := w.ticket("ann@example.com")
	must(t, "remove by an administrator", w.RemoveTOTP(ctx, ann.ID))
	if s.revoked(ann.ID) != 1 {
		t.Error("the removal did not end the sessions")
	}
	w.loginTOTP("a ticket from before", ticket, d.code(1), auth.CodeTokenInvalid)
	next, err := w.EnrolTOTP(ctx, ann.ID)
	must(t, "enrol again", err)
	w.loginTOTP("a ticket from before, with a factor that is not confirmed", ticket, (&device{w: w, secret: next.Secret}).code(0), auth.CodeTokenInvalid)
	w.login("login", good, "")
	_, err = w.EnrolTOTP(ctx, "nobody")
	want(t, "enrol nobody", err, engine.CodeNotFound)
}

// TestCodeLimit: guesses are counted for the account, over tickets and methods.
func TestCodeLimit(t *testing.T) {
	t.Parallel()
	w, ctx := open(t, auth.Options{Limits: auth.Limits{Code: auth.Limit{N: 3}}}), t.Context()
	ann := w.verified("ann@example.com")
	d := w.enrol(ann.ID)
	for _, guess := range []func(ticket string) error{
		func(ticket string) error { _, err := w.LoginTOTP(ctx, ticket, "000000"); return err },
		func(ticket string) error {
			_, err := w.LoginRecovery(ctx, ticket, "aaaa-aaaa-aaaa-aaaa")
			return err
		},
		func(string) error { return w.DisableTOTP(ctx, ann.ID, "no code") },
	} {
		want(t, "wrong code", guess(w.ticket("ann@example.com")), auth.CodeCodeWrong)
	}
	ticket := w.ticket("ann@example.com")
	w.loginTOTP("over the limit", ticket, d.code(1), auth.CodeRateLimited)
	want(t, "over the limit", w.DisableTOTP(ctx, ann.ID, d.code(1)), auth.CodeRateLimited)
	w.clock.Add(time.Hour + time.Second)
	w.loginTOTP("after the window", w.ticket("ann@example.com"), d.code(0), "")
}

// TestTicketBound: a change of the password ends tickets.
func TestTicketBound(t *testing.T) {
	t.Parallel()
	w, ctx := open(t, auth.Options{}), t.Context()
	ann := w.verified("ann@example.com")
	d := w.enrol(ann.ID)
	ticket := w.ticket("ann@example.com")
	_, err := w.SetPassword(ctx, ann.ID, "a new password")
	must(t, "set", err)
	w.loginTOTP("a ticket of the old password", ticket, d.code(1), auth.CodeTokenInvalid)
}
