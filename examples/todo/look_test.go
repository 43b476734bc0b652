package todo_test

import (
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/mail"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/account"
)

// flaws are what is wrong with how the page is now: scrolling sideways, text whose contrast
// is under WCAG AA's 4.5, controls without names or with equal ones, and controls that a
// finger does not hit well.
const flaws = `(() => {
	const found = [];
	const tell = (e, what) => found.push(what + ": " + e.outerHTML.slice(0, 120));
	const seen = (e) => e.checkVisibility({ visibilityProperty: true }) && e.getBoundingClientRect().width > 1;
	if (document.documentElement.scrollWidth > innerWidth) {
		found.push("it is " + document.documentElement.scrollWidth + " pixels wide, of " + innerWidth);
		for (const e of document.body.querySelectorAll("*")) if (e.getBoundingClientRect().right > innerWidth + 1) tell(e, "too wide");
	}

	// Colors as numbers, whatever they were written as.
	const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
	const color = (text) => {
		canvas.clearRect(0, 0, 1, 1);
		canvas.fillStyle = text;
		canvas.fillRect(0, 0, 1, 1);
		return [...canvas.getImageData(0, 0, 1, 1).data];
	};
	const light = (c) => {
		const [r, g, b] = c.map((v) => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
		return .2126 * r + .7152 * g + .0722 * b;
	};
	const ground = (e) => {
		for (; e; e = e.parentElement) {
			const c = color(getComputedStyle(e).backgroundColor);
			if (c[3] === 255) return c;
		}
		return color("Canvas");
	};
	for (const e of document.body.querySelectorAll("*")) {
		const text = e.matches("input") ? e.value : [...e.childNodes].filter((n) => n.nodeType === 3).map((n) => n.data.trim()).join("");
		if (!text || !seen(e) || e.matches("script, style, option")) continue;
		const [a, b] = [light(color(getComputedStyle(e).color)), light(ground(e))];
		const contrast = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
		if (contrast < 4.5) tell(e, "contrast " + contrast.toFixed(1));
	}

	const names = new Map();
	for (const e of document.querySelectorAll("a[href], button, input:not([type=hidden])")) {
		if (!seen(e)) continue;
		const by = (e.getAttribute("aria-labelledby") ?? "").split(" ").filter(Boolean).map((id) => document.getElementById(id).textContent).join(" ");
		const name = by || e.ariaLabel || [...e.labels ?? []].map((l) => l.textContent.trim()).join(" ") || e.textContent.trim();
		if (!name) tell(e, "no name");
		if (names.has(name) && !(e.href && e.href === names.get(name).href)) tell(e, "two are called " + name);
		names.set(name, e);
		const inText = e.matches("p:not(.more) a, .hint a, pre a");
		if (!inText && !e.matches("[type=checkbox]") && e.getBoundingClientRect().height < 43.5) tell(e, "only " + e.getBoundingClientRect().height + " high");
	}
	return found;
})()`

// looks fails for each flaw of a page at 360 pixels and on a desktop, light and dark.
// With SKERRY_PICTURES it takes pictures.
func (b *tab) looks(name string) {
	b.t.Helper()
	for _, width := range []int64{360, 1280} {
		for _, scheme := range []string{"light", "dark"} {
			if _, err := chromedp.Call(b.ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 800, DeviceScaleFactor: 1, Mobile: width < 500}); err != nil {
				b.t.Fatal(err)
			}
			if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}); err != nil {
				b.t.Fatal(err)
			}
			for _, flaw := range eval[[]string](b, "%s", flaws) {
				b.t.Errorf("%s, %d pixels, %s: %s", name, width, scheme, flaw)
			}
			if os.Getenv("SKERRY_PICTURES") == "" {
				continue
			}
			b.picture(strings.Join([]string{"look", name, map[int64]string{360: "phone", 1280: "desktop"}[width], scheme}, "-"))
		}
	}
}

// visit goes to a page and looks at it.
func (b *tab) visit(at, name string) {
	b.t.Helper()
	b.do(chromedp.Navigate(at), chromedp.WaitVisible(chromedp.CSS("body")))
	b.looks(name)
}

