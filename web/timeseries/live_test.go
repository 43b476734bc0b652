package timeseries_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/series"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/timeseries"
)

// stream reads a stream of events.
type stream struct {
	t     testing.TB
	lines *bufio.Scanner
	live  map[int]string // the labels of the series that were introduced, by number
}

// watch connects. When it returns, the watch has begun.
func (s *site) watch(srv *httptest.Server, query string) *stream {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	s.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, "GET", srv.URL+"/series/c/live?"+query, nil)
	must(s.t, err)
	resp, err := srv.Client().Do(req)
	must(s.t, err)
	s.t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		s.t.Fatalf("%s: %s", query, resp.Status)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 2<<20)
	return &stream{s.t, lines, map[int]string{}}
}

// next returns the samples of the next event that has any, each as LABELS TIME VALUE. It is false at the end.
func (s *stream) next() ([]string, bool) {
	s.t.Helper()
	name := ""
	for s.lines.Scan() {
		line := s.lines.Text()
		if n, ok := strings.CutPrefix(line, "event: "); ok {
			name = n
		}
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		if name == "series" {
			var about struct {
				Number int
				Labels json.RawMessage
			}
			must(s.t, json.Unmarshal([]byte(data), &about))
			if s.live[about.Number] != "" {
				s.t.Errorf("series %d is introduced twice", about.Number)
			}
			s.live[about.Number] = string(about.Labels)
			continue
		}
		var samples [][3]json.RawMessage
		must(s.t, json.Unmarshal([]byte(data), &samples))
		var out []string
		for _, x := range samples {
			var number int
			must(s.t, json.Unmarshal(x[0], &number))
			if s.live[number] == "" {
				s.t.Errorf("series %d was not introduced", number)
			}
			out = append(out, fmt.Sprintf("%s %s %s", s.live[number], x[1], x[2]))
		}
		return out, true
	}
	return nil, false
}

// serve serves the site on a real server.
func (s *site) serve() *httptest.Server {
	srv := httptest.NewServer(s.app)
	s.t.Cleanup(func() { s.app.EndStreams(); srv.Close() })
	return srv
}

// TestLive: a stream introduces each series once and has the samples that match, in their order.
func TestLive(t *testing.T) {
	s := plain(t)
	s.write("m,h=a f=0 1000000\nm,h=b f=0 1000000").is(204)
	w := s.watch(s.serve(), "match=m_f%7Bh!%3D%22b%22%7D")
	expect := func(want ...string) {
		t.Helper()
		for i := 0; i < len(want); {
			got, ok := w.next()
			if !ok {
				t.Fatalf("the stream ends: %v", w.lines.Err())
			}
			for _, x := range got {
				if i >= len(want) || x != want[i] {
					t.Fatalf("sample %d is %s, want %v", i, x, want)
				}
				i++
			}
		}
	}
	const a, c = `{"__name__":"m_f","h":"a"}`, `{"__name__":"m_f","h":"c"}`
	s.write("m,h=a f=1 2000000\nm,h=b f=2 2000000\nother f=1 2000000").is(204)
	s.write("m,h=b f=9 3000000").is(204)
	s.write("m,h=a f=2.5 2500001\nm,h=c f=3 1000000\nm,h=a f=4 1").is(204)
	expect(a+" 2 1", a+" 2.500001 2.5", c+" 1 3", a+" 0.000001 4")
	s.write("m,h=c f=5 -500000").is(204)
	expect(c + " -0.5 5")
}

// TestLiveLong: the samples of a long batch come in several events.
func TestLiveLong(t *testing.T) {
	s := plain(t)
	w := s.watch(s.serve(), "")
	const n = 60_000
	var body strings.Builder
	for i := range n {
		fmt.Fprintf(&body, "m f=%d.5 %d000001\n", i, i+1)
	}
	s.write(body.String()).is(204)
	events := 0
	for i := 0; i < n; events++ {
		got, ok := w.next()
		if !ok {
			t.Fatalf("the stream ends after %d samples: %v", i, w.lines.Err())
		}
		for _, x := range got {
			if want := fmt.Sprintf(`{"__name__":"m_f"} %d.000001 %d.5`, i+1, i); x != want {
				t.Fatalf("sample %d is %s, want %s", i, x, want)
			}
			i++
		}
	}
	if events < 2 {
		t.Errorf("%d events", events)
	}
}

// TestLiveEnds: a stream ends when its client may no longer read.
func TestLiveEnds(t *testing.T) {
	var denied atomic.Bool
	s := open(t, series.Options{}, timeseries.Options{Allow: func(*web.Context, string, bool) error {
		if denied.Load() {
			return engine.Errorf(engine.CodeUnauthenticated, "no longer")
		}
		return nil
	}}, series.Collection{Name: "c"})
	srv := s.serve()
	w := s.watch(srv, "")
	s.write("m f=1 1000000").is(204)
	if _, ok := w.next(); !ok {
		t.Fatal("the stream has ended")
	}
	denied.Store(true)
	if got, ok := w.next(); ok {
		t.Errorf("it goes on with %v", got)
	}
	s.ask("GET", "/series/c/live", "").is(401)
}

// TestLiveRefuses: mistakes are responses, not streams.
func TestLiveRefuses(t *testing.T) {
	s := plain(t)
	s.ask("GET", "/series/c/live?match=%7B", "").is(400, "series_matcher")
	s.ask("GET", "/series/x/live", "").is(404, "series_no_collection")
}
