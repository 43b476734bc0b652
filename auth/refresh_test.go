package auth_test

import (
	"strings"
	"testing"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
)

// TestStrangersTokensWriteNothing: a text that only looks like a refresh token takes no turn of those who write. One of the
// device does.
func TestStrangersTokensWriteNothing(t *testing.T) {
	t.Parallel()
	w := open(t, auth.Options{})
	eng := &counting{Engine: w.eng}
	store, err := kv.New(eng, kv.Options{})
	must(t, "open the store", err)
	w.store = store
	w.Auth = w.again(auth.Options{})
	phone := w.phone(w.verified("ann@example.com"), "phone")
	other := w.phone(w.verified("bob@example.com"), "phone")
	before := eng.updates.Load()
	secret := func(text string) string { return text[strings.LastIndexByte(text, '_'):] }
	for _, text := range []string{
		"", "x", phone.Access, strings.Replace(phone.Refresh, phone.Device.ID, strings.Repeat("a", len(phone.Device.ID)), 1),
		strings.Replace(phone.Refresh, secret(phone.Refresh), secret(other.Refresh), 1),
	} {
		w.refresh(text, text, engine.CodeUnauthenticated)
	}
	if n := eng.updates.Load() - before; n != 0 {
		t.Errorf("%d transactions may have written", n)
	}
	w.refresh("the token", phone.Refresh, "")
	if n := eng.updates.Load() - before; n == 0 {
		t.Error("a refresh writes nothing: the transactions are not counted")
	}
}
