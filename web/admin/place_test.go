package admin_test

import (
	"context"
	"log/slog"
	"net/http"
	"testing"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/web"
)

// hello is an application with one page.
func hello(s *skerry.Services) (http.Handler, error) {
	app, err := web.New(s.Web)
	if err != nil {
		return nil, err
	}
	app.Get("/", func(c *web.Context) error { return c.Text(http.StatusOK, "hello") })
	return app, nil
}

// TestPlaces: the page is where the settings say, and nowhere else.
func TestPlaces(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		about           string
		o               skerry.Options
		onHTTP, onAdmin bool
	}{
		{"alone", skerry.Options{Admin: skerry.Off}, true, false},
		{"with an admin listener", skerry.Options{Admin: "127.0.0.1:0"}, false, true},
		{"beside an application", skerry.Options{Admin: "127.0.0.1:0", Web: skerry.Web{Application: hello}}, false, true},
		{"on both", skerry.Options{Admin: "127.0.0.1:0", AdminPage: skerry.AdminPageOnHTTP, Web: skerry.Web{Application: hello}}, true, true},
		{"on the application only", skerry.Options{Admin: skerry.Off, AdminPage: skerry.AdminPageOnHTTP, Web: skerry.Web{Application: hello}}, true, false},
		{"an application alone", skerry.Options{Admin: skerry.Off, Web: skerry.Web{Application: hello}}, false, false},
		{"off", skerry.Options{Admin: "127.0.0.1:0", AdminPage: skerry.Off}, false, false},
	} {
		t.Run(test.about, func(t *testing.T) {
			t.Parallel()
			db, err := embedded.Open(t.TempDir(), embedded.Options{LogReserveBytes: 64 << 10, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			test.o.HTTP, test.o.RESP = "127.0.0.1:0", skerry.Off
			srv, err := skerry.Open(db, test.o)
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- srv.Run(context.Background()) }()
			for url, want := range map[string]bool{srv.HTTPURL(): test.onHTTP, srv.AdminURL(): test.onAdmin} {
				if url == "" {
					continue
				}
				resp, err := http.Get(url + "/admin/account/login")
				if err != nil {
					t.Fatal(err)
				}
				_ = resp.Body.Close()
				if got := resp.StatusCode == http.StatusOK; got != want {
					t.Errorf("%s: %d", url, resp.StatusCode)
				}
			}
			if got, want := srv.AdminPageURL() != "", test.onHTTP || test.onAdmin; got != want {
				t.Errorf("the page is at %q", srv.AdminPageURL())
			}
			srv.Close()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
	if _, err := skerry.Open(nil, skerry.Options{AdminPage: "everywhere"}); err == nil {
		t.Error("a wrong AdminPage is accepted")
	}
}
