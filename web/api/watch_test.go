package api_test

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/feed"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/api"
)

// watched is a server of operators whose keys can be watched.
type watched struct {
	*server
	face *api.AdminHandler
}

func serveWatched(t *testing.T) *watched {
	t.Helper()
	c := newClock()
	o := c.opts()
	o.Logger = quiet()
	db, err := embedded.Open(t.TempDir(), o)
	if err != nil {
		t.Fatal(err)
	}
	changes, err := feed.New(db, feed.Options{})
	if err != nil {
		t.Fatal(err)
	}
	store, err := kv.New(db, kv.Options{Feed: changes})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	face := api.New(store, api.Options{}).AdminHandler()
	srv := web.NewServer(face, quiet())
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { srv.Serve(l) })
	done.Go(func() { _ = changes.Run(ctx) })
	t.Cleanup(func() {
		face.EndStreams()
		srv.Close()
		cancel()
		done.Wait()
		if err := db.Close(); err != nil {
			t.Errorf("close the engine: %v", err)
		}
	})
	return &watched{&server{addr: l.Addr().String(), db: db, store: store, clock: c, http: srv}, face}
}

// watch opens a stream and returns a function that reads its next event as "name id data".
func (s *watched) watch(t *testing.T, query string, headers ...string) (next func() string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, "GET", s.url("/watch"+query), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("watch: %d %v", resp.StatusCode, resp.Header)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, web.MaxEventBytes+100)
	return func() string {
		var name, id, data string
		for lines.Scan() {
			switch field, value, _ := strings.Cut(lines.Text(), ": "); field {
			case "event":
				name = value
			case "id":
				id = value
			case "data":
				data = value
			case "":
				if data != "" {
					return name + " " + id + " " + data
				}
			}
		}
		return "end"
	}
}

// TestWatch: operators see what is written to a space, in order, and continue where they were.
func TestWatch(t *testing.T) {
	t.Parallel()
	s := serveWatched(t)
	next := s.watch(t, "?space=17&prefix=a&values=1")
	if got := next(); got != `begin 0 {}` {
		t.Errorf("%s", got)
	}
	for _, path := range []string{"a?space=17", "b?space=17", "a", "a?space=18", "ab?space=17&ttl=1h"} {
		s.do(t, "PUT", "/db/"+path, strings.NewReader("1")).is(t, path, 201, "")
	}
	s.do(t, "DELETE", "/db/a?space=17", nil).is(t, "delete", 204, "")
	want := []string{
		`set 1 {"key":"a","value":"1","revision":1795262400000000,"position":1}`,
		`set 5 {"key":"ab","value":"1","revision":1795262400000004,"expires":"2026-11-21T13:00:00.001Z","position":5}`,
		`delete 6 {"key":"a","position":6}`,
	}
	for _, want := range want {
		if got := next(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if _, err := s.store.Update(t.Context(), 17, func(tx *kv.Tx) error { // two keys at one position
		_, err := tx.Set([]byte("ax"), nil, kv.SetOptions{})
		if err == nil {
			_, err = tx.Set([]byte("ay"), []byte("\xff"), kv.SetOptions{})
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	both := []string{next(), next()}
	if ids := []string{strings.Fields(both[0])[1], strings.Fields(both[1])[1]}; strings.HasPrefix(both[0], "set 7 ") || ids[1] != "7" {
		t.Errorf("the first of two events of a transaction has its id: %q", both)
	}
	again := s.watch(t, "?space=17&prefix=a&values=1", "Last-Event-ID", "1")
	rest := s.watch(t, "?space=17&prefix=a&values=1&after=1")
	for _, want := range slices.Concat(want[1:], both) {
		if one, other := again(), rest(); one != want || other != want {
			t.Errorf("again %s and %s, want %s", one, other, want)
		}
	}
	s.face.EndStreams()
	for _, stream := range []func() string{next, again, rest} {
		if got := stream(); got != "end" {
			t.Errorf("after the end: %s", got)
		}
	}
	s.do(t, "GET", "/watch", nil).is(t, "a watch of a server that stops", 503, engine.CodeClosed)
}

// TestWatchLong: an event has no value that is too long, and no events come of a history that is gone.
func TestWatchLong(t *testing.T) {
	t.Parallel()
	s := serveWatched(t)
	next := s.watch(t, "?values=1")
	next()
	for n, has := range map[int]bool{api.MaxWatchedValue: true, api.MaxWatchedValue + 1: false} {
		s.do(t, "PUT", "/db/k", strings.NewReader(strings.Repeat("\x01", n)))
		if got := next(); strings.Contains(got, `"value"`) != has || !strings.Contains(got, `"revision"`) {
			t.Errorf("%d bytes: %.100s", n, got)
		}
	}
	if got := s.watch(t, "?after=1000")(); got != "resync  {}" {
		t.Errorf("%s", got)
	}
	for query, what := range map[string]string{
		"?space=128": "space", "?space=253": "space", "?values=2": "values", "?after=x": "after", "?after=-1": "after", "?limit=1": "limit", "?space=1&space=2": "space",
	} {
		if got := s.do(t, "GET", "/watch"+query, nil); got.status != 400 || !strings.Contains(string(got.body), `"parameter":"`+what+`"`) {
			t.Errorf("%s: %d %s", query, got.status, got.body)
		}
	}
	s.do(t, "GET", "/watch", nil, "Last-Event-ID", "x").is(t, "a strange id", 400, engine.CodeInvalid)
	serve(t, api.Options{}).do(t, "GET", "/watch", nil).is(t, "a client", 404, "")
}
