package session_test

import (
	"errors"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/enginetest"
	"github.com/skerrydb/skerry/engine/testengine"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/session"
)

// TestOneKey checks that on an engine that is atomic over one key anonymous sessions work,
// and that operations on several keys return ErrUnsupported.
func TestOneKey(t *testing.T) {
	c := newClock()
	store, err := kv.New(enginetest.Within(testengine.Open(t, testengine.Options{Now: c.Now}), engine.OneKey), kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	st, err := session.New(store, session.Options{Idle: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	ctx, word := t.Context(), session.NewKey[string]("word")
	s := st.New()
	if err := word.Set(s, "a"); err != nil {
		t.Fatal(err)
	}
	token, _, err := s.Save(ctx)
	if err != nil || token == "" {
		t.Fatalf("save: %q, %v", token, err)
	}
	if _, err := st.Load(ctx, token, engine.Read{}); err != nil {
		t.Fatalf("load: %v", err)
	}
	if got, _, err := word.Get(s); got != "a" || err != nil {
		t.Errorf("word is %q, %v", got, err)
	}
	for name, ask := range map[string]func(s *session.Session){
		"rotate": func(s *session.Session) { s.Rotate() },
		"login":  func(s *session.Session) { s.Login("ann") },
	} {
		other, err := st.Load(ctx, token, engine.Read{})
		if err != nil {
			t.Fatal(err)
		}
		ask(other)
		if _, _, err := other.Save(ctx); !errors.Is(err, engine.ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := st.List(ctx, "ann"); !errors.Is(err, engine.ErrUnsupported) {
		t.Errorf("list: %v", err)
	}
	if _, _, err := st.RevokeAll(ctx, "ann"); !errors.Is(err, engine.ErrUnsupported) {
		t.Errorf("revoke all: %v", err)
	}
	if _, err := st.Load(ctx, token, engine.Read{}); err != nil {
		t.Fatalf("load after a refusal: %v", err)
	}
	c.Add(2 * time.Hour)
	if _, err := st.Load(ctx, token, engine.Read{}); !errors.Is(err, session.ErrNoSession) {
		t.Errorf("load after its life: %v", err)
	}
}
