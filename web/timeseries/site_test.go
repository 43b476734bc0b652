package timeseries_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine"
	"github.com/skerrydb/skerry/series"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/timeseries"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// site is an application with series, which everyone may use. The user of a request is in its header User, and the scopes
// of an API key in Scopes.
type site struct {
	t    testing.TB
	db   *series.DB
	app  *web.App
	face *timeseries.Face
	engine.Promises
}

func everyone(*web.Context, string, bool) error { return nil }

// open serves the collections.
func open(t testing.TB, so series.Options, o timeseries.Options, cs ...series.Collection) *site {
	t.Helper()
	eng := testengine.Open(t, testengine.Options{})
	so.Logger = slog.New(slog.DiscardHandler)
	db, err := series.New(eng, so)
	must(t, err)
	for _, c := range cs {
		_, err := db.Use(c)
		must(t, err)
	}
	app, err := web.New(web.Options{Superadmins: []string{"root@example.org"}, Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	app.Use(func(next http.Handler) http.Handler {
		return web.Handler(func(c *web.Context) error {
			u := web.User{ID: c.Request.Header.Get("User"), Verified: true}
			u.Email = u.ID + "@example.org"
			if scopes, ok := c.Request.Header["Scopes"]; ok {
				c.SetKey(u, web.Key{Allows: func(s string) bool { return slices.Contains(strings.Fields(scopes[0]), s) }})
			} else if u.ID != "" {
				c.SetUser(u)
			}
			next.ServeHTTP(c.Writer, c.Request)
			return nil
		})
	})
	face := timeseries.Mount(app, db, o)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = db.Run(ctx) })
	t.Cleanup(func() {
		app.EndStreams()
		stop()
		running.Wait()
	})
	return &site{t, db, app, face, eng.Promises()}
}

// plain serves the collection c, which keeps everything.
func plain(t testing.TB) *site {
	return open(t, series.Options{}, timeseries.Options{Allow: everyone}, series.Collection{Name: "c"})
}

type reply struct {
	*httptest.ResponseRecorder
	t    testing.TB
	what string
}

// ask sends a request. headers are names and values.
func (s *site) ask(method, path, body string, headers ...string) *reply {
	s.t.Helper()
	r := httptest.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header[headers[i]] = []string{headers[i+1]}
	}
	w := httptest.NewRecorder()
	s.app.ServeHTTP(w, r)
	return &reply{w, s.t, method + " " + path + " " + body}
}

// write writes lines to the collection c.
func (s *site) write(lines string, headers ...string) *reply {
	s.t.Helper()
	return s.ask("POST", "/api/v2/write?org=o&bucket=c", lines, headers...)
}

// is expects a status and texts in the body.
func (r *reply) is(status int, texts ...string) *reply {
	r.t.Helper()
	if r.Code != status {
		r.t.Errorf("%.200s: status %d, want %d: %.1000s", r.what, r.Code, status, r.Body)
	}
	for _, text := range texts {
		if !strings.Contains(r.Body.String(), text) {
			r.t.Errorf("%.200s: no %s in %.1000s", r.what, text, r.Body)
		}
	}
	return r
}

// partial is the report of a write that was refused in part.
type partial struct {
	Status int
	Code   string
	Errors []struct {
		Line         int
		Code, Detail string
	}
	Refused, Stored int
	Message, Error  string
}

func (r *reply) partial() (p partial) {
	r.t.Helper()
	must(r.t, json.Unmarshal(r.Body.Bytes(), &p))
	return p
}

// samples returns what the query finds in c: for each series its labels, times and values, as JSON has them.
func (s *site) samples(query string) string {
	s.t.Helper()
	r := s.ask("GET", "/series/c?"+query, "").is(200)
	return list(s.t, query, r.Body.Bytes())
}

// list returns the series of a response, a line each: labels, times and values, as JSON has them.
func list(t testing.TB, query string, body []byte) string {
	t.Helper()
	var v struct {
		Series []struct {
			Labels        map[string]string
			Times, Values json.RawMessage
		}
	}
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatalf("%s: %v in %.500s", query, err, body)
	}
	var out []string
	for _, x := range v.Series {
		out = append(out, fmt.Sprintf("%s %s %s", object(x.Labels), x.Times, x.Values))
	}
	return strings.Join(out, "\n")
}

// object prints labels as JSON.
func object(labels map[string]string) string {
	b, _ := json.Marshal(labels) // sorted
	return string(b)
}

// has expects what samples returns.
func (s *site) has(match, want string) {
	s.t.Helper()
	if got := s.samples("match=" + url.QueryEscape(match)); got != want {
		s.t.Errorf("%s:\n%s\nwant\n%s", match, got, want)
	}
}

// start is the time of most samples, in seconds.
const start = 1_700_000_000

var begin = time.Unix(start, 0)
