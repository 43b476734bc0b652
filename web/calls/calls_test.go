package calls_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine"
	"github.com/skerrydb/skerry/proc"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/calls"
)

type vote struct {
	User   string `json:"user"`
	Choice int64  `json:"choice"`
	Note   string `json:"note,omitempty"`
}

type counted struct {
	User  string `json:"user"`
	Total int64  `json:"total"`
}

// procedures counts how often vote was carried out.
func procedures(ran *atomic.Int64) []proc.Procedure {
	return []proc.Procedure{
		proc.Define("vote", func(tx *proc.Tx, in vote) (counted, error) {
			if in.Choice > 9 {
				return counted{}, engine.Errorf("no_such_choice", "there is no choice %d", in.Choice)
			}
			n, err := tx.KV(17).Add([]byte("votes"), 1)
			ran.Add(1)
			return counted{in.User, n}, err
		}),
		proc.DefineRead("total", func(tx *proc.Tx, _ struct{}) (int64, error) {
			n, err := tx.KV(17).Add([]byte("votes"), 0)
			if engine.CodeOf(err) == engine.CodeReadOnly {
				return 0, nil
			}
			return n, err
		}),
		proc.Define("reset", func(*proc.Tx, struct{}) (struct{}, error) { return struct{}{}, nil }),
		proc.Define("broken", func(*proc.Tx, struct{}) (struct{}, error) { panic("secret") }),
	}
}

// asUser logs in the user that the header X-User names, with that name as the only role.
func asUser(next http.Handler) http.Handler {
	return web.Handler(func(c *web.Context) error {
		if id := c.Request.Header.Get("X-User"); id != "" {
			c.SetUser(web.User{ID: id, Roles: []string{id}})
		}
		next.ServeHTTP(c.Writer, c.Request)
		return nil
	})
}

