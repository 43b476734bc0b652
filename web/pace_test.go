package web_test

import (
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/web"
)

// TestPace: uploads and streams have more time as they go on, and none is left behind
// for the next request of a server without limits.
func TestPace(t *testing.T) {
	app, err := web.New(web.Options{})
	if err != nil {
		t.Fatal(err)
	}
	app.Post("/", func(c *web.Context) error {
		err := c.Uploads(web.UploadOptions{}, func(f *web.File) error { _, err := io.Copy(io.Discard, f); return err })
		if err != nil {
			return err
		}
		_, err = io.WriteString(c.Writer, "without a status")
		return err
	})
	app.Get("/", func(c *web.Context) error {
		return c.Stream(200, "text/plain", &slowly{[]string{"a", "b", "c"}, io.EOF})
	})
	body, media := formOf(t, part{"f", "x", strings.Repeat("x", 4*web.UploadPace)})
	up := &timed{ResponseRecorder: *httptest.NewRecorder()}
	r := httptest.NewRequest("POST", "/", strings.NewReader(body))
	r.Header.Set("Content-Type", media)
	app.ServeHTTP(up, r)
	if up.Code != 200 || up.Body.String() != "without a status" || up.Header().Get("X-Content-Type-Options") == "" {
		t.Errorf("%d %s", up.Code, up.Body)
	}
	// At the beginning, for each part of the way, and for what follows it.
	if n := len(up.reads); n < 4 || time.Until(up.reads[0]) > web.UploadStall || time.Until(up.reads[0]) <= 0 {
		t.Errorf("an upload's deadlines: %v", up.reads)
	}
	down := &timed{ResponseRecorder: *httptest.NewRecorder()}
	app.ServeHTTP(down, httptest.NewRequest("GET", "/", nil))
	if n := len(down.writes); down.Body.String() != "abc" || n != 4 || time.Until(down.writes[0]) > web.StreamStall || !down.writes[3].IsZero() {
		t.Errorf("a stream's deadlines: %v, %s", down.writes, down.Body)
	}
}
