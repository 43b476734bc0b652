package todo

import (
	"embed"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/proc"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/account"
	"github.com/skerrydb/skerry/web/view"
)

// files are embedded in the program; during development they are read from this folder.
// Without all: the Go command leaves out names that begin with an underscore.
//
//go:embed all:views assets
var files embed.FS

// site is the web application.
type site struct {
	users *auth.Auth
	procs *proc.Set
	store *kv.Store
}

// Application makes the web application: cli.App.Web.
func Application(s *skerry.Services) (http.Handler, error) {
	o := s.Web
	var err error
	o.Assets, err = web.NewAssets(web.AssetOptions{
		FS: s.Files(files, "assets"), List: []string{"style.css", "todo.mjs"}, Pages: map[string][]string{"progress": {"progress.css"}},
		Root: []string{"favicon.svg"}, Reload: o.Debug, Logger: o.Logger,
	})
	if err != nil {
		return nil, err
	}
	o.Views, err = view.New(view.Options{FS: s.Files(files, "views"), Funcs: o.Assets.Funcs(), Reload: o.Debug, Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	users, err := auth.New(s.KV, auth.Options{Sessions: s.Sessions, Issuer: o.Name, AllowUnverified: true})
	if err != nil {
		return nil, err
	}
	o.User = account.User(users)
	s.Users = users // operators manage them: skerry users
	app, err := web.New(o)
	if err != nil {
		return nil, err
	}
	accounts, err := account.New(app, users, account.Options{
		Sessions: s.Sessions, Mail: s.Mail, BaseURL: s.BaseURL, Name: o.Name, Views: o.Views,
		RegisterPath: "/register", // in register.go
		Locals: func(c *web.Context) web.Locals { // the layout's
			me, err := c.User()
			if err != nil {
				return nil // nobody is logged in
			}
			return web.Locals{"user": me.Email}
		},
	})
	if err != nil {
		return nil, err
	}
	w := &site{users, s.Procedures, s.KV}
	w.routes(app, accounts)
	return app, nil
}

func (w *site) routes(app *web.App, accounts *account.Account) {
	app.Use(web.Compress(web.CompressOptions{}))
	app.Get("/register", w.registerPage)
	app.Post("/register", w.register)

	mine := app.Group("", accounts.RequireUser())
	mine.Get("/", func(c *web.Context) error { return w.list(c, http.StatusOK, "") })
	mine.Post("/add", w.add)
	mine.Post("/done", w.done)
	mine.Post("/reopen", w.reopen)
	mine.Post("/remove", w.remove)
	mine.Post("/undo", w.undo)
	mine.Get("/progress", w.progress)
	mine.Get("/events", w.events)
}

// row is one item as shown.
type row struct {
	Item
	Place string // "2 of 3" for the second of three items with this text; empty if it is the only one
}

// place sets the Place of rows, whose buttons would otherwise have the same names.
func place(rows ...*row) {
	same := map[string][]*row{}
	for _, r := range rows {
		text := strings.ToLower(r.Text)
		same[text] = append(same[text], r)
	}
	for _, equal := range same {
		for i, r := range equal {
			if len(equal) > 1 {
				r.Place = fmt.Sprintf("%d of %d", i+1, len(equal))
			}
		}
	}
}

// list shows the list, with an error message about the last change if wrong is not empty.
func (w *site) list(c *web.Context, status int, wrong string) error {
	me, err := c.User()
	if err != nil {
		return err
	}
	all, pos, err := Items.Call(c, w.procs, UserIn{me.ID})
	if err != nil {
		return err
	}
	find := c.Query("find").String()
	var open, done []*row
	for _, it := range all.Items {
		switch found := strings.Contains(strings.ToLower(it.Text), strings.ToLower(find)); {
		case found && it.Open():
			open = append(open, &row{Item: it})
		case found:
			done = append(done, &row{Item: it})
		}
	}
	slices.SortStableFunc(done, func(a, b *row) int { return b.Done.Compare(a.Done) }) // the last one first
	place(slices.Concat(open, done)...)
	return c.RenderStatus(status, "list", web.Locals{
		"title": "To do", "user": me.Email, "open": open, "done": done, "last": all.Last, "find": find, "wrong": wrong, "position": pos, "max_text": MaxText,
	})
}

func (w *site) add(c *web.Context) error {
	var form struct {
		Text string `json:"text"`
	}
	return change(w, c, &form, Add, func(user string) AddIn { return AddIn{user, form.Text} })
}

func (w *site) done(c *web.Context) error { return w.item(c, Done) }

func (w *site) reopen(c *web.Context) error { return w.item(c, Reopen) }

func (w *site) remove(c *web.Context) error { return w.item(c, Remove) }

// item calls a procedure for the item that the form names.
func (w *site) item(c *web.Context, f *proc.Func[ItemIn, Item]) error {
	var form struct {
		ID int64 `json:"id"`
	}
	return change(w, c, &form, f, func(user string) ItemIn { return ItemIn{user, form.ID} })
}

func (w *site) undo(c *web.Context) error {
	return change(w, c, &struct{}{}, Undo, func(user string) UserIn { return UserIn{user} })
}

// change reads a form or JSON and calls a procedure with it for the user. A browser
// then sees the list, with the error if the user can correct it; a program gets the
// procedure's result.
func change[In, Out any](w *site, c *web.Context, form any, f *proc.Func[In, Out], in func(user string) In) error {
	me, err := c.User()
	if err != nil {
		return err
	}
	if err := c.Bind(form); err != nil {
		return err
	}
	out, _, err := f.Call(c, w.procs, in(me.ID))
	switch code := engine.CodeOf(err); {
	case code == engine.CodeInvalid || code == CodeListFull || code == CodeNothingToUndo:
		if !c.IsJSON() {
			return w.list(c, http.StatusUnprocessableEntity, c.Detail(err))
		}
		return err
	case err != nil:
		return err
	case c.IsJSON():
		return c.JSON(http.StatusOK, out)
	}
	return c.Redirect("/")
}

// progress shows when items were done. Its page is in the Z syntax and contains the data
// that its script draws.
func (w *site) progress(c *web.Context) error {
	me, err := c.User()
	if err != nil {
		return err
	}
	all, _, err := Items.Call(c, w.procs, UserIn{me.ID})
	if err != nil {
		return err
	}
	var latest Item
	done := 0
	for _, it := range all.Items {
		if !it.Open() {
			done++
		}
		if it.Done.After(latest.Done) {
			latest = it
		}
	}
	return c.Render("progress", web.Locals{
		"title": "Progress", "user": me.Email, "items": all.Items, "done": done, "total": len(all.Items), "latest": latest.Text,
	})
}

// events sends an event for each change to the list since the page was rendered, made on
// any node and from any browser.
func (w *site) events(c *web.Context) error {
	me, err := c.User()
	if err != nil {
		return err
	}
	after, err := strconv.ParseUint(c.Query("after").String(), 10, 64)
	if err != nil {
		return web.WrongParameter("after", "must be the position of a page")
	}
	return c.SSE(web.EventOptions{}, func(s *web.Events) error {
		if last, err := strconv.ParseUint(s.LastID(), 10, 64); err == nil { // the browser reconnects
			after = last
		}
		for {
			err := w.follow(s, me.ID, after)
			if !errors.Is(err, engine.ErrTruncated) {
				return err
			}
			// The history does not go back that far: the page must read everything again.
			_, now, err := Items.Call(s.Context(), w.procs, UserIn{me.ID})
			if err != nil {
				return err
			}
			if err := changed(s, now); err != nil {
				return err
			}
			after = uint64(now)
		}
	})
}

// follow sends an event for each change after a position.
func (w *site) follow(s *web.Events, user string, after uint64) error {
	for e, err := range w.store.Watch(s.Context(), Space, listKey(user), engine.Position(after)) {
		if err != nil {
			return err
		}
		if err := changed(s, e.Pos); err != nil {
			return err
		}
	}
	return nil
}

func changed(s *web.Events, at engine.Position) error {
	return s.Send(web.Event{Name: "changed", ID: strconv.FormatUint(uint64(at), 10)})
}
