package session_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/session"
)

// rewrite applies fn to the values of all keys in the sessions' space that begin with
// prefix.
func rewrite(t testing.TB, store *kv.Store, prefix string, fn func(val []byte) []byte) {
	t.Helper()
	n := 0
	if _, err := store.Update(t.Context(), session.DefaultSpace, func(tx *kv.Tx) error {
		n = 0
		var items []kv.Item
		for it, err := range tx.ScanPrefix([]byte(prefix)) {
			if err != nil {
				return err
			}
			it.Key, it.Val = bytes.Clone(it.Key), bytes.Clone(it.Val)
			items = append(items, it)
		}
		for _, it := range items {
			if _, err := tx.Set(it.Key, fn(it.Val), kv.SetOptions{KeepTTL: true}); err != nil {
				return err
			}
			n++
		}
		return nil
	}); err != nil || n == 0 {
		t.Fatalf("rewrote %d keys: %v", n, err)
	}
}

// scan calls fn for all pairs in the engine.
func scan(t testing.TB, eng engine.Engine, fn func(p engine.Pair)) {
	t.Helper()
	if _, err := eng.View(t.Context(), engine.Read{}, func(tx engine.Tx) error {
		for p, err := range tx.Scan(nil, nil) {
			if err != nil {
				return err
			}
			fn(p)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// TestDamaged checks that records of another version and damaged ones are rejected with
// their code by all readers, and never overwritten.
func TestDamaged(t *testing.T) {
	for _, c := range []struct {
		name string
		fn   func(val []byte) []byte
		code engine.Code
	}{
		{"newer", func(v []byte) []byte { v[0] = 2; return v }, engine.CodeFormatNewer},
		{"version 0", func(v []byte) []byte { v[0] = 0; return v }, engine.CodeFormatNewer},
		{"empty", func([]byte) []byte { return nil }, engine.CodeCorrupt},
		{"head cut", func(v []byte) []byte { return v[:42] }, engine.CodeCorrupt},
		{"user cut", func(v []byte) []byte { return v[:43] }, engine.CodeCorrupt},
		{"label cut", func(v []byte) []byte { return v[:50] }, engine.CodeCorrupt},
		{"values cut", func(v []byte) []byte { return v[:len(v)-1] }, engine.CodeCorrupt},
		{"name cut", func(v []byte) []byte { return append(v, 9, 'x') }, engine.CodeCorrupt},
		{"no value", func(v []byte) []byte { return append(v, 1, 'x') }, engine.CodeCorrupt},
		{"a length without end", func(v []byte) []byte { return append(append(v, 1, 'x'), bytes.Repeat([]byte{0xff}, 11)...) }, engine.CodeCorrupt},
	} {
		t.Run(c.name, func(t *testing.T) {
			st, store, _ := open(t, session.Options{PerUser: 1})
			token := filled(t, st, "7")
			s := load(t, st, token)
			rewrite(t, store, "s", c.fn)
			_, err := st.Load(t.Context(), token, engine.Read{})
			s.Rotate()
			_, _, err2 := s.Save(t.Context())
			err3 := hits.Update(t.Context(), s, func(int, bool) (int, error) { return 1, nil })
			_, err4 := st.List(t.Context(), "7")
			for i, err := range []error{err, err2, err3, err4} {
				if engine.CodeOf(err) != c.code {
					t.Errorf("call %d: %v", i, err)
				}
			}
		})
	}
	for text, code := range map[string]engine.Code{"": engine.CodeCorrupt, "\x01short": engine.CodeCorrupt, "\x02" + strings.Repeat("x", 32): engine.CodeFormatNewer} {
		st, store, _ := open(t, session.Options{})
		handle := load(t, st, filled(t, st, "7")).Handle()
		rewrite(t, store, "u", func([]byte) []byte { return []byte(text) })
		_, err := st.Revoke(t.Context(), "7", handle)
		if _, err2 := st.List(t.Context(), "7"); engine.CodeOf(err) != code || engine.CodeOf(err2) != code {
			t.Errorf("entry %q: %v, %v", text, err, err2)
		}
	}
}

// TestStolen checks that stored data contains no token in any form, and that nothing in it
// gives access to a session.
func TestStolen(t *testing.T) {
	c := newClock()
	eng := openEngine(t, c)
	store, err := kv.New(eng, kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	st, err := session.New(store, session.Options{})
	if err != nil {
		t.Fatal(err)
	}
	scs, err := session.NewSCS(store, session.SCSOptions{})
	if err != nil {
		t.Fatal(err)
	}
	token, foreign := filled(t, st, "7"), "a token of scs, of any form"
	if err := scs.Commit(foreign, []byte("x"), c.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		t.Fatal(err)
	}
	scan(t, eng, func(p engine.Pair) {
		all := append(bytes.Clone(p.Key), p.Val...)
		for _, secret := range [][]byte{[]byte(token), raw, raw[:16], []byte(token[:20]), []byte(foreign)} {
			if bytes.Contains(all, secret) {
				t.Errorf("%q holds a token", all)
			}
		}
		for i := range len(all) - 31 {
			made := base64.RawURLEncoding.EncodeToString(all[i : i+32])
			if _, err := st.Load(t.Context(), made, engine.Read{}); !errors.Is(err, session.ErrNoSession) {
				t.Errorf("what is stored opens a session: %v", err)
			}
		}
	})
}

// TestLayout parses stored data by DESIGN.md's table and not with the package's code, so
// that a change of the layout fails here.
func TestLayout(t *testing.T) {
	st, store, c := open(t, session.Options{Namespace: "app", Rand: strings.NewReader(strings.Repeat("0123456789abcdef", 9))})
	s := st.New()
	if err := name.Set(s, "Ada"); err != nil {
		t.Fatal(err)
	}
	s.Login("seven")
	s.Describe("Firefox")
	save(t, s)
	ms := c.Now().UnixMilli()
	want := "\x01"
	for _, at := range []int64{ms, ms + session.DefaultAbsolute.Milliseconds(), ms} {
		want += string(binary.BigEndian.AppendUint64(nil, uint64(at)))
	}
	want += "0123456789abcdef" + "\x05seven" + "\x07Firefox" + "\x04name\x05\"Ada\""
	// SHA-256 of "0123456789abcdef" repeated twice
	const id = "\x3e\xb1\xbd\x43\x99\x47\xeb\x76\x29\x98\xe5\x66\xcc\xc2\xe0\x99\xc7\x91\x11\x8b\x2f\x40\x57\x9c\xc4\xf7\xda\x2b\x50\x61\xb7\xf9"
	var got []string
	if _, err := store.View(t.Context(), engine.Read{}, 254, func(tx *kv.Tx) error {
		for it, err := range tx.Scan(nil, nil) {
			if err != nil {
				return err
			}
			got = append(got, fmt.Sprintf("%q %q %v", it.Key, it.Val, it.Expires.UnixMilli()))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{
		fmt.Sprintf("%q %q %v", "s\x03app"+id, want, ms+session.DefaultIdle.Milliseconds()),
		fmt.Sprintf("%q %q %v", "u\x03app\x05seven0123456789abcdef", "\x01"+id, ms+session.DefaultAbsolute.Milliseconds()),
	} {
		if i >= len(got) || got[i] != want {
			t.Errorf("key %d of %d:\n%s, want\n%s", i, len(got), got, want)
		}
	}
}

// TestRand checks that a broken source of randomness gives errors, never someone else's
// session.
func TestRand(t *testing.T) {
	no := errors.New("no randomness")
	st, _, _ := open(t, session.Options{Rand: iotest.ErrReader(no)})
	s := st.New()
	s.Login("7")
	if _, _, err := s.Save(t.Context()); !errors.Is(err, no) {
		t.Errorf("save: %v", err)
	}
	st, _, _ = open(t, session.Options{Rand: zeros{}})
	if token := filled(t, st, "7"); token != strings.Repeat("A", plainToken) {
		t.Errorf("token %q", token)
	}
	// A decoder that skips line breaks would return the same bytes except one for this.
	if _, err := st.Load(t.Context(), strings.Repeat("A", plainToken-1)+"\n", engine.Read{}); !errors.Is(err, session.ErrNoSession) {
		t.Errorf("another form of the token: %v", err)
	}
	s = st.New()
	s.Login("8")
	if token, _, err := s.Save(t.Context()); engine.CodeOf(err) != engine.CodeInternal || token != "" {
		t.Errorf("the same token for two: %q %v", token, err)
	}
}

// zeros is the worst source of randomness.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

var _ io.Reader = zeros{}

func TestOptions(t *testing.T) {
	_, store, _ := open(t, session.Options{})
	for _, c := range []struct {
		o    session.Options
		code engine.Code
	}{
		{session.Options{Space: kv.OnceSpace}, engine.CodeInvalid},
		{session.Options{Idle: -1}, engine.CodeInvalid},
		{session.Options{Idle: session.MinIdle - 1}, engine.CodeInvalid},
		{session.Options{Idle: session.MaxIdle + 1}, engine.CodeInvalid},
		{session.Options{Absolute: session.MaxAbsolute + 1}, engine.CodeInvalid},
		{session.Options{Absolute: session.DefaultIdle - 1}, engine.CodeInvalid},
		{session.Options{RenewShare: 0.51}, engine.CodeInvalid},
		{session.Options{RenewShare: -0.1}, engine.CodeInvalid},
		{session.Options{PerUser: -1}, engine.CodeInvalid},
		{session.Options{PerUser: session.MaxPerUser + 1}, engine.CodeInvalid},
		{session.Options{Namespace: "a b"}, engine.CodeInvalid},
		{session.Options{Namespace: "é"}, engine.CodeInvalid},
		{session.Options{Namespace: strings.Repeat("n", session.MaxNamespaceBytes+1)}, engine.CodeLimit},
		{session.Options{Space: 1, Idle: session.MinIdle, Absolute: session.MinIdle, RenewShare: 0.5, PerUser: session.MaxPerUser}, ""},
		{session.Options{Idle: session.MaxIdle}, ""},
	} {
		if _, err := session.New(store, c.o); engine.CodeOf(err) != c.code {
			t.Errorf("%+v: %v", c.o, err)
		}
	}
}

// refusing is an engine whose writes fail, or are preceded by a call of before.
type refusing struct {
	engine.Engine
	before func() error // of Update; nil: nothing
}

func (r *refusing) Update(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
	if before := r.before; before != nil {
		r.before = nil
		if err := before(); err != nil {
			return 0, err
		}
	}
	return r.Engine.Update(ctx, fn)
}
