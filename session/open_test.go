package session_test

import (
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/session"
)

// start is the manual clock's first reading.
var start = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

// clock is moved by hand.
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
	eng, err := embedded.Open(t.TempDir(), embedded.Options{Now: c.Now, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := eng.Close(); err != nil {
			t.Errorf("close engine: %v", err)
		}
	})
	return eng
}

// open returns a session store on a fresh engine whose clock is moved by hand.
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

// load loads a session that must be there.
func load(t testing.TB, st *session.Store, token string) *session.Session {
	t.Helper()
	s, err := st.Load(t.Context(), token, engine.Read{})
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	return s
}

// save saves what must be possible to save.
func save(t testing.TB, s *session.Session) string {
	t.Helper()
	token, _, err := s.Save(t.Context())
	if err != nil {
		t.Fatalf("save: %v", err)
	}
	return token
}
