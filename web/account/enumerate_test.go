package account_test

import (
	"fmt"
	"maps"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/auth"
)

// hashKiB is the memory of one password hash here, far more than everything else together.
const hashKiB = 32 << 10

// hashes is how many passwords are hashed while fn runs.
func hashes(fn func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fn()
	runtime.ReadMemStats(&after)
	return int((after.TotalAlloc - before.TotalAlloc + hashKiB<<9) / (hashKiB << 10))
}

var (
	nonces     = regexp.MustCompile(`nonce[-=]"?[A-Za-z0-9_-]+`)
	requestIDs = regexp.MustCompile(`"request_id":"[^"]*"`)
)

// whole returns a response without the parts that differ every time.
func (a answer) whole() string {
	a.header.Del("X-Request-Id")
	a.header.Del("Date")
	var b strings.Builder
	fmt.Fprintln(&b, a.status)
	for _, name := range slices.Sorted(maps.Keys(a.header)) {
		fmt.Fprintln(&b, name, a.header[name])
	}
	return nonces.ReplaceAllString(b.String()+requestIDs.ReplaceAllString(a.body, ""), "nonce")
}

// TestEnumeration: neither a response nor the work for it reveals whether an address has an account; only the
// emails differ.
func TestEnumeration(t *testing.T) {
	w := open(t, settings{auth: auth.Options{Argon2: auth.Params{MemoryKiB: hashKiB, Passes: 1}, Limits: auth.Limits{Email: auth.Limit{N: -1}, EmailFrom: auth.Limit{N: -1}, RegisterFrom: auth.Limit{N: -1}}}})
	w.user("there@example.org")
	_, err := w.users.Create(t.Context(), "empty@example.org", "", true)
	must(t, "a user without a password", err)
	_, err = w.users.Register(t.Context(), "waits@example.org", good, "")
	must(t, "a user who is not verified", err)
	off := w.user("off@example.org")
	_, err = w.users.Disable(t.Context(), off.ID, true)
	must(t, "disable", err)
	for round, b := range []*browser{w.browser(), w.program()} {
		none := fmt.Sprintf("none%d@example.org", round)
		for _, form := range [][]string{{"/account/login", "password", "a wrong password"}, {"/account/reset"}, {"/account/verify/again"}, {"/account/register", "password", other}} {
			first, cost := "", 0
			for i, email := range []string{none, "there@example.org", "empty@example.org", "waits@example.org", "off@example.org"} {
				var got string
				n := hashes(func() {
					got = strings.ReplaceAll(b.post(form[0], append([]string{"email", email}, form[1:]...)...).whole(), email, "ADDRESS")
				})
				if i == 0 {
					first, cost = got, n
				}
				if n != len(form)/2 {
					t.Fatalf("%s: %d hashes, want %d: what is counted?", form[0], n, len(form)/2)
				}
				if got != first || n != cost {
					t.Errorf("%s for %s: %d hashes\n%s\nwant %d\n%s", form[0], email, n, got, cost, first)
				}
			}
		}
	}
	emails := map[string]int{}
	for _, kept := range w.outbox.List() {
		name, _, _ := strings.Cut(kept.Message.Subject, " – ")
		emails[kept.Message.To[0]+" "+name]++
	}
	want := map[string]int{
		"none0@example.org Confirm your email address": 1, "none1@example.org Confirm your email address": 1,
		"there@example.org You already have an account": 2, "there@example.org Reset your password": 2, "off@example.org You already have an account": 2,
		"empty@example.org You already have an account": 2, "empty@example.org Reset your password": 2,
		"waits@example.org Confirm your email address": 4, "waits@example.org Reset your password": 2,
	}
	if !maps.Equal(emails, want) {
		t.Errorf("emails: %v, want %v", emails, want)
	}
}

// TestChangeTellsNothing: logged-in users cannot find out other people's addresses.
func TestChangeTellsNothing(t *testing.T) {
	t.Parallel()
	w := open(t, settings{})
	w.user("ann@example.org")
	w.user("there@example.org")
	b := w.browser().login("ann@example.org", good)
	free := b.post("/account/email", "email", "free@example.org", "password", good)
	w.email()
	taken := b.post("/account/email", "email", "there@example.org", "password", good)
	if m := w.email(); m.To[0] != "there@example.org" || !strings.HasPrefix(m.Subject, "You already have an account") || !strings.Contains(m.Text, base+"/account/reset\n") {
		t.Errorf("%+v", m)
	}
	if free.whole() != taken.whole() {
		t.Errorf("%s\n%s", free.whole(), taken.whole())
	}
}
