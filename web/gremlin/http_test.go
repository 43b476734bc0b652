package gremlin_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skerrydb/skerry/web/gremlin"
)

const (
	v3 = "application/vnd.gremlin-v3.0+json"
	v4 = "application/vnd.gremlin-v4.0+json"
)

// TestHTTP: a request in the form of TinkerPop 3 or 4 is answered in the same.
func TestHTTP(t *testing.T) {
	s := newSite(t, gremlin.Options{})
	three := `"status":{"message":"","code":200,"attributes":{"@type":"g:Map","@value":[]}},"result":{"data":{"@type":"g:List","@value":[{"@type":"g:Int32","@value":1},"a"]},"meta":{"@type":"g:Map","@value":[]}}}`
	plain := `"status":{"message":"","code":200,"attributes":{}},"result":{"data":[1,"a"],"meta":{}}}`
	four := `{"result":{"data":[1,"a"]},"status":{"code":200,"message":""}}`
	for _, c := range []struct{ body, accept, want string }{
		{`{"gremlin":"g.inject(1,x)","bindings":{"x":"a"}}`, "", three},
		{`{"gremlin":"g.inject(1,x)","bindings":{"x":"a"},"language":"gremlin-lang","aliases":{"g":"g"}}`, "text/html, */*", three},
		{`{"gremlin":"g.inject(1,'a')"}`, v3, three},
		{`{"gremlin":"g.inject(1,'a')"}`, v3 + ";types=false", plain},
		{`{"gremlin":"g.inject(1,'a')"}`, v4, four},
		{`{"gremlin":"g.inject(1,x)","g":"social","language":"gremlin-lang","parameters":{"x":"a"},"timeoutMs":100,"batchSize":1,"materializeProperties":"tokens","bulkResults":true}`, "", four},
		{`{"gremlin":"g.inject(1,x)","g":"social","bindings":{"x":"a"},"evaluationTimeout":100}`, "application/json", four},
		{`{"gremlin":"g.inject(1,'a')","g":"g"}`, v3, three},
		{`{"gremlin":"g.inject()"}`, v3 + ";types=false", `"result":{"data":[],"meta":{}}}`},
	} {
		header := []string{"Accept", c.accept}
		if c.accept == "" {
			header = nil
		}
		status, got := s.post(c.body, header...)
		if status != 200 || !strings.HasSuffix(got, c.want) || !json.Valid([]byte(got)) {
			t.Errorf("%s with %q: %d\n%s, want\n%s", c.body, c.accept, status, got, c.want)
		}
	}
}

// TestHTTPErrors: the status of HTTP and that in the answer say what is wrong.
func TestHTTPErrors(t *testing.T) {
	back := newFake()
	s := newSite(t, gremlin.Options{Backend: back, MaxMessageBytes: 1000})
	back.submit = func(ctx context.Context, _ gremlin.Request, yield func(any, int64) error) error {
		if err := yield("lost", 1); err != nil {
			return err
		}
		return errors.New("secret")
	}
	for _, c := range []struct {
		body   string
		header []string
		status int
		want   string
	}{
		{`{"gremlin":"g.V("}`, nil, 400, `"code":597`},
		{`{"gremlin":"g.V(","g":"g"}`, nil, 400, `{"result":{"data":[]},"status":{"code":597,"message":"line 1`},
		{`{"gremlin":"g.V()"}`, nil, 500, `"internal error, reference `},
		{`{"gremlin":"g.tx().commit()"}`, nil, 400, "needs the argument transactionId"},
		{`{"gremlin":`, nil, 400, "malformed request: at byte 11"},
		{`[]`, nil, 400, "expected an object"},
		{`{}`, nil, 400, "argument gremlin"},
		{`{"gremlin":"g.V()","g":1}`, nil, 400, "argument g"},
		{`{"gremlin":"g.V()"}`, []string{"Content-Type", "text/plain"}, 415, "expected a body of application/json"},
		{`{"gremlin":"g.V()"}`, []string{"Accept", "application/vnd.graphbinary-v1.0, text/html"}, 406, "expected Accept"},
		{`{"gremlin":"` + strings.Repeat("x", 1000) + `"}`, nil, 413, "at most 1000 bytes"},
		{`{"gremlin":"g.V()"}`, []string{"Sec-Fetch-Site", "cross-site"}, 403, "cross-origin"},
	} {
		status, got := s.post(c.body, c.header...)
		if status != c.status || !strings.Contains(got, c.want) || strings.Contains(got, "lost") || strings.Contains(got, "secret") || !json.Valid([]byte(got)) {
			t.Errorf("%s: %d %s, want %d %s", c.body, status, got, c.status, c.want)
		}
	}
	back.submit = back.blocked
	if status, got := s.post(`{"gremlin":"g.V()","evaluationTimeout":1}`); status != http.StatusGatewayTimeout || !strings.Contains(got, `"code":598`) {
		t.Errorf("a request that takes too long: %d %s", status, got)
	}
	p, err := s.http.Get("http://server/gremlin")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Body.Close()
	if p.StatusCode != http.StatusMethodNotAllowed || p.Header.Get("Allow") != "POST" {
		t.Errorf("GET is answered with %d", p.StatusCode)
	}
}

