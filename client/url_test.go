package client_test

import (
	"crypto/tls"
	"errors"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/ci/certs"
	"github.com/skerrydb/skerry/client"
)

func TestParseURL(t *testing.T) {
	for _, c := range []struct {
		url  string
		want client.Options
	}{
		{"skerry://h", client.Options{Addrs: []string{"h:6380"}}},
		{"redis://h:1/", client.Options{Addrs: []string{"h:1"}}},
		{"skerry://u:p%40%2f%3a@h1:7,h2,[::1]:8,[::2]/3", client.Options{Addrs: []string{"h1:7", "h2:6380", "[::1]:8", "[::2]:6380"},
			User: "u", Password: "p@/:", Database: 3}},
		{"skerry://:p@h?conns=2&max_in_flight=9&full=fail&timeout=5s&dial_timeout=1s&dead_after=off&max_backoff=2s&" +
			"max_reply_bytes=100&read_from=any&read_level=session&cache_bytes=7&name=n", client.Options{Addrs: []string{"h:6380"}, Password: "p",
			Conns: 2, MaxInFlight: 9, Full: client.Fail, Timeout: 5 * time.Second, DialTimeout: time.Second, DeadAfter: -1,
			MaxBackoff: 2 * time.Second, MaxReplyBytes: 100, ReadFrom: client.ReadAny, ReadLevel: "session", CacheBytes: 7, Name: "n"}},
		{"skerrys://h", client.Options{Addrs: []string{"h:6380"}, TLS: &tls.Config{MinVersion: tls.VersionTLS12}}},
		{"skerry://h?tls=skip-verify&server_name=x", client.Options{Addrs: []string{"h:6380"},
			TLS: &tls.Config{MinVersion: tls.VersionTLS12, ServerName: "x", InsecureSkipVerify: true}}},
	} {
		got, err := client.ParseURL(c.url)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v", c.url, got, err)
		}
	}
}

func TestParseURLErrors(t *testing.T) {
	for url, want := range map[string]string{
		"h:1":                                        "does not begin with skerry://",
		"http://h":                                   `the scheme "http"`,
		"skerry://":                                  "empty host",
		"skerry://a,,b":                              "empty host",
		"skerry://h:0":                               "the port of the address",
		"skerry://h:99999":                           "the port of the address",
		"skerry://h:x":                               "the port of the address",
		"skerry://:6380":                             "has no host",
		"skerry://a:b:c":                             "is not HOST:PORT",
		"skerry://user@h":                            "a user without a password",
		"skerry://user:@h":                           "password of the URL is empty",
		"skerry://u:%zz@h":                           "the password of the URL has a %",
		"skerry://%zz:p@h":                           "the user of the URL has a %",
		"skerry://u:a/b@h":                           "are %2F and %3F in a password",
		"skerry://u:a?b@h":                           "are %2F and %3F in a password",
		"skerry://u:a#b@h":                           "the URL has a #",
		"skerry://h/x":                               `the path "/x"`,
		"skerry://h?timout=5s":                       `no parameter "timout"`,
		"skerry://h?timeout=5":                       "timeout=5 is not a duration with a unit",
		"skerry://h?timeout=-5s":                     "timeout=-5s is not a duration",
		"skerry://h?max_backoff=off":                 "max_backoff=off is not a duration",
		"skerry://h?conns=0":                         "conns=0 is not a positive number",
		"skerry://h?conns=65":                        "Conns is 65, must be 1 to 64",
		"skerry://h?max_in_flight=99999999":          "MaxInFlight is 99999999",
		"skerry://h?conns=1&conns=2":                 "conns is given twice",
		"skerry://h?full=maybe":                      "full=maybe is none of block, fail",
		"skerry://h?read_from=x":                     "read_from=x is none of leader, any, followers",
		"skerry://h?read_level=x":                    `ReadLevel "x"`,
		"skerry://h?name=":                           "the parameter name is empty",
		"skerry://h?name=a%20b":                      "Name",
		"skerry://h?tls=1":                           "tls=1 is none of",
		"skerrys://h?tls=false":                      "the scheme, which requires TLS",
		"skerry://h?tls=false&ca=x":                  "tls=false disables it",
		"skerry://h?cert=x":                          "cert and key must be given together",
		"skerry://h?ca=/nonexistent":                 "ca: open /nonexistent",
		"skerry://h?a=%zz":                           "the parameters of the URL cannot be read",
		"skerry://h?cert=/no/c&key=/no/k":            "cert and key: open /no/c",
		"skerry://h/99999999":                        "Database is 99999999",
		"skerry://" + strings.Repeat("h,", 64) + "h": "Addrs is 65",
	} {
		_, err := client.ParseURL(url)
		if !errors.Is(err, client.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %q", url, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "u:") && !strings.Contains(err.Error(), `"u:…"`) {
			t.Errorf("%s: the error shows the password: %v", url, err)
		}
	}
}

