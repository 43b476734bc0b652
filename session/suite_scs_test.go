package session_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alexedwards/scs/v2"
)

// scsEnv is the storage for sessions of scs.
type scsEnv struct {
	Store scs.Store
	Now   func() time.Time
	Pass  func(d time.Duration)                       // lets time pass
	run   func(t *testing.T, test func(t *testing.T)) // synctest.Test if Pass sleeps; nil calls test directly
}

// runSCS runs the part of the suite for stores of alexedwards/scs. open returns an empty
// store for one test.
func runSCS(t *testing.T, open func(t testing.TB) scsEnv) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T, e scsEnv)
	}{
		{"Find", scsFind}, {"Expiry", scsExpiry}, {"Tokens", scsTokens}, {"Race", scsRace},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := open(t)
			run := func(t *testing.T) { test.run(t, e) }
			if e.run != nil {
				run = func(t *testing.T) { e.run(t, func(t *testing.T) { test.run(t, e) }) }
			}
			t.Run("Plain", run)
			if s, ok := e.Store.(scs.CtxStore); ok {
				e.Store = withCtx{s, t.Context()}
				t.Run("Ctx", run)
			}
		})
	}
}

// withCtx is a store with methods that take a context.
type withCtx struct {
	s   scs.CtxStore
	ctx context.Context
}

func (w withCtx) Delete(token string) error               { return w.s.DeleteCtx(w.ctx, token) }
func (w withCtx) Find(token string) ([]byte, bool, error) { return w.s.FindCtx(w.ctx, token) }
func (w withCtx) Commit(token string, b []byte, expiry time.Time) error {
	return w.s.CommitCtx(w.ctx, token, b, expiry)
}

// expect fails unless token finds want, or nothing if that is nil.
func (e scsEnv) expect(t *testing.T, token string, want []byte) {
	t.Helper()
	b, found, err := e.Store.Find(token)
	if err != nil || found != (want != nil) || !bytes.Equal(b, want) {
		t.Errorf("find %.50q: %.50q %v %v, want %.50q", token, b, found, err, want)
	}
}

func (e scsEnv) commit(t *testing.T, token string, b []byte, life time.Duration) {
	t.Helper()
	if err := e.Store.Commit(token, b, e.Now().Add(life)); err != nil {
		t.Errorf("commit %.50q: %v", token, err)
	}
}

func scsFind(t *testing.T, e scsEnv) {
	e.expect(t, "one", nil)
	if err := e.Store.Delete("one"); err != nil {
		t.Errorf("delete a missing session: %v", err)
	}
	long := bytes.Repeat([]byte{0, 1, 0xff}, 50_000)
	for _, b := range [][]byte{[]byte("a"), {}, {0}, long, []byte("b")} {
		e.commit(t, "one", b, time.Hour)
		e.commit(t, "two", []byte("2"), time.Hour)
		e.expect(t, "one", b)
	}
	if err := e.Store.Delete("one"); err != nil {
		t.Errorf("delete: %v", err)
	}
	e.expect(t, "one", nil)
	e.expect(t, "two", []byte("2"))
}

func scsExpiry(t *testing.T, e scsEnv) {
	const soon = 30 * time.Millisecond
	e.commit(t, "soon", []byte("a"), soon)
	e.commit(t, "later", []byte("b"), time.Hour)
	e.commit(t, "never", []byte("c"), soon)
	e.commit(t, "never", []byte("d"), 1000*time.Hour)
	e.commit(t, "past", []byte("e"), time.Hour)
	e.commit(t, "past", []byte("f"), -time.Hour)
	e.expect(t, "past", nil)
	e.Pass(soon + time.Millisecond)
	e.expect(t, "soon", nil)
	e.expect(t, "later", []byte("b"))
	e.expect(t, "never", []byte("d"))
	e.commit(t, "soon", []byte("g"), time.Hour)
	e.expect(t, "soon", []byte("g"))
	if err := e.Store.Commit("later", []byte("h"), time.Time{}); err != nil {
		t.Errorf("commit with no expiry at all: %v", err)
	}
	e.expect(t, "later", nil)
}

// scsTokens checks that a token invented by a client is not found, without an error.
func scsTokens(t *testing.T, e scsEnv) {
	e.commit(t, "token", []byte("a"), time.Hour)
	for _, token := range []string{"", "Token", "token ", "toke", "\x00", "token\x00", "\xff\xfe", strings.Repeat("t", 1<<20), "../token", "token\n"} {
		e.expect(t, token, nil)
		if err := e.Store.Delete(token); err != nil {
			t.Errorf("delete %.50q: %v", token, err)
		}
	}
	e.expect(t, "token", []byte("a"))
}

// scsRace checks that concurrent sessions do not see each other's data.
func scsRace(t *testing.T, e scsEnv) {
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			token := fmt.Sprint("token ", i)
			for n := range 20 {
				b := fmt.Appendf(nil, "%d %d", i, n)
				e.commit(t, token, b, time.Hour)
				e.expect(t, token, b)
			}
			if err := e.Store.Delete(token); err != nil {
				t.Error(err)
			}
			e.expect(t, token, nil)
		})
	}
	wg.Wait()
}
