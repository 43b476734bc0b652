package web_test

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web"
)

var rewrite = flag.Bool("rewrite", false, "write the cases in testdata anew from what the application answers")

// cased is the application for the cases.
func cased(tb testing.TB) http.Handler {
	app := newApp(tb, web.Options{Headers: web.Headers{Off: true}})
	say := func(text string) web.Handler {
		return func(c *web.Context) error { return c.Text(200, fmt.Sprintf("%s %q", text, c.Request.URL.Path)) }
	}
	app.Get("/", say("front"))
	app.Get("/users/{id}", say("user"))
	app.Put("/users/{id}", say("put user"))
	app.Get("/tree/", say("tree"))
	app.Get("/exact/{$}", say("exact"))
	admin := app.Group("/admin", func(next http.Handler) http.Handler {
		return web.Handler(func(c *web.Context) error {
			c.Header().Set("X-Group", "admin")
			next.ServeHTTP(c.Writer, c.Request)
			return nil
		})
	})
	admin.Get("/", say("admin"))
	admin.Group("/deep").Post("/x", say("deep"))
	app.Handle("/plain/", http.NotFoundHandler())
	app.Get("/fail/{code}", func(c *web.Context) error {
		switch c.Path("code").String() {
		case "teapot":
			return web.Errorf(418, "no_coffee", "only %s here", "tea")
		case "secret":
			return web.Errorf(500, "no_coffee", "the password is x")
		case "busy":
			return web.Errorf(503, "busy_here", "busy")
		case "own":
			return ownError{}
		case "wrapped":
			return fmt.Errorf("around: %w", web.Errorf(402, "pay", "pay first"))
		case "fields":
			return fmt.Errorf("around: %w", web.Wrong("/a~1b", "must be %q", "x"))
		case "controls":
			return engine.Errorf(engine.CodeInvalid, "%s", "a\x1b[31mred\r\nb\u202Ec\xff")
		case "plain":
			return io.ErrClosedPipe
		}
		return engine.Errorf(engine.CodeNotFound, "no failure %s", c.Path("code"))
	})
	return app
}

// ownError is an error of another type, with a status.
type ownError struct{}

func (ownError) Error() string   { return "gone for good" }
func (ownError) HTTPStatus() int { return http.StatusGone }

// TestCases sends every request in testdata on its own connection and compares the whole responses. A file
// consists of cases; a case is
//
//	METHOD PATH          the request line, without the version
//	Name: value          headers; Host and Content-Length come by themselves
//	body: text           or a Go string in quotes; without it there is no body
//	----
//	status, headers and body of the response, up to the next "====" line
//
// Lines with # are comments.
func TestCases(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	srv := httptest.NewServer(cased(t))
	defer srv.Close()
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		for c := range strings.SplitSeq(strings.TrimSuffix(string(text), "====\n"), "====\n") {
			asked, want, _ := strings.Cut(c, "----\n")
			got := answerTo(t, srv.Listener.Addr().String(), asked)
			if !*rewrite && got != want {
				t.Errorf("%s: the response to\n%s\nis\n%s\nwant\n%s", file, asked, got, want)
			}
			out.WriteString(asked + "----\n" + got + "====\n")
		}
		if *rewrite {
			if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// answerTo sends one request and returns the response as text.
func answerTo(t *testing.T, addr, asked string) string {
	t.Helper()
	lines := slices.DeleteFunc(strings.Split(asked, "\n"), func(l string) bool { return l == "" || strings.HasPrefix(l, "#") })
	var head, body bytes.Buffer
	fmt.Fprintf(&head, "%s HTTP/1.1\r\nHost: localhost\r\n", lines[0])
	for _, l := range lines[1:] {
		text, isBody := strings.CutPrefix(l, "body: ")
		if !isBody {
			fmt.Fprintf(&head, "%s\r\n", l)
			continue
		}
		if unquoted, err := strconv.Unquote(text); err == nil {
			text = unquoted
		}
		fmt.Fprintf(&head, "Content-Length: %d\r\n", len(text))
		body.WriteString(text)
	}
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(append(append(head.Bytes(), "\r\n"...), body.Bytes()...)); err != nil {
		t.Fatal(err)
	}
	method, _, _ := strings.Cut(lines[0], " ")
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		return fmt.Sprintf("no response: %v\n", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		text = fmt.Appendf(text, "\nbroken off: %v", err)
	}
	return answerText(resp, string(text))
}

// answerText returns the status, the headers except those of every response, and the body; it normalises ids.
func answerText(resp *http.Response, body string) string {
	id := regexp.MustCompile(`\b[0-9a-f]{12}-\d+\b`)
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", resp.Status)
	for _, name := range slices.Sorted(maps.Keys(resp.Header)) {
		for _, v := range resp.Header[name] {
			if name != "Date" && name != "Content-Length" && name != "X-Content-Type-Options" {
				fmt.Fprintf(&b, "%s: %s\n", name, id.ReplaceAllString(v, "ID"))
			}
		}
	}
	if strings.Contains(body, "<style") {
		body = strings.Join(regexp.MustCompile(`(?m)^<(title|h1|p|ul)\b.*$`).FindAllString(body, -1), "\n")
	}
	if body != "" {
		fmt.Fprintf(&b, "\n%s\n", strings.TrimSuffix(id.ReplaceAllString(body, "ID"), "\n"))
	}
	return b.String()
}