// TestLooks looks at the pages of the application: on a phone and on a desktop, light and
// dark.
func TestLooks(t *testing.T) {
	t.Parallel()
	at := start(t, skerry.Web{})
	b := newTab(t)
	b.visit(at.URL+"/account/login", "login")
	b.visit(at.URL+"/account/reset", "reset")
	b.visit(at.URL+"/register", "register")
	b.register(at.URL, "anna.with.a.long.address@department.example.org")
	b.looks("empty")
	other := at.Browser()
	other.Login("anna.with.a.long.address@department.example.org", password)
	for _, text := range []string{"Buy milk", "Water the plants", "Call Ben about Saturday", "Read https://example.org/" + strings.Repeat("x", 100), strings.Repeat("long ", 39), "Buy milk"} {
		other.Post("/add", "text", text).Expect(200)
	}
	for _, id := range []string{"1", "5"} {
		other.Post("/done", "id", id).Expect(200)
	}
	b.do(chromedp.Navigate(at.URL+"/"), chromedp.WaitVisible(chromedp.CSS("#item-5.done")))
	b.looks("list")
	// What is done is crossed out, and its buttons are not.
	const lines = `[...document.querySelectorAll("#item-1 span, #item-1 button, #item-1")].map(e => getComputedStyle(e).textDecorationLine)`
	if got := eval[[]string](b, lines); strings.Join(got, " ") != "none none line-through none" {
		t.Errorf("lines through an item, its button, text and button: %q", got)
	}
	b.visit(at.URL+"/?find=nothing", "found-nothing")
	b.visit(at.URL+"/progress", "progress")
	for _, page := range []string{"", "/password", "/email", "/totp", "/sessions"} {
		b.visit(at.URL+"/account"+page, "account"+strings.ReplaceAll(page, "/", "-"))
	}
	b.click(`form[action="/account/sessions/revoke-others"] button`)
	b.until(`document.querySelector(".notice")`)
	b.looks("notice")
	b.visit(at.URL+"/nothing", "404")
	b.refused(1)
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
	b.visit(at.URL+"/account/login", "plain-login")
	b.visit(at.URL+"/outbox/", "outbox-empty")
	b.visit(at.URL+"/account/register", "plain-register")
	b.do(chromedp.SendKeys(chromedp.CSS(`#email`), "anna@example.org"), chromedp.SendKeys(chromedp.CSS(`#password`), "correct horse battery"),
		chromedp.SendKeys(chromedp.CSS(`#field-name`), " x"), chromedp.Evaluate[chromedp.Void](`document.querySelector("#field-name").value = " "`), chromedp.Click(chromedp.CSS(`main button`)))
	b.until(`document.querySelector(".fault")`)
	b.refused(1)
	b.looks("plain-register-wrong")
	at.Browser().Register("anna@example.org", "correct horse battery", "name", "Anna", "company", "Example")
	b.do(chromedp.Navigate(at.URL+"/account/login"), chromedp.SendKeys(chromedp.CSS(`#email`), "anna@example.org"), chromedp.SendKeys(chromedp.CSS(`#password`), "correct horse battery\r"))
	b.until(`location.pathname === "/account"`)
	b.looks("plain-account")
	b.visit(at.URL+"/account/keys", "plain-keys")
	b.visit(at.URL+"/account/totp", "plain-totp")
	b.do(chromedp.SendKeys(chromedp.CSS(`#password`), "correct horse battery\r"), chromedp.WaitVisible(chromedp.CSS(`#code`)))
	b.looks("plain-enrol")
	b.visit(at.URL+"/outbox/", "outbox")
	b.visit(at.URL+"/outbox/1", "outbox-mail")
	b.visit(at.URL+"/nothing", "plain-404")
	b.visit(at.URL+"/fails", "plain-500")
	b.visit(at.URL+"/panic", "plain-panic")
	b.refused(1)
	b.answered(2, "5")
}
