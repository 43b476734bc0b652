package auth_test

import (
	"testing"
	"time"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/engine"
)

// BenchmarkCheckKey is what an API key adds to a request.
func BenchmarkCheckKey(b *testing.B) {
	w := open(b, auth.Options{})
	ann := w.verified("ann@example.com")
	text, _, err := w.CreateKey(b.Context(), ann.ID, "laptop", []string{"todo:*"}, time.Time{})
	must(b, "create", err)
	r := engine.Read{Level: engine.Local}
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := w.CheckKey(b.Context(), r, text); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkGet is what the current user adds to a request.
func BenchmarkGet(b *testing.B) {
	w := open(b, auth.Options{})
	ann := w.verified("ann@example.com")
	r := engine.Read{Level: engine.Local}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := w.Get(b.Context(), r, ann.ID); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLogin is a login with the default parameters.
func BenchmarkLogin(b *testing.B) {
	w := open(b, auth.Options{Argon2: auth.Params{MemoryKiB: 19456, Passes: 2, Lanes: 1}})
	w.verified("ann@example.com")
	for b.Loop() {
		if _, err := w.Login(b.Context(), "ann@example.com", good, "192.0.2.1"); err != nil {
			b.Fatal(err)
		}
	}
}
