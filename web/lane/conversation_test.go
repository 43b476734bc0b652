package lane_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/seed"
)

// behave responds in one of the ways in which handlers do, as the path says.
func behave(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	h := w.Header()
	h.Set("X-Saw", fmt.Sprintf("%s %s %s %q %d %v", r.Method, r.URL.Path, r.Host, body, r.ContentLength, r.Header))
	switch way, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/k/"), "/"); way {
	case "nothing":
	case "flush":
		fmt.Fprint(w, "some")
		_ = http.NewResponseController(w).Flush()
		fmt.Fprint(w, " more")
	case "long":
		fmt.Fprint(w, strings.Repeat("long ", 1000))
	case "huge":
		fmt.Fprint(w, strings.Repeat("huge ", 40_000))
	case "typed":
		h["Content-Type"] = []string{"text/x-own"}
		h["Content-Length"] = []string{"5"}
		fmt.Fprint(w, "typed")
	case "much":
		h["Content-Length"] = []string{"3"}
		_, err := fmt.Fprint(w, "more than that")
		h.Set("X-Never", fmt.Sprint(err))
	case "little":
		h["Content-Length"] = []string{"300"}
		fmt.Fprint(w, "too little")
	case "status":
		w.WriteHeader(299)
		w.WriteHeader(300)
		fmt.Fprint(w, "a status without a name")
	case "empty":
		w.WriteHeader(http.StatusNoContent)
		fmt.Fprint(w, "not sent")
	case "same":
		h.Set("Content-Type", "text/x-own")
		h.Set("Etag", `"1"`)
		w.WriteHeader(http.StatusNotModified)
	case "hints":
		h.Add("Link", "</a>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		h.Del("Link")
		fmt.Fprint(w, "after hints")
	case "odd":
		h["X-Odd"] = []string{"two\r\nlines ", " and two values"}
		h["bad name"] = []string{"left out"}
		h["Date"] = nil
		h["Content-Encoding"] = []string{"own"}
		fmt.Fprint(w, "odd fields")
	case "close":
		h.Set("Connection", "close")
		fmt.Fprint(w, "the last one")
	case "trailer":
		h["Trailer"] = []string{"X-After, content-length", "X-Never"}
		fmt.Fprint(w, "a body with fields after it")
		h["X-After"] = []string{"one", "two"}
		h[http.TrailerPrefix+"X-Unannounced"] = []string{"three"}
		h["X-Late"] = []string{"not sent"}
	case "hijack":
		hijack(w)
	case "off":
		fmt.Fprint(w, "breaks off")
		panic(http.ErrAbortHandler)
	default:
		fmt.Fprint(w, "plain ", way)
	}
}

