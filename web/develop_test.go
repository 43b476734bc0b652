package web_test

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/view"
)

// patience is how long a test waits for an event.
const patience = 30 * time.Second

// states reads the stream of /_dev/reload; the channel is closed when that ends.
func states(t *testing.T, s *site) <-chan string {
	t.Helper()
	resp := open(t, s.srv.Client(), s.srv.URL+"/_dev/reload")
	if got := resp.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Fatalf("/_dev/reload is %s", got)
	}
	news := make(chan string, 100)
	go func() {
		defer close(news)
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				news <- data
			}
		}
	}()
	return news
}

func next(t *testing.T, news <-chan string) string {
	t.Helper()
	select {
	case state, ok := <-news:
		if !ok {
			t.Fatal("the stream has ended")
		}
		return state
	case <-time.After(patience):
		t.Fatal("no change was reported")
	}
	return ""
}

// TestLiveReload: a browser is notified when a view or a file has changed, and can distinguish runs of the
// program; the stream ends when the server stops.
func TestLiveReload(t *testing.T) {
	t.Parallel()
	views, files := t.TempDir(), t.TempDir()
	writeFile(t, views+"/home.html", "<html><body>one</body></html>")
	writeFile(t, files+"/a.css", "one")
	v := newViews(t, view.Options{FS: os.DirFS(views), Reload: true})
	o := web.Options{Debug: true, Views: v, Assets: newAssets(t, web.AssetOptions{Dir: files, Reload: true})}
	s := serve(t, o, func(*web.App) {})
	news := states(t, s)
	seen := map[string]bool{next(t, news): true}
	for _, change := range []func(){
		func() { writeFile(t, views+"/home.html", "<html><body>two</body></html>") },
		func() { writeFile(t, views+"/home.html", "{{broken") },
		func() { writeFile(t, files+"/a.css", "three") },
		func() { writeFile(t, files+"/new/b.css", "new") },
	} {
		change()
		state := next(t, news)
		if seen[state] {
			t.Errorf("%s was sent before", state)
		}
		seen[state] = true
	}
	if state := next(t, states(t, serve(t, o, func(*web.App) {}))); seen[state] {
		t.Error("another run of the program looks like this one")
	}
	s.app.EndStreams()
	for end := time.After(patience); ; {
		select {
		case _, ok := <-news:
			if ok {
				continue
			}
		case <-end:
			t.Error("the stream does not end with the server")
		}
		break
	}
}

// TestPagesReload: in debug mode every page has the script, once, whatever its layout does; error pages too.
func TestPagesReload(t *testing.T) {
	t.Parallel()
	tag := regexp.MustCompile(`<script src="/_dev/reload\.js" data-files="[0-9a-f]+-0" defer></script>`)
	v := newViews(t, view.Options{Layout: "frame", FS: fstest.MapFS{
		"frame.html": {Data: []byte("<html>{{if .asks}}{{.assets}}{{end}}<body>{{.contents}}</body></html>")},
		"home.html":  {Data: []byte("home")},
	}})
	for _, debug := range []bool{true, false} {
		s := serve(t, web.Options{Debug: debug, Views: v, Outbox: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Write([]byte("outbox " + r.URL.Path))
		})}, func(a *web.App) {
			for path, asks := range map[string]bool{"/asks": true, "/not": false} {
				a.Get(path, func(c *web.Context) error { return c.Render("home", web.Locals{"asks": asks}) })
			}
		})
		want := map[bool]int{true: 1, false: 0}[debug]
		for _, path := range []string{"/asks", "/not", "/none"} {
			got := s.do("GET", path, "", "Accept", "text/html")
			if n := len(tag.FindAllString(got.body, -1)); n != want || !strings.Contains(got.body, "</html>") {
				t.Errorf("debug %v: %s has the script %d times: %s", debug, path, n, got.body)
			}
		}
		for path, body := range map[string]string{"/_dev/reload.js": "EventSource", "/_dev/outbox/": "outbox /", "/_dev/outbox/7/html": "outbox /7/html"} {
			got := s.do("GET", path, "")
			if debug && (got.status != 200 || !strings.Contains(got.body, body)) || !debug && got.status != 404 {
				t.Errorf("debug %v: %s is %+v", debug, path, got)
			}
		}
		if got := s.do("HEAD", "/_dev/reload", ""); !debug && got.status != 404 {
			t.Errorf("/_dev/reload is there: %+v", got)
		}
	}
}

// TestDebugHosts: in debug mode no foreign web page can read developers' data under a host name of its own
// that resolves here, and the response explains how to allow a name.
func TestDebugHosts(t *testing.T) {
	t.Parallel()
	outbox := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("a token")) })
	routes := func(a *web.App) { a.Get("/", func(c *web.Context) error { return c.Text(200, "page") }) }
	for _, c := range []struct {
		o                web.Options
		allowed, refused string
	}{
		{web.Options{Debug: true}, "127.0.0.1:7000 [::1]:7000 localhost app.localhost:80 machine machine. 192.0.2.7", "evil.test evil.test:7000 localhost.evil.test 127.0.0.1.evil.test example.org"},
		{web.Options{Debug: true, Hosts: []string{"app.example"}, GlobalDomain: "Example.org"}, "app.example APP.example:7000 example.org a.example.org:80 localhost", "evil.test b.app.example notexample.org example.org.evil.test"},
		{web.Options{Debug: true, Hosts: []string{"*"}}, "evil.test", ""},
		{web.Options{}, "evil.test", ""},
	} {
		c.o.Outbox = outbox
		s := serve(t, c.o, routes)
		ask := func(host, path string) *httptest.ResponseRecorder {
			w, r := httptest.NewRecorder(), httptest.NewRequest("GET", path, nil)
			r.Host = host
			s.app.ServeHTTP(w, r)
			return w
		}
		for host := range strings.FieldsSeq(c.allowed) {
			if got := ask(host, "/"); got.Code != 200 {
				t.Errorf("%+v under %s: %d %s", c.o.Hosts, host, got.Code, got.Body)
			}
			if got := ask(host, "/_dev/outbox/"); c.o.Debug != (got.Body.String() == "a token") {
				t.Errorf("the outbox under %s: %d", host, got.Code)
			}
		}
		for host := range strings.FieldsSeq(c.refused) {
			for _, path := range []string{"/", "/_dev/outbox/", "/_dev/reload.js", "/none"} {
				if got := ask(host, path); got.Code != http.StatusMisdirectedRequest || !strings.Contains(got.Body.String(), "--hosts") || strings.Contains(got.Body.String(), "a token") {
					t.Errorf("%s under %s: %d %s", path, host, got.Code, got.Body)
				}
			}
		}
	}
}
