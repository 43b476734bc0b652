package gremlin_test

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/skerrydb/skerry/graph/value"
	"github.com/skerrydb/skerry/web/gremlin"
)

// passwords lets stephen in.
func passwords(_ context.Context, l gremlin.Login) (string, error) {
	if l.User == "stephen" && l.Password == "password" {
		return "Stephen", nil
	}
	return "", errors.New("secret reason")
}

func plain(user, password string) string {
	return base64.StdEncoding.EncodeToString([]byte("\x00" + user + "\x00" + password))
}

// user yields who asks.
func user(_ context.Context, r gremlin.Request, yield func(any, int64) error) error {
	return yield(r.User, 1)
}

// TestLogin: the first request is challenged; once the password is right, it and
// those after it run.
func TestLogin(t *testing.T) {
	back := newFake()
	back.submit = user
	d := newSite(t, gremlin.Options{Backend: back, Authenticate: passwords, MaxRunning: 1}).dial()
	first := d.send("eval", "", "gremlin", "g.V()")
	d.expect(first, 407)
	second := d.send("eval", "", "gremlin", "g.V()")
	d.send("authentication", "traversal", "sasl", plain("stephen", "password"))
	got := map[value.UUID]bool{}
	for range 2 {
		p := d.receive()
		got[p.ID] = p.Status == 200 && value.Text(p.Result) == "[Stephen]"
	}
	if !got[first] || !got[second] {
		t.Errorf("answers: %v", got)
	}
	if p := d.expect(d.send("eval", "", "gremlin", "g.V()"), 200); value.Text(p.Result) != "[Stephen]" {
		t.Errorf("the user is %v", p.Result)
	}
}

// TestWrongPassword: a wrong password refuses what waits, and a few of them close
// the connection.
func TestWrongPassword(t *testing.T) {
	s := newSite(t, gremlin.Options{Authenticate: passwords})
	for _, sasl := range []string{plain("stephen", "wrong"), plain("other", "password"), "*", base64.StdEncoding.EncodeToString([]byte("stephen")), base64.StdEncoding.EncodeToString([]byte("other\x00stephen\x00password"))} {
		d := s.dial()
		for i := range gremlin.MaxLogins {
			first := d.inject(int32(1))
			d.expect(first, 407)
			second := d.inject(int32(2))
			d.send("authentication", "traversal", "sasl", sasl)
			for _, id := range []value.UUID{first, second} {
				if p := d.expect(id, 401); strings.Contains(p.Message, "secret") {
					t.Error(p.Message)
				}
			}
			if i == gremlin.MaxLogins-1 {
				if status := d.closed(); status != websocket.StatusPolicyViolation {
					t.Errorf("closed with %v", status)
				}
			}
		}
	}
	d := s.dial()
	d.expect(d.inject(), 407)
	d.send("authentication", "", "sasl", plain("stephen", "password"), "saslMechanism", "GSSAPI")
	if p := d.receive(); p.Status != 401 || !strings.Contains(p.Message, "use PLAIN") {
		t.Errorf("GSSAPI: %d %s", p.Status, p.Message)
	}
}

// TestRunning: so many requests of a connection run at a time, so many wait, and
// one more is refused.
func TestRunning(t *testing.T) {
	back, leave := newFake(), make(chan struct{})
	back.submit = func(context.Context, gremlin.Request, func(any, int64) error) error {
		back.note("running")
		<-leave
		return nil
	}
	d := newSite(t, gremlin.Options{Backend: back, MaxRunning: 2, MaxWaiting: 5}).dial()
	ids := map[value.UUID]bool{}
	for range 5 {
		ids[d.inject()] = true
	}
	if p := d.expect(d.inject(), 429); !strings.Contains(p.Message, "too many requests") {
		t.Error(p.Message)
	}
	if got := len(strings.Split(back.all(), ", ")); got > 2 {
		t.Errorf("%d requests run", got)
	}
	close(leave)
	for range 5 {
		p := d.receive()
		if p.Status != 204 || !ids[p.ID] {
			t.Errorf("received %d for %x", p.Status, p.ID)
		}
		delete(ids, p.ID)
	}
	d.expect(d.inject(), 204)
}

// TestWaitingBytes: the messages of requests that wait have so many bytes.
func TestWaitingBytes(t *testing.T) {
	back := newFake()
	back.submit = back.blocked
	d := newSite(t, gremlin.Options{Backend: back, MaxMessageBytes: 1000}).dial()
	for range 2 {
		d.inject(strings.Repeat("x", 800))
	}
	d.expect(d.inject(strings.Repeat("x", 800)), 429)
}

// TestMessageBytes: a message at the limit is read, and one beyond it closes the
// connection.
func TestMessageBytes(t *testing.T) {
	const limit = 1000
	s := newSite(t, gremlin.Options{MaxMessageBytes: limit})
	d := s.dial()
	d.write(make([]byte, limit))
	d.expect(value.UUID{}, 498)
	if err := d.ws.Write(t.Context(), websocket.MessageBinary, make([]byte, limit+1)); err != nil {
		t.Fatal(err)
	}
	if status := d.closed(); status != websocket.StatusMessageTooBig {
		t.Errorf("closed with %v", status)
	}
}

