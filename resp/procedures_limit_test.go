//go:build !race

package resp_test

import (
	"strings"
	"testing"

	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/proc"
	"github.com/skerrydb/skerry/resp"
	"github.com/skerrydb/skerry/resp/wire"
)

// TestSchemasOverLimit checks that one command may request a schema repeatedly, up to the
// limit of a reply. The race detector would need many times its 500 MB.
func TestSchemasOverLimit(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 500 MB")
	}
	long := proc.Define("long", func(*proc.Tx, noArgs) (int64, error) { return 0, nil }).Describe(strings.Repeat("word ", 1000))
	eng := openEngine(t, embedded.Options{})
	a := newAsker(t, serveOn(t, eng, resp.Options{Procedures: testProcedures(t, eng, long)}))
	one := len(a.ask("PROC", "SCHEMA", "long").Str) - 1 // including the comma
	for _, c := range []struct {
		n   int
		too bool
	}{{2, false}, {resp.MaxReplyBytes/one + 2, true}} {
		words := []string{"PROC", "SCHEMA"}
		for range c.n {
			words = append(words, "long")
		}
		v := a.ask(words...)
		if too := v.Kind == wire.KindError; too != c.too || !too && len(v.Str) != c.n*one+1 || too && !strings.HasSuffix(string(v.Str), "[limit]") {
			t.Errorf("%d schemas: %.100q", c.n, v.Str)
		}
	}
}