// TestHTTPStreaming: a large result is written while the traversal runs; its end
// says how that ended.
func TestHTTPStreaming(t *testing.T) {
	for _, c := range []struct {
		accept, want string
		err          error
	}{
		{v3, `"status":{"code":200,"message":"","attributes":{"@type":"g:Map","@value":[]}}}`, nil},
		{v3 + ";types=false", `"status":{"code":200,"message":"","attributes":{}}}`, nil},
		{v4, `],"status":{"code":200,"message":""}}`, nil},
		{v4, `],"status":{"code":500,"message":"no more"}}`, &gremlin.Error{Status: 500, Msg: "no more"}},
	} {
		back := newFake()
		back.submit = func(ctx context.Context, r gremlin.Request, yield func(any, int64) error) error {
			if err := counting(100_000)(ctx, r, yield); err != nil {
				return err
			}
			return c.err
		}
		status, got := newSite(t, gremlin.Options{Backend: back}).post(`{"gremlin":"g.V()"}`, "Accept", c.accept)
		c.want = strings.Replace(c.want, `],"status"`, `]},"status"`, 1)
		if status != 200 || !strings.HasSuffix(got, c.want) || !json.Valid([]byte(got)) {
			t.Errorf("%s: %d …%s, want …%s", c.accept, status, got[max(0, len(got)-200):], c.want)
		}
		if n := strings.Count(got, ","); n < 100_000-gremlin.DefaultBatch {
			t.Errorf("%s: %d values", c.accept, n)
		}
	}
}

// TestHTTPSlowReader: a client that does not read ends the traversal after a while.
func TestHTTPSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		back, ended := newFake(), make(chan error, 1)
		back.submit = func(_ context.Context, _ gremlin.Request, yield func(any, int64) error) error {
			for {
				if err := yield(strings.Repeat("x", 10_000), 1); err != nil {
					ended <- err
					return err
				}
			}
		}
		s := newSite(t, gremlin.Options{Backend: back, WriteTimeout: 5 * time.Second})
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://server/gremlin", strings.NewReader(`{"gremlin":"g.V()"}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		began := time.Now()
		p, err := s.http.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Body.Close()
		if err := <-ended; err == nil {
			t.Error("yield returned no error")
		}
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("the traversal was stopped after %v", took)
		}
	})
}

// TestHTTPLogin: HTTP has Basic authentication.
func TestHTTPLogin(t *testing.T) {
	back := newFake()
	back.submit = user
	s := newSite(t, gremlin.Options{Backend: back, Authenticate: passwords})
	basic := func(user, password string) string {
		r := &http.Request{Header: http.Header{}}
		r.SetBasicAuth(user, password)
		return r.Header.Get("Authorization")
	}
	body := `{"gremlin":"g.V()","g":"g"}`
	if status, got := s.post(body); status != 401 || !strings.Contains(got, "authentication is required") {
		t.Errorf("without a password: %d %s", status, got)
	}
	if status, got := s.post(body, "Authorization", basic("stephen", "wrong")); status != 401 || strings.Contains(got, "secret") {
		t.Errorf("with a wrong password: %d %s", status, got)
	}
	if status, got := s.post(body, "Authorization", basic("stephen", "password")); status != 200 || !strings.Contains(got, `["Stephen"]`) {
		t.Errorf("with the password: %d %s", status, got)
	}
}

// TestOptions: options that cannot be meant are refused.
func TestOptions(t *testing.T) {
	for _, o := range []gremlin.Options{
		{}, {Backend: newFake(), MaxRunning: -1}, {Backend: newFake(), Timeout: -1}, {Backend: newFake(), MaxMessageBytes: -1},
	} {
		if _, err := gremlin.New(o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}
