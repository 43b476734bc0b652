package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/pquerna/otp/totp"
)

const (
	email    = "anna@example.org"
	password = "correct horse battery"
)

// client is an administrator who is logged in. It asks for compressed pages, as browsers do.
type client struct {
	base *url.URL
	http *http.Client
	read bytes.Buffer // the newest response, as it was on the wire
}

var secretInPage = regexp.MustCompile(`<code>([A-Z2-7]{16,})</code>`)

// logIn sets the first administrator up with the link, second factor included.
func logIn(link string) (*client, error) {
	base, err := url.Parse(link)
	if err != nil {
		return nil, err
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	c := &client{base: base.ResolveReference(&url.URL{Path: "/"}), http: &http.Client{Jar: jar, Timeout: time.Minute}}
	if _, err := c.post(base.Path, "email", email, "password", password); err != nil {
		return nil, fmt.Errorf("set up an account: %w", err)
	}
	page, err := c.post("/admin/account/totp/enrol", "password", password)
	if err != nil {
		return nil, fmt.Errorf("enrol a second factor: %w", err)
	}
	secret := secretInPage.FindStringSubmatch(page)
	if secret == nil {
		return nil, errors.New("the page of the second factor has no secret")
	}
	code, err := totp.GenerateCode(secret[1], time.Now())
	if err != nil {
		return nil, err
	}
	if _, err := c.post("/admin/account/totp/confirm", "code", code); err != nil {
		return nil, fmt.Errorf("confirm the second factor: %w", err)
	}
	_, err = c.get("/admin/overview")
	return c, err
}

func (c *client) post(path string, fields ...string) (string, error) {
	form := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	return c.do(http.MethodPost, path, form)
}

func (c *client) get(path string) (string, error) { return c.do(http.MethodGet, path, nil) }

func (c *client) do(method, path string, form url.Values) (string, error) {
	if err := c.send(method, path, form); err != nil {
		return "", err
	}
	z, err := gzip.NewReader(bytes.NewReader(c.read.Bytes()))
	if errors.Is(err, gzip.ErrHeader) {
		return c.read.String(), nil // too small to be compressed
	}
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(z)
	return string(text), err
}

// send reads a response into c.read, without unpacking it.
func (c *client) send(method, path string, form url.Values) error {
	at, err := c.base.Parse(path)
	if err != nil {
		return err
	}
	r, err := http.NewRequest(method, at.String(), strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	r.Header.Set("Accept", "text/html")
	r.Header.Set("Accept-Encoding", "gzip")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if method != http.MethodGet {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	c.read.Reset()
	if _, err := c.read.ReadFrom(resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s", method, path, resp.Status)
	}
	return nil
}

var nextInPage = regexp.MustCompile(`href="([^"]*)" rel="next"`)

// next returns the path of the page behind a page of a grid.
func next(page string) (string, error) {
	link := nextInPage.FindStringSubmatch(page)
	if link == nil {
		return "", errors.New("the page has no next one")
	}
	return grid + html.UnescapeString(link[1]), nil
}
