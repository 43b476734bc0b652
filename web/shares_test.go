package web_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/problem"
)

func TestShares(t *testing.T) {
	t.Parallel()
	s := web.NewShares("things", 10, 6, 3)
	ann, bob := web.Caller{Name: "ann"}, web.Caller{Name: "bob"}
	take := func(who web.Caller, had, n int64, want engine.Code) {
		t.Helper()
		if err := s.Take(who, had, n); engine.CodeOf(err) != want {
			t.Errorf("%d for %s: %v, want %q", n, who.Name, err, want)
		}
	}
	stranger := func(n int) web.Caller { return web.Caller{Name: fmt.Sprint("address ", n), Stranger: true} }
	take(stranger(1), 0, 2, "")
	take(stranger(1), 0, 2, problem.CodeRateLimited)
	take(stranger(1), 0, 1, "")
	take(stranger(2), 0, 2, "")
	take(stranger(3), 0, 2, engine.CodeQueueFull)
	take(ann, 0, 3, "")
	take(ann, 3, 1, "") // alone it may have more
	take(ann, 0, 1, problem.CodeRateLimited)
	take(bob, 0, 2, engine.CodeQueueFull)
	take(bob, 0, 1, "")
	s.Return(stranger(1), 3)
	take(stranger(3), 0, 3, "")
	s.Return(stranger(3), 3)
	s.Return(stranger(2), 2)
	s.Return(ann, 4)
	s.Return(bob, 1)
	take(ann, 0, 10, "")
}

// slowApp is an application that keeps the bodies of requests until they are let go.
type slowApp struct {
	t    testing.TB
	app  *web.App
	read chan int64    // a body was read, or is refused
	goOn chan struct{} // closed: requests end
}

func newSlowApp(t testing.TB, o web.Options) *slowApp {
	o.Logger = slog.New(slog.DiscardHandler)
	app, err := web.New(o)
	if err != nil {
		t.Fatal(err)
	}
	s := &slowApp{t, app, make(chan int64), make(chan struct{})}
	app.Use(func(next http.Handler) http.Handler {
		return web.Handler(func(c *web.Context) error {
			if u := c.Request.Header.Get("User"); u != "" {
				c.SetUser(web.User{ID: u})
			}
			next.ServeHTTP(c.Writer, c.Request)
			return nil
		})
	})
	app.Post("/", func(c *web.Context) error {
		body, err := c.ReadBody()
		s.read <- int64(len(body))
		if err == nil {
			<-s.goOn
		}
		return err
	}, web.BodyLimit(64<<20))
	return s
}

// counter is a body without a declared length that counts what is read of it.
type counter struct {
	io.Reader
	n int
}

func (r *counter) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.n += n
	return n, err
}

// send sends a body and returns once it was read or refused. status receives the status of the response.
func (s *slowApp) send(user, address string, size int, known bool) (status chan int, body *counter) {
	body = &counter{Reader: strings.NewReader(strings.Repeat("x", size))}
	r := httptest.NewRequest("POST", "http://localhost/", body)
	if r.ContentLength = -1; known {
		r.ContentLength = int64(size)
	}
	r.RemoteAddr = address + ":1"
	r.Header.Set("User", user)
	status = make(chan int, 1)
	go func() {
		w := httptest.NewRecorder()
		s.app.ServeHTTP(w, r)
		status <- w.Code
	}()
	if n := <-s.read; n != int64(size) && n != 0 {
		s.t.Errorf("%d bytes of %d were read", n, size)
	}
	return status, body
}

