package session_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/session"
)

// FuzzRecord checks that no bytes make parsing a record panic, and that a parsed record is
// encoded to one that parses to the same.
func FuzzRecord(f *testing.F) {
	st, store, _ := open(f, session.Options{})
	filled(f, st, "7")
	if _, err := store.View(f.Context(), engine.Read{}, session.DefaultSpace, func(tx *kv.Tx) error {
		for it, err := range tx.ScanPrefix([]byte("s")) {
			if err != nil {
				return err
			}
			f.Add(bytes.Clone(it.Val))
			f.Add(bytes.Clone(it.Val[:50]))
		}
		return nil
	}); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		once, err := session.Reencode(b)
		if err != nil {
			if code := engine.CodeOf(err); code != engine.CodeCorrupt && code != engine.CodeFormatNewer {
				t.Fatalf("%q: %v", b, err)
			}
			return
		}
		if twice, err := session.Reencode(once); err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%q is encoded to %q and then to %q: %v", b, once, twice, err)
		}
	})
}

// FuzzToken checks that no bytes but the issued token load a session, and that none cause a
// panic.
func FuzzToken(f *testing.F) {
	st, _, _ := open(f, session.Options{})
	token := filled(f, st, "7")
	for _, s := range []string{"", token, token[1:], token + "=", token[:42] + "\n", strings.Repeat("_", 43)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := st.Load(t.Context(), text, engine.Read{})
		if text == token && err != nil || text != token && (s != nil || !errors.Is(err, session.ErrNoSession)) {
			t.Fatalf("%q: %v", text, err)
		}
	})
}
