package admin_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"github.com/skerrydb/skerry"
)

var (
	ticketInPage   = regexp.MustCompile(`name="ticket" value="([^"]+)"`)
	recoveryInPage = regexp.MustCompile(`<li><code>([^<]+)</code></li>`)
)

// ticket logs in by the password alone.
func (c *client) ticket(email, password string) string {
	c.w.t.Helper()
	page := c.post("/admin/account/login", "email", email, "password", password).expect(200)
	found := ticketInPage.FindStringSubmatch(page.Body)
	if found == nil {
		c.w.t.Fatalf("no ticket in %s", page.Body)
	}
	return found[1]
}

// rows returns the rows of the log of actions that have all texts.
func (c *client) rows(texts ...string) (found []string) {
	c.w.t.Helper()
	for row := range strings.SplitSeq(c.get("/admin/log").expect(200).Body, "<tr>") {
		has := true
		for _, text := range texts {
			has = has && strings.Contains(row, text)
		}
		if has {
			found = append(found, row)
		}
	}
	return found
}

// TestLoginsInTheLog: what administrators do with their accounts is in the log of actions.
func TestLoginsInTheLog(t *testing.T) {
	t.Parallel()
	w := start(t, skerry.Options{})
	anna := w.client()
	secret := anna.setUp(w.link, email)
	next, err := totp.GenerateCode(secret, time.Now().Add(30*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	codes := recoveryInPage.FindAllStringSubmatch(anna.post("/admin/account/totp/codes", "code", next).expect(200).Body, -1)
	two := w.client()
	ticket := two.ticket(email, password)
	for range 3 {
		two.post("/admin/account/login/code", "ticket", ticket, "code", "000000").expect(401)
	}
	two.post("/admin/account/login/code", "ticket", ticket, "code", codes[0][1]).expect(200, "Overview")
	two.post("/admin/account/password", "old", "not the password", "password", "another good one").expect(401)
	two.post("/admin/account/password", "old", password, "password", "another good one").expect(200)
	two.post("/admin/account/logout").expect(200)
	anna = w.client() // the change of the password has ended the first session
	ticket = anna.ticket(email, "another good one")
	anna.post("/admin/account/login/code", "ticket", ticket, "code", codes[1][1]).expect(200, "Overview")
	for _, test := range []struct {
		lines int
		texts []string
	}{
		{1, []string{"account.factor_on", email}},
		{1, []string{"account.recovery_codes", email}},
		{1, []string{"account.login_code", "(not logged in)", email, "code_wrong", "3 times"}},
		{2, []string{"<td>account.login<", email, "with a recovery code"}},
		{1, []string{"account.password ", "failed", "wrong_credentials"}},
		{1, []string{"account.password</td>", email}},
		{1, []string{"account.logout", email}},
	} {
		if got := anna.rows(test.texts...); len(got) != test.lines {
			t.Errorf("%d lines with %q: %q", len(got), test.texts, got)
		}
	}
}

// TestStrangersCannotFillTheLog: wrong passwords are one line for each account, and one for all addresses without an account.
func TestStrangersCannotFillTheLog(t *testing.T) {
	t.Parallel()
	w := start(t, skerry.Options{})
	anna := w.anna()
	stranger := w.client()
	for i := range 15 {
		stranger.post("/admin/account/login", "email", fmt.Sprintf("<b>%d@example.org", i), "password", "wrong password")
		stranger.post("/admin/account/login", "email", fmt.Sprintf("eve%d@example.org", i), "password", "wrong password").expect(401)
		stranger.post("/admin/account/login", "email", strings.ToUpper(email), "password", "wrong password")
	}
	rows := anna.rows("account.login", "(not logged in)")
	if len(rows) != 2 {
		t.Fatalf("%q", rows)
	}
	if got := anna.rows("(no account)", "15 times", "first: eve0@example.org"); len(got) != 1 {
		t.Errorf("no account: %q", rows)
	}
	if got := anna.rows("<td class=\"text\">"+email+"</td>", "10 times", "wrong_credentials"); len(got) != 1 { // auth's limit ends it
		t.Errorf("an account: %q", rows)
	}
}
