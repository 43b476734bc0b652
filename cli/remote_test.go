package cli

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/cli/verb"
)

// TestStrangeAnswers: errors about servers that are not Skerry's, or that break off.
func TestStrangeAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		args  []string
		serve func(w http.ResponseWriter)
		code  int
		want  string
	}{
		{"another server's page", []string{"procedures"}, func(w http.ResponseWriter) {
			fmt.Fprint(w, "<html>")
		}, verb.ExitFailed, "is not a response of a Skerry server: "},
		{"another server's error", []string{"call", "x"}, func(w http.ResponseWriter) {
			http.Error(w, strings.Repeat("no ", maxRefusal), http.StatusTeapot)
		}, verb.ExitFailed, "/api/call/x responded with 418 I'm a teapot: no no "},
		{"a list over the limit", []string{"procedures"}, func(w http.ResponseWriter) {
			for blank := bytes.Repeat([]byte(" "), 1<<20); ; {
				if _, err := w.Write(blank); err != nil {
					return
				}
			}
		}, verb.ExitFailed, "/api/procedures is larger than 64MiB"},
		{"a result that breaks off", []string{"call", "x"}, func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "10")
			fmt.Fprint(w, "123")
		}, verb.ExitFailed, "the call was carried out, but reading its result failed: "},
		{"an error with title alone", []string{"call", "x"}, func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, `{"title":"Service Unavailable","code":"not_leader"}`)
		}, verb.ExitFailed, "call: Service Unavailable [not_leader]\n"},
		{"arguments that the server refuses", []string{"call", "x"}, func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"detail":"a is missing","code":"invalid","errors":[{"pointer":"/a","code":"invalid"}]}`)
		}, verb.ExitUsage, "call: a is missing [invalid]\n"},
		{"the same code from the procedure itself", []string{"call", "x"}, func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"detail":"not like that","code":"invalid"}`)
		}, verb.ExitFailed, "call: not like that [invalid]\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { c.serve(w) }))
			defer srv.Close()
			code, _, stderr := runApp(append(c.args, "--url", srv.URL)...)
			if code != c.code || !strings.Contains(stderr, c.want) || len(stderr) > 2<<10 {
				t.Errorf("[%d] %.300s", code, stderr)
			}
		})
	}
}
