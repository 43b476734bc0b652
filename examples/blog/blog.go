// Package blog is a blog of many authors: posts with tags and comments, a page for administrators, and the same records
// over HTTP for a mobile app.
//
// It knows its collections, their rules and its pages. It must not know how records, passwords and sessions are kept, or
// check outside of the rules who may do what.
package blog

import (
	"embed"
	"net/http"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/account"
	"github.com/skerrydb/skerry/web/records"
	"github.com/skerrydb/skerry/web/view"
)

//go:embed all:views assets
var files embed.FS

// Application makes the web application: cli.App.Web.
func Application(s *skerry.Services) (http.Handler, error) {
	if err := s.Records.Use(Posts, Comments); err != nil {
		return nil, err
	}
	o := s.Web
	var err error
	if o.Assets, err = web.NewAssets(web.AssetOptions{FS: s.Files(files, "assets"), List: []string{"style.css"}, Root: []string{"favicon.svg"}, Reload: o.Debug, Logger: o.Logger}); err != nil {
		return nil, err
	}
	if o.Views, err = view.New(view.Options{FS: s.Files(files, "views"), Funcs: o.Assets.Funcs(), Reload: o.Debug, Logger: o.Logger}); err != nil {
		return nil, err
	}
	if s.Users, err = auth.New(s.KV, auth.Options{Sessions: s.Sessions, Issuer: o.Name}); err != nil {
		return nil, err
	}
	o.User = account.User(s.Users)
	app, err := web.New(o)
	if err != nil {
		return nil, err
	}
	accounts, err := account.New(app, s.Users, account.Options{
		Sessions: s.Sessions, Mail: s.Mail, BaseURL: s.BaseURL, Name: o.Name, Views: o.Views,
		TokenPrefix: "/api/auth", // where a mobile app logs in
		Locals:      locals,
		Fields:      []account.Field{{Name: "name", Label: "Your name", Required: true}},
	})
	if err != nil {
		return nil, err
	}
	records.Mount(app, s.Records, records.Options{}) // /api/posts and so on
	app.Use(web.Compress(web.CompressOptions{}))
	db := s.Records
	app.Get("/", page(db, "list", newest))
	app.Get("/tags/{tag}", page(db, "list", tagged))
	app.Get("/posts/{id}", page(db, "post", read))
	mine := app.Group("", accounts.RequireUser())
	mine.Get("/mine", page(db, "list", written))
	mine.Get("/write", page(db, "write", write))
	mine.Post("/write", change(db, "write", save))
	mine.Post("/comment", change(db, "", comment))
	mine.Get("/admin", page(db, "admin", administer))
	mine.Post("/delete", change(db, "", remove))
	mine.Post("/restore", change(db, "", restore))
	return app, nil
}
