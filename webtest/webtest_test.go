package webtest_test

import (
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/account"
	"github.com/skerrydb/skerry/webtest"
)

const page = `<!doctype html><body class="a b"><nav><a href="/form?x=1#end">To the
 form</a></nav><form method="post" action="/form" id="one"><input name="text" value="as it is"><input type="hidden" name="kept" value="yes">
<input type="checkbox" name="box" value="1" checked><input type="checkbox" name="box2" value="2"><textarea name="area"> long </textarea>
<select name="choice"><option value="1">x</option><option selected>two</option></select><input name="off" disabled value="no">
<button name="do" value="save">Save</button><button name="do" value="drop">Drop</button></form>
<form action="?old=1" id="two"><input name="find"></form><ul><li data-x="y z">1<b> 2 </b></li><li>3</li></ul>`

// application shows a page with forms, responds with what a form has sent, and has accounts.
func application(s *skerry.Services) (http.Handler, error) {
	users, err := auth.New(s.KV, auth.Options{Sessions: s.Sessions})
	if err != nil {
		return nil, err
	}
	o := s.Web
	o.User = account.User(users)
	app, err := web.New(o)
	if err != nil {
		return nil, err
	}
	accounts, err := account.New(app, users, account.Options{Sessions: s.Sessions, Mail: s.Mail, BaseURL: s.BaseURL})
	if err != nil {
		return nil, err
	}
	app.Get("/form", func(c *web.Context) error { return c.HTML(http.StatusOK, page) })
	app.Post("/form", func(c *web.Context) error {
		if err := c.Request.ParseForm(); err != nil {
			return err
		}
		return c.Text(http.StatusOK, c.Request.PostForm.Encode())
	})
	app.Get("/mine", func(c *web.Context) error {
		u, err := c.User()
		if err != nil {
			return err
		}
		return c.Text(http.StatusOK, u.Email)
	}, accounts.RequireUser())
	return app, nil
}

func start(t *testing.T) *webtest.Site {
	t.Helper()
	return webtest.Start(t, skerry.Web{Name: "forms", Application: application})
}

// TestForms: a form sends what a browser sends.
func TestForms(t *testing.T) {
	t.Parallel()
	p := start(t).Browser().Get("/form").Expect(200, "data-x")
	p.Submit("#one").Expect(200, "area=+long+&box=1&choice=two&do=save&kept=yes&text=as+it+is").Lacks("off", "box2")
	p.Submit("#one", "text", "other", "box2", "2", "do", "drop").Expect(200, "box=1&box2=2&choice=two&do=drop&kept=yes&text=other")
	p.Submit("form[action=?old=1]", "find", "a b").ExpectPath("/form?find=a+b")
	p.Click("To the form").ExpectPath("/form?x=1")
	if got := len(p.All("ul li")); got != 2 {
		t.Errorf("%d items", got)
	}
	if got := p.Find(`body.a.b [data-x]`); got.Text() != "1 2" || got.Attr("data-x") != "y z" || got.Attr("none") != "" {
		t.Errorf("found %q, %q", got.Text(), got.Attr("data-x"))
	}
}

// TestAccounts: a browser registers, follows the link in the email and logs in; browsers do not share cookies.
func TestAccounts(t *testing.T) {
	t.Parallel()
	s := start(t)
	b := s.Browser()
	b.Register("anna@example.org", "correct horse battery")
	b.Login("anna@example.org", "correct horse battery")
	b.Get("/mine").Expect(200, "anna@example.org")
	s.Browser().Get("/mine").ExpectPath("/account/login?next=%2Fmine")
	if list := s.Mail(); len(list) != 1 || !strings.HasPrefix(list[0].Link(), s.URL+"/account/verify?token=") {
		t.Errorf("mail: %+v", list)
	}
}

// failing is a test that is expected to fail.
type failing struct {
	testing.TB
	failed bool
}

func (f *failing) Helper()               {}
func (f *failing) Fatal(...any)          { f.failed = true; runtime.Goexit() }
func (f *failing) Fatalf(string, ...any) { f.failed = true; runtime.Goexit() }

// TestFailures: an unmet expectation fails the test.
func TestFailures(t *testing.T) {
	t.Parallel()
	f := &failing{TB: t}
	s := webtest.Start(f, skerry.Web{Name: "forms", Application: application})
	p := s.Browser().Get("/form")
	for name, do := range map[string]func(){
		"a status":          func() { p.Expect(404) },
		"a text":            func() { p.Expect(200, "nowhere") },
		"a path":            func() { p.ExpectPath("/") },
		"a text too much":   func() { p.Lacks("Save") },
		"no element":        func() { p.Find("h1") },
		"two elements":      func() { p.Find("li") },
		"a field":           func() { p.Submit("#one", "nothing", "x") },
		"a disabled field":  func() { p.Submit("#one", "off", "x") },
		"half a field":      func() { p.Submit("#one", "text") },
		"no form":           func() { p.Submit("ul") },
		"a link":            func() { p.Click("Save") },
		"a broken selector": func() { p.All("li >") },
		"an empty selector": func() { p.All(" ") },
		"another site":      func() { p.Browser.Get("https://other.example/") },
		"mail to nobody":    func() { s.LastMail("nobody@example.org") },
	} {
		f.failed = false
		done := make(chan struct{})
		go func() { defer close(done); do() }()
		if <-done; !f.failed {
			t.Errorf("%s: the test did not fail", name)
		}
	}
}
