package web_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/session"
	"github.com/skerrydb/skerry/web"
)

// loginRoutes are pages about the logged-in user.
func loginRoutes(a *web.App) {
	a.Post("/login", func(c *web.Context) error {
		c.Session().Login("anna")
		return c.NoContent()
	})
	a.Post("/logout", func(c *web.Context) error {
		c.Session().Logout()
		return c.NoContent()
	})
	a.Get("/me", func(c *web.Context) error {
		u, err := c.User()
		if err != nil {
			return err
		}
		return c.Text(200, u.ID)
	})
	a.Get("/events", func(c *web.Context) error {
		return c.SSE(web.EventOptions{}, func(s *web.Events) error {
			<-s.Context().Done()
			return nil
		})
	})
}

// TestLogoutOnAllNodes: once a logout is acknowledged, no node accepts the token, even from a client that
// sends no position; and streams on other nodes end.
func TestLogoutOnAllNodes(t *testing.T) {
	t.Parallel()
	list := startNodes(t, web.Options{}, func(a *web.App, _ *node) { loginRoutes(a) })
	ask := func(n *node, method, path, token string) *http.Response {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		t.Cleanup(cancel)
		resp := send(ctx, t, n.srv.Client(), method, n.srv.URL+path, nil, "Cookie", sessionCookie+"="+token)
		t.Cleanup(func() { resp.Body.Close() })
		return resp
	}
	for i := range 3 {
		from := list[i%3]
		token := tokenOf(ask(from, "POST", "/login", ""))
		if token == "" {
			t.Fatal("no session")
		}
		for _, n := range list {
			eventually.True(t, "the session is on every node", func() bool { return ask(n, "GET", "/me", token).StatusCode == 200 })
		}
		_, followers := roles(t, list)
		var goOn []func()
		for _, n := range followers { // what the leader writes does not reach them by itself
			goOn = append(goOn, n.own.stop(t))
		}
		if got := ask(from, "POST", "/logout", token); got.StatusCode != 204 {
			t.Errorf("logout: %d", got.StatusCode)
		}
		for _, n := range list {
			if got := ask(n, "GET", "/me", token); got.StatusCode != 401 {
				t.Errorf("node %d of %d, asked after a logout at %d: %d", n.id, len(list), from.id, got.StatusCode)
			}
		}
		for _, fn := range goOn {
			fn()
		}
	}
	token := tokenOf(ask(list[0], "POST", "/login", ""))
	var streams []*http.Response
	for _, n := range list {
		eventually.True(t, "the session is on every node", func() bool { return ask(n, "GET", "/me", token).StatusCode == 200 })
		streams = append(streams, ask(n, "GET", "/events", token))
	}
	ask(list[0], "POST", "/logout", token)
	for i, resp := range streams {
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Errorf("the stream of node %d: %v", i, err)
		}
	}
}

// tokenOf returns the token of the session that a response sets.
func tokenOf(resp *http.Response) string {
	for _, c := range resp.Cookies() {
		if c.Name == sessionCookie {
			return c.Value
		}
	}
	return ""
}

// TestStreamsEndWithTheirSession: streams end on logout, a new login, revocation and expiry; those of other
// sessions, and anonymous ones, continue.
func TestStreamsEndWithTheirSession(t *testing.T) {
	t.Parallel()
	sessions := sessionsWith(t, session.Options{Idle: 3 * time.Second, Absolute: 3 * time.Second})
	s := members(t, web.Options{Sessions: sessions})
	stream := func(cookie string) <-chan error {
		resp := open(t, s.srv.Client(), s.srv.URL+"/events", "Cookie", cookie)
		if resp.StatusCode != 200 {
			t.Fatal(resp)
		}
		over := make(chan error, 1)
		go func() {
			_, err := io.Copy(io.Discard, resp.Body)
			over <- err
		}()
		return over
	}
	anonymous := stream("")
	for what, end := range map[string]func(cookie string){
		"logout": func(cookie string) { s.do("POST", "/logout", "", "Cookie", cookie) },
		"login":  func(cookie string) { s.do("POST", "/login", "", "Cookie", cookie) },
		"revoke": func(string) {
			if n, _, err := sessions.RevokeAll(t.Context(), "anna"); err != nil || n == 0 {
				t.Errorf("revoke: %d %v", n, err)
			}
		},
		"expiry": func(string) {},
	} {
		cookie := s.login()
		over := stream(cookie)
		end(cookie)
		select {
		case err := <-over:
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
		case <-time.After(patience):
			t.Errorf("%s: the stream does not end", what)
		}
	}
	select {
	case err := <-anonymous:
		t.Errorf("the anonymous stream has ended: %v", err)
	default:
	}
}

// TestStreamsEndWithTheirKey: streams end when the key's Valid fails.
func TestStreamsEndWithTheirKey(t *testing.T) {
	t.Parallel()
	var revoked atomic.Bool
	s := serve(t, web.Options{}, func(a *web.App) {
		a.Use(func(next http.Handler) http.Handler {
			return web.Handler(func(c *web.Context) error {
				c.SetKey(web.User{ID: "anna"}, web.Key{Allows: func(string) bool { return true }, Valid: func(context.Context) error {
					if revoked.Load() {
						return web.Errorf(401, "unauthenticated", "revoked")
					}
					return errors.New("nobody knows")
				}})
				next.ServeHTTP(c.Writer, c.Request)
				return nil
			})
		})
		a.Get("/events", func(c *web.Context) error {
			return c.SSE(web.EventOptions{}, func(s *web.Events) error {
				if err := s.Send(web.Event{Data: "open"}); err != nil {
					return err
				}
				revoked.Store(true)
				<-s.Context().Done()
				return nil
			})
		}, web.RequireScope("x"))
	})
	if got := s.do("GET", "/events", ""); got.status != 200 || !strings.Contains(got.body, "open") {
		t.Errorf("%+v", got)
	}
}

// TestStreamsOfOne: a single address or session cannot take all streams.
func TestStreamsOfOne(t *testing.T) {
	t.Parallel()
	s := members(t, web.Options{Sessions: newSessions(t), MaxStreams: 16, MaxStreamsPerSession: 2})
	stream := func(cookie string) *http.Response {
		return open(t, s.srv.Client(), s.srv.URL+"/events", "Cookie", cookie)
	}
	cookie := s.login()
	var got []int
	var streams []*http.Response
	for _, cookie := range []string{cookie, cookie, cookie, "", "", ""} {
		resp := stream(cookie)
		got, streams = append(got, resp.StatusCode), append(streams, resp)
	}
	if want := "[200 200 429 200 200 429]"; fmt.Sprint(got) != want { // a quarter of 16 for one address
		t.Errorf("%v, want %s", got, want)
	}
	streams[0].Body.Close()
	eventually.True(t, "an ended stream no longer counts", func() bool { return stream(cookie).StatusCode == 200 })
}
