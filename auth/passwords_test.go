package auth_test

import (
	"testing"

	"github.com/skerrydb/skerry/auth"
)

func TestPasswords(t *testing.T) {
	t.Parallel()
	p, err := auth.NewPasswords(auth.Params{MemoryKiB: 64, Passes: 1})
	if err != nil {
		t.Fatal(err)
	}
	hash, err := p.Hash(t.Context(), "fish")
	if err != nil {
		t.Fatal(err)
	}
	for password, want := range map[string]bool{"fish": true, "": false, "Fish": false} {
		if got, err := p.Matches(t.Context(), password, hash); got != want || err != nil {
			t.Errorf("%q: %v, %v", password, got, err)
		}
	}
	if again, err := p.Hash(t.Context(), "fish"); err != nil || again == hash {
		t.Errorf("a hash without salt: %s, %v", again, err)
	}
	if _, err := p.Matches(t.Context(), "fish", "fish"); err == nil {
		t.Error("a text that is no hash is compared")
	}
	if _, err := auth.NewPasswords(auth.Params{MemoryKiB: 1 << 30}); err == nil {
		t.Error("a hash may take a TiB")
	}
}
