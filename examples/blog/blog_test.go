package blog_test

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/examples/blog"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/webtest"
)

const password = "correct horse"

// world is a blog that runs until its test ends.
type world struct {
	*webtest.Site
	t       *testing.T
	users   *auth.Auth
	records *record.DB
}

func start(t *testing.T) *world {
	t.Helper()
	w := &world{t: t}
	w.Site = webtest.Start(t, skerry.Web{Name: "blog", Application: func(s *skerry.Services) (http.Handler, error) {
		h, err := blog.Application(s)
		w.users, w.records = s.Users, s.Records
		return h, err
	}})
	return w
}

// user registers somebody, and returns a browser that is logged in.
func (w *world) user(name string, roles ...string) *webtest.Browser {
	w.t.Helper()
	b, email := w.Browser(), strings.ToLower(name)+"@example.org"
	b.Register(email, password, "name", name)
	u, err := w.users.Find(w.t.Context(), engine.Read{}, email)
	if err == nil {
		_, err = w.users.SetRoles(w.t.Context(), u.ID, roles)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	b.Login(email, password).Expect(200)
	return b
}

// write saves a post and returns its path.
func write(b *webtest.Browser, title, body, tags, state string) string {
	return b.Post("/write", "title", title, "body", body, "tags", tags, "state", state).Expect(200, html.EscapeString(title)).Path
}

// TestBlog: authors write, publish and delete; others read and comment; administrators restore.
func TestBlog(t *testing.T) {
	t.Parallel()
	w := start(t)
	guest, anna, ben, carl := w.Browser(), w.user("Anna"), w.user("Ben"), w.user("Carl", "admin")
	guest.Get("/").Expect(200, "Newest posts", "No posts yet.", "Log in").Lacks("/write", "/admin")
	guest.Get("/write").ExpectPath("/account/login?next=%2Fwrite").Expect(200)

	draft := write(anna, "Islands", "A skerry is a small <b>rocky</b> island.", " Sea  rocks sea ", "draft")
	anna.Get("/mine").Expect(200, "Islands", "Draft", `href="/tags/rocks"`)
	guest.Get("/").Lacks("Islands")
	for _, b := range []*webtest.Browser{guest, ben} {
		b.Get(draft).ExpectPath(draft).Expect(404).Lacks("rocky")
	}
	ben.Post("/comment", "post", id(draft), "text", "first").Expect(403).Lacks("rocky")

	anna.Get(draft).Click("Edit").Submit("form[action=/write]", "state", "public").ExpectPath(draft).Expect(200, "&lt;b&gt;rocky")
	second := write(ben, "Tides", "Twice a day.", "sea", "public")
	if home := guest.Get("/").Expect(200, "Islands", "Tides", "Anna", "Ben"); strings.Index(home.Body, "Tides") > strings.Index(home.Body, "Islands") {
		t.Error("the newest post is not the first")
	}
	guest.Get("/").Click("#rocks").Expect(200, "Posts about rocks", "Islands").Lacks("Tides")

	guest.Get(draft).Expect(200, "Log in").Lacks("<form method=\"post\" action=\"/comment\"")
	ben.Get(draft).Submit("form[action=/comment]", "text", "I like <rocks>.").ExpectPath(draft).Expect(200, "I like &lt;rocks&gt;.", "Ben")
	carl.Get(draft).Submit("form[action=/comment]", "text", "Me too.").Expect(200, "Me too.")
	ben.Get(draft).Lacks("Delete the post", "Edit")
	ben.Post("/delete", "post", id(draft)).Expect(403)
	ben.Post("/write", "id", id(draft), "rev", "2", "title", "Mine", "body", "x", "tags", "", "state", "public").Expect(403)
	ben.Get("/admin").Expect(403)

	admin := carl.Get("/").Click("Admin").Expect(200, "I like &lt;rocks&gt;.", "There are none.")
	newest := admin.All(".undo button")[0].Attr("value")
	carl.Post("/delete", "post", id(draft), "comment", newest).ExpectPath(draft).Expect(200, "I like").Lacks("Me too.")
	carl.Get(second).Submit(".bar form").Expect(200)
	guest.Get(second).Expect(404)
	carl.Get("/admin").Expect(200, "Tides").Submit(".row").ExpectPath(second).Expect(200, "Twice a day.")
	guest.Get("/").Expect(200, "Tides")

	// Deleting a post deletes its comments.
	anna.Get(draft).Submit(".bar form").ExpectPath("/mine").Lacks("Islands")
	carl.Get("/admin").Lacks("I like")
}

func id(path string) string { return strings.TrimPrefix(path, "/posts/") }

// TestForms: what is wrong is said beside what was typed, and nobody's change is lost.
func TestForms(t *testing.T) {
	t.Parallel()
	w := start(t)
	anna := w.user("Anna")
	anna.Post("/write", "title", strings.Repeat("é", 121), "body", "typed", "tags", "", "state", "public").ExpectPath("/write").Expect(422, "title", "typed", "120")
	anna.Post("/write", "title", "x", "body", "typed", "tags", "", "state", "gone").ExpectPath("/write").Expect(422, "state", "typed")
	post := write(anna, "One", "Text", "", "draft")
	one, other := anna.Get("/write?id="+id(post)), anna.Get("/write?id="+id(post))
	one.Submit("form[action=/write]", "body", "Changed").ExpectPath(post).Expect(200, "Changed")
	other.Submit("form[action=/write]", "body", "Too late").ExpectPath("/write").Expect(422, "Too late", "revision")
	anna.Get(post).Expect(200, "Changed")
	anna.Get("/posts/none").Expect(404)
	anna.Get("/?after=x").Expect(400)
}

// TestPages: lists go on where the page before ended.
func TestPages(t *testing.T) {
	t.Parallel()
	w := start(t)
	anna := w.user("Anna")
	for i := range 25 {
		write(anna, "Post "+string(rune('A'+i))+".", "Text", "many", "public")
	}
	carl, post := w.user("Carl", "admin"), write(anna, "Talk", "Text", "", "public")
	for i := range 25 {
		anna.Post("/comment", "post", id(post), "text", fmt.Sprintf("number %d.", i)).Expect(200)
	}
	carl.Get("/admin").Expect(200, "number 24.", "number 5.").Lacks("number 4.").Click("Older comments").Expect(200, "number 4.", "number 0.").Lacks("number 5.")
	anna.Get(post).Expect(200, "number 0.").Lacks("number 20.").Click("More comments").Expect(200, "number 20.").Lacks("number 0.")
	anna.Post("/delete", "post", id(post)).Expect(200)
	for _, path := range []string{"/", "/tags/many", "/mine"} {
		all := ""
		for p := w.Browser().Get(path); ; p = p.Click("Older posts") {
			if path == "/mine" {
				p = anna.Get(path)
			}
			for _, e := range p.Expect(200).All("h2 a") {
				all += strings.TrimSuffix(strings.TrimPrefix(e.Text(), "Post "), ".")
			}
			if path == "/mine" || !strings.Contains(p.Body, "Older posts") {
				break
			}
		}
		if want := "YXWVUTSRQPONMLKJIHGFEDCBA"; path == "/mine" && all != want[:10] || path != "/mine" && all != want {
			t.Errorf("%s: %s", path, all)
		}
	}
}

// TestIndexes: each order of a page is that of an index, so a page reads no more records than it shows, and one more to
// know that there is another page.
func TestIndexes(t *testing.T) {
	t.Parallel()
	w := start(t)
	anna := record.Actor{ID: "anna", Name: "Anna", System: true}
	post := ""
	_, err := w.records.Update(t.Context(), anna, func(tx *record.Tx) error {
		for i := range 40 {
			p := &blog.Post{Title: fmt.Sprint(i), Body: "x", State: []string{"draft", "public"}[i%2], Published: tx.Engine().Now()}
			if err := blog.Posts.Create(tx, p); err != nil {
				return err
			}
			post = p.ID
			for range 3 {
				if err := blog.Comments.Create(tx, &blog.Comment{Post: p.ID, Text: "y"}); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ collection, filter, sort, index string }{
		{"posts", `state = "public"`, "-published", "by_state_published"},
		{"posts", `author = @auth.id`, "-created", "by_author_created"},
		{"comments", `post = "` + post + `"`, "created", "by_post_created"},
		{"comments", ``, "-created", "by_created"},
	} {
		_, err := w.records.View(t.Context(), engine.Read{}, anna, func(tx *record.Tx) error {
			q, err := tx.ParseQuery(c.collection, url.Values{"filter": {c.filter}, "sort": {c.sort}, "limit": {"2"}, "explain": {"true"}})
			if err != nil {
				return err
			}
			found, err := tx.Find(c.collection, q)
			if err == nil && (found.Plan.Index != c.index || found.Plan.Sorted || found.Plan.Read > 3 || len(found.Items) != 2) {
				t.Errorf("%+v: %+v", c, found.Plan)
			}
			return err
		})
		if err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// call sends JSON to the API and decodes the answer.
func (w *world) call(status int, token, method, path, body string) (out struct {
	Token string `json:"access_token"`
	ID    string `json:"id"`
	User  struct{ ID, Name string }
	Code  string
	Data  blog.Post
	Items []struct{ Data blog.Post }
}) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.URL+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	p := w.Browser().Do(r)
	p.ExpectPath(path).Expect(status)
	if p.Body != "" {
		if err := json.Unmarshal([]byte(p.Body), &out); err != nil {
			w.t.Errorf("%s %s: %v: %s", method, path, err, p.Body)
		}
	}
	return out
}

// TestAPI: a mobile app logs in with a token, and may do over /api what the rules allow on pages.
func TestAPI(t *testing.T) {
	t.Parallel()
	w := start(t)
	anna, ben := w.user("Anna"), w.user("Ben")
	login := w.call(200, "", "POST", "/api/auth/login", `{"email":"anna@example.org","password":"`+password+`","device":"phone"}`)
	post := w.call(201, login.Token, "POST", "/api/posts", `{"data":{"title":"From the phone","body":"Hello","by":"Anna","tags":["phone"]}}`)
	if post.Data.Author == "" || post.Data.State != "draft" {
		t.Errorf("created %+v", post)
	}
	path := "/api/posts/" + post.ID
	w.call(404, "", "GET", path, "")
	w.call(403, "", "POST", "/api/posts", `{"data":{"title":"x","body":"y","author":"`+post.Data.Author+`"}}`)
	w.call(403, login.Token, "POST", "/api/posts", `{"data":{"title":"x","body":"y","by":"Ben"}}`)
	w.call(422, login.Token, "POST", "/api/posts", `{"data":{"title":"","body":"y","by":"Anna"}}`)
	w.call(403, login.Token, "PATCH", path, `{"data":{"by":"Ben"}}`)
	w.call(200, login.Token, "PATCH", path, `{"data":{"state":"public","published":"2026-01-02T03:04:05Z"}}`)
	if all := w.call(200, "", "GET", "/api/posts?sort=-published&limit=5", ""); len(all.Items) != 1 || all.Items[0].Data.Title != "From the phone" {
		t.Errorf("listed %+v", all)
	}
	anna.Get("/mine").Expect(200, "From the phone")
	w.call(403, w.call(200, "", "POST", "/api/auth/login", `{"email":"ben@example.org","password":"`+password+`"}`).Token, "DELETE", path, "")
	ben.Get("/posts/"+post.ID).Expect(200, "Hello", "2 January 2026")
	w.call(204, login.Token, "POST", "/api/auth/logout", "")
	if p := w.call(401, login.Token, "GET", path, ""); p.Code != "unauthenticated" {
		t.Errorf("after the logout: %+v", p)
	}
}
