// Package webtest runs a web application for its tests and uses it like a browser: with cookies, redirects and
// forms, over TLS, on a temporary folder and a free port. Email goes to an outbox that tests read.
//
//	site := webtest.Start(t, skerry.Web{Name: "diary", Application: application}, procedures...)
//	home := site.Browser().Get("/").Expect(200, "Dear diary")
//	home.Submit("form", "text", "a fine day").Expect(200, "a fine day")
//
// It knows servers, pages, forms and email; it must not know what the application does. A failure ends the
// test.
package webtest

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/mail"
	"github.com/skerrydb/skerry/proc"
)

// Patience is how long a request may take.
const Patience = 60 * time.Second

// Site is an application that runs until its test ends.
type Site struct {
	URL string // https://127.0.0.1:PORT

	t         testing.TB
	outbox    *mail.Outbox
	transport *http.Transport // trusts the site's certificate
}

// Start runs an application with its procedures on a new temporary folder and a free loopback port, until the
// test ends. If w.Mail is nil, Site.Mail returns the email. If w.BaseURL is "", links in email lead to the
// site. The server's log from level warn is in the test's output.
func Start(t testing.TB, w skerry.Web, procedures ...proc.Procedure) *Site {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	db, err := embedded.Open(t.TempDir(), embedded.Options{Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	lender := httptest.NewTLSServer(nil) // to borrow its certificate for 127.0.0.1
	lender.Close()
	s := &Site{URL: "https://" + listener.Addr().String(), t: t, outbox: mail.NewOutbox(0), transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: lender.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs},
	}}
	t.Cleanup(s.transport.CloseIdleConnections)
	if w.Mail == nil {
		w.Mail = s.outbox
	}
	if w.BaseURL == "" {
		w.BaseURL = s.URL
	}
	srv, err := skerry.Open(db, skerry.Options{
		HTTPListener: listener, RESP: skerry.Off, Admin: skerry.Off, TLS: &tls.Config{Certificates: lender.TLS.Certificates},
		Procedures: procedures, Web: w, Logger: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.Run(context.Background()) }()
	t.Cleanup(func() {
		srv.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s
}

// Browser returns a new browser without cookies.
func (s *Site) Browser() *Browser {
	s.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return &Browser{Site: s, Client: &http.Client{Jar: jar, Transport: s.transport, Timeout: Patience}}
}

// Mail is a message that the application has sent.
type Mail struct {
	mail.Message

	t testing.TB
}

// Mail returns the messages sent so far, the oldest first. It returns none if Start was given another sender.
func (s *Site) Mail() []Mail {
	var all []Mail
	for _, kept := range slices.Backward(s.outbox.List()) {
		all = append(all, Mail{kept.Message, s.t})
	}
	return all
}

// LastMail returns the last message to an address.
func (s *Site) LastMail(to string) Mail {
	s.t.Helper()
	for _, m := range slices.Backward(s.Mail()) {
		if slices.Contains(m.To, to) {
			return m
		}
	}
	s.t.Fatalf("no email was sent to %s", to)
	panic("unreachable")
}

var link = regexp.MustCompile(`https?://[^\s<>"]+`)

// Link returns the first link in the text of the message, for Browser.Get.
func (m Mail) Link() string {
	m.t.Helper()
	at := strings.TrimRight(link.FindString(m.Text), ".,;:!?)")
	if at == "" {
		m.t.Fatalf("the email %q has no link:\n%s", m.Subject, m.Text)
	}
	return at
}
