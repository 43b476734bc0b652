package web_test

import (
	"errors"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/view"
)

// Site makes the guide's application.
func Site(o web.Options) (http.Handler, error) {
	app, err := web.New(o)
	if err != nil {
		return nil, err
	}
	app.Get("/", func(c *web.Context) error {
		return c.HTML(http.StatusOK, "<h1>Hello</h1>")
	})
	app.Get("/hello/{name}", func(c *web.Context) error {
		return c.Text(http.StatusOK, "Hello, "+c.Path("name").String())
	})
	routes(app)
	return app, nil
}

func routes(app *web.App) {
	app.Use(logged)
	admin := app.Group("/admin", web.RequireSuperadmin())
	admin.Get("/users", listUsers)
	app.Post("/users", createUser, web.BodyLimit(64<<10))
	app.Handle("GET /legacy/", http.StripPrefix("/legacy", legacy()))

	app.Get("/posts/{id}", post)
	app.Get("/search", search)
	app.Post("/login", login)
	app.Post("/photos", photo)
	app.Get("/report", report)
	app.Get("/ticks", ticks)
	app.Get("/visits", countVisit)
}

func legacy() http.Handler { return http.NotFoundHandler() }

func logged(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r)
		web.From(w, r).Logger().Debug("served", "path", r.URL.Path)
	})
}

func listUsers(c *web.Context) error { return c.JSON(http.StatusOK, []string{"anna"}) }

func post(c *web.Context) error {
	id, err := c.Path("id").Int64()
	if err != nil {
		return err
	}
	if id != 1 {
		return engine.Errorf(engine.CodeNotFound, "there is no post %d", id)
	}
	return c.JSON(http.StatusOK, map[string]int64{"id": id})
}

func search(c *web.Context) error {
	var m web.Mistakes
	text := m.Text(c.Query("q"))
	page := m.Int64In(c.Query("page").Or("1"), 1, 1000)
	since := m.Time(c.Query("since").Or("2026-01-01"), time.DateOnly)
	order := m.OneOf(c.Query("sort").Or("new"), "new", "old")
	tags := m.Texts(c.Query("tag")) // ?tag=a&tag=b
	if err := m.Err(); err != nil {
		return err
	}
	return c.JSON(http.StatusOK, []any{text, page, since.Year(), order, tags})
}

type NewUser struct {
	Name  string   `json:"name"`
	Age   int8     `json:"age"`
	Email *string  `json:"email"`
	Tags  []string `json:"tags,omitempty"`
}

func (u *NewUser) Validate() error {
	var m web.Mistakes
	if u.Name == "" {
		m.Field("/name", "must not be empty")
	}
	if u.Age < 0 {
		m.Field("/age", "must not be negative")
	}
	return m.Err()
}

func createUser(c *web.Context) error {
	var u NewUser
	if err := c.Bind(&u); err != nil {
		return err
	}
	if u.Name == "anna" {
		return web.Errorf(http.StatusConflict, "name_taken", "%s is taken", u.Name)
	}
	return c.JSON(http.StatusCreated, u)
}

func login(c *web.Context) error {
	name, err := c.Form("name").Text()
	if err != nil {
		return err
	}
	remember, err := c.Form("remember").Or("off").Bool()
	if err != nil {
		return err
	}
	return c.Text(http.StatusOK, name+" "+strconv.FormatBool(remember))
}

func photo(c *web.Context) error {
	var form struct {
		Title string `json:"title"`
	}
	var size int64
	err := c.Uploads(web.UploadOptions{
		MaxFileBytes: 5 << 20,
		MaxFiles:     1,
		Types:        []string{"image/png", "image/jpeg"},
		Fields:       &form,
	}, func(f *web.File) error {
		t, err := f.Temp() // removed after the response
		if err != nil {
			return err
		}
		info, err := t.Stat()
		if err != nil {
			return err
		}
		size = info.Size()
		return nil
	})
	if err != nil {
		return err
	}
	return c.Text(http.StatusOK, form.Title+" "+strconv.FormatInt(size, 10))
}

func report(c *web.Context) error {
	c.Attachment("Übersicht.csv")
	return c.Stream(http.StatusOK, "text/csv", strings.NewReader("a,b\n1,2\n"))
}

func ticks(c *web.Context) error {
	return c.SSE(web.EventOptions{}, func(s *web.Events) error {
		for n := 1; ; n++ {
			if err := s.Send(web.Event{ID: strconv.Itoa(n), Data: "tick"}); err != nil {
				return err // the client is gone, or the server stops
			}
			select {
			case <-s.Context().Done():
				return nil
			case <-time.After(time.Second):
			}
		}
	})
}

func countVisit(c *web.Context) error {
	n, _, err := visits.Get(c.Session())
	if err != nil {
		return err
	}
	if err := visits.Set(c.Session(), n+1); err != nil {
		return err
	}
	return c.Text(http.StatusOK, strconv.Itoa(n+1))
}

type outOfStock struct{ item string }

func (e outOfStock) Error() string   { return e.item + " is sold out" }
func (e outOfStock) HTTPStatus() int { return http.StatusGone }

