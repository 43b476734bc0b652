package session_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/session"
)

// start is the manual clock's first reading.
var start = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

// clock is a manual clock.
type clock struct{ us atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.us.Store(start.UnixMicro())
	return c
}

func (c *clock) Now() time.Time      { return time.UnixMicro(c.us.Load()).UTC() }
func (c *clock) Add(d time.Duration) { c.us.Add(d.Microseconds()) }

// openEngine returns a fresh engine, which is closed when the test ends.
func openEngine(t testing.TB, c *clock) engine.Engine {
	t.Helper()
	eng := testengine.Open(t, testengine.Options{Now: c.Now})
	t.Cleanup(func() { checkLists(t, eng) })
	return eng
}

// open returns a session store on a fresh engine with a manual clock.
func open(t testing.TB, o session.Options) (*session.Store, *kv.Store, *clock) {
	t.Helper()
	c := newClock()
	store, err := kv.New(openEngine(t, c), kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	st, err := session.New(store, o)
	if err != nil {
		t.Fatal(err)
	}
	return st, store, c
}

// checkLists reads everything in the sessions' space and compares the users' lists with the
// sessions, by DESIGN.md's table and not with the package's code. It skips what a test has
// damaged, and does nothing on an engine that cannot read everything.
func checkLists(t testing.TB, eng engine.Engine) {
	t.Helper()
	if !testengine.Whole(eng).Promises().Ordered {
		return
	}
	store, err := kv.New(testengine.Whole(eng), kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	entries, of, want, damaged := map[string]string{}, map[string]string{}, map[string]string{}, map[string]bool{}
	// Not the test's context, which has ended when its cleanup runs.
	_, err = store.View(context.Background(), engine.Read{}, 254, func(tx *kv.Tx) error {
		clear(of)
		for it, err := range tx.Scan(nil, nil) {
			if err != nil {
				return err
			}
			key, val, ns := string(it.Key), string(it.Val), 2+int(it.Key[1])
			switch {
			case key[0] == 'u' && (len(val) != 33 || val[0] != 1):
				damaged[key] = true
			case len(val) == 0 || val[0] != 1:
			case key[0] == 'u':
				if other, twice := of[key[:ns]+val[1:]]; twice {
					t.Errorf("%q and %q name the same session", key, other)
				}
				entries[key], of[key[:ns]+val[1:]] = val[1:], key
			case key[0] == 'l':
				for b, of := val[1:], key[1:ns+24]; len(b) >= 56; b = b[56:] {
					entries["l"+of+b[:16]] = b[16:48]
				}
			case key[0] == 'p' && len(val) > 41 && val[41] > 0:
				want["l"+key[1:ns+24]+val[25:41]] = key[ns+24:]
			case key[0] == 's' && len(val) > 41 && val[41] > 0 && len(val) > 42+int(val[41]):
				want["u"+key[1:ns]+val[41:42+int(val[41])]+val[25:41]] = key[ns:]
			}
		}
		return nil
	})
	if err != nil {
		t.Errorf("scan sessions: %v", err)
	}
	for key, id := range want {
		if entries[key] != id && !damaged[key] {
			t.Errorf("the session %q is listed as %q at %q", id, entries[key], key)
		}
	}
}

// load loads a session that must exist.
func load(t testing.TB, st *session.Store, token string) *session.Session {
	t.Helper()
	s, err := st.Load(t.Context(), token, engine.Read{})
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	return s
}

// save saves a session and fails the test on errors.
func save(t testing.TB, s *session.Session) string {
	t.Helper()
	token, _, err := s.Save(t.Context())
	if err != nil {
		t.Fatalf("save: %v", err)
	}
	return token
}