// TestParseURLSecret checks that wherever an unescaped password stands, no error contains a
// part of it.
func TestParseURLSecret(t *testing.T) {
	for _, url := range []string{
		"skerry://u:SEC/RET@h", "skerry://u:SEC?RET@h", "skerry://u:SEC#RET@h", "skerry://u:SEC@W/RET@h", "skerry://u:SEC@W?RET@h",
		"skerry://u:SEC@W?RET=1@h", "skerry://u:SEC@W/RET@h?timeout=1s", "skerry://u:SEC@RET:x@h:y", "skerry://u:SECRET", "skerry://u:SEC/RET",
		"skerry://u:SEC:RET", "skerry://u:SECRET/?conns=2", "skerry://u:SEC,RET:1:2@h:x", "skerry://u:SEC%zzRET@h", "u:SECRET@h", "http://u:SECRET@h",
		"skerry://u:SECRET@h/?password=SECRET", "skerry://u:SECRET@h:70000", "skerry://u:SECRET@", "skerry://u:SEC@RET@h,",
	} {
		_, err := client.ParseURL(url)
		if err == nil {
			t.Errorf("%s is accepted", url)
		} else if text := err.Error(); strings.Contains(text, "SEC") || strings.Contains(text, "RET") {
			t.Errorf("%s: the error has the password: %v", url, err)
		}
	}
}

// TestParameterNames checks that the error suggests the intended name or lists all.
func TestParameterNames(t *testing.T) {
	for name, want := range map[string]string{
		"timout": "did you mean timeout?", "Timeout": "did you mean timeout?", "max_inflight": "did you mean max_in_flight?",
		"cn": "there are ca, ", "sslmode": "there are ca, cache_bytes, ", strings.Repeat("x", 1000): "there are ca, ",
	} {
		_, err := client.ParseURL("skerry://h?" + name + "=1")
		if !errors.Is(err, client.ErrInvalid) || !strings.Contains(err.Error(), want) || len(err.Error()) > 400 {
			t.Errorf("%.40s: %v, want %q", name, err, want)
		}
	}
	_, err := client.ParseURL("skerry://h?zzzzzzzz=1")
	_, names, _ := strings.Cut(err.Error(), "there are ")
	for name := range strings.SplitSeq(strings.TrimSuffix(names, " [invalid]"), ", ") {
		if _, err := client.ParseURL("skerry://h?" + name + "=?"); err != nil && strings.Contains(err.Error(), "no parameter") {
			t.Errorf("a suggested name: %v", err)
		}
	}
}

// FuzzParseURL checks that accepted URLs can be opened, and that no error contains a
// password.
func FuzzParseURL(f *testing.F) {
	f.Add("skerry://u:p@h1:7,h2/3?timeout=5s&tls=true")
	f.Add("rediss://[::1]:6380/?conns=2")
	f.Fuzz(func(t *testing.T, url string) {
		o, err := client.ParseURL(url)
		if err != nil {
			if !errors.Is(err, client.ErrInvalid) {
				t.Errorf("%q: %v", url, err)
			}
			return
		}
		for _, a := range o.Addrs {
			if _, _, err := net.SplitHostPort(a); err != nil {
				t.Errorf("%q has the address %q", url, a)
			}
		}
	})
}

// TestTLS uses mutual TLS and a password, all by URL. A client that lacks one of them is
// rejected.
func TestTLS(t *testing.T) {
	noLeaks(t)
	own := certs.New(t)
	file, key := own.Write(t, t.TempDir())
	config := own.Server()
	config.ClientCAs, config.ClientAuth = own.Pool, tls.RequireAndVerifyClientCert
	addr := startServer(t, skerry.Options{Password: "secret", TLS: config})
	try := func(timeout, query, password string) error {
		o, err := client.ParseURL("skerry://:" + password + "@" + addr + "?timeout=" + timeout + "&" + query)
		if err != nil {
			t.Fatal(err)
		}
		return open(t, o).Ping(background)
	}
	pair := "&cert=" + file + "&key=" + key
	if err := try("60s", "ca="+file+pair, "secret"); err != nil {
		t.Errorf("with everything: %v", err)
	}
	if err := try("60s", "ca="+file+pair, "wrong"); err == nil || !strings.Contains(err.Error(), "WRONGPASS") {
		t.Errorf("with a wrong password: %v", err)
	}
	if err := try("100ms", "ca="+file, "secret"); !errors.Is(err, client.ErrUnavailable) {
		t.Errorf("without a certificate: %v", err)
	}
	var err error
	for _, timeout := range []string{"100ms", "1s", "20s"} { // a slow machine needs longer
		if err = try(timeout, "tls=true"+pair, "secret"); err != nil && strings.Contains(err.Error(), "certificate") {
			break
		}
	}
	if !errors.Is(err, client.ErrUnavailable) || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("without the CA: %v", err)
	}
	if err := try("100ms", "name=x", "secret"); !errors.Is(err, client.ErrUnavailable) {
		t.Errorf("without TLS: %v", err)
	}
}
