package todo_test

import (
	"bytes"
	"context"
	"fmt"
	"image/png"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/examples/todo"
	"github.com/skerrydb/skerry/web"
)

// logViolations logs what a Content-Security-Policy has blocked.
const logViolations = `addEventListener("securitypolicyviolation", (e) => console.error("CSP: " + e.violatedDirective + " " + e.blockedURI))`

// tab is one tab of a real Chromium; it records what a page must not do.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu    sync.Mutex
	wrong []string // dialogs, errors, violations of the policy
}

// newTab starts Chromium. Anything wrong at the end of the test fails it.
func newTab(t *testing.T) *tab {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("SKERRY_REQUIRE_SERVERS") == "1" {
			t.Fatalf("%v, and SKERRY_REQUIRE_SERVERS=1", err)
		}
		t.Skip(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 4*patience) // t.Context ends before clean-up
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.WSURLReadTimeout(patience), chromedp.WindowSize(900, 800), chromedp.IgnoreCertErrors,
		chromedp.Flag("no-sandbox", os.Getuid() == 0), chromedp.Flag("disable-crash-reporter", true))...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx}
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Errorf("stop Chromium: %v", err)
		}
		for _, w := range b.wrong {
			t.Error(w)
		}
	})
	if err := chromedp.Listen(ctx, b.note); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{Source: logViolations}); err != nil {
		t.Fatal(err)
	}
	return b
}

// note records what is wrong of the tab's events.
func (b *tab) note(event any) {
	wrong := ""
	switch e := event.(type) {
	case *cdppage.EventJavascriptDialogOpening:
		wrong = "a dialog: " + e.Message
		go func() { // the page waits until it is closed
			_, _ = chromedp.Call(b.ctx, cdppage.HandleJavaScriptDialog, cdppage.HandleJavaScriptDialogParams{Accept: true})
		}()
	case *runtime.EventExceptionThrown:
		if wrong = "an exception: " + e.ExceptionDetails.Text; e.ExceptionDetails.Exception != nil {
			wrong += " " + e.ExceptionDetails.Exception.Description
		}
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			wrong = "the console says:"
			for _, a := range e.Args {
				wrong += " " + string(a.Value) + a.Description
			}
		}
	case *cdplog.EventEntryAdded:
		if e.Entry.Level == cdplog.EntryLevelError || e.Entry.Level == cdplog.EntryLevelWarning {
			wrong = fmt.Sprintf("the log says: %s %s", e.Entry.Text, e.Entry.URL)
		}
	}
	if wrong != "" {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.wrong = append(b.wrong, wrong)
	}
}

// do runs steps one after the other.
func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.fail(err)
	}
}

// click clicks the element of a selector, again if an event has just replaced the list.
func (b *tab) click(selector string) {
	b.t.Helper()
	var err error
	eventually.Within(patience, func() bool {
		err = chromedp.Do(b.ctx, chromedp.Click(chromedp.CSS(selector)))
		return err == nil || !strings.Contains(err.Error(), "Could not find node")
	})
	if err != nil {
		b.fail(err)
	}
}

// fail ends the test and prints the page.
func (b *tab) fail(err error) {
	b.t.Helper()
	text, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string](`location + "\n" + document.documentElement.outerHTML`)) // best effort
	b.t.Fatalf("%v\n%s", err, text)
}

// until waits for an expression of JavaScript to be true, on this page or the next.
func (b *tab) until(format string, args ...any) {
	b.t.Helper()
	expression := "!!(" + fmt.Sprintf(format, args...) + ")"
	var err error
	if !eventually.Within(patience, func() (is bool) {
		is, err = chromedp.Run(b.ctx, chromedp.Evaluate[bool](expression))
		return is
	}) {
		b.fail(fmt.Errorf("timed out waiting for %s: %v", expression, err))
	}
}

// eval returns the value of a JavaScript expression.
func eval[T any](b *tab, format string, args ...any) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](fmt.Sprintf(format, args...)))
	if err != nil {
		b.fail(err)
	}
	return v
}

// picture takes a screenshot for people to look at; SKERRY_PICTURES names a folder that
// keeps it.
func (b *tab) picture(name string) {
	b.t.Helper()
	text, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.fail(err)
	}
	if size, err := png.DecodeConfig(bytes.NewReader(text)); err != nil || size.Width < 300 || size.Height < 300 {
		b.t.Errorf("a picture of %+v: %v", size, err)
	}
	dir := os.Getenv("SKERRY_PICTURES")
	if dir == "" {
		dir = b.t.TempDir()
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), text, 0o644); err != nil {
		b.t.Error(err)
	}
}

