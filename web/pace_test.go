package web_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/skerrydb/skerry/web"
)

// TestPace: streams get more time while they make progress, and no deadline is left behind for the next request
// of a server without limits.
func TestPace(t *testing.T) {
	app := newApp(t, web.Options{})
	app.Get("/", func(c *web.Context) error {
		return c.Stream(200, "text/plain", &slowly{[]string{"a", "b", "c"}, io.EOF})
	})
	w := &timed{ResponseRecorder: *httptest.NewRecorder()}
	app.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	if n := len(w.writes); w.Body.String() != "abc" || n < 4 || time.Until(w.writes[0]) > web.StreamStall || !w.writes[n-1].IsZero() {
		t.Errorf("a stream's deadlines: %v, %s", w.writes, w.Body)
	}
}

// watched is a body that reports its end together with its last bytes, as net/http's does, and how many
// deadlines were set until then.
type watched struct {
	io.Reader
	w     *timed
	atEnd int
}

func (b *watched) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err == io.EOF {
		b.atEnd = len(b.w.reads)
	}
	return n, err
}

// check checks the deadlines of a long upload.
func (b *watched) check(t *testing.T) {
	t.Helper()
	w := b.w
	if n := len(w.reads); n < 4 || time.Until(w.reads[0]) > web.UploadStall || time.Until(w.reads[0]) <= 0 {
		t.Errorf("the upload's deadlines are %v", w.reads)
	} else if n != b.atEnd {
		t.Errorf("%d deadlines were set after the end of the body: net/http would report that the client is gone", n-b.atEnd)
	}
	if len(w.writes) < 2 || !w.writes[0].IsZero() || !w.writes[len(w.writes)-1].IsZero() {
		t.Errorf("over HTTP/2 the deadline of the response ends an upload that lasts longer: %v", w.writes)
	}
}

// TestLongUpload: an upload may take longer than a response may, and so may processing it.
func TestLongUpload(t *testing.T) {
	app := newApp(t, web.Options{})
	app.Post("/", func(c *web.Context) error {
		err := c.Uploads(web.UploadOptions{}, func(f *web.File) error { _, err := io.Copy(io.Discard, f); return err })
		if err != nil {
			return err
		}
		_, err = io.WriteString(c.Writer, "without a status")
		return err
	})
	text, media := formOf(t, part{"f", "x", strings.Repeat("x", 8*web.UploadPace)})
	w := &timed{ResponseRecorder: *httptest.NewRecorder()}
	body := &watched{Reader: iotest.DataErrReader(strings.NewReader(text)), w: w}
	r := httptest.NewRequest("POST", "/", body)
	r.Header.Set("Content-Type", media)
	app.ServeHTTP(w, r)
	if w.Code != 200 || w.Body.String() != "without a status" || w.Header().Get("X-Content-Type-Options") == "" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	body.check(t)
}

// TestLongPassedOn: the same holds for forwarded uploads, and the response may take as long as the leader
// allows.
func TestLongPassedOn(t *testing.T) {
	t.Parallel()
	list := startNodes(t, web.Options{}, func(a *web.App, n *node) {
		a.Post("/upload", func(c *web.Context) error {
			if err := upload(n)(c); err != nil {
				return err
			}
			for range 3 {
				if _, err := io.WriteString(c.Writer, "more"); err != nil {
					return err
				}
				c.Writer.(http.Flusher).Flush()
			}
			return nil
		}, web.BodyLimit(16<<20))
		a.Post("/events", func(c *web.Context) error {
			return c.SSE(web.EventOptions{}, func(s *web.Events) error {
				<-s.Context().Done()
				return nil
			})
		})
	})
	_, followers := roles(t, list)
	defer endsAtStop(t, followers[1])
	w := &timed{ResponseRecorder: *httptest.NewRecorder()}
	body := &watched{Reader: iotest.DataErrReader(strings.NewReader(strings.Repeat("x", 8*web.UploadPace))), w: w}
	r := httptest.NewRequest("POST", "/upload", body)
	r.ContentLength = 8 * web.UploadPace
	followers[0].app.ServeHTTP(w, r)
	if w.Code != 200 || !strings.HasSuffix(w.Body.String(), "moremoremore") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	body.check(t)
	bounded := false
	for i, at := range w.writes {
		bounded = bounded || !at.IsZero()
		if time.Until(at) > web.StreamStall || !at.IsZero() && !w.writes[i+1].IsZero() {
			t.Errorf("a write has more than %v, or the time after it is bounded: %v", web.StreamStall, w.writes)
		}
	}
	if !bounded {
		t.Error("a client that reads nothing keeps the response for ever")
	}
}

// endsAtStop: an event stream that another node serves ends properly when the server that the client is
// connected to stops.
func endsAtStop(t *testing.T, at *node) {
	resp, err := newBrowser(t).client.Post(at.srv.URL+"/events", "", nil)
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("%v %v", resp, err)
	}
	defer resp.Body.Close()
	guard := time.AfterFunc(patience, func() { at.srv.CloseClientConnections() })
	defer guard.Stop()
	at.app.EndStreams()
	if _, err := io.ReadAll(resp.Body); err != nil {
		t.Error(err)
	}
}
