package web_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/web"
)

// listen serves an application with short limits for a whole request and response.
func listen(t *testing.T, o web.Options, limit time.Duration, add func(*web.App)) (app *web.App, url string, srv *http.Server) {
	t.Helper()
	app = newApp(t, o)
	add(app)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv = &http.Server{Handler: app, ReadTimeout: limit, WriteTimeout: limit}
	srv.RegisterOnShutdown(app.EndStreams)
	go srv.Serve(l) // it ends with Close
	t.Cleanup(func() { srv.Close() })
	return app, "http://" + l.Addr().String(), srv
}

// TestEvents: an EventSource reads the events as sent.
func TestEvents(t *testing.T) {
	_, url, _ := listen(t, web.Options{}, time.Minute, func(a *web.App) {
		a.Get("/", func(c *web.Context) error {
			return c.SSE(web.EventOptions{Retry: 1500 * time.Millisecond}, func(s *web.Events) error {
				for _, bad := range []web.Event{{ID: "a\nb"}, {Name: "a\rb"}, {ID: "\x00"}, {Data: strings.Repeat("x", web.MaxEventBytes+1)}, {ID: strings.Repeat("x", web.MaxEventID+1)}} {
					if s.Send(bad) == nil {
						return errors.New("an event that cannot be written was sent")
					}
				}
				if s.SendJSON(web.Event{}, func() {}) == nil {
					return errors.New("JSON of a func was sent")
				}
				_ = s.Send(web.Event{ID: "7", Name: "news", Data: "a\nb\r\nc\rid: 8\n"})
				_ = s.Send(web.Event{Data: "after " + s.LastID()})
				_ = s.Comment("x\n\ndata: evil")
				return s.SendJSON(web.Event{Name: "j"}, map[string]int{"n": 1})
			})
		})
	})
	resp := open(t, http.DefaultClient, url, "Last-Event-ID", "6")
	body, err := io.ReadAll(resp.Body)
	want := "retry: 1500\n\n:\n\nid: 7\nevent: news\ndata: a\ndata: b\ndata: c\ndata: id: 8\ndata: \n\ndata: after 6\n\n:x  data: evil\n\nevent: j\ndata: {\"n\":1}\n\n"
	if err != nil || string(body) != want || resp.Header.Get("Content-Type") != "text/event-stream" || resp.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%v %v\n%q\nwant\n%q", resp.Header, err, body, want)
	}
	head, err := http.Head(url)
	if err != nil || head.StatusCode != 200 {
		t.Errorf("HEAD: %v %v", head, err)
	}
}

// TestLastEventID: the longest allowed id comes back completely; a longer one, which no event of ours had, is
// ignored, not cut.
func TestLastEventID(t *testing.T) {
	_, url, _ := listen(t, web.Options{}, time.Minute, func(a *web.App) {
		a.Get("/", func(c *web.Context) error {
			return c.SSE(web.EventOptions{}, func(s *web.Events) error { return s.Send(web.Event{ID: s.LastID(), Data: "x"}) })
		})
	})
	for _, n := range []int{0, 1, web.MaxEventID - 1, web.MaxEventID, web.MaxEventID + 1} {
		id := strings.Repeat("i", n)
		want := "id: " + id + "\n"
		if n == 0 || n > web.MaxEventID {
			want = ""
		}
		if got := get(t, url, "Last-Event-ID", id); got.body != ":\n\n"+want+"data: x\n\n" {
			t.Errorf("an id of %d bytes: %q", n, got.body)
		}
	}
}

// TestEventsOutliveTheLimits: heartbeats come between events, and the stream lasts longer than the limit for a
// response.
func TestEventsOutliveTheLimits(t *testing.T) {
	const limit = 200 * time.Millisecond
	_, url, _ := listen(t, web.Options{}, limit, func(a *web.App) {
		a.Get("/", func(c *web.Context) error {
			return c.SSE(web.EventOptions{Heartbeat: 10 * time.Millisecond}, func(s *web.Events) error {
				select {
				case <-s.Context().Done():
					return errors.New("it ended early")
				case <-time.After(3 * limit):
				}
				return s.Send(web.Event{Data: "late"})
			})
		})
	})
	// A heartbeat may still follow the event before the stream ends.
	if body := strings.TrimRight(get(t, url).body, ":\n"); !strings.HasSuffix(body, "data: late") || strings.Count(body, ":\n\n") < 3 {
		t.Errorf("%q", body)
	}
}