// hijack takes the connection over and responds with what else arrives on it.
func hijack(w http.ResponseWriter) {
	c, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	defer c.Close()
	_, after := w.Write(nil)
	rest, _ := io.ReadAll(rw)
	text := fmt.Sprintf("%q, %v", rest, after)
	fmt.Fprintf(rw, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
	rw.Flush()
}

var ways = []string{"nothing", "flush", "long", "huge", "typed", "much", "little", "trailer", "hijack", "status", "empty", "same", "hints", "odd", "close", "off", "a", "b", "c", "d", "e", "f"}

// conversation is the requests of one connection.
type conversation struct {
	parts   []string
	methods []string // of the requests
	bad     string   // sent after all responses: a request that is malformed, whose connection is reset
}

// converse makes up a conversation, of which most requests are simple. The last one
// makes the server close the connection.
func converse(r *rand.Rand) (c conversation) {
	mostly := ways[16+r.IntN(len(ways)-16):]
	for range 1 + r.IntN(8) {
		way := mostly[r.IntN(len(mostly))]
		if r.IntN(3) == 0 {
			way = ways[r.IntN(len(ways))]
		}
		method := []string{"GET", "GET", "HEAD", "PUT", "POST", "DELETE"}[r.IntN(6)]
		head := method + " /k/" + way + " HTTP/1.1\r\nHost: h:" + strconv.Itoa(r.IntN(100)) + "\r\n"
		for _, line := range []string{"Accept: */*", "user-agent:  x ", "If-Match: \"1\"", "Connection: keep-alive", "Content-Type: a/b; c=\"d\"", "Authorization: Basic eDp5"} {
			if r.IntN(4) == 0 {
				head += line + "\r\n"
			}
		}
		body := ""
		if method == "PUT" || method == "POST" {
			body = strings.Repeat("b", []int{0, 1, 100, 3000, 70_000}[r.IntN(5)])
			head += "Content-Length: " + strconv.Itoa(len(body)) + "\r\n"
		}
		switch r.IntN(24) { // what the lane does not answer
		case 0:
			head += "X-Unknown: field\r\n"
		case 1:
			head = strings.Replace(head, " HTTP/1.1", "?a=b HTTP/1.1", 1)
		case 2:
			head = strings.Replace(head, "/k/", "/k/%61/../", 1)
		case 3:
			head = strings.Replace(head, "\r\nHost", "\nHost", 1)
		case 4:
			head += "Cookie: a=b\r\n"
		}
		c.parts, c.methods = append(c.parts, head+"\r\n"+body), append(c.methods, method)
		if way == "hijack" && !strings.Contains(head, "%61") {
			c.parts = append(c.parts, strings.Repeat("this is not HTTP\n", r.IntN(400)))
			return c
		}
		if slices.Contains([]string{"much", "little", "close", "off"}, way) {
			return c // what a client sends after that can destroy the response on its way
		}
	}
	if r.IntN(6) == 0 {
		c.bad = []string{
			"GET /k/a HTTP/1.1\r\nHost : h\r\n\r\n", "nonsense\r\n\r\n", "GET /k/a HTTP/1.1\r\n\r\n", "PUT /k/a HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n",
			"PUT /k/a HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", "GET /k/a HTTP/3.0\r\nHost: h\r\n\r\n",
			"PUT /k/a HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nTransfer-Encoding: chunked, x\r\n\r\nabcd",
		}[r.IntN(7)]
		return c
	}
	c.parts = append(c.parts, "GET /k/last HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
	return c
}

// hold sends a conversation to addr and returns the responses, one line each. It cuts what it sends in pieces of its own.
func (c conversation) hold(addr string, r *rand.Rand) (heard []string, err error) {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(time.Minute))
	sent, answered := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(sent)
		write(nc, strings.Join(c.parts, ""), r)
		if c.bad != "" {
			<-answered
			write(nc, c.bad, r)
		}
		_ = nc.(*net.TCPConn).CloseWrite()
	}()
	in := bufio.NewReader(nc)
	for i := 0; ; i++ {
		method := "GET"
		if i < len(c.methods) {
			method = c.methods[i]
		} else if i == len(c.methods) {
			close(answered)
		}
		resp, err := http.ReadResponse(in, &http.Request{Method: method})
		if err != nil {
			var late net.Error
			if errors.As(err, &late) && late.Timeout() {
				return heard, err
			}
			if i < len(c.methods) {
				close(answered)
			}
			<-sent
			return append(heard, "the end"), nil
		}
		if resp.StatusCode < 200 {
			i-- // another response follows
		}
		body, err := io.ReadAll(resp.Body)
		if ends := resp.ContentLength < 0 && len(resp.TransferEncoding) == 0; err != nil && !ends {
			body = append(body, " cut off"...)
		}
		if d := resp.Header["Date"]; len(d) > 0 {
			resp.Header.Set("Date", "some")
		}
		heard = append(heard, fmt.Sprintf("%d %v %v %d %v %v %q", resp.StatusCode, resp.Header, resp.Trailer, resp.ContentLength, resp.TransferEncoding, resp.Close, shorten(body)))
	}
}

// write sends text in pieces.
func write(to io.Writer, text string, r *rand.Rand) {
	for text != "" {
		n := 1 + r.IntN(len(text))
		if r.IntN(2) == 0 {
			n = min(n, 1+r.IntN(20))
		}
		if _, err := io.WriteString(to, text[:n]); err != nil {
			return // the server has closed the connection
		}
		text = text[n:]
	}
}

func shorten(b []byte) []byte {
	if len(b) > 100 {
		return fmt.Appendf(nil, "%d bytes %s", len(b), bytes.Fields(b)[0])
	}
	return b
}

// TestConversations: whatever is asked, and in whatever pieces it arrives, the responses are those of net/http.
func TestConversations(t *testing.T) {
	t.Parallel()
	s, addr := serve(t, &http.Server{Handler: http.HandlerFunc(behave)})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	plain := &http.Server{Handler: http.HandlerFunc(behave), ErrorLog: log.New(io.Discard, "", 0)}
	go plain.Serve(l)
	defer plain.Close()
	n := 600
	if testing.Short() {
		n = 100
	}
	r := seed.Rand(t)
	for range n {
		c := converse(r)
		want, err := c.hold(l.Addr().String(), r)
		if err != nil {
			t.Fatalf("net/http: %v after %q", err, want)
		}
		got, err := c.hold(addr, r)
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%q\nthe lane responds (%v)\n%s\nnet/http\n%s", shortenAll(c.parts), err, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	if a, h := counts(s); a < float64(n) || h < float64(n)/4 {
		t.Errorf("%v requests answered, %v connections handed over of %d", a, h, n)
	}
}

func shortenAll(parts []string) []string {
	for i, p := range parts {
		if len(p) > 400 {
			parts[i] = p[:400] + "…"
		}
	}
	return parts
}
