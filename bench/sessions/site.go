package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/rueidis"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/cassandra"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/engine/postgres"
	"github.com/skerrydb/skerry/engine/redis"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/session"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/lane"
)

// The pages of the original benchmark: 341 bytes after a login, and 10,717 bytes.
var (
	small = page(341)
	large = page(10_717)
)

func page(n int) string {
	const head, tail = "<!doctype html><title>Sessions</title><p>", "</p>\n"
	return head + strings.Repeat("x", n-len(head)-len(tail)) + tail
}

// serve runs the application at addr on the engine of a URL until it is told to stop.
func serve(addr, on string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	u, err := url.Parse(on)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	srv := &http.Server{}
	listen := srv.Serve
	if hand, ok := strings.CutPrefix(on, "rueidis://"); ok {
		if srv.Handler, err = byHand(hand); err != nil {
			return err
		}
	} else {
		eng, err := open(ctx, u)
		if err != nil {
			return err
		}
		defer eng.Close()
		app, err := application(ctx, eng)
		if err != nil {
			return err
		}
		srv.Handler = app
		listen = lane.New(lane.Options{HTTP: srv, Routes: app.LaneRoutes()}).Serve // as a Skerry server does
	}
	ended := make(chan error, 1)
	go func() { ended <- listen(l) }()
	select {
	case err = <-ended:
	case <-ctx.Done():
	}
	return err
}

// open opens the engine that the URL's scheme names.
func open(ctx context.Context, u *url.URL) (engine.Engine, error) {
	quiet := slog.New(slog.DiscardHandler)
	switch u.Scheme {
	case "embedded":
		return embedded.Open(u.Path, embedded.Options{Logger: quiet})
	case "postgres":
		return postgres.Open(ctx, u, postgres.Options{Logger: quiet})
	case "redis":
		return redis.Open(ctx, u, redis.Options{Logger: quiet})
	case cassandra.Scheme:
		return cassandra.Open(ctx, u, cassandra.Options{Logger: quiet})
	}
	return nil, errors.New("no engine for " + u.String())
}

// application is the same on every engine.
func application(ctx context.Context, eng engine.Engine) (*web.App, error) {
	store, err := kv.New(eng, kv.Options{})
	if err != nil {
		return nil, err
	}
	sessions, err := session.New(store, session.Options{Namespace: "bench"})
	if err != nil {
		return nil, err
	}
	app, err := web.New(web.Options{Name: "bench", Sessions: sessions, Engine: eng})
	if err != nil {
		return nil, err
	}
	app.Get("/page", func(c *web.Context) error {
		c.Header().Set("Content-Length", strconv.Itoa(len(large))) // the load generator reads no chunks
		return c.HTML(http.StatusOK, large)
	})
	app.Post("/login", func(c *web.Context) error {
		c.Session().Login(rand.Text()) // another user each time: no list of sessions grows
		return c.HTML(http.StatusOK, small)
	})
	go func() {
		if err := store.Run(ctx); err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, "expiry:", err)
		}
	}()
	return app, nil
}

// byHand is the same pages with net/http and one SETEX a session, without Skerry.
func byHand(addr string) (http.Handler, error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true})
	if err != nil {
		return nil, err
	}
	write := func(w http.ResponseWriter, text string) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		_, _ = w.Write([]byte(text)) // the client is gone if this fails
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /page", func(w http.ResponseWriter, _ *http.Request) { write(w, large) })
	mux.HandleFunc("POST /login", func(w http.ResponseWriter, r *http.Request) {
		token := rand.Text()
		set := client.B().Setex().Key("session:" + token).Seconds(int64(session.DefaultIdle / time.Second)).Value(rand.Text()).Build()
		if err := client.Do(r.Context(), set).Error(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		http.SetCookie(w, &http.Cookie{Name: "session", Value: token, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode})
		write(w, small)
	})
	return mux, nil
}
