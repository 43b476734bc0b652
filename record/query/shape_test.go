package query

import (
	"strings"
	"testing"

	"github.com/skerrydb/skerry/record/expr"
)

// TestShape: a shape has nothing of the values of a condition, is that of others with other values, and can be planned.
func TestShape(t *testing.T) {
	of := collections(t)
	s := Scope{Collection: of("orders"), Other: of}
	shape := func(text string) *Cond {
		t.Helper()
		x, err := expr.Parse(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		c, err := Check(x, s)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return c.Shape()
	}
	for _, c := range []struct{ text, same, want string }{
		{`title = "secret"`, `title = "other"`, `title = ?`},
		{`title = null`, `title=null`, `title = null`},
		{`status = "open" && total > 71234`, `total > 5 && status = "done"`, `status = ? && total > ?`},
		{`count > 71234 && count < 81234`, `count > 5 && count < 1`, `count > ? && count < ?`},
		{`at > @now - 71234s || (paid && ratio >= 0.71234)`, `at > @now - 5m || (paid = false && ratio >= 3)`, `at > @now - ? || paid = ? && ratio >= ?`},
		{`(title = "secret" || title = "secret2") && paid`, `(title = "b" || title = "a") && paid`, `(title = ? || title = ?) && paid = ?`},
		{`count in (71234, 2, 3)`, `count in (1, 2, 3, 4)`, `count in (?, ?, … 4)`},
		{`count in ()`, `count in ()`, `count in ()`},
		{`count not in (71234, null)`, `count not in (1, null)`, `!(count in (?, null))`},
		{`owner.boss.name ~ "%secret"`, `owner.boss.name ~ "x"`, `owner.boss.name ~ ?`},
		{`meta.a.b = "secret" && tags ?= "a"`, `meta.a.b = "x" && tags ?= "b"`, `meta.a.b = ? && tags ?= ?`},
		{`owner = @auth.id && @auth.roles ?= "secret"`, `owner = @auth.id && @auth.roles ?= "x"`, `owner = @auth.id && @auth.roles ?= ?`},
		{`!(paid) && updated_by != "secret"`, `!(paid) && updated_by != "x"`, `!(paid = ?) && updated_by != ?`},
		{`71234 < count`, `5 < count`, `? < count`},
		{`at < "2026-07-12T03:04:00Z"`, `at < "2027-01-01"`, `at < ?`},
		{`owner.age = 71234`, `owner.age = 1`, `owner.age = ?`},
	} {
		a, b := shape(c.text), shape(c.same)
		if got := a.Template(s); got != c.want {
			t.Errorf("%s: %s, want %s", c.text, got, c.want)
		}
		if a.Fingerprint() != b.Fingerprint() {
			t.Errorf("%s and %s have different shapes", c.text, c.same)
		}
		if print := string(a.appendPrint(nil)); strings.Contains(print, "secret") || strings.Contains(print, "71234") || strings.Contains(print, "2026") {
			t.Errorf("%s: the shape has a value: %q", c.text, print)
		}
		if a.Bind(SampleEnv()).Never() != (c.want == "count in ()") {
			t.Errorf("%s: no record can meet the shape", c.text)
		}
	}
	for _, c := range [][2]string{{`title = "a"`, `title = null`}, {`title = "a"`, `title != "a"`}, {`title = "a"`, `title = "a" || paid`}, {`count in (1)`, `count in (1, 2)`}, {`count > 1`, `count >= 1`}, {`at > @now - 1d`, `at > @now + 1d`}, {`meta.a = 1`, `meta.b = 1`}} {
		if a, b := shape(c[0]), shape(c[1]); a.Fingerprint() == b.Fingerprint() {
			t.Errorf("%s and %s have the same shape", c[0], c[1])
		}
	}
	long := shape("count in (" + strings.Repeat("1,", 500) + "2)")
	if got := long.Template(s); got != "count in (?, ?, … 512)" {
		t.Error(got)
	}
	for i, b := range long.Bounds(s.Collection)[0].Values {
		for _, other := range long.Bounds(s.Collection)[0].Values[:i] {
			if b == other {
				t.Fatalf("two samples are %v", b)
			}
		}
	}
}
