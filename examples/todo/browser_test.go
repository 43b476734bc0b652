package todo_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/examples/browsertest"
	"github.com/skerrydb/skerry/examples/todo"
	"github.com/skerrydb/skerry/web"
)

// tab is one tab of a real Chromium.
type tab struct{ *browsertest.Tab }

func newTab(t *testing.T) *tab {
	t.Helper()
	return &tab{browsertest.Open(t)}
}

// register creates an account with the form.
func (b *tab) register(at, email string) {
	b.T.Helper()
	b.Do(chromedp.Navigate(at+"/"), chromedp.Click(chromedp.CSS(`a[href="/register"]`)), chromedp.WaitVisible(chromedp.CSS(`form[action="/register"]`)),
		chromedp.SendKeys(chromedp.CSS(`[name=email]`), email), chromedp.SendKeys(chromedp.CSS(`[name=password]`), password),
		chromedp.Click(chromedp.CSS(`form[action="/register"] button`)), chromedp.WaitVisible(chromedp.CSS(`form.add`)))
}

// add types a text and sends it with the Enter key.
func (b *tab) add(text string) {
	b.T.Helper()
	b.Do(chromedp.SendKeys(chromedp.CSS(`[name=text]`), text+"\r"))
	b.Until(`[...document.querySelectorAll("li span")].some(e => e.textContent === %q)`, text)
}

// TestBrowser uses the application in a real browser: first with scripts, then without.
func TestBrowser(t *testing.T) {
	t.Parallel()
	at := start(t, skerry.Web{})
	b := newTab(t)
	b.Do(chromedp.Navigate(at.URL+"/progress"), chromedp.WaitVisible(chromedp.CSS(`form[action="/account/login"]`)))
	b.Picture("login")
	b.register(at.URL, "anna@example.org")
	b.Do(chromedp.Evaluate[chromedp.Void](`window.same = true`))
	for _, text := range []string{"Buy milk", "Water the plants", hostile[0], "Call Ben about Saturday"} {
		b.add(text)
	}
	b.Click(`#item-1 button`)
	b.Until(`document.querySelector("#item-1.done")`)
	b.Click(`#item-2 button`)
	b.Until(`document.querySelector("#item-2.done") && document.querySelector("#undo").textContent === "Undo doing"`)
	b.Click(`#undo`)
	b.Until(`!document.querySelector("#item-2.done") && !document.querySelector("#undo")`)
	if got := browsertest.Eval[string](b.Tab, `document.querySelector("[name=text]").value`); got != "" {
		t.Errorf("the text stays in the form: %q", got)
	}

	// The same user elsewhere, without scripts.
	other := at.Browser()
	other.Post("/account/login", "email", "anna@example.org", "password", password, "next", "").ExpectPath("/").Expect(200, "Buy milk")
	other.Post("/add", "text", "Feed the cat").ExpectPath("/").Expect(200, "Feed the cat")
	b.Until(`document.querySelector("#item-5 span")?.textContent === "Feed the cat"`)
	b.Picture("list")
	if !browsertest.Eval[bool](b.Tab, `window.same === true`) {
		t.Error("a page was reloaded in between")
	}

	b.Do(chromedp.SendKeys(chromedp.CSS(`[name=find]`), "milk\r"), chromedp.WaitVisible(chromedp.CSS(`a[href="/?find=milk"]`)))
	if n := browsertest.Eval[int](b.Tab, `document.querySelectorAll(".todo li").length`); n != 1 {
		t.Errorf("%d items have milk in them", n)
	}
	b.Click(`a[href="/progress"]`)
	b.Until(`document.querySelectorAll("#chart span").length === 14 && document.querySelector("h1").textContent === "1 of 5 done"`)
	b.Picture("progress")

	if _, err := chromedp.Call(b.Context, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
		t.Fatal(err)
	}
	b.Do(chromedp.Navigate(at.URL+"/"), chromedp.WaitVisible(chromedp.CSS(`form.add`)),
		chromedp.SendKeys(chromedp.CSS(`[name=text]`), "Without scripts\r"), chromedp.WaitVisible(chromedp.CSS(`#item-6`)),
		chromedp.Click(chromedp.CSS(`#item-6 button`)), chromedp.WaitVisible(chromedp.CSS(`#item-6.done`)),
		chromedp.Click(chromedp.CSS(`#undo`)), chromedp.WaitVisible(chromedp.CSS(`#item-6:not(.done)`)),
		chromedp.Click(chromedp.CSS(`form[action="/account/logout"] button`)), chromedp.WaitVisible(chromedp.CSS(`form[action="/account/login"]`)))
}

