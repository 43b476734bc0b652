package gremlin

import (
	"errors"
	"os"
	"strings"
	"testing"
)

// FuzzParse checks that no text makes Parse panic, that errors are inside the
// text, and that what is printed of a query is read as the same query.
func FuzzParse(f *testing.F) {
	for _, file := range []string{"texts", "print", "refused"} {
		data, err := os.ReadFile("testdata/" + file + ".txt")
		if err != nil {
			f.Fatal(err)
		}
		for _, line := range strings.Split(string(data), "\n") {
			f.Add(line)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		q, err := Parse(text, variables())
		if err != nil {
			var bad *SyntaxError
			if !errors.As(err, &bad) {
				t.Fatalf("the error is %T", err)
			}
			if bad.Pos < 0 || bad.Pos > len(text) || bad.Line < 1 || bad.Col < 1 || bad.Msg == "" {
				t.Fatalf("the error is %#v", bad)
			}
			return
		}
		printed := q.String()
		if len(printed) > MaxTextBytes { // escapes are longer than what they stand for
			return
		}
		again, err := Parse(printed, nil)
		if err != nil || !same(q, again) {
			t.Fatalf("%q\nprinted as %q\nis read as %v, %v", text, printed, again, err)
		}
	})
}
