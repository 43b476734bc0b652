// Package gotro is the tutorial of GotRo as an application on Skerry: its routes, its
// views in the Z syntax with a layout, its list of assets, and a login in a session.
//
// It knows its routes and pages; it must not know where sessions are kept, or
// whether one server answers or three.
package gotro

import (
	"embed"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/session"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/view"
)

//go:embed views public
var files embed.FS

// assets is what every page asks for, in this order. In GotRo it was
//
//	{`/css`, `theme/base`}, {`css`, `global`}, {`js`, `global`}
var assets = []string{"theme/base.css", "css/global.css", "js/global.js"}

// MaxName is the longest name that somebody may log in with, in characters.
const MaxName = 40

// visits counts the pages that a browser has seen since it logged in.
var visits = session.NewKey[int]("visits")

// Application makes the application; see skerry.Application.
func Application(s *skerry.Services) (http.Handler, error) {
	public, err := web.NewAssets(web.AssetOptions{
		FS: s.Files(files, "public"), List: assets, Root: []string{"favicon.ico"}, Reload: s.Web.Debug, Logger: s.Web.Logger,
		Pages: map[string][]string{"post_values_example": {"js/post_values.js"}},
	})
	if err != nil {
		return nil, err
	}
	views, err := view.New(view.Options{FS: s.Files(files, "views"), Reload: s.Web.Debug, Logger: s.Web.Logger})
	if err != nil {
		return nil, err
	}
	s.Web.Assets, s.Web.Views = public, views
	app, err := web.New(s.Web)
	if err != nil {
		return nil, err
	}
	app.Get("/", loginExample)
	app.Get("/login_example", loginExample)
	app.Post("/login_example", login)
	app.Post("/logout_example", logout)
	app.Get("/post_values_example", postValuesPage)
	app.Post("/post_values_example", postValues)
	app.Get("/named_params_example/{test1}", namedParams)
	app.Get("/query_string_example", queryString)
	if err := s.Records.Define(tables...); err != nil {
		return nil, err
	}
	(&base{s.Records}).routes(app)
	return app, nil
}

// loginExample shows who is logged in, or asks.
func loginExample(c *web.Context) error {
	s := c.Session()
	n := 0
	if c.LoggedIn() {
		var err error
		if n, _, err = visits.Get(s); err != nil {
			return err
		}
		n++
		if err := visits.Set(s, n); err != nil {
			return err
		}
	}
	return c.Render("login_example", web.Locals{"title": "Login example", "user": s.User(), "visits": n, "logged_in": c.LoggedIn()})
}

// loginForm is what the login page sends.
type loginForm struct {
	Name string `json:"name"`
}

// Validate implements web.Validator.
func (f *loginForm) Validate() error {
	f.Name = strings.TrimSpace(f.Name)
	if n := utf8.RuneCountInString(f.Name); n == 0 || n > MaxName {
		return web.Wrong("/name", "must have 1 to %d characters", MaxName)
	}
	return nil
}

// login believes whoever says a name: it is about sessions. Passwords are package
// auth's.
func login(c *web.Context) error {
	var f loginForm
	if err := c.Bind(&f); err != nil {
		return err
	}
	c.Session().Login(f.Name)
	return c.Redirect("/login_example")
}

func logout(c *web.Context) error {
	c.Session().Logout()
	return c.Redirect("/login_example")
}

// postValuesPage shows a page with values in its script.
func postValuesPage(c *web.Context) error {
	return c.Render("post_values_example", web.Locals{
		"title": "Post example",
		"map":   map[string]int{"test1": 1, "test4": 4},
		"arr":   []int{1, 2, 3, 4},
	})
}

// postValues responds to the script of that page.
func postValues(c *web.Context) error {
	value, err := c.Form("test2").Text()
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, map[string]string{"test3": value})
}

// namedParams shows a segment of its own path.
func namedParams(c *web.Context) error {
	return c.Render("named_params_example", web.Locals{"title": "Named params example", "test1": c.Path("test1").String()})
}

// queryString shows a number of its query: 0 if there is none.
func queryString(c *web.Context) error {
	key, err := c.Query("theKey").Or("0").Int64()
	if err != nil {
		return err
	}
	return c.Render("query_string_example", web.Locals{"title": "Query string example", "the_key": key, "doubled": 2 * key, "text": c.Query("text").String()})
}
