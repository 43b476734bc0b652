package admin_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/npm"
	"github.com/skerrydb/skerry/examples/browsertest"
)

// tab is a browser of an administrator who is logged in.
type tab struct {
	*browsertest.Tab
	w   *world
	axe string // the source of axe-core
}

// open logs the first administrator in, with a real browser.
func (w *world) open() *tab {
	w.t.Helper()
	if testing.Short() {
		w.t.Skip("a browser takes a while")
	}
	b := browsertest.Open(w.t)
	c := &tab{Tab: b, w: w, axe: axe(w.t)}
	c.Do(chromedp.Navigate(w.link), chromedp.SendKeys(chromedp.CSS(`[name=email]`), email), chromedp.SendKeys(chromedp.CSS(`[name=password]`), password+"\r"), chromedp.WaitVisible(chromedp.CSS(`#account-title`)))
	c.Do(chromedp.SendKeys(chromedp.CSS(`#password`), password+"\r"), chromedp.WaitVisible(chromedp.CSS(`#code`)))
	secret := browsertest.Eval[string](b, `[...document.querySelectorAll("code")].map((e) => e.textContent).find((s) => /^[A-Z2-7]{16,}$/.test(s))`)
	c.Do(chromedp.SendKeys(chromedp.CSS(`#code`), code(w.t, secret)+"\r"))
	c.Until(`document.querySelector("h1")?.textContent === "Recovery codes"`)
	return c
}

// axe returns the source of axe-core, which finds what keeps people from using a page.
func axe(t *testing.T) string {
	t.Helper()
	dir, err := npm.Install("admin", "testdata/npm")
	if err != nil {
		if os.Getenv("SKERRY_REQUIRE_SERVERS") == "1" {
			t.Fatalf("%v, and SKERRY_REQUIRE_SERVERS=1", err)
		}
		t.Skip(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "node_modules/axe-core/axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Do runs steps one after the other. A step whose element was just replaced, because the page was still changing to the next one,
// is run again.
func (c *tab) Do(steps ...chromedp.Action[chromedp.Void]) {
	c.T.Helper()
	for _, step := range steps {
		var err error
		eventually.Within(eventually.Limit, func() bool {
			err = chromedp.Do(c.Context, step)
			return err == nil || !strings.Contains(err.Error(), "Could not find node with given id")
		})
		if err != nil {
			c.Fail(err)
		}
	}
}

// visit goes to a page.
func (c *tab) visit(path string) {
	c.T.Helper()
	c.Do(chromedp.Navigate(c.w.URL+path), chromedp.WaitVisible(chromedp.CSS("main")))
}

// sights are how looks looks at a page. Each scheme and each kind of layout is checked by axe-core once.
var sights = []struct {
	name   string // of pictures
	width  int64
	scheme string
	axe    bool
}{
	{"phone", 360, "light", true}, {"phone", 360, "dark", false}, {"desktop", 1280, "light", false}, {"desktop", 1280, "dark", true}, {"4k", 3840, "light", false},
}

// looks fails for each flaw of the page on a phone, on a desktop and on a screen of 3840 pixels: scrolling sideways, and what
// axe-core finds. With SKERRY_PICTURES it takes pictures.
func (c *tab) looks(name string) {
	c.T.Helper()
	for _, s := range sights {
		if _, err := chromedp.Call(c.Context, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: s.width, Height: 900, DeviceScaleFactor: 1, Mobile: s.width < 500}); err != nil {
			c.T.Fatal(err)
		}
		if _, err := chromedp.Call(c.Context, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: s.scheme}}}); err != nil {
			c.T.Fatal(err)
		}
		at := fmt.Sprintf("%s, %d pixels, %s", name, s.width, s.scheme)
		if is := browsertest.Eval[int64](c.Tab, `document.documentElement.scrollWidth`); is > s.width {
			c.T.Errorf("%s: it is %d pixels wide: %s", at, is, browsertest.Eval[string](c.Tab, `[...document.body.querySelectorAll("*")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest(".scroll")).map((e) => e.outerHTML.slice(0, 100)).slice(0, 5).join("\n")`))
		}
		if s.axe {
			c.check(at)
		}
		if os.Getenv("SKERRY_PICTURES") != "" {
			c.Picture(strings.Join([]string{"admin", name, s.name, s.scheme}, "-"))
		}
	}
}

// check runs axe-core.
func (c *tab) check(at string) {
	c.T.Helper()
	c.Do(chromedp.Evaluate[chromedp.Void](c.axe))
	c.Do(chromedp.Evaluate[chromedp.Void](`globalThis.axeResult = null; axe.run(document, {resultTypes: ["violations"]}).then((r) => { globalThis.axeResult = JSON.stringify(r.violations.map((v) => v.id + ": " + v.help + ": " + v.nodes.slice(0, 3).map((n) => n.html.slice(0, 150) + " " + n.any.map((a) => a.message).join("; ")).join(" | "))) }, (e) => { globalThis.axeResult = JSON.stringify(["axe: " + e]) }); undefined`))
	c.Until(`globalThis.axeResult`)
	var found []string
	if err := json.Unmarshal([]byte(browsertest.Eval[string](c.Tab, `globalThis.axeResult`)), &found); err != nil {
		c.T.Fatal(err)
	}
	for _, f := range found {
		c.T.Errorf("%s: %s", at, f)
	}
}

// TestLooksOverview looks at the overview while it is live.
func TestLooksOverview(t *testing.T) {
	t.Parallel()
	w := start(t, skerry.Options{})
	c := w.open()
	c.visit("/admin")
	c.Until(`document.querySelectorAll(".uplot").length === 3 && document.getElementById("stale").textContent === ""`)
	c.looks("overview")
	c.visit("/admin/log")
	c.looks("log")
}
