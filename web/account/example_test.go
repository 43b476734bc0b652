package account_test

import (
	"net/http"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/account"
)

// An application with accounts: what cli.App.Web, or skerry.Web.Application, is.
func Example() {
	app := func(s *skerry.Services) (http.Handler, error) {
		users, err := auth.New(s.KV, auth.Options{Sessions: s.Sessions, Issuer: "Todo"})
		if err != nil {
			return nil, err
		}
		o := s.Web
		o.User = account.User(users)
		app, err := web.New(o)
		if err != nil {
			return nil, err
		}
		app.Use(account.Keys(users))
		accounts, err := account.New(app, users, account.Options{
			Sessions: s.Sessions, Mail: s.Mail, BaseURL: "https://todo.example", Name: s.Web.Name, Scopes: []string{"todo:read"},
		})
		if err != nil {
			return nil, err
		}
		app.Get("/", func(c *web.Context) error {
			u, err := c.User()
			if err != nil {
				return err
			}
			return c.Text(http.StatusOK, "Hello, "+u.Email)
		}, accounts.RequireUser())
		app.Get("/api/todo", func(c *web.Context) error {
			return c.JSON(http.StatusOK, []string{"milk"})
		}, account.RequireScope("todo:read"))
		return app, nil
	}
	_ = app
}
