package api_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/proc"
	"github.com/skerrydb/skerry/web/api"
)

// The benchmarks separate the cost of net/http from ours: Bare is net/http on
// a connection with a handler that sends the same bytes, Whole is the face on
// such a connection, Handler is the face without net/http, and Store is what
// lies beneath it. The client allocates nothing, so allocations are the server's.

const benchValue = 100

// sink is a ResponseWriter that costs next to nothing.
type sink struct {
	h      http.Header
	status int
}

func (s *sink) Header() http.Header         { return s.h }
func (s *sink) WriteHeader(status int)      { s.status = status }
func (s *sink) Write(p []byte) (int, error) { return len(p), nil }

func BenchmarkHandler(b *testing.B) {
	s := serve(b, api.Options{})
	s.do(b, "PUT", "/db/0123456789abcdef", bytes.NewReader(make([]byte, benchValue)))
	h := s.http.Handler
	val := bytes.Repeat([]byte{'v'}, benchValue)
	for _, method := range []string{"PUT", "GET", "MISS"} {
		b.Run(method, func(b *testing.B) {
			path := "/db/0123456789abcdef"
			if method == "MISS" {
				method, path = "GET", "/db/absent"
			}
			body := bytes.NewReader(val)
			r, err := http.NewRequest(method, path, nil)
			if err != nil {
				b.Fatal(err)
			}
			r.Host = "localhost"
			if method == "PUT" {
				r.Body, r.ContentLength = io.NopCloser(body), benchValue
			}
			w := &sink{h: http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				body.Reset(val)
				clear(w.h)
				h.ServeHTTP(w, r)
			}
			if w.status >= 300 && (w.status != 404 || path != "/db/absent") {
				b.Fatal(w.status)
			}
		})
	}
}

// BenchmarkCall is a procedure that does what PUT of BenchmarkHandler does, by
// POST, without net/http: compare the two.
func BenchmarkCall(b *testing.B) {
	type in struct {
		Key   string `json:"key"`
		Value string `json:"value"`
	}
	type out struct {
		Replaced bool `json:"replaced"`
	}
	put := func(tx *proc.Tx, a in) (out, error) {
		res, err := tx.KV(0).Set([]byte(a.Key), []byte(a.Value), kv.SetOptions{SkipOld: true})
		return out{res.HadOld}, err
	}
	get := func(tx *proc.Tx, a in) (out, error) {
		_, found, err := tx.KV(0).Get([]byte(a.Key))
		return out{found}, err
	}
	refuse := func(*proc.Tx, in) (out, error) { return out{}, engine.ErrPreconditionFailed }
	s := serveProcedures(b, procedures{proc.Define("put", put), proc.DefineRead("get", get), proc.DefineRead("refuse", refuse)}, api.Options{})
	whole := []byte(`{"key":"0123456789abcdef","value":"` + strings.Repeat("v", benchValue) + `"}`)
	for _, c := range []struct {
		name, path string
		body       []byte
		key        string
	}{
		{"Write", "/api/call/put", whole, ""},
		{"Once", "/api/call/put", whole, "0123456789abcdef"},
		{"Read", "/api/call/get", []byte(`{"key":"0123456789abcdef","value":""}`), ""},
		{"Refused", "/api/call/refuse", []byte(`{"key":"0123456789abcdef","value":""}`), ""},
	} {
		b.Run(c.name, func(b *testing.B) { calls(b, s, c.path, c.key, c.body) })
	}
}

// calls calls again and again with the same body; once, if key is not empty.
func calls(b *testing.B, s *server, path, key string, body []byte) {
	rest := bytes.NewReader(body)
	r, err := http.NewRequest("POST", path, nil)
	if err != nil {
		b.Fatal(err)
	}
	r.Host, r.Body, r.ContentLength = "localhost", io.NopCloser(rest), int64(len(body))
	r.Header["Content-Type"] = []string{"application/json"}
	if key != "" {
		r.Header["Idempotency-Key"] = []string{key}
	}
	w := &sink{h: http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		rest.Reset(body)
		clear(w.h)
		s.http.Handler.ServeHTTP(w, r)
	}
	if w.status != 200 && w.status != 412 {
		b.Fatal(w.status)
	}
}

