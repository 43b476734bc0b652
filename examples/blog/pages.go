package blog

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/records"
)

// locals returns what the layout shows.
func locals(c *web.Context) web.Locals {
	u, err := c.User()
	if err != nil {
		return web.Locals{"me": nil, "admin": false} // nobody is logged in
	}
	return web.Locals{"me": u, "admin": u.Has("admin")}
}

// page handles a GET: fn puts what the view shows into l, in one transaction of the user.
func page(db *record.DB, view string, fn func(tx *record.Tx, c *web.Context, l web.Locals) error) web.Handler {
	return func(c *web.Context) error {
		a, err := records.Actor(c)
		if err != nil {
			return err
		}
		l := locals(c)
		if _, err := db.View(c, engine.Read{}, a, func(tx *record.Tx) error { return fn(tx, c, l) }); err != nil {
			return err
		}
		return c.Render(view, l)
	}
}

// change handles a POST: fn changes records as the form says, in one transaction of the user, and returns the path of the
// page to show next. A form that the user can correct is shown again in the view, with what is wrong.
func change[F any](db *record.DB, view string, fn func(tx *record.Tx, f *F) (next string, err error)) web.Handler {
	return func(c *web.Context) error {
		var f F
		var next string
		a, err := records.Actor(c)
		if err := errors.Join(err, c.Bind(&f)); err != nil {
			return err
		}
		_, err = db.Update(c, a, func(tx *record.Tx) (err error) { next, err = fn(tx, &f); return err })
		if err == nil {
			return c.Redirect(next)
		} else if view == "" || !errors.Is(err, record.ErrInvalid) && !errors.Is(err, record.ErrRevision) {
			return err
		}
		l := locals(c)
		l["title"], l["form"], l["wrong"] = "Write", &f, c.Detail(err)
		return c.RenderStatus(http.StatusUnprocessableEntity, view, l)
	}
}

// list puts a page of the posts that meet a query into l.
func list(tx *record.Tx, c *web.Context, l web.Locals, title string, q record.Query, args ...any) (err error) {
	q.Limit, q.After = 10, c.Query("after").String()
	l["title"] = title
	l["posts"], l["next"], err = Posts.List(tx, q, args...)
	return err
}

func newest(tx *record.Tx, c *web.Context, l web.Locals) error {
	return list(tx, c, l, "Newest posts", record.Query{Filter: `state = "public"`, Sort: "-published"})
}

func tagged(tx *record.Tx, c *web.Context, l web.Locals) error {
	tag := c.Path("tag").String()
	return list(tx, c, l, "Posts about "+tag, record.Query{Filter: `state = "public" && tags ?= ?`, Sort: "-published"}, tag)
}

func written(tx *record.Tx, c *web.Context, l web.Locals) error {
	return list(tx, c, l, "Your posts", record.Query{Filter: own, Sort: "-created"})
}

// talk puts a page of the comments that meet a query into l.
func talk(tx *record.Tx, c *web.Context, l web.Locals, q record.Query, args ...any) (err error) {
	q.Limit, q.After = 20, c.Query("after").String()
	l["comments"], l["next"], err = Comments.List(tx, q, args...)
	return err
}

// read shows a post with its comments.
func read(tx *record.Tx, c *web.Context, l web.Locals) error {
	p, err := Posts.Get(tx, c.Path("id").String())
	if err != nil {
		return err
	}
	l["title"], l["post"] = p.Title, p
	return talk(tx, c, l, record.Query{Filter: "post = ?", Sort: "created"}, p.ID)
}

// administer shows the newest comments, and deleted posts.
func administer(tx *record.Tx, c *web.Context, l web.Locals) (err error) {
	if !slices.Contains(tx.Actor().Roles, "admin") {
		return record.ErrRefused
	}
	l["title"] = "Administration"
	if l["posts"], _, err = Posts.List(tx, record.Query{Sort: "-created", Trash: true}); err != nil {
		return err
	}
	return talk(tx, c, l, record.Query{Sort: "-created"})
}

// draft is the form of a post.
type draft struct {
	ID    string `json:"id,omitempty"`
	Rev   uint64 `json:"rev,omitempty"` // the revision that the form has shown
	Title string `json:"title"`
	Body  string `json:"body"`
	Tags  string `json:"tags"`
	State string `json:"state"`
}

// write shows the form, with the post that the request names.
func write(tx *record.Tx, c *web.Context, l web.Locals) error {
	l["title"], l["form"], l["wrong"] = "Write", &draft{State: "draft"}, ""
	if !c.Query("id").Given() {
		return nil
	}
	p, err := Posts.Get(tx, c.Query("id").String())
	if err == nil {
		l["form"] = &draft{p.ID, p.Rev, p.Title, p.Body, strings.Join(p.Tags, " "), p.State}
	}
	return err
}

func save(tx *record.Tx, f *draft) (next string, err error) {
	p := &Post{By: tx.Actor().Name}
	if f.ID != "" {
		if p, err = Posts.Get(tx, f.ID); err != nil {
			return "", err
		}
		p.Rev = f.Rev // if somebody has changed the post meanwhile, Save fails
	}
	p.Title, p.Body, p.State, p.Tags = f.Title, f.Body, f.State, strings.Fields(strings.ToLower(f.Tags))
	if p.State == "public" && p.Published.IsZero() {
		p.Published = tx.Engine().Now()
	}
	err = Posts.Save(tx, p)
	return "/posts/" + p.ID, err
}

// choice is the form of what can be done to a post or comment.
type choice struct {
	Post    string `json:"post,omitempty"`
	Comment string `json:"comment,omitempty"`
	Text    string `json:"text,omitempty"`
}

func comment(tx *record.Tx, f *choice) (next string, err error) {
	return "/posts/" + f.Post, Comments.Create(tx, &Comment{Post: f.Post, Text: f.Text, By: tx.Actor().Name})
}

func remove(tx *record.Tx, f *choice) (next string, err error) {
	if f.Comment != "" {
		return "/posts/" + f.Post, Comments.Delete(tx, f.Comment, 0)
	}
	return "/mine", Posts.Delete(tx, f.Post, 0)
}

func restore(tx *record.Tx, f *choice) (next string, err error) {
	_, err = Posts.Restore(tx, f.Post, 0)
	return "/posts/" + f.Post, err
}