// streamRefused removes the log entry of the event stream, if the page reconnected after
// the session had ended.
func (b *tab) streamRefused() {
	b.Forgive(func(wrong string) bool {
		return strings.Contains(wrong, "with a status of 401") && strings.Contains(wrong, "/events?")
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
	b.Do(chromedp.Evaluate[chromedp.Void](`window.same = true; document.querySelector("[name=text]").removeAttribute("maxlength")`),
		chromedp.SetValue(chromedp.CSS(`[name=text]`), strings.Repeat("x", todo.MaxText+1)), chromedp.Click(chromedp.CSS(`form.add button`)))
	b.Until(`document.querySelector("#list .wrong")?.textContent.includes("1 to 200 characters") && document.querySelector("#item-1")`)
	b.Refused(1)
	if n := browsertest.Eval[int](b.Tab, `document.querySelector("[name=text]").value.length`); n != todo.MaxText+1 {
		t.Errorf("%d characters of the typed text are left", n)
	}
	b.Do(chromedp.Evaluate[chromedp.Void](`document.querySelector("#item-1 button").value = "<b>7"`))
	b.Click(`#item-1 button`)
	b.Until(`document.querySelector("#list .wrong")?.textContent.includes('must be a whole number, not "<b>7"')`)
	b.Do(chromedp.Evaluate[chromedp.Void](`document.querySelector("#item-1 button").value = 7`))
	b.Click(`#item-1 button`)
	b.Until(`document.querySelector("#list .wrong")?.textContent === "there is no item 7" && document.querySelectorAll(".wrong").length === 1`)
	b.Refused(2)
	b.Picture("refused")
	if !browsertest.Eval[bool](b.Tab, `window.same === true`) {
		t.Error("a page was reloaded in between")
	}

	other := at.Browser()
	other.Post("/account/login", "email", "anna@example.org", "password", password).ExpectPath("/").Expect(200)
	other.Post("/account/sessions/revoke-others").ExpectPath("/account/sessions?done=revoked-others").Expect(200)
	b.Do(chromedp.SetValue(chromedp.CSS(`[name=text]`), "too late"), chromedp.Click(chromedp.CSS(`form.add button`)), chromedp.WaitVisible(chromedp.CSS(`form[action="/account/login"]`)))
	b.streamRefused()
	b.Refused(1)
	b.Do(chromedp.SendKeys(chromedp.CSS(`[name=email]`), "anna@example.org"), chromedp.SendKeys(chromedp.CSS(`[name=password]`), password+"\r"),
		chromedp.WaitVisible(chromedp.CSS(`#item-1`)))
	if browsertest.Eval[bool](b.Tab, `document.body.textContent.includes("too late")`) {
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
	b.Until(`document.querySelectorAll(".check").length === %d`, len(hostile))
	if got := browsertest.Eval[[]string](b.Tab, `[...document.querySelectorAll(".todo .check")].map(e => e.ariaLabel)`); len(got) != len(hostile) {
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
		b.Do(chromedp.Navigate(at.URL + "/progress"))
		const all = `[latest, items[%d].text, document.querySelector("main a").textContent, document.querySelector("main a").title, new URL(document.querySelector("main a").href).searchParams.get("find")]`
		for _, got := range browsertest.Eval[[]string](b.Tab, all, i) {
			if got != text {
				t.Errorf("%q on the page of progress: %q", text, got)
			}
		}
		for _, view := range []string{"everywhere", "everywhere_z"} {
			b.Do(chromedp.Navigate(at.URL + "/show/" + view + "?value=" + escaped(text)))
			for where, got := range browsertest.Eval[map[string]string](b.Tab, `window.got`) {
				if got != text {
					t.Errorf("%s, %s: %q is %q", view, where, text, got)
				}
			}
			if p := browsertest.Eval[string](b.Tab, `window.protocol`); p != "https:" {
				t.Errorf("%s: %q is a link to %s", view, text, p)
			}
		}
		b.Do(chromedp.Navigate(at.URL + "/?find=" + escaped(text)))
		if got := browsertest.Eval[string](b.Tab, `document.querySelector("[name=find]").value`); got != text {
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
	b.Do(chromedp.Navigate(at.URL+"/register"), chromedp.WaitVisible(chromedp.CSS(`form[action="/register"]`)))
	write(t, source+"/views/register.html", "<h1>Changed before it listens</h1>")
	close(hold)
	b.Until(`document.querySelector("h1")?.textContent === "Changed before it listens"`)
	for _, text := range []string{"Come in", "Or stay outside"} {
		write(t, source+"/views/register.html", "<h1>"+text+"</h1>")
		b.Until(`document.querySelector("h1")?.textContent === %q`, text)
	}
	write(t, source+"/assets/style.css", "h1 { color: rgb(1, 2, 3) }")
	b.Until(`getComputedStyle(document.querySelector("h1")).color === "rgb(1, 2, 3)"`)
}
