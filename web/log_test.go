package web_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/logbuf"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web"
)

// journal is a log that can be read while it is written, by one goroutine.
type journal struct {
	logbuf.Buffer
	read int // bytes that take has returned
}

// take returns what was logged since its last call.
func (j *journal) take() string {
	text := j.String()[j.read:]
	j.read += len(text)
	return text
}

// lines waits for n lines of JSON and takes them.
func (j *journal) lines(t *testing.T, n int) (all []map[string]any) {
	t.Helper()
	eventually.True(t, fmt.Sprintf("%d lines", n), func() bool { return strings.Count(j.String()[j.read:], "\n") >= n })
	for line := range strings.Lines(j.take()) {
		var v map[string]any
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		all = append(all, v)
	}
	return all
}

func (j *journal) logger() *slog.Logger { return slog.New(slog.NewTextHandler(j, nil)) }

func (j *journal) json(level slog.Level) *slog.Logger {
	return slog.New(slog.NewJSONHandler(j, &slog.HandlerOptions{Level: level}))
}

func TestAccessLog(t *testing.T) {
	var j journal
	s := serve(t, web.Options{Logger: j.json(slog.LevelInfo), Sessions: newSessions(t)}, func(a *web.App) {
		a.Use(web.AccessLog(web.AccessLogOptions{Slow: 50 * time.Millisecond, Skip: func(r *http.Request) bool { return r.URL.Path == "/healthz" || r.URL.Path == "/busy" }}))
		a.Get("/page/{id}", func(c *web.Context) error { return c.Text(200, "twelve bytes") })
		a.Get("/reset/{token}", func(c *web.Context) error { return c.Text(200, "ok") })
		a.Get("/files/{key...}", func(c *web.Context) error { return engine.Errorf(engine.CodeNotFound, "no") })
		a.Get("/busy", func(*web.Context) error { return engine.Errorf(engine.CodeQueueFull, "no") })
		a.Get("/slow", func(c *web.Context) error {
			time.Sleep(51 * time.Millisecond)
			return c.Text(200, "ok")
		})
		a.Post("/login", func(c *web.Context) error {
			c.Session().Login("anna")
			return c.Redirect("/")
		})
		a.Get("/cut", func(c *web.Context) error {
			_, _ = io.WriteString(c.Writer, "half")
			_ = http.NewResponseController(c.Writer).Flush()
			panic(http.ErrAbortHandler)
		})
	})
	for _, c := range []struct {
		method, path string
		want         map[string]any
	}{
		{"GET", "/page/7?q=x&token=S3CR3T", map[string]any{"level": "INFO", "msg": "request", "method": "GET", "path": "/page/7", "query": "q=x&token=[redacted]",
			"route": "GET /page/{id}", "status": 200., "bytes": 12., "client": "127.0.0.1", "request_id": "r1", "user": nil, "slow": nil, "cut": nil}},
		{"HEAD", "/page/7", map[string]any{"method": "HEAD", "bytes": 0., "query": nil, "route": "GET /page/{id}"}},
		{"GET", "/reset/S3CR3T", map[string]any{"path": "/reset/[redacted]", "route": "GET /reset/{token}"}},
		{"GET", "/files/S3CR3T/S3CR3T/x", map[string]any{"path": "/files/[redacted]", "status": 404.}},
		{"GET", "/none?password=S3CR3T", map[string]any{"route": nil, "status": 404., "query": "password=[redacted]"}},
		{"POST", "/none%0A\u2028x", map[string]any{"status": 404., "path": "/none%0A%E2%80%A8x"}},
		{"GET", "/slow", map[string]any{"slow": true}},
		{"GET", "/busy", map[string]any{"status": 503.}},
		{"POST", "/login", map[string]any{"user": "anna", "status": 303.}},
		{"GET", "/page/1", map[string]any{"user": "anna"}},
	} {
		s.do(c.method, c.path, "", "X-Request-Id", "r1", "Authorization", "S3CR3T", "X-Token", "S3CR3T")
		line := j.lines(t, 1)[0]
		for name, want := range c.want {
			if line[name] != want {
				t.Errorf("%s %s: %s is %v, want %v", c.method, c.path, name, line[name], want)
			}
		}
		if text, _ := json.Marshal(line); bytes.Contains(text, []byte("S3CR3T")) || line["took"] == nil {
			t.Errorf("%s %s: %s", c.method, c.path, text)
		}
	}
	s.do("GET", "/healthz", "")
	expectCut(t, s, "/cut")
	if line := j.lines(t, 1)[0]; line["cut"] != true || line["path"] != "/cut" || line["bytes"] != 4. {
		t.Errorf("a response that is cut off, after one that is skipped: %v", line)
	}
}

