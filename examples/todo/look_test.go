package todo_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/examples/browsertest"
	"github.com/skerrydb/skerry/mail"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/account"
)

// TestLooks looks at the pages of the application: on a phone and on a desktop, light and
// dark.
func TestLooks(t *testing.T) {
	t.Parallel()
	at := start(t, skerry.Web{})
	b := newTab(t)
	b.Visit(at.URL+"/account/login", "login")
	b.Visit(at.URL+"/account/reset", "reset")
	b.Visit(at.URL+"/register", "register")
	b.register(at.URL, "anna.with.a.long.address@department.example.org")
	b.Looks("empty")
	other := at.Browser()
	other.Login("anna.with.a.long.address@department.example.org", password)
	for _, text := range []string{"Buy milk", "Water the plants", "Call Ben about Saturday", "Read https://example.org/" + strings.Repeat("x", 100), strings.Repeat("long ", 39), "Buy milk"} {
		other.Post("/add", "text", text).Expect(200)
	}
	for _, id := range []string{"1", "5"} {
		other.Post("/done", "id", id).Expect(200)
	}
	b.Do(chromedp.Navigate(at.URL+"/"), chromedp.WaitVisible(chromedp.CSS("#item-5.done")))
	b.Looks("list")
	// What is done is crossed out, and its buttons are not.
	const lines = `[...document.querySelectorAll("#item-1 span, #item-1 button, #item-1")].map(e => getComputedStyle(e).textDecorationLine)`
	if got := browsertest.Eval[[]string](b.Tab, lines); strings.Join(got, " ") != "none none line-through none" {
		t.Errorf("lines through an item, its button, text and button: %q", got)
	}
	b.Visit(at.URL+"/?find=nothing", "found-nothing")
	b.Visit(at.URL+"/progress", "progress")
	for _, page := range []string{"", "/password", "/email", "/totp", "/sessions"} {
		b.Visit(at.URL+"/account"+page, "account"+strings.ReplaceAll(page, "/", "-"))
	}
	b.Click(`form[action="/account/sessions/revoke-others"] button`)
	b.Until(`document.querySelector(".notice")`)
	b.Looks("notice")
	b.Visit(at.URL+"/nothing", "404")
	b.Refused(1)
}

// plain is an application without pages of its own.
func plain(s *skerry.Services) (http.Handler, error) {
	users, err := auth.New(s.KV, auth.Options{Sessions: s.Sessions, Issuer: "plain", AllowUnverified: true})
	if err != nil {
		return nil, err
	}
	o := s.Web
	o.User = account.User(users)
	app, err := web.New(o)
	if err != nil {
		return nil, err
	}
	_, err = account.New(app, users, account.Options{
		Sessions: s.Sessions, Mail: s.Mail, BaseURL: s.BaseURL, Name: "Plain", Scopes: []string{"todo:read", "todo:write"}, AfterLogin: account.DefaultPrefix,
		Fields: []account.Field{{Name: "name", Label: "Your name", Required: true}, {Name: "company", Label: "Company"}},
	})
	app.Get("/favicon.ico", func(c *web.Context) error { return c.NoContent() }) // Chromium asks for it
	app.Get("/panic", func(*web.Context) error {
		panic("a panic in a handler with a rather long text: " + strings.Repeat("x", 80))
	})
	app.Get("/fails", func(*web.Context) error { return errors.New("the cause") })
	box := s.Mail.(*mail.Outbox)
	app.Handle("/outbox/", http.StripPrefix("/outbox", box))
	return app, err
}

// TestPlainLooks looks at the pages that Skerry brings along.
func TestPlainLooks(t *testing.T) {
	t.Parallel()
	at := start(t, skerry.Web{Debug: true, Application: plain})
	b := newTab(t)
	b.Visit(at.URL+"/account/login", "plain-login")
	b.Visit(at.URL+"/outbox/", "outbox-empty")
	b.Visit(at.URL+"/account/register", "plain-register")
	b.Do(chromedp.SendKeys(chromedp.CSS(`#email`), "anna@example.org"), chromedp.SendKeys(chromedp.CSS(`#password`), "correct horse battery"),
		chromedp.SendKeys(chromedp.CSS(`#field-name`), " x"), chromedp.Evaluate[chromedp.Void](`document.querySelector("#field-name").value = " "`), chromedp.Click(chromedp.CSS(`main button`)))
	b.Until(`document.querySelector(".fault")`)
	b.Refused(1)
	b.Looks("plain-register-wrong")
	at.Browser().Register("anna@example.org", "correct horse battery", "name", "Anna", "company", "Example")
	b.Do(chromedp.Navigate(at.URL+"/account/login"), chromedp.SendKeys(chromedp.CSS(`#email`), "anna@example.org"), chromedp.SendKeys(chromedp.CSS(`#password`), "correct horse battery\r"))
	b.Until(`location.pathname === "/account"`)
	b.Looks("plain-account")
	b.Visit(at.URL+"/account/keys", "plain-keys")
	b.Visit(at.URL+"/account/totp", "plain-totp")
	b.Do(chromedp.SendKeys(chromedp.CSS(`#password`), "correct horse battery\r"), chromedp.WaitVisible(chromedp.CSS(`#code`)))
	b.Looks("plain-enrol")
	b.Visit(at.URL+"/outbox/", "outbox")
	b.Visit(at.URL+"/outbox/1", "outbox-mail")
	b.Visit(at.URL+"/nothing", "plain-404")
	b.Visit(at.URL+"/fails", "plain-500")
	b.Visit(at.URL+"/panic", "plain-panic")
	b.Refused(1)
	b.Answered(2, "5")
}
