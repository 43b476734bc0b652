// Package iot watches the sensors of a chocolate factory: it accepts their values in InfluxDB's line protocol, and
// serves a page with an overview, alarms and a live chart.
//
// It knows the kinds of sensors, their alarms and its page. It must not know how samples are stored or sent.
package iot

import (
	"crypto/subtle"
	"embed"
	"net/http"
	"net/netip"
	"strings"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/problem"
	"github.com/skerrydb/skerry/web/timeseries"
	"github.com/skerrydb/skerry/web/view"
)

//go:embed all:views assets
var files embed.FS

// Application makes the web application: cli.App.Web. Everyone may read. Whoever writes sends the token, as
// "Authorization: Token …". If the token is "", nobody may write, except from this machine in debug mode.
func Application(token string) skerry.Application {
	return func(s *skerry.Services) (http.Handler, error) {
		store, err := s.Series.Use(Factory)
		if err != nil {
			return nil, err
		}
		o := s.Web
		if o.Assets, err = web.NewAssets(web.AssetOptions{
			FS: s.Files(files, "assets"), List: []string{"style.css"}, Root: []string{"favicon.svg"}, Reload: o.Debug, Logger: o.Logger,
			Pages: map[string][]string{"factory": {"uplot/uPlot.min.css", "uplot/uPlot.iife.min.js", "chart.mjs"}},
		}); err != nil {
			return nil, err
		}
		if o.Views, err = view.New(view.Options{FS: s.Files(files, "views"), Funcs: o.Assets.Funcs(), Reload: o.Debug, Logger: o.Logger}); err != nil {
			return nil, err
		}
		app, err := web.New(o)
		if err != nil {
			return nil, err
		}
		timeseries.Mount(app, s.Series, timeseries.Options{Allow: allow(token)})
		app.Get("/", page(store))
		return app, nil
	}
}

// allow lets everyone read, and those who have the token write.
func allow(token string) func(c *web.Context, collection string, write bool) error {
	return func(c *web.Context, _ string, write bool) error {
		switch {
		case !write:
			return nil
		case token == "":
			if c.Debug() && local(c.ClientIP()) {
				return nil
			}
			return engine.Errorf(problem.CodeForbidden, "nobody may write: the server was started without IOT_TOKEN")
		}
		scheme, given, _ := strings.Cut(c.Request.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "Token") || subtle.ConstantTimeCompare([]byte(given), []byte(token)) == 0 {
			return engine.Errorf(engine.CodeUnauthenticated, "to write, send the header Authorization: Token …, with the server's IOT_TOKEN")
		}
		return nil
	}
}

// local reports whether an address is one of this machine's.
func local(address string) bool {
	ip, err := netip.ParseAddr(address)
	return err == nil && ip.IsLoopback()
}