// TestBodyMemory: the bodies of requests in progress take a bounded amount of memory, of which strangers cannot take all, and
// neither can one caller. A body that is refused is not read to its end.
func TestBodyMemory(t *testing.T) {
	t.Parallel()
	s := newSlowApp(t, web.Options{MaxBodyMemory: 16 << 20}) // 8 for strangers, 2 for one caller
	var held []chan int
	ok := func(user, address string, size int) {
		t.Helper()
		status, _ := s.send(user, address, size, true)
		select {
		case got := <-status:
			t.Errorf("%s%s, %d bytes: %d", user, address, size, got)
		default:
		}
		held = append(held, status)
	}
	refused := func(want int, user, address string, size int, known bool) {
		t.Helper()
		status, body := s.send(user, address, size, known)
		if got := <-status; got != want || body.n >= size {
			t.Errorf("%s%s, %d bytes: %d after %d bytes, want %d", user, address, size, got, body.n, want)
		}
	}
	const some, much = 3 << 19, 4 << 20
	ok("", "10.0.0.1", some)
	refused(429, "", "10.0.0.1", some, true)
	refused(429, "", "10.0.0.1", some, false)
	for range 100 {
		ok("", "10.0.0.1", web.MaxUncountedBody-1) // small bodies are never refused
	}
	ok("", "10.0.0.2", much) // alone
	refused(503, "", "10.0.0.3", much, true)
	ok("ann", "10.0.0.1", much)
	refused(429, "ann", "10.0.0.9", some, true)
	ok("bob", "10.0.0.1", much)
	refused(503, "cid", "10.0.0.1", much, true)
	close(s.goOn)
	for _, status := range held {
		if got := <-status; got != 200 {
			t.Errorf("status %d", got)
		}
	}
	for user, size := range map[string]int{"": 7 << 20, "cid": 15 << 20} {
		if status, _ := s.send(user, "10.0.0.3", size, true); <-status != 200 {
			t.Errorf("%d bytes of %q are refused afterwards", size, user)
		}
	}
}

// TestBodyMemoryReturned: whatever becomes of requests, what their bodies took is returned.
func TestBodyMemoryReturned(t *testing.T) {
	t.Parallel()
	app, err := web.New(web.Options{MaxBodyMemory: 4 << 20, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	app.Post("/{how}", func(c *web.Context) error {
		var in struct{ A string }
		if err := c.Bind(&in); err != nil {
			return err
		}
		if c.Request.PathValue("how") == "panic" {
			panic("x")
		}
		return engine.ErrNotFound
	})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 20 {
				how, media := [...]string{"panic", "other"}[i%2], [...]string{"application/json", "application/x-www-form-urlencoded"}[i/2%2]
				body := `{"A":"` + strings.Repeat("x", 200<<10) + `"}`
				if media != "application/json" {
					body = "A=" + strings.Repeat("x", 200<<10)
				}
				r := httptest.NewRequest("POST", "http://localhost/"+how, strings.NewReader(body))
				r.Header.Set("Content-Type", media)
				app.ServeHTTP(httptest.NewRecorder(), r)
			}
		})
	}
	all.Wait()
	r := httptest.NewRequest("POST", "http://localhost/other", strings.NewReader(`{"A":"`+strings.Repeat("x", 1<<20-100)+`"}`))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	if app.ServeHTTP(w, r); w.Code != 404 {
		t.Errorf("afterwards: %d %s", w.Code, w.Body)
	}
}

// TestStreamsOfStrangers: strangers cannot take the event streams that are kept for users, and one user has no more from
// many addresses than from one. ReserveStream counts the stream that SSE opens then, once.
func TestStreamsOfStrangers(t *testing.T) {
	t.Parallel()
	s := newSlowApp(t, web.Options{MaxStreams: 8, MaxStreamsPerClient: 3})
	var leaves []func()
	s.app.Get("/events", func(c *web.Context) error {
		leave, err := c.ReserveStream()
		if err != nil {
			return err
		}
		if c.Request.URL.RawQuery == "keep" {
			leaves = append(leaves, leave)
			return c.NoContent()
		}
		defer leave()
		return c.SSE(web.EventOptions{}, func(*web.Events) error { return nil })
	})
	ask := func(user string, address int, query string, want int) {
		t.Helper()
		r := httptest.NewRequest("GET", "http://localhost/events?"+query, nil)
		r.RemoteAddr = fmt.Sprintf("10.0.0.%d:1", address)
		r.Header.Set("User", user)
		w := httptest.NewRecorder()
		if s.app.ServeHTTP(w, r); w.Code != want {
			t.Errorf("%s from %d: %d %s, want %d", user, address, w.Code, w.Body, want)
		}
	}
	for i := range 6 {
		ask("", i, "keep", 204)
	}
	ask("", 6, "keep", 503)
	ask("ann", 0, "keep", 204)
	ask("ann", 1, "", 200)
	ask("ann", 1, "", 200)
	ask("ann", 1, "keep", 204)
	ask("bob", 1, "", 503)
	leaves[0]()
	leaves[0]() // counts once
	ask("bob", 1, "", 200)
	ask("ann", 2, "keep", 204)
	leaves[1]()
	ask("ann", 9, "keep", 429)
	ask("", 7, "", 200)
}