func newSet(t *testing.T, ran *atomic.Int64) *proc.Set {
	t.Helper()
	set, err := proc.New(testengine.Open(t, testengine.Options{}), proc.Options{}, procedures(ran)...)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func open() map[string]calls.Rule {
	return map[string]calls.Rule{
		"vote":   {Allow: calls.LoggedIn, User: "user"},
		"total":  {Allow: calls.Anyone},
		"broken": {Allow: calls.Role("admin")},
	}
}

// request returns a function that makes requests to an application with the open procedures.
func request(t *testing.T, ran *atomic.Int64) func(method, path, body string, headers ...string) (int, string, http.Header) {
	t.Helper()
	app, err := web.New(web.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	app.Use(asUser)
	if err := calls.Mount(app, newSet(t, ran), calls.Options{Open: open()}); err != nil {
		t.Fatal(err)
	}
	return func(method, path, body string, headers ...string) (int, string, http.Header) {
		t.Helper()
		r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
		if body != "" {
			r.Header.Set("Content-Type", "application/json")
		}
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		w := httptest.NewRecorder()
		app.ServeHTTP(w, r)
		text, err := io.ReadAll(w.Body)
		if err != nil {
			t.Fatal(err)
		}
		return w.Code, string(text), w.Header()
	}
}

// TestCalls: a procedure is closed unless a rule opens it to the sender, and the client cannot say who it is.
func TestCalls(t *testing.T) {
	t.Parallel()
	var ran atomic.Int64
	do := request(t, &ran)
	for _, c := range []struct {
		user, name, body string
		status           int
		says             string
	}{
		{"", "total", "", 200, "0\n"},
		{"", "total", "{}", 200, "0\n"},
		{"", "vote", `{"choice":1}`, 401, `"unauthenticated"`},
		{"ann", "vote", `{"choice":1}`, 200, `{"user":"ann","total":1}` + "\n"},
		{"bob", "vote", " {\n\"choice\":1,\"note\":\"}\"}", 200, `{"user":"bob","total":2}` + "\n"},
		{"a\"b", "vote", `{"choice":1}`, 200, `{"user":"a\"b","total":3}` + "\n"},
		{"ann", "vote", `{"user":"bob","choice":1}`, 400, `"/user"`},
		{"ann", "vote", `{"choice":1,"us\u0065r":"bob"}`, 400, `"/user"`},
		{"ann", "vote", `{}`, 400, `"/choice"`},
		{"ann", "vote", ``, 400, `"/choice"`},
		{"ann", "vote", `{"choice":"x"}`, 400, `"/choice"`},
		{"ann", "vote", `{"choice":1} x`, 400, `"invalid"`},
		{"ann", "vote", `[1]`, 400, `"invalid"`},
		{"ann", "vote", `}`, 400, `"invalid"`},
		{"ann", "vote", `{`, 400, `"invalid"`},
		{"ann", "vote", `{"choice":10}`, 422, `"no_such_choice"`},
		{"ann", "vote", `{"note":"` + strings.Repeat("x", proc.MaxArgBytes) + `"}`, 413, `"body_too_large"`},
		{"ann", "reset", `{}`, 404, `"unknown_procedure"`},
		{"admin", "reset", `{}`, 404, `"unknown_procedure"`},
		{"ann", "nothing", `{}`, 404, `"unknown_procedure"`},
		{"", "broken", `{}`, 401, `"unauthenticated"`},
		{"ann", "broken", `{}`, 403, `"forbidden"`},
		{"admin", "broken", `{}`, 500, `"internal"`},
	} {
		status, body, h := do("POST", "/api/call/"+c.name, c.body, "X-User", c.user)
		if status != c.status || !strings.Contains(body, c.says) || strings.Contains(body, "secret") || status == 200 && h.Get("Content-Type") != "application/json" {
			t.Errorf("%s calls %s with %.60s: %d %s, want %d %s", c.user, c.name, c.body, status, body, c.status, c.says)
		}
	}
	if ran.Load() != 3 {
		t.Errorf("vote ran %d times", ran.Load())
	}
	if status, body, _ := do("POST", "/api/call/vote", `{"choice":1}`, "X-User", "ann", "Content-Type", "text/plain"); status != 415 {
		t.Errorf("a form of another site: %d %s", status, body)
	}
	if status, body, _ := do("POST", "/api/call/vote", `{"choice":1}`, "X-User", "ann", "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"); status != 403 {
		t.Errorf("a page of another site: %d %s", status, body)
	}
	if status, _, _ := do("GET", "/api/call/total", ""); status != 405 {
		t.Errorf("a GET: %d", status)
	}
}

// TestOnce: a call with an Idempotency-Key is carried out once for each user.
func TestOnce(t *testing.T) {
	t.Parallel()
	var ran atomic.Int64
	do := request(t, &ran)
	for i := range 3 {
		for _, user := range []string{"ann", "bob"} {
			status, body, h := do("POST", "/api/call/vote", `{"choice":1}`, "X-User", user, "Idempotency-Key", `"k"`)
			if replayed := h.Get("Idempotent-Replayed") == "true"; status != 200 || !strings.Contains(body, `"user":"`+user+`"`) || replayed != (i > 0) {
				t.Errorf("%s, attempt %d: %d %s %v", user, i, status, body, h)
			}
		}
	}
	if ran.Load() != 2 {
		t.Errorf("vote ran %d times for two users", ran.Load())
	}
	if status, body, _ := do("POST", "/api/call/vote", `{"choice":2}`, "X-User", "ann", "Idempotency-Key", `"k"`); status != 422 || !strings.Contains(body, "idempotency_key_reused") {
		t.Errorf("%d %s", status, body)
	}
	if status, _, _ := do("POST", "/api/call/vote", `{"choice":1}`, "X-User", "ann", "Idempotency-Key", "ü"); status != 400 {
		t.Errorf("a malformed key: %d", status)
	}
}

// TestProcedures: the list has what is open, without what clients cannot set.
func TestProcedures(t *testing.T) {
	t.Parallel()
	status, body, _ := request(t, new(atomic.Int64))("GET", "/api/procedures", "")
	if status != 200 || strings.Contains(body, "reset") || strings.Contains(body, `"args":[{"name":"user"`) || !strings.Contains(body, `"choice"`) || strings.Index(body, "broken") > strings.Index(body, "vote") {
		t.Errorf("%d %s", status, body)
	}
}

// TestMount: rules that cannot work are reported at the start.
func TestMount(t *testing.T) {
	t.Parallel()
	set := newSet(t, new(atomic.Int64))
	for what, o := range map[string]map[string]calls.Rule{
		"did you mean vote":      {"vot": {Allow: calls.Anyone}},
		"the rule has no Allow":  {"vote": {}},
		"no string argument x":   {"vote": {Allow: calls.Anyone, User: "x"}},
		"string argument choice": {"vote": {Allow: calls.Anyone, User: "choice"}},
	} {
		app, err := web.New(web.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := calls.Mount(app, set, calls.Options{Open: o}); engine.CodeOf(err) != engine.CodeInvalid || !strings.Contains(err.Error(), what) {
			t.Errorf("%v, want %s", err, what)
		}
	}
}

// FuzzUser: whatever a client sends, a procedure gets the user who is logged in, or is not called.
func FuzzUser(f *testing.F) {
	for _, body := range []string{`{"choice":1}`, `{"choice":1,"user":"bob"}`, `{}`, ``, `{`, `}`, `[]`, `{}{"user":"bob"}`, `{"choice":1,"us\u0065r":"bob"}`, "\ufeff{}", `{"user":null,"choice":1}`, `,"user":"bob"}`} {
		f.Add(body)
	}
	user := ""
	set, err := proc.New(testengine.Open(f, testengine.Options{}), proc.Options{}, proc.DefineRead("vote", func(_ *proc.Tx, in vote) (int, error) {
		user = in.User
		return 0, nil
	}))
	if err != nil {
		f.Fatal(err)
	}
	app, err := web.New(web.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		f.Fatal(err)
	}
	app.Use(asUser)
	if err := calls.Mount(app, set, calls.Options{Open: map[string]calls.Rule{"vote": {Allow: calls.LoggedIn, User: "user"}}}); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body string) {
		user = "not called"
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/api/call/vote", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-User", "ann")
		w := httptest.NewRecorder()
		app.ServeHTTP(w, r)
		if called := w.Code == http.StatusOK; called && user != "ann" || !called && (user != "not called" || w.Code >= 500) {
			t.Errorf("%q: %d, called as %q", body, w.Code, user)
		}
	})
}