// TestEventsEnd: streams end when the client goes away, and when the server stops, which does not wait for
// them.
func TestEventsEnd(t *testing.T) {
	ended := make(chan error, 1)
	app, url, srv := listen(t, web.Options{MaxStreams: 1}, time.Minute, func(a *web.App) {
		a.Get("/", func(c *web.Context) error {
			err := c.SSE(web.EventOptions{}, func(s *web.Events) error {
				<-s.Context().Done()
				return s.Send(web.Event{Data: "nobody"})
			})
			ended <- err
			return err
		})
	})
	wait := func(what string) {
		t.Helper()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("%s: the stream does not end", what)
		}
	}
	resp := open(t, http.DefaultClient, url)
	if _, err := resp.Body.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if over := get(t, url); over.status != 503 || over.header.Get("Retry-After") == "" {
		t.Errorf("a stream over the limit: %v", over)
	}
	<-ended // the refused one
	resp.Body.Close()
	wait("the client is gone")
	var stopped *http.Response
	eventually.True(t, "an ended stream no longer counts", func() bool {
		if stopped = open(t, http.DefaultClient, url); stopped.StatusCode != 200 {
			<-ended
		}
		return stopped.StatusCode == 200
	})
	if err := srv.Shutdown(t.Context()); err != nil {
		t.Errorf("the server waits for a stream: %v", err)
	}
	wait("the server stops")
	if _, err := io.ReadAll(stopped.Body); err != nil {
		t.Errorf("the client of a server that stops: %v", err)
	}
	app.EndStreams()
	late := serve(t, web.Options{}, func(a *web.App) {
		a.EndStreams()
		a.Get("/", func(c *web.Context) error {
			return c.SSE(web.EventOptions{}, func(*web.Events) error { return nil })
		})
	})
	if got := late.do("GET", "/", ""); got.status != 503 {
		t.Errorf("a stream of a server that stops: %+v", got)
	}
}

// TestEventsThatFail: an error of the handler cuts the stream.
func TestEventsThatFail(t *testing.T) {
	s := serve(t, web.Options{}, func(a *web.App) {
		a.Get("/", func(c *web.Context) error {
			return c.SSE(web.EventOptions{}, func(*web.Events) error { return errors.New("broken") })
		})
	})
	expectCut(t, s, "/")
}

// timed is a ResponseWriter that records its deadlines.
type timed struct {
	httptest.ResponseRecorder
	reads, writes []time.Time
}

func (w *timed) SetReadDeadline(t time.Time) error  { w.reads = append(w.reads, t); return nil }
func (w *timed) SetWriteDeadline(t time.Time) error { w.writes = append(w.writes, t); return nil }

// strict is timed, and fails writes that have no deadline.
type strict struct{ timed }

func (w *strict) Write(p []byte) (int, error) {
	if w.silent() {
		return 0, errors.New("a write without a deadline")
	}
	return w.ResponseRecorder.Write(p)
}

// silent reports whether no deadline for writes is set.
func (w *strict) silent() bool { return len(w.writes) == 0 || w.writes[len(w.writes)-1].IsZero() }

// TestEventsHaveDeadlines: each event has a deadline, so that a client that reads nothing does not keep a
// stream forever. The time between events has none, which over HTTP/2 would end the stream, and reading has
// none, to detect the client's end.
func TestEventsHaveDeadlines(t *testing.T) {
	w := &strict{timed{ResponseRecorder: *httptest.NewRecorder()}}
	app := newApp(t, web.Options{})
	app.Get("/", func(c *web.Context) error {
		return c.SSE(web.EventOptions{}, func(s *web.Events) error {
			for range 3 {
				before := len(w.writes)
				if !w.silent() {
					t.Errorf("the time between events has a deadline: %v", w.writes)
				}
				if err := s.Send(web.Event{Data: "x"}); err != nil {
					return err
				}
				if len(w.writes) == before || time.Until(w.writes[before]) > web.EventStall {
					t.Errorf("an event without its own deadline: %v", w.writes)
				}
			}
			return nil
		})
	})
	app.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	if n := strings.Count(w.Body.String(), "data: x"); w.Code != 200 || n != 3 || len(w.reads) == 0 || !w.reads[0].IsZero() {
		t.Errorf("%d, %d events, deadlines for reading: %v", w.Code, n, w.reads)
	}
	if !w.silent() {
		t.Errorf("the last event's deadline stays on the connection: %v", w.writes)
	}
}
