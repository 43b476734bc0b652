// Command site serves one small web site on one of three stacks, for the benchmark
// that compares them: Skerry's web and sessions, net/http with html/template and
// sessions in Redis, and fasthttp without either.
//
// It knows the pages and the three ways to serve them; it must not know what is measured.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"github.com/valyala/fasthttp"

	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/lane"
)

func main() {
	system := flag.String("system", "skerry", "skerry, redis or fasthttp")
	addr := flag.String("addr", "127.0.0.1:0", "where to listen")
	redis := flag.String("redis", "", "address of redis-server")
	dir := flag.String("data", "", "folder of Skerry's data")
	sessions := flag.Int("sessions", 10_000, "sessions to make before serving")
	tokens := flag.String("tokens", "", "file for the cookies of the sessions, one a line")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, *system, *addr, *redis, *dir, *sessions, *tokens); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}

// site is one stack that serves the pages.
type site struct {
	handler http.Handler            // nil: fast
	fast    fasthttp.RequestHandler // nil: handler
	begin   func(ctx context.Context, user string) (cookie string, err error)
	end     func() error
}

func run(ctx context.Context, system, addr, redis, dir string, sessions int, tokens string) (err error) {
	var s *site
	switch system {
	case "skerry":
		s, err = newSkerry(ctx, dir)
	case "redis":
		s, err = newRedis(redis)
	case "fasthttp":
		s, err = newFast()
	default:
		err = fmt.Errorf("no such system: %s", system)
	}
	if err != nil {
		return err
	}
	if s.begin != nil {
		if err := fill(ctx, s, sessions, tokens); err != nil {
			return err
		}
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	if s.fast != nil {
		srv := &fasthttp.Server{Handler: s.fast, NoDefaultServerHeader: true}
		go func() { ended <- srv.Serve(l) }()
	} else {
		srv := &http.Server{Handler: s.handler}
		serve := srv.Serve
		if app, ok := s.handler.(*web.App); ok { // as a Skerry server does
			serve = lane.New(lane.Options{HTTP: srv, Routes: app.LaneRoutes()}).Serve
		}
		go func() { ended <- serve(l) }()
	}
	select {
	case err = <-ended:
	case <-ctx.Done():
	}
	return s.end()
}

// fill creates the sessions, many at a time because both stores batch writes, and writes their cookies to a
// file.
func fill(ctx context.Context, s *site, n int, file string) error {
	type made struct {
		cookie string
		err    error
	}
	todo, done := make(chan int), make(chan made)
	for range 64 {
		go func() {
			for i := range todo {
				cookie, err := s.begin(ctx, fmt.Sprintf("user%d", i))
				done <- made{cookie, err}
			}
		}()
	}
	go func() {
		for i := range n {
			todo <- i
		}
		close(todo)
	}()
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	for range n {
		m := <-done
		if m.err != nil {
			return m.err
		}
		fmt.Fprintln(w, m.cookie)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Close()
}
