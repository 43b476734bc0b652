package conditions_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/web/conditions"
)

// holds reports whether an If-Match with these lines allows a write at rev, and whether it is well formed.
func holds(rev uint64, lines ...string) (held, ok bool) {
	c, err := conditions.Of(http.Header{"If-Match": lines})
	return err == nil && c.AllowWrite("key", rev) == nil, err == nil
}

// onceKey returns the key that an Idempotency-Key names, and whether it is well formed.
func onceKey(line string) (string, bool) {
	key, err := conditions.Once(http.Header{conditions.OnceHeader: {line}})
	return string(key), err == nil
}

// FuzzTags: no header makes the parser fall over, and only one that has the
// revision as a strong tag of its own matches it.
func FuzzTags(f *testing.F) {
	for _, s := range []string{`*`, `"1"`, `W/"17"`, `"17"`, `"1","17"`, `"1" "17"`, `"`, `""`, `"017"`, `,,"17",`, `"+17"`, "\"17\t\""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		held, ok := holds(17, line)
		if held && !strings.Contains(line, `"17"`) && strings.Trim(line, " \t") != "*" {
			t.Fatalf("%q names revision 17", line)
		}
		if again, okAgain := holds(17, line, `"17"`); okAgain && ok && !again {
			t.Fatalf("%q hides the line that follows", line)
		}
	})
}

// FuzzOnceKey: no header makes the parser fall over, a key is of ASCII and of
// bounded length, and in quotes it is the same key.
func FuzzOnceKey(f *testing.F) {
	for _, s := range []string{"a", `"a"`, `"a\"\\b"`, `"`, `""`, `"a" `, `"a`, `"\a"`, "a b", "ä", "\x7f", strings.Repeat("k", 256), `"a";p=1`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		key, ok := onceKey(line)
		if !ok {
			return
		}
		if key == "" || len(key) > kv.MaxOnceKeyBytes || strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Fatalf("%q is taken for the key %q", line, key)
		}
		quoted := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
		if again, ok := onceKey(quoted); !ok || again != key {
			t.Fatalf("%q is the key %q, but %s is %q", line, key, quoted, again)
		}
	})
}
