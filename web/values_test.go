package web_test

import (
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/problem"
)

// problemOf reads the body of a response as a problem.
func problemOf(tb testing.TB, a answer) problem.Problem {
	tb.Helper()
	var p problem.Problem
	if err := json.Unmarshal([]byte(a.body), &p); err != nil || a.header.Get("Content-Type") != problem.Type {
		tb.Fatalf("the response is not a problem: %+v", a)
	}
	return p
}

// places lists the position of each fault of a response, with its text.
func places(tb testing.TB, a answer) string {
	tb.Helper()
	var out []string
	for _, f := range problemOf(tb, a).Errors {
		out = append(out, f.Pointer+f.Parameter+": "+f.Detail)
	}
	return strings.Join(out, "\n")
}

// TestValues: each getter accepts values of its type, and names others.
func TestValues(t *testing.T) {
	getters := map[string]func(web.Value) (any, error){
		"text":  func(v web.Value) (any, error) { return v.Text() },
		"int":   func(v web.Value) (any, error) { return v.Int64() },
		"in":    func(v web.Value) (any, error) { return v.Int64In(1, 100) },
		"float": func(v web.Value) (any, error) { return v.Float64() },
		"bool":  func(v web.Value) (any, error) { return v.Bool() },
		"time":  func(v web.Value) (any, error) { return v.Time() },
		"day":   func(v web.Value) (any, error) { return v.Time(time.DateOnly, "02.01.2006") },
		"oneof": func(v web.Value) (any, error) { return v.OneOf("up", "down") },
		"or":    func(v web.Value) (any, error) { return v.Or("7").Int64() },
		"texts": func(v web.Value) (any, error) { return v.Texts() },
		"json": func(v web.Value) (any, error) {
			var to struct{ A []int }
			err := v.JSON(&to)
			return to.A, err
		},
	}
	s := serve(t, web.Options{}, func(a *web.App) {
		for name, get := range getters {
			a.Get("/"+name, func(c *web.Context) error {
				v, err := get(c.Query("x"))
				if err != nil {
					return err
				}
				return c.JSON(200, v)
			})
		}
		a.Get("/path/{x}", func(c *web.Context) error {
			n, err := c.Path("x").Int64()
			if err != nil {
				return err
			}
			return c.JSON(200, n)
		})
		a.Get("/misspelt/{id}", func(c *web.Context) error { _, err := c.Path("ib").Text(); return err })
	})
	for _, c := range []struct{ path, want string }{
		{"/text?x=a%20b", `"a b"`}, {"/text?x=", `""`}, {"/text", "x: is missing"}, {"/text?%78=1", `"1"`},
		{"/text?x=%ff", "x: must be UTF-8"}, {"/text?x=%zz", "x: has a malformed"}, {"/text?x=a;y=b", "x: has a malformed"},
		{"/text?x=1&x=2", "x: is given 2 times"},
		{"/int?x=-9223372036854775808", "-9223372036854775808"}, {"/int?x=9223372036854775808", "x: is out of the range of 64 bits"},
		{"/int?x=1.5", `x: must be a whole number, not "1.5"`}, {"/int?x=", "x: is missing"}, {"/int?x=0x10", "x: must be"}, {"/int?x=1_000", "x: must be"},
		{"/int?x=" + strings.Repeat("z", 60), `x: must be a whole number, not "` + strings.Repeat("z", 40) + `"…`},
		{"/in?x=100", "100"}, {"/in?x=101", "x: must be 1 to 100, not 101"}, {"/in?x=0", "x: must be 1 to 100"},
		{"/float?x=-2.5e3", "-2500"}, {"/float?x=NaN", "x: must be a number"}, {"/float?x=Inf", "x: must be"}, {"/float?x=0x1p4", "x: must be"}, {"/float?x=1e999", "x: is out of"},
		{"/bool?x=on", "true"}, {"/bool?x=false", "false"}, {"/bool?x=yes", "x: must be true or false"},
		{"/time?x=2026-01-02T03:04:05Z", `"2026-01-02T03:04:05Z"`}, {"/time?x=2026-13-02T03:04:05Z", "x: must be a time"}, {"/day?x=31.12.2026", `"2026-12-31T00:00:00Z"`}, {"/day?x=x", "x: must be a time as 2006-01-02 or"},
		{"/oneof?x=up", `"up"`}, {"/oneof?x=left", "x: must be up or down"},
		{"/or", "7"}, {"/or?x=", "7"}, {"/or?x=8", "8"}, {"/or?x=a", "x: must be"}, {"/or?x=%zz", "x: has a malformed"},
		{"/texts?x=a&y=q&x=b", `["a","b"]`}, {"/texts", "null"}, {"/texts?x=a&x=%ff", "x: must be UTF-8"},
		{"/json?x=" + url.QueryEscape(`{"A":[1,2]}`), "[1,2]"}, {"/json?x=" + url.QueryEscape(`{"A":[1,"b"]}`), "x: at /A/1: must be a whole number"}, {"/json?x={", "x: is not JSON"},
		{"/path/5", "5"}, {"/path/a%2Fb", `x: must be a whole number, not "a/b"`},
	} {
		got := s.do("GET", c.path, "")
		text, right := strings.TrimSpace(got.body), got.body == c.want+"\n"
		if strings.HasPrefix(c.want, "x: ") {
			text = places(t, got)
			right = got.status == 400 && strings.HasPrefix(text, c.want)
		}
		if !right {
			t.Errorf("%s: %d %s; want %s", c.path, got.status, text, c.want)
		}
	}
	if got := s.do("GET", "/misspelt/1", ""); got.status != 500 {
		t.Errorf("a name that the pattern does not have: %+v", got)
	}
}

