package web_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/web"
)

// listing is a page of about 10 kB with varied contents.
func listing() string {
	var b strings.Builder
	b.WriteString("<!doctype html><title>List</title><ul>")
	for i := range 110 {
		fmt.Fprintf(&b, `<li><a href="/item/%d">Item %x of the list</a> %d.%02d EUR, in stock</li>`, i*7919, i*i*104729, i%97, i*31%100)
	}
	return b.String()
}

// BenchmarkMiddleware measures the cost of one request through each middleware alone; the numbers in
// docs/middleware.md come from it.
func BenchmarkMiddleware(b *testing.B) {
	body := listing()
	none := func(h http.Handler) http.Handler { return h }
	for _, c := range []struct {
		name, accept string
		o            web.Options
		m            web.Middleware
	}{
		{"none", "", web.Options{Headers: web.Headers{Off: true}}, none},
		{"headers", "", web.Options{}, none},
		{"AccessLog", "", web.Options{}, web.AccessLog(web.AccessLogOptions{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})},
		{"Timeout", "", web.Options{}, web.Timeout(time.Minute)},
		{"RateLimit", "", web.Options{}, web.RateLimit(web.RateLimitOptions{Requests: 1e8})},
		{"CORS", "", web.Options{}, web.CORS(web.CORSOptions{Origins: []string{"https://a.example"}})},
		{"ETag", "", web.Options{}, web.ETag(web.ETagOptions{})},
		{"Compress/identity", "", web.Options{}, web.Compress(web.CompressOptions{})},
		{"Compress/gzip", "gzip", web.Options{}, web.Compress(web.CompressOptions{})},
		{"Compress/zstd", "zstd", web.Options{}, web.Compress(web.CompressOptions{})},
	} {
		b.Run(c.name, func(b *testing.B) {
			app := newApp(b, c.o)
			app.Use(c.m)
			app.Get("/", func(c *web.Context) error { return c.HTML(200, body) })
			r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
			if c.accept != "" {
				r.Header.Set("Accept-Encoding", c.accept)
			}
			w := &stub{header: http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				w.reset()
				app.ServeHTTP(w, r)
			}
			b.ReportMetric(float64(w.n), "bytes")
		})
	}
}

// BenchmarkEncoders measures the memory of an open stream's encoder.
func BenchmarkEncoders(b *testing.B) {
	for _, coding := range []string{"gzip", "zstd"} {
		b.Run(coding, func(b *testing.B) {
			app := newApp(b, web.Options{})
			const streams = 50
			hold, held := make(chan struct{}), make(chan struct{})
			app.Use(web.Compress(web.CompressOptions{Types: []string{"text/event-stream"}}))
			app.Get("/", func(c *web.Context) error {
				c.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(c.Writer, "data: x\n\n")
				_ = http.NewResponseController(c.Writer).Flush()
				held <- struct{}{}
				<-hold
				return nil
			})
			before := live()
			for range streams {
				go func() {
					r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
					r.Header.Set("Accept-Encoding", coding)
					app.ServeHTTP(httptest.NewRecorder(), r)
				}()
				<-held
			}
			b.ReportMetric(float64(live()-before)/streams/1024, "kB/stream")
			close(hold)
		})
	}
}

func live() int64 {
	runtime.GC()
	return memory()
}