// TestIdle: a connection without requests is closed, one with requests is not.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		back := newFake()
		back.submit = func(context.Context, gremlin.Request, func(any, int64) error) error {
			time.Sleep(time.Minute)
			return nil
		}
		d := newSite(t, gremlin.Options{Backend: back, IdleTimeout: 10 * time.Second, PingEvery: 3 * time.Second, Timeout: time.Hour}).dial()
		began := time.Now()
		d.expect(d.inject(), 204)
		if status := d.closed(); status != websocket.StatusGoingAway {
			t.Errorf("closed with %v", status)
		}
		if took := time.Since(began); took < 70*time.Second || took > 75*time.Second {
			t.Errorf("closed after %v", took)
		}
	})
}

// TestPing: a client that does not answer pings is disconnected, and what it runs
// is stopped.
func TestPing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		back := newFake()
		back.submit = back.blocked
		d := newSite(t, gremlin.Options{Backend: back, PingEvery: 3 * time.Second, Timeout: time.Hour}).dial()
		began := time.Now()
		d.inject() // and does not read
		back.await(t, "stopped")
		if took := time.Since(began); took != 6*time.Second {
			t.Errorf("disconnected after %v", took)
		}
	})
}

// TestClose: the handler's end closes connections and stops what runs; later ones
// are refused.
func TestClose(t *testing.T) {
	back := newFake()
	back.submit = back.blocked
	s := newSite(t, gremlin.Options{Backend: back})
	d := s.dial()
	d.inject()
	back.await(t, "running")
	closed := make(chan websocket.StatusCode, 1)
	go func() { closed <- d.closed() }()
	s.h.Close()
	back.await(t, "stopped")
	if status := <-closed; status != websocket.StatusGoingAway {
		t.Errorf("closed with %v", status)
	}
	if status, _ := s.post(`{"gremlin":"g.V()"}`); status != http.StatusServiceUnavailable {
		t.Errorf("a request after the end is answered with %d", status)
	}
}

// TestConnections: so many clients are let in, and a web page of another host is
// not.
func TestConnections(t *testing.T) {
	s := newSite(t, gremlin.Options{MaxConnections: 2})
	s.dial()
	second := s.dial()
	dial := func(header http.Header) int {
		t.Helper()
		ws, p, err := websocket.Dial(t.Context(), "ws://server/gremlin", &websocket.DialOptions{HTTPClient: s.http, HTTPHeader: header})
		if err == nil {
			_ = ws.CloseNow()
		}
		return p.StatusCode
	}
	if status := dial(nil); status != http.StatusServiceUnavailable {
		t.Errorf("the third client is answered with %d", status)
	}
	_ = second.ws.Close(websocket.StatusNormalClosure, "")
	one := newSite(t, gremlin.Options{Origins: []string{"good.example"}})
	for origin, want := range map[string]int{"http://server": 101, "https://good.example": 101, "https://evil.example": 403} {
		ws, p, err := websocket.Dial(t.Context(), "ws://server/gremlin", &websocket.DialOptions{HTTPClient: one.http, HTTPHeader: http.Header{"Origin": {origin}}})
		if err == nil {
			_ = ws.CloseNow()
		}
		if p.StatusCode != want {
			t.Errorf("a page of %s is answered with %d", origin, p.StatusCode)
		}
	}
}

// TestStrangers: a client that has not logged in can send little, and not stay.
func TestStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, gremlin.Options{Authenticate: passwords})
		d, began := s.dial(), time.Now()
		d.expect(d.inject(), 407)
		if status := d.closed(); status != websocket.StatusPolicyViolation || time.Since(began) != 30*time.Second {
			t.Errorf("closed with %v after %v", status, time.Since(began))
		}
	})
	s := newSite(t, gremlin.Options{Authenticate: passwords})
	d := s.dial()
	go d.ws.Write(t.Context(), websocket.MessageBinary, make([]byte, gremlin.MaxStrangerBytes+1)) // it is cut off
	if status := d.closed(); status != websocket.StatusMessageTooBig {
		t.Errorf("a large message: closed with %v", status)
	}
	d = s.dial()
	var last value.UUID
	part := strings.Repeat("x", gremlin.MaxStrangerBytes/3)
	d.expect(d.inject(part), 407)
	for range 2 {
		last = d.inject(part)
	}
	d.expect(last, 429)
	d = s.dial()
	first := d.inject()
	d.expect(first, 407)
	d.send("authentication", "", "sasl", plain("stephen", "password"))
	d.expect(first, 204)
	d.expect(d.inject(strings.Repeat("x", 2*gremlin.MaxStrangerBytes)), 200)
}
