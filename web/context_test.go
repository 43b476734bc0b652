package web_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/skerrydb/skerry/web"
)

type requestNumber struct{}

// TestDerivedContext: the timer of a context derived from a request's may run a little longer than the handler. It
// must not see a later request, nor race with one.
func TestDerivedContext(t *testing.T) {
	var derived []context.Context
	app := newApp(t, web.Options{})
	app.Get("/", func(c *web.Context) error {
		ctx, cancel := context.WithTimeout(c, time.Hour)
		defer cancel()
		derived = append(derived, ctx)
		return c.Text(200, "ok")
	}, func(next http.Handler) http.Handler {
		return web.Handler(func(c *web.Context) error { // handlers can be nested
			next.ServeHTTP(c.Writer, c.Request)
			return nil
		})
	})
	const requests = 100
	for i := range requests {
		r := httptest.NewRequest("GET", "/", nil)
		app.ServeHTTP(httptest.NewRecorder(), r.WithContext(context.WithValue(r.Context(), requestNumber{}, i)))
	}
	if len(derived) != requests {
		t.Fatalf("%d of %d requests were served", len(derived), requests)
	}
	for i, ctx := range derived {
		if got := ctx.Value(requestNumber{}); got != i {
			t.Fatalf("the context of request %d has the value of request %v", i, got)
		}
	}
}
