package main

import (
	"context"
	"errors"
	"io/fs"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/session"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/view"
)

var (
	cartKey = session.NewKey[cart]("cart")
	seenKey = session.NewKey[int64]("seen")
)

// newSkerry is an application as a user writes it, with all defaults of web.
func newSkerry(ctx context.Context, dir string) (*site, error) {
	eng, err := embedded.Open(dir, embedded.Options{})
	if err != nil {
		return nil, err
	}
	store, err := kv.New(eng, kv.Options{})
	if err != nil {
		return nil, err
	}
	sessions, err := session.New(store, session.Options{Namespace: "bench"})
	if err != nil {
		return nil, err
	}
	files, err := fs.Sub(views, "views")
	if err != nil {
		return nil, err
	}
	pages, err := view.New(view.Options{FS: files})
	if err != nil {
		return nil, err
	}
	app, err := web.New(web.Options{Name: "bench", Sessions: sessions, Views: pages, Engine: eng})
	if err != nil {
		return nil, err
	}
	app.Get("/json", func(c *web.Context) error { return c.JSON(200, hello) })
	app.Get("/shop", func(c *web.Context) error {
		got, ok, err := cartKey.Get(c.Session())
		if err != nil {
			return err
		}
		if !ok || c.Session().User() == "" {
			return engine.Errorf(engine.CodeUnauthenticated, "no session")
		}
		return c.Render("shop", web.Locals{"title": "Shop", "user": c.Session().User(), "items": len(got.Items), "products": products})
	})
	app.Post("/seen", func(c *web.Context) error {
		if c.Session().User() == "" {
			return engine.Errorf(engine.CodeUnauthenticated, "no session")
		}
		if err := seenKey.Set(c.Session(), 1); err != nil {
			return err
		}
		return c.NoContent()
	})
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- store.Run(background) }()
	return &site{
		handler: app,
		begin: func(ctx context.Context, user string) (string, error) {
			s := sessions.New()
			s.Login(user)
			if err := cartKey.Set(s, newCart()); err != nil {
				return "", err
			}
			token, _, err := s.Save(ctx)
			return "__Host-bench-session=" + token, err
		},
		end: func() error {
			stop()
			err := <-ended
			if errors.Is(err, context.Canceled) {
				err = nil
			}
			return errors.Join(err, eng.Close())
		},
	}, nil
}
