package blog_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/skerrydb/skerry/examples/browsertest"
)

// hostile must never become part of a page that a browser runs.
const hostile = `<img src=x onerror="alert('1')">` + "`\u2028</script>--"

// TestLooks uses the blog in a real browser, and looks at each page on a phone and on a desktop, light and dark.
func TestLooks(t *testing.T) {
	t.Parallel()
	w := start(t)
	ben, anna := w.user("Ben"), w.user("Anna", "admin")
	b := browsertest.Open(t)
	b.Visit(w.URL+"/", "empty")
	b.Visit(w.URL+"/account/register", "register")
	b.Visit(w.URL+"/account/login?next=/write", "login")
	b.Do(chromedp.SendKeys(chromedp.CSS(`#email`), "anna@example.org"), chromedp.SendKeys(chromedp.CSS(`#password`), password+"\r"), chromedp.WaitVisible(chromedp.CSS(`form[action="/write"]`)))
	b.Looks("write")
	b.Do(chromedp.SendKeys(chromedp.CSS(`#title`), "What a skerry is"), chromedp.SendKeys(chromedp.CSS(`#body`), "A skerry is a small rocky island, usually too small for people.\n\nSeals like it."),
		chromedp.SendKeys(chromedp.CSS(`#tags`), "sea seals islands"), chromedp.Evaluate[chromedp.Void](`document.querySelector("#state").value = "public"`), chromedp.Click(chromedp.CSS(`button.wide`)))
	b.Until(`document.querySelector("h1")?.textContent === "What a skerry is" && location.pathname.startsWith("/posts/")`)
	post := browsertest.Eval[string](b, `location.pathname`)
	b.Do(chromedp.SendKeys(chromedp.CSS(`#text`), "My first post."), chromedp.Click(chromedp.CSS(`form[action="/comment"] button`)))
	b.Until(`document.querySelector(".comment .body")?.textContent === "My first post."`)

	ben.Post("/comment", "post", id(post), "text", hostile).Expect(200)
	ben.Post("/comment", "post", id(post), "text", strings.Repeat("long ", 100)+"https://example.org/"+strings.Repeat("x", 200)).Expect(200)
	gone := write(ben, hostile, strings.Repeat(hostile+" ", 20), `"><img/src=x> `+strings.Repeat("t", 60), "public")
	write(anna, strings.Repeat("Long title ", 10), "Not yet.", "", "draft")
	b.Visit(w.URL+post, "post")
	b.Visit(w.URL+"/", "list")
	b.Visit(w.URL+"/tags/sea", "tag")
	b.Visit(w.URL+gone, "hostile")
	if got := browsertest.Eval[string](b, `document.querySelector("h1").textContent`); got != hostile {
		t.Errorf("the title is %q", got)
	}
	b.Click(`.tag`)
	b.Until(`decodeURIComponent(location.pathname) === '/tags/"><img/src=x>' && document.querySelectorAll(".item").length === 1`)
	b.Visit(w.URL+"/mine", "mine")
	ben.Post("/delete", "post", id(gone)).Expect(200)
	b.Visit(w.URL+"/admin", "admin")
	b.Click(`.row button`)
	b.Until(`location.pathname === %q`, gone)
	b.Visit(w.URL+"/posts/none", "404")
	b.Refused(1)
	b.Do(chromedp.Navigate(w.URL+"/write"), chromedp.Evaluate[chromedp.Void](`document.querySelector("#title").maxLength = 500`),
		chromedp.SetValue(chromedp.CSS(`#title`), strings.Repeat("x", 130)), chromedp.SetValue(chromedp.CSS(`#body`), "typed"), chromedp.Click(chromedp.CSS(`button.wide`)))
	b.Until(`document.querySelector(".wrong")`)
	b.Refused(1)
	b.Looks("wrong")
}