func showForm(c *web.Context, u NewUser, err error) error {
	return c.RenderStatus(http.StatusBadRequest, "user_form", web.Locals{
		"name":  u.Name,
		"age":   c.Form("age").String(), // as it was typed: "abc" is not in u.Age
		"wrong": web.FaultsOf(err),
	})
}

// TestGuide: what docs/web.md shows is in this file, which is compiled.
func TestGuide(t *testing.T) {
	guide, err := os.ReadFile("../docs/web.md")
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile("guide_test.go")
	if err != nil {
		t.Fatal(err)
	}
	flat := func(s string) string {
		return strings.TrimSpace(regexp.MustCompile(`(?m)^[ \t]+`).ReplaceAllString(s, ""))
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(guide), -1)
	if len(blocks) < 10 {
		t.Fatalf("found only %d snippets: the search is broken", len(blocks))
	}
	for _, b := range blocks {
		if !strings.Contains(flat(string(code)), flat(b[1])) {
			t.Errorf("docs/web.md shows what is not in guide_test.go:\n%s", b[1])
		}
	}
}

// TestGuideRuns: what the guide shows does what it says.
func TestGuideRuns(t *testing.T) {
	s := serve(t, web.Options{Sessions: newSessions(t)}, func(a *web.App) {
		routes(a)
		a.Get("/gone", func(*web.Context) error { return outOfStock{"tea"} })
		a.Get("/form", func(c *web.Context) error {
			err := showForm(c, NewUser{}, errors.New("x"))
			if engine.CodeOf(err) != engine.CodeInternal { // there are no views here
				t.Errorf("%v", err)
			}
			return c.NoContent()
		})
	})
	body, media := formOf(t, part{"title", "", "T"}, part{"photo", "p.png", pixel})
	for _, c := range []struct {
		method, path, body, media string
		status                    int
		want                      string
	}{
		{"GET", "/posts/1", "", "", 200, `{"id":1}`}, {"GET", "/posts/x", "", "", 400, `"parameter":"id"`}, {"GET", "/posts/2", "", "", 404, "there is no post 2"},
		{"GET", "/search?q=tea&tag=a&tag=b", "", "", 200, `["tea",1,2026,"new",["a","b"]]`}, {"GET", "/search?page=0&sort=x", "", "", 400, `"parameter":"sort"`},
		{"POST", "/users", `{"name":"bo","age":3}`, "application/json", 201, `{"name":"bo","age":3,"email":null}`},
		{"POST", "/users", `{"name":"anna","age":3}`, "application/json", 409, `"code":"name_taken"`}, {"POST", "/users", `{"name":"","age":-1}`, "application/json", 400, `"pointer":"/age"`},
		{"POST", "/login", "name=bo&remember=on", "application/x-www-form-urlencoded", 200, "bo true"}, {"POST", "/photos", body, media, 200, "T 16"},
		{"GET", "/report", "", "", 200, "a,b"}, {"GET", "/visits", "", "", 200, "1"}, {"GET", "/visits", "", "", 200, "2"},
		{"GET", "/admin/users", "", "", 401, "unauthenticated"}, {"GET", "/legacy/x", "", "", 404, "404 page"}, {"GET", "/gone", "", "", 410, "tea is sold out"}, {"GET", "/form", "", "", 204, ""},
	} {
		var header []string
		if c.media != "" {
			header = []string{"Content-Type", c.media}
		}
		if got := s.do(c.method, c.path, c.body, header...); got.status != c.status || !strings.Contains(got.body, c.want) {
			t.Errorf("%s %s: %d %s; want %d %s", c.method, c.path, got.status, got.body, c.status, c.want)
		}
	}
	h, err := Site(web.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if w := bodyOf(h, "/hello/you"); w != "Hello, you" {
		t.Errorf("%q", w)
	}
}

// TestGuideForm: the guide's form shows what was typed, and beside it what is wrong.
func TestGuideForm(t *testing.T) {
	guide, err := os.ReadFile("../docs/web.md")
	if err != nil {
		t.Fatal(err)
	}
	form := regexp.MustCompile("(?s)```html\n(<!-- user_form.*?)```").FindSubmatch(guide)
	if form == nil {
		t.Fatal("docs/web.md has no user_form.html")
	}
	views := newViews(t, view.Options{FS: fstest.MapFS{"user_form.html": {Data: form[1]}}})
	s := serve(t, web.Options{Views: views}, func(a *web.App) {
		a.Post("/users", func(c *web.Context) error {
			var u NewUser
			if err := c.Bind(&u); err != nil {
				return showForm(c, u, err)
			}
			return c.NoContent()
		})
	})
	got := s.do("POST", "/users", "name=%3Cbo%3E&age=abc", "Content-Type", "application/x-www-form-urlencoded")
	if got.status != 400 || !strings.Contains(got.body, `name="name" value="&lt;bo&gt;"`) || !strings.Contains(got.body, `name="age" value="abc"> <small`) || strings.Count(got.body, "<small") != 1 {
		t.Errorf("%+v", got)
	}
}
