package account_test

import (
	"encoding/base64"
	"encoding/json"
	"html"
	"image/png"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/engine"
)

var (
	secretOf = regexp.MustCompile(`<code>([A-Z2-7]{32})</code>`)
	ticketOf = regexp.MustCompile(`name="ticket" value="([^"]+)"`)
	imageOf  = regexp.MustCompile(`src="data:image/png;base64,([^"]+)"`)
	codesOf  = regexp.MustCompile(`<li><code>([^<]+)</code></li>`)
)

// code is what the user's app shows now.
func (w *world) code(secret string) string {
	w.t.Helper()
	text, err := totp.GenerateCode(secret, w.clock.Now())
	must(w.t, "make a code", err)
	return text
}

// enrolled turns on the second factor of the logged-in user; it returns the secret and the recovery codes.
func (b *browser) enrolled() (secret string, recovery []string) {
	t := b.w.t
	t.Helper()
	got := b.post("/account/totp/enrol", "password", good).is(t, "enrol", 200, "")
	secret = secretOf.FindStringSubmatch(got.body)[1]
	pixels, err := base64.StdEncoding.DecodeString(html.UnescapeString(imageOf.FindStringSubmatch(got.body)[1]))
	must(t, "the QR code", err)
	if img, err := png.Decode(strings.NewReader(string(pixels))); err != nil || img.Bounds().Dx() != 240 {
		t.Errorf("the QR code: %v", err)
	}
	for _, m := range codesOf.FindAllStringSubmatch(b.post("/account/totp/confirm", "code", b.w.code(secret)).is(t, "confirm", 200, "").body, -1) {
		recovery = append(recovery, m[1])
	}
	if len(recovery) != 10 {
		t.Fatalf("%d recovery codes", len(recovery))
	}
	if m := b.w.email(); !strings.HasPrefix(m.Subject, "Two-factor authentication is on") {
		t.Errorf("%s", m.Subject)
	}
	return secret, recovery
}

// ticket logs in by the password alone.
func (b *browser) ticket(email string) string {
	b.w.t.Helper()
	got := b.post("/account/login", "email", email, "password", good, "next", "/todo").is(b.w.t, "the first step", 200, "")
	if b.who() != "" || b.token() != "" {
		b.w.t.Error("the password alone has begun a session")
	}
	return ticketOf.FindStringSubmatch(got.body)[1]
}

// TestSecondFactor: on, asked for, used once, recovered from, off.
func TestSecondFactor(t *testing.T) {
	t.Parallel()
	w := open(t, settings{})
	w.user("ann@example.org")
	b := w.browser().login("ann@example.org", good)
	b.post("/account/totp/enrol", "password", other).is(t, "enrol with a wrong password", 401, "")
	b.post("/account/totp/enrol").is(t, "enrol without a password", 400, "")
	b.post("/account/totp/confirm", "code", "123456").is(t, "confirm nothing", 412, "")
	before := b.token()
	secret, recovery := b.enrolled()
	if b.token() == before || w.with(before).who() != "" {
		t.Error("the token was not rotated")
	}
	b.get("/account/totp").is(t, "the page", 200, "")

	two := w.browser()
	ticket, used := two.ticket("ann@example.org"), w.code(secret)
	two.post("/account/login/code", "ticket", ticket, "code", used, "next", "/todo").is(t, "the code that has turned it on", 401, "")
	two.post("/account/login/code", "ticket", ticket, "code", "000000").is(t, "a wrong code", 401, "")
	w.clock.Add(30 * time.Second)
	two.post("/account/login/code", "ticket", ticket, "code", w.code(secret), "next", "/todo").is(t, "the code", 303, "/todo")
	if two.who() != "ann@example.org" {
		t.Error("not logged in by both factors")
	}
	three := w.browser()
	three.post("/account/login/code", "ticket", ticket, "code", w.code(secret)).is(t, "the ticket and code again", 400, "")
	three.post("/account/login/code", "ticket", three.ticket("ann@example.org"), "code", w.code(secret)).is(t, "the code again", 401, "")
	three.post("/account/login/code", "ticket", three.ticket("ann@example.org"), "code", recovery[0], "next", "//evil").is(t, "a recovery code", 303, "/")
	w.browser().post("/account/login/code", "ticket", w.browser().ticket("ann@example.org"), "code", recovery[0]).is(t, "a recovery code again", 401, "")
	late := w.browser()
	ticket = late.ticket("ann@example.org")
	w.clock.Add(6 * time.Minute)
	late.post("/account/login/code", "ticket", ticket, "code", w.code(secret)).is(t, "a ticket too late", 400, "")
	if got := b.post("/account/totp/codes", "code", w.code(secret)).is(t, "new codes", 200, ""); len(codesOf.FindAllString(got.body, -1)) != 10 {
		t.Errorf("%s", text(got.body))
	}
	b.post("/account/totp/disable", "code", recovery[1]).is(t, "a replaced recovery code", 401, "")
	w.clock.Add(30 * time.Second)
	before = b.token()
	b.post("/account/totp/disable", "code", w.code(secret)).is(t, "off", 303, "/account/totp?done=totp-off")
	if b.token() == before || w.with(before).who() != "" || b.who() == "" {
		t.Error("the token was not rotated")
	}
	w.email()
	w.browser().post("/account/login", "email", "ann@example.org", "password", good).is(t, "login without it", 303, "/")
}

// TestSecondFactorOfAProgram: the ticket is a member of the problem.
func TestSecondFactorOfAProgram(t *testing.T) {
	t.Parallel()
	w := open(t, settings{})
	w.user("ann@example.org")
	b := w.browser().login("ann@example.org", good)
	secret, _ := b.enrolled()
	p := w.program()
	got := p.post("/account/login", "email", "ann@example.org", "password", good)
	got.fails(t, "the first step", auth.CodeSecondFactor)
	var step struct{ Ticket string }
	must(t, "the ticket", json.Unmarshal([]byte(got.body), &step))
	p.post("/account/login/code", "ticket", step.Ticket, "code", "000000").fails(t, "a wrong code", auth.CodeCodeWrong)
	w.clock.Add(30 * time.Second)
	p.post("/account/login/code", "ticket", step.Ticket, "code", w.code(secret)).is(t, "the code", 200, "")
	if got := p.get("/account/totp").is(t, "the state", 200, ""); got.body != `{"on":true,"recovery_codes":10}`+"\n" {
		t.Errorf("%s", got.body)
	}
	p.post("/account/totp/enrol", "password", good).fails(t, "on already", engine.CodePreconditionFailed)
}
