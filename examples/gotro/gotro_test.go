package gotro_test

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/examples/exampletest"
	"github.com/skerrydb/skerry/examples/gotro"
)

// hostile must never become part of a page that a browser runs.
const hostile = `<img src=x onerror="alert('1')">` + "`\u2028</script>--"

// browser talks to a server that runs the application, and keeps its cookies.
type browser struct {
	t      *testing.T
	base   string
	client *http.Client
}

// start runs the application on a new engine.
func start(t *testing.T) *browser {
	t.Helper()
	s := exampletest.Serve(t, embedded.Options{}, skerry.Options{
		Grace: time.Second, Web: skerry.Web{Application: gotro.Application, Name: "gotro", Debug: true}, // cookies over plain HTTP
	})
	jar, _ := cookiejar.New(nil)
	return &browser{t, s.HTTPURL(), &http.Client{Jar: jar}}
}

// send makes one request as a browser does; form may be nil. Redirects are followed.
func (b *browser) send(method, path, accept string, form url.Values) (status int, body string) {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), method, b.base+path, strings.NewReader(form.Encode()))
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Accept", accept)
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := b.client.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return resp.StatusCode, blanks.ReplaceAllString(string(text), "$1")
}

// blanks are those that templates put around values in scripts.
var blanks = regexp.MustCompile(` ( (?:true|false)) `)

// page is a page of the application that must be there and have all of has.
func (b *browser) page(path string, has ...string) string {
	b.t.Helper()
	status, body := b.send("GET", path, "text/html", nil)
	if status != 200 {
		b.t.Fatalf("%s: %d\n%s", path, status, body)
	}
	b.contains(path, body, has)
	return body
}

func (b *browser) contains(what, body string, has []string) {
	b.t.Helper()
	for _, h := range has {
		if !strings.Contains(body, h) {
			b.t.Errorf("%s has no %q:\n%s", what, h, body)
		}
	}
	for _, bad := range []string{"<img src=x", "</script>--", ` onerror="`} {
		if strings.Contains(body, bad) {
			b.t.Errorf("%s has %q in it:\n%s", what, bad, body)
		}
	}
}

// TestLogin: the session keeps the user until the logout, and counts visits.
func TestLogin(t *testing.T) {
	t.Parallel()
	b := start(t)
	for _, path := range []string{"/", "/login_example"} {
		b.page(path, "<title>Login example – gotro</title>", "var here = false;", `<form id="in"`)
	}
	status, body := b.send("POST", "/login_example", "text/html", url.Values{"name": {" Anna "}})
	if status != 200 {
		t.Fatalf("the login: %d %s", status, body)
	}
	b.contains("after the login", body, []string{"You are <b>Anna</b>", "<b>1</b> times", "var here = true;"})
	b.page("/", "<b>2</b> times")
	if _, body := b.send("POST", "/logout_example", "text/html", url.Values{}); !strings.Contains(body, "var here = false;") {
		t.Errorf("after leaving: %s", body)
	}
	_, body = b.send("POST", "/login_example", "text/html", url.Values{"name": {hostile[:33]}})
	b.contains("a hostile name", body, []string{"You are <b>&lt;img", `value="&lt;img`, "<b>1</b> times"})
	for _, name := range []string{"", " ", strings.Repeat("ä", gotro.MaxName+1)} {
		status, body := b.send("POST", "/login_example", "application/json", url.Values{"name": {name}})
		if status != 400 && status != 422 || !strings.Contains(body, `"pointer":"/name"`) {
			t.Errorf("the name %q: %d %s", name, status, body)
		}
	}
}

// TestPostValues: a script sends a value and gets it back.
func TestPostValues(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.page("/post_values_example", "<h2>something that not exists</h2>", "#{this}", "var title = 'Post example';",
		`{"test1":1,"test4":4}`, "[1,2,3,4]", `<script src="/assets/js/post_values.`)
	status, body := b.send("POST", "/post_values_example", "application/json", url.Values{"test2": {hostile}})
	if status != 200 || body != `{"test3":"\u003cimg src=x onerror=\"alert('1')\"\u003e`+"`"+`\u2028\u003c/script\u003e--"}`+"\n" {
		t.Errorf("%d %s", status, body)
	}
	if status, body := b.send("POST", "/post_values_example", "application/json", url.Values{}); status/100 != 4 || !strings.Contains(body, "test2") {
		t.Errorf("without the value: %d %s", status, body)
	}
}

// TestNamedParams: a part of the address is text wherever it stands in the page.
func TestNamedParams(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.page("/named_params_example/foo", "test1 is <b>foo</b>", `title="foo"`, `href="/named_params_example/foo"`, "var test1 = 'foo';", `var also = "foo";`)
	b.page("/named_params_example/"+url.PathEscape(hostile), "test1 is <b>&lt;img", `title="&lt;img`, `href="/named_params_example/%3cimg`)
	if status, body := b.send("GET", "/named_params_example/", "text/html", nil); status != 404 || !strings.Contains(body, "<h1>404") || !strings.Contains(body, "<nav>") {
		t.Errorf("without the value: %d %s", status, body)
	}
}

// TestQueryString: a number must be a number; the error names the parameter that is not.
func TestQueryString(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.page("/query_string_example?theKey=21", "<b>21</b>, twice that is <b>42</b>")
	b.page("/query_string_example", "<b>0</b>")
	b.page("/query_string_example?text="+url.QueryEscape(hostile), "text is <b>&lt;img")
	if status, body := b.send("GET", "/query_string_example?theKey="+url.QueryEscape(hostile), "application/json", nil); status/100 != 4 || !strings.Contains(body, `"parameter":"theKey"`) {
		t.Errorf("no number: %d %s", status, body)
	}
	status, body := b.send("GET", "/query_string_example?theKey="+url.QueryEscape(hostile), "text/html", nil)
	if status/100 != 4 {
		t.Errorf("no number, in a browser: %d", status)
	}
	b.contains("the error page", body, []string{"<nav>", "theKey"})
}

var asked = regexp.MustCompile(`(?:src|href)="(/assets/[^"]+)"`)

// TestAssets: all that a page asks for is there, in the order of the list, and may
// be kept.
func TestAssets(t *testing.T) {
	t.Parallel()
	b := start(t)
	var names []string
	for _, m := range asked.FindAllStringSubmatch(b.page("/post_values_example"), -1) {
		resp, err := b.client.Get(b.base + m[1])
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 200 || !strings.Contains(resp.Header.Get("Cache-Control"), "immutable") {
			t.Errorf("%s: %d %v", m[1], resp.StatusCode, resp.Header)
		}
		names = append(names, regexp.MustCompile(`\.[0-9a-f]{8}\.`).ReplaceAllString(m[1], "."))
	}
	if got := strings.Join(names, " "); got != "/assets/theme/base.css /assets/css/global.css /assets/js/global.js /assets/js/post_values.js" {
		t.Errorf("the page asks for %s", got)
	}
}
