package skerry_test

import (
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
)

// TestCertificates: with domains to order certificates for, HTTP is HTTPS only, from the start. Plain HTTP
// redirects there, and to no other name.
func TestCertificates(t *testing.T) {
	t.Parallel()
	db, err := embedded.Open(t.TempDir(), embedded.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	certificates := skerry.Certificates{Domains: []string{"app.example"}, CA: "https://127.0.0.1:1/directory", HTTPListener: plain}
	if _, err := skerry.Open(db, skerry.Options{HTTP: skerry.Off, RESP: skerry.Off, Certificates: skerry.Certificates{Domains: []string{"a.example"}}}); engine.CodeOf(err) != engine.CodeInvalid {
		t.Errorf("without HTTP: %v", err)
	}
	if _, err := skerry.Open(db, skerry.Options{HTTP: "127.0.0.1:0", RESP: skerry.Off, TLS: &tls.Config{}, Certificates: skerry.Certificates{Domains: []string{"a.example"}}}); engine.CodeOf(err) != engine.CodeInvalid {
		t.Errorf("with TLS: %v", err)
	}
	srv, err := skerry.Open(db, skerry.Options{HTTP: "127.0.0.1:0", RESP: skerry.Off, Admin: "127.0.0.1:0", Certificates: certificates})
	if err != nil {
		t.Fatal(err)
	}
	go srv.Run(t.Context())
	defer srv.Close()
	if !strings.HasPrefix(srv.HTTPURL(), "https://") || !strings.HasPrefix(srv.AdminURL(), "http://") {
		t.Errorf("the addresses are %s and %s", srv.HTTPURL(), srv.AdminURL())
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for host, want := range map[string]string{"app.example": "https://app.example/a?b=c", "APP.example:8080": "https://app.example/a?b=c", "other.example": ""} {
		req, err := http.NewRequest("GET", "http://"+plain.Addr().String()+"/a?b=c", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if got := resp.Header.Get("Location"); got != want || (want == "") != (resp.StatusCode == http.StatusMisdirectedRequest) {
			t.Errorf("%s is sent to %q: %s", host, got, resp.Status)
		}
	}
	at := strings.TrimPrefix(srv.HTTPURL(), "https://")
	if c, err := tls.Dial("tcp", at, &tls.Config{ServerName: "app.example", InsecureSkipVerify: true}); err == nil {
		c.Close()
		t.Error("there is a certificate that nobody issued")
	}
	resp, err := http.Get("http://" + at + "/db/a")
	if err == nil {
		resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("in the clear: %s", resp.Status)
		}
	}
	resp, err = http.Get(srv.AdminURL() + "/healthz")
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("admin: %v", err)
	}
	if err == nil {
		resp.Body.Close()
	}
}