// register creates an account with the form.
func (b *tab) register(at, email string) {
	b.t.Helper()
	b.do(chromedp.Navigate(at+"/"), chromedp.Click(chromedp.CSS(`a[href="/register"]`)), chromedp.WaitVisible(chromedp.CSS(`form[action="/register"]`)),
		chromedp.SendKeys(chromedp.CSS(`[name=email]`), email), chromedp.SendKeys(chromedp.CSS(`[name=password]`), password),
		chromedp.Click(chromedp.CSS(`form[action="/register"] button`)), chromedp.WaitVisible(chromedp.CSS(`form.add`)))
}

// add types a text and sends it with the Enter key.
func (b *tab) add(text string) {
	b.t.Helper()
	b.do(chromedp.SendKeys(chromedp.CSS(`[name=text]`), text+"\r"))
	b.until(`[...document.querySelectorAll("li span")].some(e => e.textContent === %q)`, text)
}

// TestBrowser uses the application in a real browser: first with scripts, then without.
func TestBrowser(t *testing.T) {
	t.Parallel()
	at := start(t, skerry.Web{})
	b := newTab(t)
	b.do(chromedp.Navigate(at.URL+"/progress"), chromedp.WaitVisible(chromedp.CSS(`form[action="/account/login"]`)))
	b.picture("login")
	b.register(at.URL, "anna@example.org")
	b.do(chromedp.Evaluate[chromedp.Void](`window.same = true`))
	for _, text := range []string{"Buy milk", "Water the plants", hostile[0], "Call Ben about Saturday"} {
		b.add(text)
	}
	b.click(`#item-1 button`)
	b.until(`document.querySelector("#item-1.done")`)
	b.click(`#item-2 button`)
	b.until(`document.querySelector("#item-2.done") && document.querySelector("#undo").textContent === "Undo doing"`)
	b.click(`#undo`)
	b.until(`!document.querySelector("#item-2.done") && !document.querySelector("#undo")`)
	if got := eval[string](b, `document.querySelector("[name=text]").value`); got != "" {
		t.Errorf("the text stays in the form: %q", got)
	}

	// The same user elsewhere, without scripts.
	other := at.Browser()
	other.Post("/account/login", "email", "anna@example.org", "password", password, "next", "").ExpectPath("/").Expect(200, "Buy milk")
	other.Post("/add", "text", "Feed the cat").ExpectPath("/").Expect(200, "Feed the cat")
	b.until(`document.querySelector("#item-5 span")?.textContent === "Feed the cat"`)
	b.picture("list")
	if !eval[bool](b, `window.same === true`) {
		t.Error("a page was reloaded in between")
	}

	b.do(chromedp.SendKeys(chromedp.CSS(`[name=find]`), "milk\r"), chromedp.WaitVisible(chromedp.CSS(`a[href="/?find=milk"]`)))
	if n := eval[int](b, `document.querySelectorAll(".todo li").length`); n != 1 {
		t.Errorf("%d items have milk in them", n)
	}
	b.click(`a[href="/progress"]`)
	b.until(`document.querySelectorAll("#chart span").length === 14 && document.querySelector("h1").textContent === "1 of 5 done"`)
	b.picture("progress")

	if _, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
		t.Fatal(err)
	}
	b.do(chromedp.Navigate(at.URL+"/"), chromedp.WaitVisible(chromedp.CSS(`form.add`)),
		chromedp.SendKeys(chromedp.CSS(`[name=text]`), "Without scripts\r"), chromedp.WaitVisible(chromedp.CSS(`#item-6`)),
		chromedp.Click(chromedp.CSS(`#item-6 button`)), chromedp.WaitVisible(chromedp.CSS(`#item-6.done`)),
		chromedp.Click(chromedp.CSS(`#undo`)), chromedp.WaitVisible(chromedp.CSS(`#item-6:not(.done)`)),
		chromedp.Click(chromedp.CSS(`form[action="/account/logout"] button`)), chromedp.WaitVisible(chromedp.CSS(`form[action="/account/login"]`)))
}

// refused removes the log entries of n refused requests, which must exist.
func (b *tab) refused(n int) { b.t.Helper(); b.answered(n, "4") }

