package session_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alexedwards/scs/v2"
	"github.com/alexedwards/scs/v2/memstore"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/session"
)

var _ scs.CtxStore = (*session.SCS)(nil)

// openSCS returns an SCS on a fresh engine with a manual clock.
func openSCS(t testing.TB, o session.SCSOptions) (*session.SCS, *kv.Store, *clock) {
	t.Helper()
	_, store, c := open(t, session.Options{})
	s, err := session.NewSCS(store, o)
	if err != nil {
		t.Fatal(err)
	}
	return s, store, c
}

func TestSCS(t *testing.T) {
	t.Run("Ours", func(t *testing.T) {
		runSCS(t, func(t testing.TB) scsEnv {
			s, _, c := openSCS(t, session.SCSOptions{Namespace: "scs"})
			return scsEnv{Store: s, Now: c.Now, Pass: c.Add}
		})
	})
	t.Run("Theirs", func(t *testing.T) {
		runSCS(t, func(testing.TB) scsEnv {
			return scsEnv{Store: memstore.NewWithCleanupInterval(0), Now: time.Now, Pass: time.Sleep, run: synctest.Test}
		})
	})
}

// TestSCSApart checks that namespaces, spaces and our own sessions are separate.
func TestSCSApart(t *testing.T) {
	a, store, c := openSCS(t, session.SCSOptions{Namespace: "a"})
	if err := a.Commit("token", []byte("a"), c.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	for _, o := range []session.SCSOptions{{}, {Namespace: "b"}, {Namespace: "a", Space: 200}} {
		b, err := session.NewSCS(store, o)
		if err != nil {
			t.Fatal(err)
		}
		if _, found, err := b.Find("token"); found || err != nil {
			t.Errorf("%+v finds it: %v", o, err)
		}
	}
	st, err := session.New(store, session.Options{Namespace: "a"})
	if err != nil {
		t.Fatal(err)
	}
	token := filled(t, st, "7")
	if _, found, err := a.Find(token); found || err != nil {
		t.Errorf("one of ours is found: %v", err)
	}
}

func TestSCSBad(t *testing.T) {
	s, store, c := openSCS(t, session.SCSOptions{})
	later := c.Now().Add(time.Hour)
	longest := strings.Repeat("t", session.MaxSCSTokenBytes)
	if err := s.Commit(longest, make([]byte, session.MaxSessionBytes), later); err != nil {
		t.Errorf("the largest: %v", err)
	}
	if err := s.Commit(longest+"t", nil, later); !errors.Is(err, engine.ErrLimit) {
		t.Errorf("a token over the limit: %v", err)
	}
	if err := s.Commit("t", make([]byte, session.MaxSessionBytes+1), later); !errors.Is(err, engine.ErrLimit) {
		t.Errorf("a session over the limit: %v", err)
	}
	if _, err := session.NewSCS(store, session.SCSOptions{Namespace: "a/b"}); !errors.Is(err, engine.ErrInvalid) {
		t.Errorf("a namespace with a slash: %v", err)
	}
	for text, code := range map[string]engine.Code{"": engine.CodeCorrupt, "\x02future": engine.CodeFormatNewer} {
		rewrite(t, store, "c", func([]byte) []byte { return []byte(text) })
		if _, found, err := s.Find(longest); found || engine.CodeOf(err) != code {
			t.Errorf("%q is found %v: %v", text, found, err)
		}
	}
}

// TestSCSManager checks that the real SessionManager behaves the same on SCS as on its own
// store.
func TestSCSManager(t *testing.T) {
	ours, _, c := openSCS(t, session.SCSOptions{})
	c.Add(time.Since(c.Now())) // the manager has its own clock
	for name, store := range map[string]scs.Store{"ours": ours, "theirs": memstore.NewWithCleanupInterval(0)} {
		for _, hashed := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " hashed ", hashed), func(t *testing.T) { driveManager(t, store, hashed) })
		}
	}
}

func driveManager(t *testing.T, store scs.Store, hashed bool) {
	m := scs.New()
	m.Store, m.HashTokenInStore = store, hashed
	mux := http.NewServeMux()
	mux.HandleFunc("/put", func(_ http.ResponseWriter, r *http.Request) { m.Put(r.Context(), "name", r.FormValue("v")) })
	mux.HandleFunc("/get", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, m.GetString(r.Context(), "name")) })
	mux.HandleFunc("/renew", func(_ http.ResponseWriter, r *http.Request) {
		if err := m.RenewToken(r.Context()); err != nil {
			t.Error(err)
		}
	})
	mux.HandleFunc("/destroy", func(_ http.ResponseWriter, r *http.Request) {
		if err := m.Destroy(r.Context()); err != nil {
			t.Error(err)
		}
	})
	srv := httptest.NewServer(m.LoadAndSave(mux))
	defer srv.Close()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	hit := func(jar http.CookieJar, path string, cookie *http.Cookie) (body, token string) {
		t.Helper()
		req := httptest.NewRequest(http.MethodGet, srv.URL+path, nil)
		if req.RequestURI = ""; cookie != nil {
			req.AddCookie(cookie)
		}
		res, err := (&http.Client{Jar: jar}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d %s %v", path, res.StatusCode, b, err)
		}
		for _, c := range res.Cookies() {
			token = c.Value
		}
		return string(b), token
	}
	_, first := hit(jar, "/put?v=Ada", nil)
	if got, _ := hit(jar, "/get", nil); got != "Ada" || first == "" {
		t.Errorf("got %q with token %q", got, first)
	}
	_, second := hit(jar, "/renew", nil)
	if got, _ := hit(jar, "/get", nil); got != "Ada" || second == first {
		t.Errorf("got %q after a renewal from %q to %q", got, first, second)
	}
	if got, _ := hit(nil, "/get", &http.Cookie{Name: m.Cookie.Name, Value: first}); got != "" {
		t.Errorf("the old token gets %q", got)
	}
	if got, _ := hit(nil, "/get", &http.Cookie{Name: m.Cookie.Name, Value: second}); got != "Ada" {
		t.Errorf("the new token gets %q", got)
	}
	hit(jar, "/destroy", nil)
	if got, _ := hit(nil, "/get", &http.Cookie{Name: m.Cookie.Name, Value: second}); got != "" {
		t.Errorf("a destroyed session gets %q", got)
	}
}
