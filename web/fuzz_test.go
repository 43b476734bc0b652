package web_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/problem"
)

// within runs fn as a handler for one request, and returns the response.
func within(tb testing.TB, r *http.Request, fn web.Handler) *httptest.ResponseRecorder {
	app := newApp(tb, web.Options{Headers: web.Headers{Off: true}})
	app.Handle("/", fn)
	w := httptest.NewRecorder()
	app.ServeHTTP(w, r)
	return w
}

// answered checks that a response is a success or a problem that blames the client.
func answered(tb testing.TB, w *httptest.ResponseRecorder) {
	if w.Code == 200 {
		return
	}
	var p problem.Problem
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || p.Status != w.Code || w.Code >= 500 || !utf8.ValidString(p.Detail) {
		tb.Errorf("%d %s: %v", w.Code, w.Body, err)
	}
	for _, f := range p.Errors {
		if f.Detail == "" || f.Pointer != "" && f.Pointer[0] != '/' {
			tb.Errorf("a fault without a place or a text: %+v", f)
		}
	}
}

// FuzzBindJSON: bound values are those that encoding/json reads; refusals are the client's mistake.
func FuzzBindJSON(f *testing.F) {
	for _, s := range []string{`{"name":"a","count":1,"paid":true}`, `{"name":"\ud83d\ude00","count":-1e2,"paid":null,"lines":[{"sku":"a","n":1}],"any":{"a":[1,{"a":1,"a":2}]},"self":{}}`, `[[[`, `{"name":"a","name":"b"}`, `{"raw":{"a":1},"pair":[1,2],"extra":{"x":1},"bytes":"AA==","at":"2026-01-02T03:04:05Z"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r := httptest.NewRequest("POST", "/", strings.NewReader(string(body)))
		r.Header.Set("Content-Type", "application/json")
		answered(t, within(t, r, func(c *web.Context) error {
			var got order
			err := c.Bind(&got)
			var want order
			if plain := json.Unmarshal(body, &want); err == nil && (plain != nil || !reflect.DeepEqual(got, want)) {
				t.Errorf("%q: %+v, encoding/json has %+v %v", body, got, want, plain)
			}
			return err
		}))
	})
}

// FuzzBindForm: forms of both kinds end in a value or in the client's mistake, and bound values were in the
// form.
func FuzzBindForm(f *testing.F) {
	f.Add("application/x-www-form-urlencoded", "name=a&count=1&paid=on&tags=x&tags=y&pair=1&pair=2&at=2026-01-02T03:04:05Z&raw=1")
	f.Add("application/x-www-form-urlencoded", "name=%ff&a%2fb%7ec=1&=&&;")
	f.Add("multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=\"name\"\r\n\r\nT\r\n--b--\r\n")
	f.Add("multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"x\"\r\n\r\nT\r\n--b\r\n\r\n")
	f.Fuzz(func(t *testing.T, media, body string) {
		r := httptest.NewRequest("POST", "/", strings.NewReader(body))
		r.Header.Set("Content-Type", media)
		answered(t, within(t, r, func(c *web.Context) error {
			var got order
			err := c.Bind(&got)
			if err == nil && strings.HasPrefix(media, "application/x-www-form-urlencoded") {
				if sent, _ := url.ParseQuery(body); sent.Get("name") != got.Name || len(sent["tags"]) != len(got.Tags) && len(sent["tags"]) != 1 {
					t.Errorf("%q: %+v", body, got)
				}
			}
			return err
		}))
		r = httptest.NewRequest("POST", "/", strings.NewReader(body))
		r.Header.Set("Content-Type", media)
		answered(t, within(t, r, func(c *web.Context) error {
			return c.Uploads(web.UploadOptions{MaxFileBytes: 100, MaxFiles: 3}, func(f *web.File) error {
				if f.Name == "" || strings.ContainsAny(f.Name, "/\\\x00\r\n") || f.Type == "" {
					t.Errorf("%+v", f)
				}
				return nil
			})
		}))
	})
}

// FuzzValues: no getter panics, accepted values are in range, and a query is read as by net/url.
func FuzzValues(f *testing.F) {
	for _, q := range []string{"x=1", "x=1&x=2", "%78=a+b", "x=%zz", "x=1;y=2", "x=-1.5e3", "x=2026-01-02T03:04:05Z", "=&x", `x={"name":1}`, "x=on"} {
		f.Add(q)
	}
	f.Fuzz(func(t *testing.T, query string) {
		r := httptest.NewRequest("GET", "/", nil)
		r.URL.RawQuery = query
		answered(t, within(t, r, func(c *web.Context) error {
			v := c.Query("x")
			text, err := v.Text()
			want, malformed := url.ParseQuery(query)
			if malformed == nil && (v.Given() != want.Has("x") || err == nil && text != want.Get("x")) {
				t.Errorf("%q: %q %v, net/url has %q", query, text, err, want["x"])
			}
			if n, err := v.Int64In(-5, 5); err == nil && (n < -5 || n > 5) {
				t.Errorf("%q: %d", query, n)
			}
			if x, err := v.Float64(); err == nil && (x != x || x-x != 0) {
				t.Errorf("%q: %v", query, x)
			}
			var m web.Mistakes
			m.Int64(v)
			m.Bool(v)
			m.Time(v)
			m.Texts(v)
			m.JSON(v, new(order))
			return m.Err()
		}))
	})
}

// FuzzAccept: for any Accept, the response is a problem or a page, and of an offered type.
func FuzzAccept(f *testing.F) {
	for _, a := range []string{"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "*/*;q=0.1, text/*", ";q=1,/,a/b;q=;q", "application/json;q=1.0000"} {
		f.Add(a)
	}
	f.Fuzz(func(t *testing.T, accept string) {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header["Accept"] = []string{accept}
		w := within(t, r, func(c *web.Context) error {
			switch got := c.Accepts("text/html", "application/json"); got {
			case "", "text/html", "application/json":
			default:
				t.Errorf("%q", got)
			}
			return engine.Errorf(engine.CodeNotFound, "no")
		})
		switch w.Header().Get("Content-Type") {
		case problem.Type:
		case "text/html; charset=utf-8":
			if !strings.Contains(strings.ToLower(accept), "text/") && !strings.Contains(strings.ToLower(accept), "application/") {
				t.Errorf("a page for %q", accept)
			}
		default:
			t.Errorf("%v", w.Header())
		}
	})
}

// bodyOf returns the body of a response to GET.
func bodyOf(h http.Handler, path string) string {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	return w.Body.String()
}
