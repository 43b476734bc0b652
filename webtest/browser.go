package webtest

import (
	"io"
	"net/http"
	"net/url"
	"strings"
)

// Browser requests pages as one user's browser does: it keeps cookies, follows redirects, and sends the
// headers that cross-origin protection checks.
type Browser struct {
	Site   *Site
	Client *http.Client
}

// Get returns the page at a path of the site, for example /list?page=2, or at a full URL of it.
func (b *Browser) Get(path string) *Page {
	b.Site.t.Helper()
	return b.do(http.MethodGet, path, nil)
}

// Post sends a form, given as alternating names and values, and returns the page that follows. Prefer
// Page.Submit, which like a user sends only fields that a page has.
func (b *Browser) Post(path string, fields ...string) *Page {
	b.Site.t.Helper()
	return b.do(http.MethodPost, path, b.pairs(fields))
}

// Register creates an account with the pages of package account at their default path, and opens the link in
// the email that confirms the address. fields are the form's other fields, as alternating names and values. It
// does not log in.
func (b *Browser) Register(email, password string, fields ...string) *Page {
	b.Site.t.Helper()
	b.Get("/account/register").Submit("form[action=/account/register]", append([]string{"email", email, "password", password}, fields...)...).Expect(http.StatusOK)
	return b.Get(b.Site.LastMail(email).Link()).Submit("form[action=/account/verify]", "password", password).Expect(http.StatusOK)
}

// Login logs in with the page of package account at its default path, and returns the page that follows.
func (b *Browser) Login(email, password string) *Page {
	b.Site.t.Helper()
	return b.Get("/account/login").Submit("form[action=/account/login]", "email", email, "password", password)
}

// pairs returns a form of alternating names and values.
func (b *Browser) pairs(fields []string) url.Values {
	b.Site.t.Helper()
	if len(fields)%2 != 0 {
		b.Site.t.Fatalf("%q: a name has no value", fields)
	}
	form := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		form.Add(fields[i], fields[i+1])
	}
	return form
}

// address returns the URL of a path, or of an address of the site.
func (b *Browser) address(path string) string {
	b.Site.t.Helper()
	at := strings.TrimPrefix(path, b.Site.URL)
	if at == "" {
		at = "/"
	}
	if !strings.HasPrefix(at, "/") {
		b.Site.t.Fatalf("%q is neither a path like /list nor at %s", path, b.Site.URL)
	}
	return b.Site.URL + at
}

// do sends a form, or requests a page if form is nil.
func (b *Browser) do(method, path string, form url.Values) *Page {
	t := b.Site.t
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, b.address(path), strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/html,*/*;q=0.8")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", b.Site.URL)
	}
	return b.Do(r)
}

// Do sends a custom request with the browser's cookies, and returns the page that follows.
func (b *Browser) Do(r *http.Request) *Page {
	t := b.Site.t
	t.Helper()
	resp, err := b.Client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return &Page{Browser: b, Path: resp.Request.URL.RequestURI(), Status: resp.StatusCode, Header: resp.Header, Body: string(body)}
}
