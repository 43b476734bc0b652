package account_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web/account"
)

// TestFields: registration requires the fields of the options, shows faults beside each field, and stores the
// values with the user.
func TestFields(t *testing.T) {
	t.Parallel()
	w := open(t, settings{account: account.Options{Fields: []account.Field{
		{Name: "name", Label: "Your name", Required: true, Autocomplete: "name", MaxLength: 20},
		{Name: "city"},
		{Name: "age", Label: "Age", Check: func(v string) error {
			if strings.Trim(v, "0123456789") != "" {
				return errors.New("must be a number")
			}
			return nil
		}},
	}}})
	b := w.browser()
	page := b.get("/account/register").is(t, "register", 200, "").body
	for _, want := range []string{`<label for="field-name">Your name</label>`, `<label for="field-city">city (optional)</label>`, `name="name" type="text" value="" maxlength="20" autocomplete="name" required>`} {
		if !strings.Contains(page, want) {
			t.Errorf("the form does not have %s:\n%s", want, page)
		}
	}
	page = b.post("/account/register", "email", "ann@example.org", "password", good, "name", " ", "city", "<Oslo>", "age", "x").is(t, "two faults", 400, "").body
	for _, want := range []string{`id="fault-name">is required<`, `id="fault-age">must be a number<`, `value="&lt;Oslo&gt;"`, `value="ann@example.org"`, `aria-describedby="fault-age"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the form does not have %s:\n%s", want, page)
		}
	}
	if strings.Contains(page, "fault-city") || strings.Contains(page, good) {
		t.Errorf("the form:\n%s", page)
	}
	p := w.program()
	for _, pairs := range [][]string{{"name", strings.Repeat("ü", 21)}, {"name", "a\nb"}, {}, {"name", "ann", "role", "admin"}} {
		got := p.post("/account/register", append([]string{"email", "ann@example.org", "password", good}, pairs...)...)
		got.fails(t, strings.Join(pairs, " "), engine.CodeInvalid)
	}
	if got := p.get("/account/register").is(t, "the fields", 200, ""); got.body != `{"fields":["email","password","name","city","age"]}`+"\n" {
		t.Errorf("the fields: %s", got.body)
	}
	w.noEmail()

	b.post("/account/register", "email", "ann@example.org", "password", good, "name", " Ann ", "city", "Oslo", "age", "").is(t, "register", 303, "/account/sent")
	path, token := w.link(w.email())
	verify, _, _ := strings.Cut(path, "?")
	b.post(verify, "token", token, "password", good).is(t, "verify", 303, "/account/login?done=verified")
	b.login("ann@example.org", good)
	if got := text(b.get("/account").body); !strings.Contains(got, "city Oslo") {
		t.Errorf("the account: %s", got)
	}
	if got := b.do("GET", "/account", "", "Accept", "application/json").body; !strings.Contains(got, `"name":"Ann"`) || !strings.Contains(got, `"profile":{"city":"Oslo"}`) {
		t.Errorf("the account: %s", got)
	}
}

// TestKnownKeepsProfile: registering an address that has an account changes nothing of it.
func TestKnownKeepsProfile(t *testing.T) {
	t.Parallel()
	w := open(t, settings{account: account.Options{Fields: []account.Field{{Name: "name"}, {Name: "city"}}}})
	u := w.user("ann@example.org")
	w.browser().post("/account/register", "email", "ann@example.org", "password", other, "name", "thief", "city", "none").is(t, "register", 303, "/account/sent")
	if u, err := w.users.Get(t.Context(), engine.Read{}, u.ID); err != nil || u.Name != "" || u.Profile != nil {
		t.Errorf("the account is %+v, %v", u, err)
	}
}

// TestNameRule: what a field asks of a name holds for a change of the name, too.
func TestNameRule(t *testing.T) {
	t.Parallel()
	w := open(t, settings{account: account.Options{Fields: []account.Field{{Name: "name", Required: true, MaxLength: 5, Check: func(v string) error {
		if v == "admin" {
			return errors.New("is taken")
		}
		return nil
	}}}}})
	u := w.user("ann@example.org")
	b := w.browser().login("ann@example.org", good)
	b.post("/account/name", "name", " Ann ").is(t, "a name", 303, "/account?done=name")
	for name, want := range map[string]string{"": "is required", " ": "is required", "Annabel": "at most 5", " admin": "is taken", "a\tb": "control", "a\u009b2J": "control"} {
		got := b.post("/account/name", "name", name).is(t, name, 400, "")
		if !strings.Contains(got.body, want) || !strings.Contains(got.body, `value="Ann"`) {
			t.Errorf("the name %q: the page lacks %q or the name:\n%s", name, want, text(got.body))
		}
	}
	if u, err := w.users.Get(t.Context(), engine.Read{}, u.ID); err != nil || u.Name != "Ann" {
		t.Errorf("the name is %q, %v", u.Name, err)
	}
}