// TestMistakes: faults in path, query and body are reported together.
func TestMistakes(t *testing.T) {
	s := serve(t, web.Options{}, func(a *web.App) {
		a.Post("/{id}", func(c *web.Context) error {
			var m web.Mistakes
			var body struct{ Age int }
			id := m.Int64(c.Path("id"))
			day := m.Time(c.Query("day").Or("2026-01-01"), time.DateOnly)
			m.Add(c.Bind(&body))
			if body.Age < 0 {
				m.Field("/Age", "must not be negative")
			}
			if err := m.Err(); err != nil {
				return err
			}
			return c.Text(200, strconv.FormatInt(id, 10)+day.Format(time.DateOnly))
		})
		a.Post("/conflict/{id}", func(c *web.Context) error {
			var m web.Mistakes
			m.Int64(c.Path("id"))
			m.Add(engine.Errorf(engine.CodeConflict, "no"))
			return m.Err()
		})
		a.Get("/many", func(c *web.Context) error {
			var m web.Mistakes
			for v := range c.Query("n").All() {
				m.Int64(v)
			}
			return m.Err()
		})
	})
	json := []string{"Content-Type", "application/json"}
	if got := s.do("POST", "/7", `{"Age":1}`, json...); got.body != "72026-01-01" {
		t.Errorf("all right: %+v", got)
	}
	got := s.do("POST", "/a?day=x", `{"Age":-1,"B":2}`, json...)
	want := "id: must be a whole number, not \"a\"\nday: must be a time as 2006-01-02, not \"x\"\n/B: is not known\n/Age: must not be negative"
	if places(t, got) != want || got.status != 400 {
		t.Errorf("%d %s", got.status, places(t, got))
	}
	if got := s.do("POST", "/conflict/a", ""); got.status != 409 {
		t.Errorf("another error than of a field: %+v", got)
	}
	got = s.do("GET", "/many?n=x"+strings.Repeat("&n=x", web.MaxFaults), "")
	if n := len(problemOf(t, got).Errors); n != web.MaxFaults {
		t.Errorf("%d mistakes were reported", n)
	}
}

// TestForm: fields of the body, apart from those of the query.
func TestForm(t *testing.T) {
	s := serve(t, web.Options{MaxBody: 20_000}, func(a *web.App) {
		a.Post("/", func(c *web.Context) error {
			tags, err := c.Form("tag").Texts()
			if err != nil {
				return err
			}
			n, err := c.Form("n").Int64()
			if err != nil {
				return err
			}
			agreed, err := c.Form("agree").Or("off").Bool()
			if err != nil {
				return err
			}
			return c.JSON(200, []any{c.Form("name").String(), n, agreed, tags, c.Form("q").Given()})
		})
	})
	form := []string{"Content-Type", "application/x-www-form-urlencoded"}
	if got := s.do("POST", "/?q=1&n=5", "name=A%26B&n=3&tag=x&tag=y&agree=on", form...); got.body != `["A\u0026B",3,true,["x","y"],false]`+"\n" {
		t.Errorf("%+v", got)
	}
	for _, c := range []struct {
		body   string
		status int
		header []string
	}{
		{"n=%zz", 400, form}, {"n=x", 400, form}, {"n=1" + strings.Repeat("&a=1", web.MaxFormFields), 400, form},
		{"n=1", 415, nil}, {"n=1", 415, []string{"Content-Type", "text/plain"}}, {"n=1", 415, append([]string{"Content-Encoding", "gzip"}, form...)},
		{"n=" + strings.Repeat("1", 20_000), 413, form}, {"n=1", 415, []string{"Content-Type", "application/x-www-form-urlencoded; charset=latin1"}},
	} {
		if got := s.do("POST", "/", c.body, c.header...); got.status != c.status {
			t.Errorf("%.40s %v: %+v", c.body, c.header, got)
		}
	}
}
