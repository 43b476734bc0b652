package query

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/record/schema"
)

func TestCover(t *testing.T) {
	env := environment(t)
	k := collections(t)("orders")
	for _, c := range []struct{ text, want string }{
		{`status = "open"`, "status=open"},
		{`"open" = status`, "status=open"},
		{`id = "a"`, "id=a"},
		{`owner = @auth.id && status = "open"`, "owner=u1 status=open"},
		{`owner = @auth.id || paid`, "owner=u1 | paid=true"},
		{`count in (1, "3", null)`, "count=1 | count=3 | count="},
		{`count in ()`, "never"},
		{`@auth.id = "u2"`, "never"},
		{`(owner = "a" || owner = "b") && total > 5`, "owner=a total(5,) | owner=b total(5,)"},
		{`total = 1.50`, "total=1.5"},
		{`total > 5`, "total(5,)"}, {`total >= 5`, "total[5,)"}, {`total < 5`, "total(,5)"}, {`5 >= total`, "total(,5]"},
		{`total > 5 && total <= 7`, "total(5,7]"}, {`total > 5 && total >= 5 && total > 4`, "total(5,)"}, {`total < 5 && total <= 5 && total < 6`, "total(,5)"},
		{`total > 5 && total < 5`, "never"}, {`total > 7 && total < 5`, "never"}, {`total >= 5 && total <= 5`, "total[5,5]"}, {`total >= 5 && total < 5`, "never"},
		{`total < null`, "never"}, {`count = 1 && total > 5 && count > 0`, "count=1 total(5,) count(0,)"}, {`title >= "a" && title < "b"`, "title[a,b)"},
		{`owner = @auth.id || total > 5`, "owner=u1 | total(5,)"}, {`paid && (total > 5 || true)`, "paid=true"}, {`total > 5 && title ~ "x"`, "total(5,)"},
		{`!paid`, "any"}, {`!(total > 5)`, "any"}, {`status != "open"`, "any"}, {`title = status`, "any"}, {`title ~ "x"`, "any"}, {`paid || title ~ "x"`, "any"},
		{`meta.a = 1`, "any"}, {`meta.a > 1`, "any"}, {`tags = null`, "any"}, {`owner.name = "x"`, "any"}, {`owner.name > "x"`, "any"}, {`@new.count = 1`, "any"}, {`at = @now`, "any"}, {`at > @now`, "any"}, {`true`, "any"}, {`total = count`, "any"},
	} {
		cond, err := check(t, c.text)
		if err != nil {
			t.Fatalf("%s: %v", c.text, err)
		}
		env.KeepTimes = true
		if got := pathsString(k, cond.Bind(env).Cover(func(Interval) int { return 1 })); got != c.want {
			t.Errorf("%s: %q, want %q", c.text, got, c.want)
		}
	}
}

// pathsString returns a cover as text.
func pathsString(k *schema.Compiled, all []Path) string {
	var paths []string
	for _, p := range all {
		var parts []string
		for _, i := range p {
			name := "id"
			if !i.Of.Column {
				name = k.Fields[i.Of.Index].Name
			}
			low, high := "[", "]"
			if i.Low.Open || i.Low.Value.IsNull() {
				low = "("
			}
			if i.High.Open || i.High.Value.IsNull() {
				high = ")"
			}
			if i.Point {
				parts = append(parts, name+"="+i.Low.Value.String())
			} else {
				parts = append(parts, name+low+i.Low.Value.String()+","+i.High.Value.String()+high)
			}
		}
		paths = append(paths, strings.Join(parts, " "))
	}
	switch text := strings.Join(paths, " | "); {
	case len(all) == 0:
		return "never"
	case text == "":
		return "any"
	default:
		return text
	}
}

// TestCoverChoice checks that of two lists of alternatives that are too long to be combined, the cheaper one is taken.
func TestCoverChoice(t *testing.T) {
	k := collections(t)("orders")
	list := func(name string, n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprint(i))
		}
		return name + " in (" + strings.Join(all, ", ") + ")"
	}
	cond, err := check(t, list("count", 20)+" && "+list("total", 30)+` && title > "x"`)
	if err != nil {
		t.Fatal(err)
	}
	for dear, want := range map[string]int{"count": 30, "total": 20} {
		all := cond.Cover(func(i Interval) int {
			if k.Fields[i.Of.Index].Name == dear {
				return 10
			}
			return 1
		})
		if len(all) != want || len(all[0]) != 2 {
			t.Errorf("if %s is dear: %s, want %d paths", dear, pathsString(k, all), want)
		}
	}
	if cond, err = check(t, list("count", 8)+" && "+list("total", 16)); err != nil {
		t.Fatal(err)
	}
	if all := cond.Cover(func(Interval) int { return 1 }); len(all) != maxPaths {
		t.Errorf("%d paths, want %d", len(all), maxPaths)
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
			if got, err := bound.Holds(&Env{Now: func() time.Time { return env.Now().AddDate(0, 0, days) }}, row, nil); got != want || err != nil {
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
