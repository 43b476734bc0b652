package api_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/api"
)

// waitIdle waits until no request but the one that asks is in flight.
func (s *server) waitIdle(t *testing.T) {
	t.Helper()
	eventually.True(t, "all other requests end", func() bool { return s.metric(t, "skerry_http_requests_in_flight") <= 1 })
}

func TestSlowHeaders(t *testing.T) {
	s := serve(t, api.Options{}, func(h *http.Server) {
		if h.ReadHeaderTimeout != web.HeaderTimeout || h.IdleTimeout != web.IdleTimeout || h.WriteTimeout != web.RequestTimeout {
			t.Errorf("bounds are missing: %+v", h)
		}
		h.ReadHeaderTimeout = 100 * time.Millisecond
	})
	conn := s.dial(t)
	fmt.Fprintf(conn, "GET /db/a HTTP/1.1\r\nHost: loc")
	if _, err := io.Copy(io.Discard, conn); err != nil {
		t.Errorf("the connection is not closed: %v", err)
	}
}

// TestSlowReader: a client that requests a large value and does not read it is disconnected.
func TestSlowReader(t *testing.T) {
	s := serve(t, api.Options{}, func(h *http.Server) { h.WriteTimeout = 2 * time.Second })
	if _, _, err := s.store.Set(context.Background(), 0, []byte("large"), make([]byte, kv.MaxValBytes), kv.SetOptions{}); err != nil {
		t.Fatal(err)
	}
	conn := s.dial(t)
	fmt.Fprintf(conn, "GET /db/large HTTP/1.1\r\nHost: localhost\r\n\r\n")
	awaitAnswer(t, conn)
	s.waitIdle(t)
	if n, _ := io.Copy(io.Discard, conn); n == 0 || n >= kv.MaxValBytes {
		t.Errorf("the slow reader got %d bytes", n)
	}
}

// awaitAnswer returns once the server has begun to respond: before that it is idle too.
func awaitAnswer(t *testing.T, conn net.Conn) {
	t.Helper()
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
}

// TestBackupStalls: a backup may take longer than any other response, but must not stall.
func TestBackupStalls(t *testing.T) {
	const stall = time.Second
	var impatient atomic.Pointer[http.Handler]
	o := api.Options{Backup: func(ctx context.Context, w io.Writer) (engine.Position, error) {
		for range 8 {
			if _, err := w.Write(make([]byte, 4<<20)); err != nil {
				return 0, err
			}
			time.Sleep(stall / 3)
		}
		return 1, ctx.Err()
	}}
	s := serve(t, o, func(h *http.Server) {
		h.ReadTimeout, h.WriteTimeout = stall, stall
		h.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*impatient.Load()).ServeHTTP(w, r) })
	})
	h := api.NewImpatient(s.store, o, stall)
	impatient.Store(&h)
	if got := s.do(t, "GET", "/backup", nil); len(got.body) != 32<<20 {
		t.Errorf("the patient reader got %d bytes", len(got.body))
	}
	conn := s.dial(t)
	fmt.Fprintf(conn, "GET /backup HTTP/1.1\r\nHost: localhost\r\n\r\n")
	awaitAnswer(t, conn)
	s.waitIdle(t)
	if n, _ := io.Copy(io.Discard, conn); n == 0 || n >= 32<<20 {
		t.Errorf("the reader that stood still got %d bytes", n)
	}
}

// TestHTTP2: the same face over TLS and HTTP/2.
func TestHTTP2(t *testing.T) {
	s := serve(t, api.Options{Password: "p"})
	h2 := httptest.NewUnstartedServer(s.http.Handler)
	h2.EnableHTTP2 = true
	h2.StartTLS()
	defer h2.Close()
	c := h2.Client()
	send := func(method, path string, body io.Reader) (*http.Response, []byte) {
		req, err := http.NewRequest(method, h2.URL+path, body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer p")
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		got, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp, got
	}
	large := bytes.Repeat([]byte("x"), 1<<20)
	unknown := io.MultiReader(bytes.NewReader(large)) // no length is declared
	if resp, _ := send("PUT", "/db/a//b", unknown); resp.StatusCode != 201 || resp.ProtoMajor != 2 || resp.TLS.Version < tls.VersionTLS12 {
		t.Errorf("answered %v", resp)
	}
	if resp, got := send("GET", "/db/a//b", nil); !bytes.Equal(got, large) || resp.Header.Get("X-Skerry-Position") != "1" {
		t.Errorf("answered %v with %d bytes", resp, len(got))
	}
	if resp, got := send("PUT", "/db/over", io.MultiReader(bytes.NewReader(make([]byte, kv.MaxValBytes+1)))); resp.StatusCode != 413 {
		t.Errorf("answered %v %s", resp, got)
	}
	if resp, got := send("GET", "/backup", nil); resp.Trailer.Get("X-Skerry-Position") != "1" || len(got) == 0 {
		t.Errorf("answered %v", resp)
	}
	if _, got := send("GET", "/db/", nil); !strings.Contains(string(got), `{"key":"a//b"}`) {
		t.Errorf("answered %s", got)
	}
}

// FuzzField: a member of a listing gives back every byte, in one of two forms.
func FuzzField(f *testing.F) {
	for _, s := range []string{"", "a", "\x00\xff", "ä\u2028<&>\"\\", "\x7f", "\xed\xa0\x80", "\ufffd"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var got struct {
			Key   *string
			Key64 []byte
		}
		text := "{" + string(api.AppendField(nil, "key", data)) + "}"
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if lossless(t, got.Key, got.Key64) != string(data) {
			t.Fatalf("%q became %s", data, text)
		}
	})
}
