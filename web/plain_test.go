package web_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// plainServer serves h without TLS and returns its address.
func plainServer(tb testing.TB, h http.Handler) string {
	tb.Helper()
	srv := httptest.NewServer(h)
	tb.Cleanup(srv.Close)
	return srv.URL
}

// get sends one request on a new connection; header has pairs of a name and a value.
func get(tb testing.TB, url string, header ...string) answer {
	tb.Helper()
	r, err := http.NewRequestWithContext(tb.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		tb.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	r.Close = true
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		tb.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		tb.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(body)}
}