// answered does the same for requests whose status begins with a digit.
func (b *tab) answered(n int, status string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	was := slices.Clone(b.wrong)
	b.wrong = slices.DeleteFunc(b.wrong, func(w string) bool {
		is := strings.Contains(w, "the server responded with a status of "+status)
		if is {
			n--
		}
		return is
	})
	if n != 0 {
		b.t.Errorf("%d more requests should have had a status of %sxx: %q", n, status, was)
	}
}

// streamRefused removes the log entry of the event stream, if the page reconnected after
// the session had ended.
func (b *tab) streamRefused() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wrong = slices.DeleteFunc(b.wrong, func(w string) bool {
		return strings.Contains(w, "with a status of 401") && strings.Contains(w, "/events?")
	})
}

// TestBrowserRefusals: the script shows errors from the server, and leads to the login
// page when the session has ended elsewhere.
func TestBrowserRefusals(t *testing.T) {
	t.Parallel()
	at := start(t, skerry.Web{})
	b := newTab(t)
	b.register(at.URL, "anna@example.org")
	b.add("Buy milk")
	b.do(chromedp.Evaluate[chromedp.Void](`window.same = true; document.querySelector("[name=text]").removeAttribute("maxlength")`),
		chromedp.SetValue(chromedp.CSS(`[name=text]`), strings.Repeat("x", todo.MaxText+1)), chromedp.Click(chromedp.CSS(`form.add button`)))
	b.until(`document.querySelector("#list .wrong")?.textContent.includes("1 to 200 characters") && document.querySelector("#item-1")`)
	b.refused(1)
	if n := eval[int](b, `document.querySelector("[name=text]").value.length`); n != todo.MaxText+1 {
		t.Errorf("%d characters of the typed text are left", n)
	}
	b.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("#item-1 button").value = "<b>7"`))
	b.click(`#item-1 button`)
	b.until(`document.querySelector("#list .wrong")?.textContent.includes('must be a whole number, not "<b>7"')`)
	b.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("#item-1 button").value = 7`))
	b.click(`#item-1 button`)
	b.until(`document.querySelector("#list .wrong")?.textContent === "there is no item 7" && document.querySelectorAll(".wrong").length === 1`)
	b.refused(2)
	b.picture("refused")
	if !eval[bool](b, `window.same === true`) {
		t.Error("a page was reloaded in between")
	}

	other := at.Browser()
	other.Post("/account/login", "email", "anna@example.org", "password", password).ExpectPath("/").Expect(200)
	other.Post("/account/sessions/revoke-others").ExpectPath("/account/sessions?done=revoked-others").Expect(200)
	b.do(chromedp.SetValue(chromedp.CSS(`[name=text]`), "too late"), chromedp.Click(chromedp.CSS(`form.add button`)), chromedp.WaitVisible(chromedp.CSS(`form[action="/account/login"]`)))
	b.streamRefused()
	b.refused(1)
	b.do(chromedp.SendKeys(chromedp.CSS(`[name=email]`), "anna@example.org"), chromedp.SendKeys(chromedp.CSS(`[name=password]`), password+"\r"),
		chromedp.WaitVisible(chromedp.CSS(`#item-1`)))
	if eval[bool](b, `document.body.textContent.includes("too late")`) {
		t.Error("a refused change was made")
	}
}

// hostile are texts that do harm on a page that does not escape them for their context.
var hostile = []string{
	`<img src=x onerror=alert(1)>`,
	`"><img src=x onerror=alert(1)>`,
	`' onmouseover='alert(1)`,
	`</script><script>alert(1)</script>`,
	`<!--<script>`,
	`'-alert(1)-'`,
	`\'-alert(1)//`,
	`"+alert(1)+"`,
	"`${alert(1)}`",
	`${alert(1)} {{.title}} #{title} {/* title */}`,
	`javascript:alert(1)`,
	`"></title></style></textarea><svg onload=alert(1)>`,
}

// everywhere has a value in each context. Both kinds of templates must render it alike;
// only VALUE differs.
const everywhere = `<p id="text">VALUE</p><p id="attribute" data-x="VALUE" title='VALUE'></p><a id="query" href="/?find=VALUE">x</a>
<a id="url" href="VALUE">x</a><textarea id="area">VALUE</textarea><input id="input" value=VALUE>
<script nonce="NONCE">
	const one = 'VALUE', two = "VALUE", three = ` + "`VALUE`" + `, value = VALUE, list = [VALUE][0];
	const at = (id) => document.getElementById(id);
	window.got = { one, two, three, value, list, text: at("text").textContent, attribute: at("attribute").dataset.x, title: at("attribute").title,
		query: new URL(at("query").href).searchParams.get("find"), area: at("area").value, input: at("input").value };
	window.protocol = at("url").protocol;
</script>`

