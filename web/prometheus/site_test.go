package prometheus

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/prompb"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine"
	"github.com/skerrydb/skerry/series"
	"github.com/skerrydb/skerry/web"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// site is an application with the series of Prometheus. The user of a request is in its header User.
type site struct {
	t    testing.TB
	db   *series.DB
	app  *web.App
	face *Face
	eng  *hooked
}

// hooked is an engine that calls a function once, before an update.
type hooked struct {
	engine.Engine
	skip   atomic.Int32 // updates before
	before func()
}

func (e *hooked) Update(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
	if e.skip.Add(-1) == 0 {
		e.before()
	}
	return e.Engine.Update(ctx, fn)
}

func open(t testing.TB, so series.Options, o Options, cs ...series.Collection) *site {
	t.Helper()
	var eng engine.Engine = testengine.Open(t, testengine.Options{})
	hook := &hooked{Engine: eng}
	if _, own := eng.(engine.SampleStore); !own { // which a hook would hide
		eng = hook
	}
	log := slog.New(slog.DiscardHandler)
	so.Logger = log
	db, err := series.New(eng, so)
	must(t, err)
	for _, c := range cs {
		_, err := db.Use(c)
		must(t, err)
	}
	app, err := web.New(web.Options{Superadmins: []string{"root@example.org"}, Logger: log})
	must(t, err)
	app.Use(func(next http.Handler) http.Handler {
		return web.Handler(func(c *web.Context) error {
			u := web.User{ID: c.Request.Header.Get("User"), Verified: true}
			u.Email = u.ID + "@example.org"
			if scope := c.Request.Header.Get("Scope"); scope != "" {
				c.SetKey(u, web.Key{Allows: func(s string) bool { return s == scope }})
			} else if u.ID != "" {
				c.SetUser(u)
			}
			next.ServeHTTP(c.Writer, c.Request)
			return nil
		})
	})
	face := Mount(app, db, log, o)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = db.Run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	return &site{t, db, app, face, hook}
}

// plain serves the collection c to everyone.
func plain(t testing.TB) *site {
	return open(t, series.Options{}, Options{Allow: func(*web.Context, string, bool) error { return nil }}, series.Collection{Name: "c"})
}

type reply struct {
	*httptest.ResponseRecorder
	t    testing.TB
	what string
}

// ask sends a request for collection c. headers are names and values.
func (s *site) ask(method, path, body string, headers ...string) *reply {
	s.t.Helper()
	r := httptest.NewRequest(method, "http://localhost/prometheus/c/api/v1/"+path, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.app.ServeHTTP(w, r)
	return &reply{w, s.t, method + " " + path}
}

// get sends a query with parameters, which are names and values.
func (s *site) get(path string, params ...string) *reply {
	s.t.Helper()
	return s.ask("GET", path+"?"+query(params), "")
}

func query(params []string) string {
	v := url.Values{}
	for i := 0; i < len(params); i += 2 {
		v.Add(params[i], params[i+1])
	}
	return v.Encode()
}

// is expects a status and texts in the body.
func (r *reply) is(status int, texts ...string) *reply {
	r.t.Helper()
	if r.Code != status {
		r.t.Errorf("%.300s: status %d, want %d: %.1000s", r.what, r.Code, status, r.Body)
	}
	for _, text := range texts {
		if !strings.Contains(r.Body.String(), text) {
			r.t.Errorf("%.300s: no %s in %.1000s", r.what, text, r.Body)
		}
	}
	return r
}

// data expects success, and returns what it has.
func (r *reply) data() string {
	r.t.Helper()
	var v struct {
		Status string
		Data   json.RawMessage
	}
	if err := json.Unmarshal(r.Body.Bytes(), &v); err != nil || r.Code != 200 || v.Status != "success" {
		r.t.Errorf("%.300s: %d %v %.1000s", r.what, r.Code, err, r.Body)
	}
	return string(v.Data)
}

// of returns a series of remote write: pairs are names and values of labels.
func of(samples []prompb.Sample, pairs ...string) prompb.TimeSeries {
	ts := prompb.TimeSeries{Samples: samples}
	for i := 0; i < len(pairs); i += 2 {
		ts.Labels = append(ts.Labels, prompb.Label{Name: pairs[i], Value: pairs[i+1]})
	}
	return ts
}

// values returns samples that are 15 seconds apart from start on.
func values(vs ...float64) (out []prompb.Sample) {
	for i, v := range vs {
		out = append(out, prompb.Sample{Timestamp: start.UnixMilli() + int64(i)*15_000, Value: v})
	}
	return out
}

// write sends series by remote write.
func (s *site) write(all ...prompb.TimeSeries) *reply {
	s.t.Helper()
	raw, err := (&prompb.WriteRequest{Timeseries: all}).Marshal()
	must(s.t, err)
	return s.ask("POST", "write", string(snappy.Encode(nil, raw)), "Content-Encoding", "snappy", "Content-Type", "application/x-protobuf")
}

var start = time.Unix(1_700_000_000, 0)