func BenchmarkStore(b *testing.B) {
	s := serve(b, api.Options{})
	ctx, key, val := context.Background(), []byte("0123456789abcdef"), make([]byte, benchValue)
	b.Run("PUT", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := s.store.Update(ctx, 0, func(t *kv.Tx) error {
				_, err := t.Set(key, val, kv.SetOptions{SkipOld: true})
				return err
			}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("GET", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := s.store.View(ctx, engine.Read{}, 0, func(t *kv.Tx) error {
				_, _, err := t.Get(key)
				return err
			}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkWhole(b *testing.B) {
	s := serve(b, api.Options{})
	s.do(b, "PUT", "/db/0123456789abcdef", bytes.NewReader(make([]byte, benchValue)))
	for _, method := range []string{"PUT", "GET"} {
		b.Run(method, func(b *testing.B) { roundTrips(b, s.addr, method) })
	}
}

func BenchmarkBare(b *testing.B) {
	val := bytes.Repeat([]byte{'v'}, benchValue)
	length, kind, tag := []string{strconv.Itoa(benchValue)}, []string{"application/octet-stream"}, []string{`"1795262400000000"`}
	s := serve(b, api.Options{}, func(h *http.Server) {
		h.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h := w.Header()
			h["Etag"], h["X-Skerry-Position"] = tag, tag
			if r.Method == "PUT" {
				io.Copy(io.Discard, r.Body)
				w.WriteHeader(http.StatusNoContent)
				return
			}
			h["Content-Length"], h["Content-Type"], h["Cache-Control"], h["X-Content-Type-Options"] = length, kind, kind, kind
			w.WriteHeader(http.StatusOK)
			w.Write(val)
		})
	})
	for _, method := range []string{"PUT", "GET"} {
		b.Run(method, func(b *testing.B) { roundTrips(b, s.addr, method) })
	}
}

// BenchmarkMany is Whole on many connections at once, asked of the node that
// leads and of one that passes everything on to it (without TLS in between).
func BenchmarkMany(b *testing.B) {
	c := serveCluster(b, 2, api.Options{})
	for i, name := range []string{"Leader", "Follower"} {
		b.Run(name, func(b *testing.B) { manyPuts(b, c.nodes[i].addr) })
	}
	b.Run("Alone", func(b *testing.B) { manyPuts(b, serve(b, api.Options{}).addr) })
}

func manyPuts(b *testing.B, addr string) {
	const conns = 512
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	for c := range conns {
		wg.Go(func() {
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				b.Error(err)
				return
			}
			defer conn.Close()
			in := bufio.NewReader(conn)
			req := fmt.Appendf(nil, "PUT /db/0123456789ab%04d HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", c, benchValue, strings.Repeat("v", benchValue))
			for left.Add(-1) >= 0 {
				if _, err := conn.Write(req); err != nil {
					b.Error(err)
					return
				}
				if err := skipAnswer(in); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// roundTrips sends the same request again and again on one connection.
func roundTrips(b *testing.B, addr, method string) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	req := []byte(method + " /db/0123456789abcdef HTTP/1.1\r\nHost: localhost\r\n")
	if method == "PUT" {
		req = fmt.Appendf(req, "Content-Length: %d\r\n\r\n%s", benchValue, strings.Repeat("v", benchValue))
	} else {
		req = append(req, "\r\n"...)
	}
	in := bufio.NewReader(conn)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := conn.Write(req); err != nil {
			b.Fatal(err)
		}
		if err := skipAnswer(in); err != nil {
			b.Fatal(err)
		}
	}
}

// skipAnswer reads one response with status 2xx and allocates nothing.
func skipAnswer(in *bufio.Reader) error {
	length, first := 0, true
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if first && line[9] != '2' {
			return fmt.Errorf("answered %s", line)
		}
		first = false
		if n, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			for _, c := range bytes.TrimRight(n, "\r\n") {
				length = length*10 + int(c-'0')
			}
		}
		if len(line) == 2 {
			_, err := in.Discard(length)
			return err
		}
	}
}