// TestHostile: users' input is text everywhere: on the application's own pages, and in
// every context of both kinds of templates.
func TestHostile(t *testing.T) {
	t.Parallel()
	source := copySource(t)
	write(t, source+"/views/everywhere.html", strings.NewReplacer("VALUE", "{{.value}}", "NONCE", "{{.nonce}}").Replace(everywhere))
	write(t, source+"/views/everywhere_z.z.html", strings.NewReplacer("VALUE", "#{value}", "NONCE", "#{nonce}").Replace(everywhere))
	at := start(t, skerry.Web{Source: source, Application: func(s *skerry.Services) (http.Handler, error) {
		h, err := todo.Application(s)
		if err == nil {
			h.(*web.App).Get("/show/{view}", func(c *web.Context) error {
				return c.Render(c.Path("view").String(), web.Locals{"title": c.Query("value").String(), "value": c.Query("value").String()})
			})
		}
		return h, err
	}})
	b := newTab(t)
	b.register(at.URL, "anna@example.org")
	other := at.Browser() // types faster
	other.Post("/account/login", "email", "anna@example.org", "password", password).ExpectPath("/").Expect(200)
	for _, text := range hostile {
		other.Post("/add", "text", text).ExpectPath("/").Expect(200)
	}
	b.until(`document.querySelectorAll(".check").length === %d`, len(hostile))
	if got := eval[[]string](b, `[...document.querySelectorAll(".todo .check")].map(e => e.ariaLabel)`); len(got) != len(hostile) {
		t.Errorf("%d items: %q", len(got), got)
	} else {
		for i, text := range hostile {
			if got[i] != "Done: "+text {
				t.Errorf("the name of %q is %q", text, got[i])
			}
		}
	}
	for i, text := range hostile {
		other.Post("/done", "id", strconv.Itoa(i+1)).ExpectPath("/").Expect(200)
		b.do(chromedp.Navigate(at.URL + "/progress"))
		const all = `[latest, items[%d].text, document.querySelector("main a").textContent, document.querySelector("main a").title, new URL(document.querySelector("main a").href).searchParams.get("find")]`
		for _, got := range eval[[]string](b, all, i) {
			if got != text {
				t.Errorf("%q on the page of progress: %q", text, got)
			}
		}
		for _, view := range []string{"everywhere", "everywhere_z"} {
			b.do(chromedp.Navigate(at.URL + "/show/" + view + "?value=" + escaped(text)))
			for where, got := range eval[map[string]string](b, `window.got`) {
				if got != text {
					t.Errorf("%s, %s: %q is %q", view, where, text, got)
				}
			}
			if p := eval[string](b, `window.protocol`); p != "https:" {
				t.Errorf("%s: %q is a link to %s", view, text, p)
			}
		}
		b.do(chromedp.Navigate(at.URL + "/?find=" + escaped(text)))
		if got := eval[string](b, `document.querySelector("[name=find]").value`); got != text {
			t.Errorf("to find %q is to find %q", text, got)
		}
	}
}

// TestLiveReload: a page that is open in a browser shows what its view says now.
func TestLiveReload(t *testing.T) {
	t.Parallel()
	source := copySource(t)
	hold := make(chan struct{}) // until then pages hear nothing
	at := start(t, skerry.Web{Source: source, Debug: true, Application: func(s *skerry.Services) (http.Handler, error) {
		h, err := todo.Application(s)
		if err == nil {
			h.(*web.App).Use(func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/_dev/reload" {
						select {
						case <-hold:
						case <-r.Context().Done():
						}
					}
					next.ServeHTTP(w, r)
				})
			})
		}
		return h, err
	}})
	b := newTab(t)
	b.do(chromedp.Navigate(at.URL+"/register"), chromedp.WaitVisible(chromedp.CSS(`form[action="/register"]`)))
	write(t, source+"/views/register.html", "<h1>Changed before it listens</h1>")
	close(hold)
	b.until(`document.querySelector("h1")?.textContent === "Changed before it listens"`)
	for _, text := range []string{"Come in", "Or stay outside"} {
		write(t, source+"/views/register.html", "<h1>"+text+"</h1>")
		b.until(`document.querySelector("h1")?.textContent === %q`, text)
	}
	write(t, source+"/assets/style.css", "h1 { color: rgb(1, 2, 3) }")
	b.until(`getComputedStyle(document.querySelector("h1")).color === "rgb(1, 2, 3)"`)
}
