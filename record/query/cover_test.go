package query

import (
	"fmt"
	"strings"
	"testing"
)

func TestCover(t *testing.T) {
	env := environment(t)
	k := collections(t)("orders")
	for _, c := range []struct{ text, want string }{
		{`status = "open"`, "status=open"},
		{`"open" = status`, "status=open"},
		{`id = "a"`, "id=a"},
		{`owner = @auth.id && status = "open"`, "owner=u1"},
		{`status = "open" && owner = @auth.id`, "owner=u1"},
		{`owner = @auth.id || paid`, "owner=u1 paid=true"},
		{`count in (1, "3", null)`, "count=1 count=3 count="},
		{`count in ()`, ""},
		{`@auth.id = "u2"`, ""},
		{`(owner = "a" || owner = "b") && total > 5`, "owner=a owner=b"},
		{`total = 1.50`, "total=1.5"},
		{`total > 5`, "none"}, {`owner = @auth.id || total > 5`, "none"}, {`!paid`, "none"}, {`status != "open"`, "none"}, {`title = status`, "none"}, {`title ~ "x"`, "none"},
		{`meta.a = 1`, "none"}, {`tags = null`, "none"}, {`owner.name = "x"`, "none"}, {`@new.count = 1`, "none"}, {`at = @now`, "none"}, {`true`, "none"}, {`total = count`, "none"},
	} {
		cond, err := check(t, c.text)
		if err != nil {
			t.Fatalf("%s: %v", c.text, err)
		}
		env.KeepTimes = true
		cover, ok := cond.Bind(env).Cover(func(e Equality) int {
			if !e.Of.Column && k.Fields[e.Of.Index].Name == "status" {
				return 10
			}
			return 1
		})
		var parts []string
		for _, e := range cover {
			name := "id"
			if !e.Of.Column {
				name = k.Fields[e.Of.Index].Name
			}
			parts = append(parts, fmt.Sprint(name, "=", e.Value))
		}
		got := strings.Join(parts, " ")
		if !ok {
			got = "none"
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.text, got, c.want)
		}
	}
}

func TestKeepTimes(t *testing.T) {
	env := environment(t)
	env.KeepTimes = true
	row := newRow(t, collections(t)("orders"), `{"at":"2026-01-09"}`)
	for _, text := range []string{`at > @now - 7d && @auth.id = "u1"`, `at >= @today - 1d`} {
		cond, err := check(t, text)
		if err != nil {
			t.Fatal(err)
		}
		bound := cond.Bind(env)
		for days, want := range map[int]bool{0: true, 30: false} {
			if got, err := bound.Holds(&Env{Now: env.Now.AddDate(0, 0, days)}, row, nil); got != want || err != nil {
				t.Errorf("%s after %d days: %v, %v, want %v", text, days, got, err, want)
			}
		}
	}
}

func TestFollows(t *testing.T) {
	for text, want := range map[string]bool{
		`owner = "a"`: false, `owner.name = "a"`: true, `paid || !("a" = owner.name)`: true, `paid || title in ("a", owner.name)`: true, `owner.boss.id = "a" && paid`: true, `true`: false,
	} {
		cond, err := check(t, text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if got := cond.Follows(); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// TestFingerprint checks that all these conditions have different fingerprints, except for those in one line.
func TestFingerprint(t *testing.T) {
	seen := map[[32]byte]string{}
	for _, same := range [][]string{
		{`status = "open" && paid`, `paid && status = "open"`, `paid = true and status = 'open' and paid`},
		{`status = "open" || paid`, `paid || status = "open"`}, {`status = "open"`, `"open" = "open" && status = "open"`}, {`status = "done"`}, {`status != "open"`}, {`!(status = "open")`},
		{`count in (1, 2)`, `count in (2, 1, 1)`}, {`count in (1)`}, {`count = 1`}, {`total = 1`}, {`ratio = 1`}, {`count > 1`}, {`count < 1`}, {`title = "1"`}, {`title = null`}, {`title ~ "1"`},
		{`meta.a = 1`}, {`meta.b = 1`}, {`meta.a.b = 1`}, {`meta = 1`}, {`meta = "1"`}, {`owner.name = "1"`}, {`owner.boss.name = "1"`}, {`owner.boss = "1"`}, {`at > @now`}, {`at > @now - 7d`}, {`at > @now - 8d`}, {`at > @today`},
		{`@new.count = 1`}, {`id = "1"`}, {`true`, `true && true`, `@auth.id = "u1"`}, {`false`, `@auth.id = "u2"`}, {`(paid || title = "1") && count = 1`}, {`paid || (title = "1" && count = 1)`},
	} {
		var first [32]byte
		for i, text := range same {
			cond, err := check(t, text)
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			env := environment(t)
			env.KeepTimes = true
			print := cond.Bind(env).Fingerprint()
			if i == 0 {
				first = print
			} else if print != first {
				t.Errorf("%s and %s have different fingerprints", text, same[0])
			}
		}
		if other, ok := seen[first]; ok {
			t.Errorf("%s and %s have the same fingerprint", same[0], other)
		}
		seen[first] = same[0]
	}
}
