package web_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web"
)

func TestTimeout(t *testing.T) {
	s := serve(t, web.Options{}, func(a *web.App) {
		soon, late := web.Timeout(20*time.Millisecond), web.Timeout(time.Hour)
		a.Get("/waits", func(c *web.Context) error {
			<-c.Done()
			return fmt.Errorf("ask the database: %w", c.Err())
		}, soon)
		a.Get("/silent", func(*web.Context) error { return nil }, soon)
		a.Handle("/quiet", soon(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })))
		a.Handle("/kept", web.Compress(web.CompressOptions{})(soon(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "it took a while")
			<-r.Context().Done()
		}))))
		a.Get("/answers", func(c *web.Context) error {
			<-c.Done()
			return c.Text(200, "late, but true")
		}, soon)
		a.Get("/unknown", func(c *web.Context) error {
			<-c.Done()
			return engine.Errorf(engine.CodeOutcomeUnknown, "wait for the commit: %w", c.Err())
		}, soon)
		a.Get("/other", func(c *web.Context) error {
			ctx, cancel := context.WithTimeout(c, time.Millisecond)
			defer cancel()
			<-ctx.Done()
			return ctx.Err()
		}, late)
		a.Get("/deadline", func(c *web.Context) error {
			at, ok := c.Deadline()
			return c.JSON(200, ok && time.Until(at) > 59*time.Minute)
		}, late)
	})
	for path, want := range map[string]string{
		"/waits": `503 "code":"timeout"`, "/silent": "200 ", "/quiet": `503 "code":"timeout"`, "/kept": "200 it took a while", "/answers": "200 late, but true",
		"/unknown": `500 "code":"outcome_unknown"`, "/other": `500 "code":"internal"`, "/deadline": "200 true",
	} {
		got := s.do("GET", path, "")
		status, text, _ := strings.Cut(want, " ")
		if fmt.Sprint(got.status) != status || !strings.Contains(got.body, text) || got.status == 503 && got.header.Get("Retry-After") != "" {
			t.Errorf("%s: %+v, want %s", path, got, want)
		}
	}
}

// TestTimeoutOfABody: the server does not wait longer for a body, and the next request on the same connection
// gets a complete response.
func TestTimeoutOfABody(t *testing.T) {
	s := serve(t, web.Options{}, func(a *web.App) {
		read := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n, err := io.Copy(io.Discard, r.Body)
			if ne, ok := errors.AsType[net.Error](err); err != nil && (!ok || !ne.Timeout()) {
				t.Errorf("the body ended with %v", err)
			}
			fmt.Fprintf(w, "%d %v", n, err != nil)
		})
		a.Handle("POST /soon", read, web.Timeout(50*time.Millisecond))
		a.Handle("POST /late", read, web.Timeout(time.Hour))
	})
	addr := strings.TrimPrefix(plainServer(t, s.app), "http://")
	for path, want := range map[string]string{"/soon": "4 true", "/late": "10 false"} {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n1234", path)
		if path == "/late" {
			time.Sleep(100 * time.Millisecond) // longer than the other may take
			fmt.Fprint(conn, "567890")
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		if string(body) != want {
			t.Errorf("%s: %q, want %q", path, body, want)
		}
	}
}
