package account_test

import (
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"testing"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/oidcprovider"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/mail"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/account"
)

// node serves the application on one node of a cluster.
func node(t *testing.T, dir string, l net.Listener, box *mail.Outbox, o settings, join ...string) *world {
	t.Helper()
	db, err := embedded.Open(dir, embedded.Options{Logger: slog.New(slog.DiscardHandler), Cluster: embedded.ClusterOptions{Listener: l, Join: join}})
	must(t, "open a node", err)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close a node: %v", err)
		}
	})
	w := &world{t: t, outbox: box}
	o.web.Engine, o.web.Cluster = db, db.Cluster()
	w.serve(db, o)
	peers := &http.Server{Handler: w.app.NodeHandler(), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	inside, served := db.Cluster().Listen(web.NodeProtocol), make(chan struct{})
	go func() { defer close(served); _ = peers.Serve(inside) }()
	t.Cleanup(func() {
		peers.Close()
		<-served
		w.app.Close()
	})
	return w
}

// nodes starts two nodes that share an outbox.
func nodes(t *testing.T, o settings) [2]*world {
	t.Helper()
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, "listen", err)
		return l
	}
	quiet := embedded.Options{Logger: slog.New(slog.DiscardHandler)}
	l1, dir1, l2, dir2 := listen(), t.TempDir(), listen(), t.TempDir()
	id, _, err := embedded.InitCluster(t.Context(), dir1, l1.Addr().String(), quiet)
	must(t, "make a cluster", err)
	invitation, err := id.Invite()
	must(t, "invite", err)
	_, err = embedded.Accept(dir2, invitation, quiet)
	must(t, "accept", err)
	box := mail.NewOutbox(0)
	both := [2]*world{node(t, dir1, l1, box, o), nil}
	both[1] = node(t, dir2, l2, box, o, l1.Addr().String())
	eventually.True(t, "the second node serves", func() bool { return both[1].browser().post("/account/logout").status == 303 })
	return both
}

var keyIn = regexp.MustCompile(`sk_[a-z2-7]+_[a-z2-7]+`)

// TestCluster: every step works at every node, and each sees what the others did. A
// provider's code is not used up by a node that cannot write.
func TestCluster(t *testing.T) {
	t.Parallel()
	p := oidcprovider.New(t, base+"/account/oidc/test/callback")
	two := nodes(t, settings{
		account: account.Options{Scopes: []string{"todo"}, Providers: []account.Provider{{ID: "test", Title: "Test <ID>", OIDC: clientOf(p)}}},
		add: func(app *web.App, users *auth.Auth) {
			app.Use(account.Keys(users))
			app.Post("/todo", func(c *web.Context) error {
				u, err := c.User()
				if err != nil {
					return err
				}
				return c.Text(200, u.Email)
			}, account.RequireScope("todo"))
		},
	})
	b := two[0].browser()
	at := [2]*browser{b, {two[1], b.client, b.accept}} // one browser, at both nodes
	for i, here := range at {
		there := at[1-i]
		email := []string{"ann@example.org", "bob@example.org"}[i]
		here.post("/account/register", "email", email, "password", good).is(t, "register", 303, "/account/sent")
		path, token := here.w.link(here.w.outbox.List()[0].Message)
		there.get(path).is(t, "the link", 200, "")
		there.post("/account/verify", "token", token, "password", good).is(t, "verify", 303, "/account/login?done=verified")
		here.post("/account/login", "email", email, "password", good).is(t, "login", 303, "/")
		if here.who() != email || there.who() != email {
			t.Errorf("logged in as %q and %q", here.who(), there.who())
		}
		here.post("/account/password", "old", good, "password", other).is(t, "password", 303, "/account?done=password")
		there.get("/account/sessions").is(t, "sessions", 200, "")
		key := keyIn.FindString(there.post("/account/keys", "name", "x", "scopes", "todo", "password", other).is(t, "key", 201, "").body)
		for _, w := range two {
			if got := w.program().do("POST", "/todo", "{}", "Authorization", "Bearer "+key); got.body != email {
				t.Errorf("by the key %q: %d %s", key, got.status, got.body)
			}
		}
		there.post("/account/logout").is(t, "logout", 303, "/account/login?done=logout")
		if here.who() != "" || there.who() != "" {
			t.Error("logged in after the logout")
		}
		p.Says(map[string]any{"sub": email, "email": email, "email_verified": true})
		for j, back := range at {
			back.get(p.Visit(here.depart()).RequestURI()).is(t, "back from the provider", 303, "/")
			if here.who() != email || p.Asked("/token") != 2*i+j+1 {
				t.Errorf("by the provider: %q, which was asked for %d tokens", here.who(), p.Asked("/token"))
			}
			there.post("/account/logout").is(t, "logout", 303, "/account/login?done=logout")
		}
	}
}
