// Command greet is a web application whose users log in.
package account_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"os"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/cli"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/account"
)

func main() {
	cli.Main(cli.App{Name: "greet", Web: application})
}

func application(s *skerry.Services) (http.Handler, error) {
	key, err := secret(s.Web.Debug)
	if err != nil {
		return nil, err
	}
	users, err := auth.New(s.KV, auth.Options{Sessions: s.Sessions, Issuer: s.Web.Name, Secret: key})
	if err != nil {
		return nil, err
	}
	o := s.Web
	o.User = account.User(users)
	s.Users = users // operators manage users with: skerry users
	app, err := web.New(o)
	if err != nil {
		return nil, err
	}
	app.Use(account.Keys(users)) // only if users can create API keys
	accounts, err := account.New(app, users, account.Options{
		Sessions: s.Sessions, Mail: s.Mail, BaseURL: s.BaseURL, Name: o.Name, Scopes: []string{"greet:read"},
	})
	if err != nil {
		return nil, err
	}
	mine := app.Group("", accounts.RequireUser())
	mine.Get("/", func(c *web.Context) error {
		u, err := c.User()
		if err != nil {
			return err
		}
		return c.Text(http.StatusOK, "Hello, "+u.Email)
	})
	app.Get("/api/greeting", func(c *web.Context) error {
		return c.JSON(http.StatusOK, "Hello")
	}, account.RequireScope("greet:read"))
	return app, nil
}

// secret returns the key that encrypts TOTP secrets in the data: at least 32 random
// bytes, the same on all nodes, from `head -c 32 /dev/urandom | base64`. It is optional
// in development.
func secret(debug bool) ([]byte, error) {
	text := os.Getenv("GREET_SECRET")
	if text == "" && debug {
		return nil, nil
	}
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(key) < 32 {
		return nil, fmt.Errorf("GREET_SECRET must be at least 32 bytes in base64")
	}
	return key, nil
}