// TestAccessLogLevel: no line is made for a level that is off; without AccessLog there is a line at debug
// level, without the query.
func TestAccessLogLevel(t *testing.T) {
	var j, access journal
	s := serve(t, web.Options{Logger: j.json(slog.LevelDebug)}, func(a *web.App) {
		a.Get("/x", ok)
		a.Get("/own", ok, web.AccessLog(web.AccessLogOptions{Logger: access.json(slog.LevelInfo), Level: slog.LevelWarn}))
		a.Get("/off", ok, web.AccessLog(web.AccessLogOptions{Logger: access.json(slog.LevelInfo), Level: slog.LevelDebug}))
	})
	for _, path := range []string{"/off", "/own", "/x?a=1"} {
		s.do("GET", path, "")
	}
	if line := j.lines(t, 1)[0]; line["path"] != "/x" || line["level"] != "DEBUG" || line["query"] != nil {
		t.Errorf("%v", line)
	}
	if line := access.lines(t, 1)[0]; line["path"] != "/own" || line["level"] != "WARN" {
		t.Errorf("%v", line)
	}
}

// metricsOf collects an application's metrics by name and labels.
func metricsOf(a *web.App) map[string]engine.Metric {
	all := map[string]engine.Metric{}
	for m := range a.Metrics() {
		key := m.Name
		for _, l := range m.Labels {
			key += " " + l.Value
		}
		all[key] = m
	}
	return all
}

func TestMetrics(t *testing.T) {
	hold, held := make(chan struct{}), make(chan struct{})
	s := serve(t, web.Options{}, func(a *web.App) {
		a.Get("/x/{id}", ok)
		a.Get("/never", ok)
		a.Get("/fail", func(*web.Context) error { panic("no") })
		a.Get("/cut", func(c *web.Context) error {
			_ = http.NewResponseController(c.Writer).Flush()
			panic(http.ErrAbortHandler)
		})
		a.Get("/hold", func(c *web.Context) error {
			close(held)
			<-hold
			return c.NoContent()
		})
	})
	for _, path := range []string{"/x/1", "/x/2", "/fail", "/none", "/else", "/x/3"} {
		s.do("GET", path, "")
	}
	s.do("POST", "/x/1", "")
	expectCut(t, s, "/cut")
	go s.do("GET", "/hold", "")
	<-held
	want := map[string]float64{
		"web_requests_in_flight": 1, "web_streams": 0, "web_requests_total /x/{id} GET 2xx": 3, "web_requests_total /fail GET 5xx": 1, "web_requests_total /cut GET cut": 1,
		"web_requests_total none GET 4xx": 2, "web_requests_total none POST 4xx": 1, "web_request_seconds /x/{id} GET": 3, "web_request_seconds none GET": 2,
		"web_request_seconds none POST": 1, "web_request_seconds /cut GET": 1, "web_request_seconds /fail GET": 1,
	}
	var got map[string]engine.Metric
	eventually.Within(eventually.Limit, func() bool {
		got = metricsOf(s.app)
		return len(got) == len(want) && got["web_requests_in_flight"].Value == 1
	})
	close(hold)
	for key, value := range want {
		m, found := got[key]
		if h := m.Histogram; h != nil {
			sum := uint64(0)
			for _, n := range h.Counts {
				sum += n
			}
			if h.Count != uint64(value) || sum > h.Count || h.Sum <= 0 || len(h.Counts) != len(h.Bounds) || !slices.IsSorted(h.Bounds) {
				t.Errorf("%s: %+v", key, h)
			}
		} else if !found || m.Value != value || m.Help == "" {
			t.Errorf("%s is %+v, want %v", key, m, value)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d metrics, want %d: %v", len(got), len(want), got)
	}
}
