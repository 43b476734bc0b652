package api_test

import (
	"context"
	"errors"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/skerrydb/skerry/ci/logbuf"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/web/api"
)

// logged collects a log.
type logged struct{ logbuf.Buffer }

func (l *logged) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// metric returns one sample of /metrics by name and labels, -1 if it is not there.
func (s *server) metric(t *testing.T, sample string) float64 {
	t.Helper()
	got := s.do(t, "GET", "/metrics", nil)
	m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(sample) + ` (\S+)$`).FindSubmatch(got.body)
	if m == nil {
		return -1
	}
	v, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestMetrics(t *testing.T) {
	s := serve(t, api.Options{})
	s.do(t, "PUT", "/db/a", strings.NewReader("x"))
	s.do(t, "PUT", "/db/b", strings.NewReader("x"))
	s.do(t, "GET", "/db/a", nil)
	s.do(t, "GET", "/db/none", nil)
	s.do(t, "GET", "/db/", nil)
	s.do(t, "MADEUP1", "/db/a", nil)
	s.do(t, "MADEUP2", "/db/a", nil)
	s.do(t, "GET", "/made/up", nil)
	for sample, want := range map[string]float64{
		`skerry_http_requests_total{class="2xx",method="PUT",route="/db/{key}"}`:   2,
		`skerry_http_requests_total{class="2xx",method="GET",route="/db/{key}"}`:   1,
		`skerry_http_requests_total{class="4xx",method="GET",route="/db/{key}"}`:   1,
		`skerry_http_requests_total{class="2xx",method="GET",route="/db/"}`:        1,
		`skerry_http_requests_total{class="4xx",method="other",route="/db/{key}"}`: 2,
		`skerry_http_requests_total{class="4xx",method="GET",route="none"}`:        1,
		`skerry_http_request_seconds_count{method="GET",route="/db/{key}"}`:        2,
		`skerry_http_request_seconds_bucket{method="GET",route="/db/",le="+Inf"}`:  1,
		`skerry_http_requests_in_flight`:                                           1, // the one that asks
		`skerry_engine_position`:                                                   2,
	} {
		if got := s.metric(t, sample); got != want {
			t.Errorf("%s is %v, not %v", sample, got, want)
		}
	}
	for _, sample := range []string{"go_goroutines", "process_open_fds", "skerry_engine_fsyncs_total"} {
		if got := s.metric(t, sample); got <= 0 {
			t.Errorf("%s is %v", sample, got)
		}
	}
}

func TestBackup(t *testing.T) {
	s := serve(t, api.Options{})
	for _, key := range []string{"a", "b", "c"} {
		s.do(t, "PUT", "/db/"+key, strings.NewReader("value"))
	}
	resp, err := http.Get(s.url("/backup"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	sum, err := embedded.VerifyBackup(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if sum.Position != 3 || resp.Trailer.Get("X-Skerry-Position") != "3" || resp.StatusCode != 200 {
		t.Errorf("the backup is of position %d, %d, trailer %v", sum.Position, resp.StatusCode, resp.Trailer)
	}
}

// TestBackupFails: a failure before the first byte is a problem; a later one cuts the connection, so that
// nobody mistakes the bytes for a backup.
func TestBackupFails(t *testing.T) {
	begin, fail := "", error(engine.ErrStopped)
	s := serve(t, api.Options{Backup: func(_ context.Context, w io.Writer) (engine.Position, error) {
		if begin != "" {
			w.Write([]byte(begin))
		}
		return 0, fail
	}})
	if got := s.do(t, "GET", "/backup", nil); got.status != 503 || got.code() != engine.CodeStopped || got.header.Get("Content-Disposition") != "" {
		t.Errorf("answered %d %v %s", got.status, got.header, got.body)
	}
	begin = strings.Repeat("half", 10_000)
	resp, err := http.Get(s.url("/backup"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if n, err := io.Copy(io.Discard, resp.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("half a backup ends with %v after %d bytes", err, n)
	}
	if got := s.metric(t, `skerry_http_requests_total{class="cut",method="GET",route="/backup"}`); got != 1 {
		t.Errorf("%v requests were counted as cut off", got)
	}
}

// TestGates: routes with a bounded number of requests refuse one more, and serve again once there is room.
func TestGates(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	hold := func() {
		select {
		case <-release:
		default:
			started <- struct{}{}
			<-release
		}
	}
	s := serve(t, api.Options{
		Backup:  func(context.Context, io.Writer) (engine.Position, error) { hold(); return 7, nil },
		Metrics: func() iter.Seq[engine.Metric] { return func(func(engine.Metric) bool) { hold() } },
	})
	paths := map[string]int{"/backup": api.MaxBackups, "/metrics": api.MaxScrapes}
	var wg sync.WaitGroup
	for path, limit := range paths {
		for range limit {
			wg.Go(func() {
				s.do(t, "GET", path, nil).is(t, path+" under the limit", 200, "")
			})
			<-started
		}
		s.do(t, "GET", path, nil).is(t, path+" over the limit", 503, engine.CodeQueueFull)
	}
	close(release)
	wg.Wait()
	for path := range paths {
		s.do(t, "GET", path, nil).is(t, path+" afterwards", 200, "")
	}
}

func TestIndexPage(t *testing.T) {
	s := serve(t, api.Options{Password: "p"})
	got := s.do(t, "GET", "/", nil, "Accept", "text/html,*/*", "Authorization", "Bearer p")
	page := string(got.body)
	if got.status != 200 || got.header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Fatalf("answered %d %v", got.status, got.header)
	}
	for _, want := range []string{"curl -u :PASSWORD -X POST http://" + s.addr + "/db/foo -d bar", "/metrics", "<code>/db/{key}</code>"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not have %q:\n%s", want, page)
		}
	}
	for _, not := range []string{"<script", "src=", "@import", "href="} {
		if strings.Contains(page, not) {
			t.Errorf("the page has %q: it must stand by itself", not)
		}
	}
	if csp := got.header.Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'") {
		t.Errorf("the page's policy is %q", csp)
	}
	req, err := http.NewRequest("GET", s.url("/"), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "a'&b"
	req.Header.Set("Accept", "text/html")
	req.SetBasicAuth("", "p")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || strings.Contains(string(body), "a'&b") || !strings.Contains(string(body), "a&#39;&amp;b") {
		t.Errorf("the host is not escaped (%v):\n%s", err, body)
	}
}

// TestLog: the access log identifies requests and contains no secret.
func TestLog(t *testing.T) {
	var log logged
	s := serve(t, api.Options{Password: "s3cret", Logger: log.logger()})
	got := s.do(t, "PUT", "/db/a%0ab?ttl=1m", strings.NewReader("valuable"), "Authorization", "Bearer s3cret")
	id := got.header.Get("X-Request-Id")
	s.do(t, "GET", "/db/a", nil, "Authorization", "Bearer wrong-s3cret-guess")
	var line string
	for l := range strings.Lines(log.String()) {
		if strings.Contains(l, "request_id="+id+" ") {
			line = l
		}
	}
	for _, want := range []string{"method=PUT", "path=/db/a%0ab", "status=201", "bytes=0", "took=", "from=127.0.0.1 "} {
		if !strings.Contains(line, want) {
			t.Errorf("the log line has no %s: %q", want, line)
		}
	}
	for _, not := range []string{"s3cret", "valuable", "ttl"} {
		if strings.Contains(log.String(), not) {
			t.Errorf("the log has %q:\n%s", not, log.String())
		}
	}
}
