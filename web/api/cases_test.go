package api_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web/api"
)

var rewrite = flag.Bool("rewrite", false, "write the cases in testdata anew from what the server answers")

// TestCases sends every request in testdata to a server of its own and compares
// the whole answers. A file is made of cases; a case is
//
//	METHOD PATH          the request line, without the version
//	Name: value          headers; Host and Content-Length come by themselves
//	body: text           or a Go string in quotes; without it there is no body
//	----
//	status, headers and body of the answer, up to the next "====" line
//
// Instead of a request line there may be "raw" and lines of Go strings, which
// are sent as they are; "advance 30s", which moves the clock; or, first in the
// file, "password TEXT", "procedures", "operator" or "not ready". Lines with # are comments.
func TestCases(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			runFile(t, file, *rewrite, func(o api.Options, ps procedures, with ...func(*http.Server)) *server {
				return serveProcedures(t, ps, o, with...)
			})
		})
	}
}

// TestCasesForwarded sends the same requests to a node that does not lead: the responses must be equal, except
// for the header that names the node.
func TestCasesForwarded(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			var follower *node
			runFile(t, file, false, func(o api.Options, ps procedures, with ...func(*http.Server)) *server {
				follower = serveNodes(t, []procedures{ps, ps}, o, with).nodes[1]
				follower.inCluster = true
				return follower.server
			})
			if strings.Contains(file, "conditions") && (follower.forwards(t, "answered") == 0 || follower.forwards(t, "broken")+follower.forwards(t, "refused") > 0) {
				t.Error("the leader was not asked")
			}
		})
	}
}

func runFile(t *testing.T, file string, rewrite bool, serve func(api.Options, procedures, ...func(*http.Server)) *server) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var s *server
	var o api.Options
	var ps procedures
	var with []func(*http.Server)
	start := func() {
		if s == nil {
			s = serve(o, ps, with...)
		}
	}
	var out strings.Builder
	for c := range strings.SplitSeq(strings.TrimSuffix(string(text), "====\n"), "====\n") {
		asked, want, _ := strings.Cut(c, "----\n")
		got := ""
		for _, line := range lines(asked) {
			word, rest, _ := strings.Cut(line, " ")
			switch word {
			case "password":
				o.Password = rest
			case "not":
				o.Ready = func() error { return engine.Errorf(engine.CodeStopped, "disk sda1 failed") }
			case "operator":
				with = append(with, func(srv *http.Server) { srv.Handler = srv.Handler.(*api.Face).AdminHandler() })
			case "procedures":
				ps = testProcedures()
			case "advance":
				d, err := time.ParseDuration(rest)
				if err != nil {
					t.Fatal(err)
				}
				start()
				s.clock.advance(d)
			default:
				start()
				got = s.answerTo(t, asked)
			}
			if got != "" {
				break
			}
		}
		if !rewrite && got != want {
			t.Errorf("%s: the answer to\n%s\nis\n%s\nnot\n%s", file, asked, got, want)
		}
		out.WriteString(asked)
		if got != "" {
			out.WriteString("----\n" + got)
		}
		out.WriteString("====\n")
	}
	if rewrite {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// lines returns the lines of a case's first part, without comments.
func lines(asked string) []string {
	return slices.DeleteFunc(strings.Split(asked, "\n"), func(l string) bool {
		return l == "" || strings.HasPrefix(l, "#")
	})
}

// answerTo sends one request on a new connection and returns the response as text.
func (s *server) answerTo(t *testing.T, asked string) string {
	t.Helper()
	req, method := requestBytes(t, lines(asked))
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(req); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		return fmt.Sprintf("no answer: %v\n", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		body = fmt.Appendf(body, "\nbroken off: %v", err)
	}
	if s.inCluster {
		return s.withoutCluster(t, method, strings.Fields(lines(asked)[0]), resp, body)
	}
	return answerText(resp, body)
}

// withoutCluster returns the response without the parts that only a node of a cluster sends. It checks that
// the leader carried out writes.
func (s *server) withoutCluster(t *testing.T, method string, asked []string, resp *http.Response, body []byte) string {
	by := resp.Header.Get("X-Skerry-Node")
	wrote := resp.StatusCode == 201 || resp.StatusCode == 204 && (method == "PUT" || method == "POST" || method == "DELETE")
	if wrote && by != "1" {
		t.Errorf("%v was answered with %d by node %q", asked, resp.StatusCode, by)
	}
	resp.Header.Del("X-Skerry-Node")
	var about map[string]json.RawMessage
	if json.Unmarshal(body, &about) == nil && about["cluster"] != nil {
		at := bytes.Index(body, []byte(`"cluster":`))
		body = slices.Delete(body, at, bytes.Index(body, []byte(`"name"`)))
		resp.Header.Set("Content-Length", strconv.Itoa(len(body)))
	}
	return answerText(resp, body)
}

func requestBytes(t *testing.T, ls []string) (req []byte, method string) {
	t.Helper()
	if ls[0] == "raw" {
		for _, l := range ls[1:] {
			part, err := strconv.Unquote(l)
			if err != nil {
				t.Fatalf("%s: %v", l, err)
			}
			req = append(req, part...)
		}
		method, _, _ = strings.Cut(string(req), " ")
		return req, method
	}
	method, _, _ = strings.Cut(ls[0], " ")
	var head, body bytes.Buffer
	fmt.Fprintf(&head, "%s HTTP/1.1\r\n", ls[0])
	if !slices.ContainsFunc(ls, func(l string) bool { return strings.HasPrefix(l, "Host: ") }) {
		fmt.Fprintf(&head, "Host: localhost:7001\r\n")
	}
	for _, l := range ls[1:] {
		text, isBody := strings.CutPrefix(l, "body: ")
		if !isBody {
			fmt.Fprintf(&head, "%s\r\n", l)
			continue
		}
		if text[0] == '"' {
			var err error
			if text, err = strconv.Unquote(text); err != nil {
				t.Fatalf("%s: %v", l, err)
			}
		}
		fmt.Fprintf(&head, "Content-Length: %d\r\n", len(text))
		body.WriteString(text)
	}
	head.WriteString("\r\n")
	return append(head.Bytes(), body.Bytes()...), method
}

// answerText is the status, the headers but Date, and the body, with what
// differs from run to run made the same.
func answerText(resp *http.Response, body []byte) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", resp.Status)
	for _, name := range slices.Sorted(maps.Keys(resp.Header)) {
		for _, v := range resp.Header[name] {
			switch {
			case name == "Date":
				continue
			case strings.HasPrefix(resp.Header.Get("Content-Type"), "application/problem") && name == "Content-Length":
				continue // the id in it has no fixed length
			}
			fmt.Fprintf(&b, "%s: %s\n", name, ourID().ReplaceAllString(v, "ID"))
		}
	}
	if resp.Close {
		b.WriteString("Connection: close\n")
	}
	for _, te := range resp.TransferEncoding {
		fmt.Fprintf(&b, "Transfer-Encoding: %s\n", te)
	}
	text := ourID().ReplaceAllString(string(body), "ID")
	switch {
	case text == "":
	case printable(text):
		fmt.Fprintf(&b, "\n%s\n", strings.TrimSuffix(text, "\n"))
	default:
		fmt.Fprintf(&b, "\n%q\n", text)
	}
	return b.String()
}

// ourID matches a request id that the server made.
func ourID() *regexp.Regexp { return regexp.MustCompile(`\b[0-9a-f]{12}-\d+\b`) }

func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\n' || r == 0x7f })
}
