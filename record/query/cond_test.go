package query

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/record/expr"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/record/value"
)

// collections that refer to each other.
func collections(tb testing.TB) func(name string) *schema.Compiled {
	all := map[string]*schema.Compiled{}
	for _, c := range []schema.Collection{
		{Name: "orders", Fields: []schema.Field{
			{Name: "status", Type: schema.Select, Options: []string{"open", "done"}}, {Name: "total", Type: schema.Decimal}, {Name: "count", Type: schema.Int}, {Name: "ratio", Type: schema.Float},
			{Name: "paid", Type: schema.Bool}, {Name: "at", Type: schema.Time}, {Name: "title", Type: schema.Text}, {Name: "tags", Type: schema.Select, Many: true, Options: []string{"a", "b"}},
			{Name: "meta", Type: schema.JSON}, {Name: "owner", Type: schema.Reference, Collection: "users"}, {Name: "lost", Type: schema.Reference, Collection: "gone"}, {Name: "secret", Type: schema.Password},
		}},
		{Name: "users", Extra: true, Fields: []schema.Field{{Name: "name", Type: schema.Text}, {Name: "boss", Type: schema.Reference, Collection: "users"}}},
	} {
		k, err := c.Compile()
		if err != nil {
			tb.Fatal(err)
		}
		all[c.Name] = k
	}
	return func(name string) *schema.Compiled { return all[name] }
}

// row is a Row of data; its columns are those that are set.
type row struct {
	schema.Data
	columns map[string]value.Value
}

func (r *row) Column(i int) value.Value { return r.columns[schema.Columns()[i].Name] }
func (r *row) Field(i int) value.Value  { return r.Data.Get(i) }

func newRow(tb testing.TB, k *schema.Compiled, data string) *row {
	tb.Helper()
	d, err := k.Patch(schema.Data{}, []byte(data))
	if err != nil {
		tb.Fatal(err)
	}
	id, _ := value.OfText("o1")
	return &row{d, map[string]value.Value{"id": id, "rev": value.OfInt(3), "is_deleted": value.OfBool(false)}}
}

func environment(tb testing.TB) *Env {
	of := collections(tb)
	users := map[string]*row{"u1": newRow(tb, of("users"), `{"name":"Bob","boss":"u2","age":30}`), "u2": newRow(tb, of("users"), `{"name":"Éva"}`)}
	return &Env{Now: func() time.Time { return time.Date(2026, 1, 10, 12, 0, 0, 0, time.UTC) }, Auth: Auth{ID: "u1", Roles: []string{"editor"}, Verified: true},
		Follow: func(collection, id string) (Row, error) {
			if r := users[id]; r != nil && collection == "users" {
				return r, nil
			}
			return nil, nil
		}}
}

func check(tb testing.TB, text string) (*Cond, error) {
	x, err := expr.Parse(text)
	if err != nil {
		tb.Fatalf("%s: %v", text, err)
	}
	of := collections(tb)
	return Check(x, Scope{Collection: of("orders"), Other: of, New: true})
}

// TestTruth pins the meaning of every comparison. Every storage must agree with it.
func TestTruth(t *testing.T) {
	env := environment(t)
	of := collections(t)
	full := newRow(t, of("orders"), `{"status":"open","total":"12.50","count":3,"ratio":0.5,"paid":true,"at":"2026-01-09","title":"Große Ähre_%","tags":["a"],"meta":{"a":{"b":[1,2.0,"x",null]},"n":7,"s":"Text"},"owner":"u1"}`)
	empty := newRow(t, of("orders"), `{}`)
	for _, c := range []struct {
		text        string
		full, empty bool
	}{
		{`status = "open"`, true, false}, {`status != "open"`, false, true}, {`status = null`, false, true}, {`status != null`, true, false}, {`null = status`, false, true},
		{`total > 12`, true, false}, {`total >= 12.5`, true, false}, {`total < "12.51"`, true, false}, {`12.5 = total`, true, false}, {`total = count`, false, true}, {`total > count`, true, false}, {`ratio < count`, true, false},
		{`count <= 3`, true, false}, {`count < 3`, false, false}, {`count >= null`, false, false}, {`!(count < 3)`, true, true}, {`count in (1, "3", null)`, true, true}, {`count not in (1)`, true, true}, {`count in ()`, false, false},
		{`paid`, true, false}, {`!paid`, false, true}, {`paid = false`, false, false}, {`paid != true`, false, true},
		{`at > @now - 2d`, true, false}, {`at > @now - 1d`, false, false}, {`at = "2026-01-09T01:00:00+01:00"`, true, false}, {`at + 1d < @now`, true, false}, {`at >= @today - 24h`, true, false}, {`at > "9999-12-31" + 1w`, false, false},
		{`title ~ "GROSSE"`, false, false}, {`title ~ "große ä"`, true, false}, {`title ~ "g%ähre%"`, true, false}, {`title ~ "g%ähre"`, false, false}, {`title ~ "\\%"`, true, false}, {`title !~ "x"`, true, true}, {`title ~ ""`, true, false}, {`title ~ status`, false, false},
		{`title < "H"`, true, false}, {`tags ?= "a"`, true, false}, {`tags ?= "b"`, false, false}, {`!(tags ?= "b")`, true, true}, {`@auth.roles ?= "editor"`, true, true}, {`tags = null`, false, true},
		{`meta.a.b ?= 2`, true, false}, {`meta.a.b ?= "x"`, true, false}, {`meta.a.b ?= null`, true, false}, {`meta.a.c = null`, true, true}, {`meta.n > 6.5`, true, false}, {`meta.n > "6"`, false, false}, {`meta.s ~ "TEX"`, true, false}, {`meta.n ~ "7"`, false, false}, {`meta != null`, true, false},
		{`owner.name = "Bob"`, true, false}, {`owner.boss.name ~ "é"`, true, false}, {`owner.boss.boss.name = null`, true, true}, {`owner.age > 29`, true, false}, {`owner = @auth.id`, true, false}, {`owner.id = null`, false, true},
		{`@auth.verified && @auth.id != null && @auth.email = null`, true, true}, {`id = "o1" && rev = 3 && is_deleted = false && created = null`, true, true},
		{`@new.count > 3`, false, false}, {`1 < 2`, true, true}, {`true`, true, true}, {`false`, false, false},
	} {
		cond, err := check(t, c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		for r, want := range map[*row]bool{full: c.full, empty: c.empty} {
			got, err := cond.Holds(env, r, nil)
			bound, boundErr := cond.Bind(env).Holds(env, r, nil)
			if err != nil || boundErr != nil || got != want || bound != want {
				t.Errorf("%s: %v, bound %v, %v, want %v (a full record: %v)", c.text, got, bound, err, want, r == full)
			}
		}
	}
	cond, err := check(t, "@new.count > count")
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := cond.Holds(env, full, newRow(t, of("orders"), `{"count":4}`)); !ok || err != nil {
		t.Error("@new is not the record after the change")
	}
}

func TestCheckErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`stats = "open"`, `orders has no field "stats"; did you mean status? at character 1`},
		{`status = "opne"`, `status has no option "opne"; did you mean open? at character 10`},
		{`count = "x"`, `"x" is not an int at character 9`}, {`count = 1.5`, `"1.5" is not an int at character 9`}, {`count = true`, "true is not an int at character 9"},
		{`paid = 1`, "1 is not a bool at character 8"}, {`at > 5`, "5 is not a time at character 6"}, {`title = 5`, "5 is not text at character 9"},
		{`count`, "count is an int, not a condition; compare it with a value at character 1"}, {`title && paid`, "title is text, not a condition; compare it with a value at character 1"},
		{`count = title`, "count is an int and title is text; they cannot be compared at character 1"}, {`count ~ "1"`, "~ needs text, but count is an int at character 1"},
		{`@auth.id != ""`, `@auth.id of a stranger is null, not ""; compare it with null at character 1`}, {`"" = @auth.email`, `@auth.email of a stranger is null, not ""; compare it with null at character 6`},
		{`count ?= 1`, "?= needs a list, but count is an int at character 1"}, {`@auth.di = "x"`, "unknown name @auth.di; did you mean auth.id? at character 1"},
		{`secret = "x"`, "secret is a password and cannot be compared at character 1"}, {`title.x = 1`, `title is text and has no member "x" at character 1`},
		{`owner.boss.boss.boss.name = "x"`, "more than 3 references in one path at character 1"}, {`lost.name = 1`, "lost refers to the unknown collection gone at character 1"},
		{`count - 1d > @now`, "count is an int, not a time at character 1"}, {`"x" - 1d > @now`, `"x" is not a time at character 1`}, {`a.b = 1 && count = 1`, `orders has no field "a" at character 1`},
		{`null`, "null is null, not a condition; compare it with a value at character 1"}, {`"a" = 1`, `"a" is text and 1 is an int; they cannot be compared at character 1`},
		{`count = 1 || (paid && @new.cuont = 3)`, `orders has no field "cuont"; did you mean count? at character 23`},
	} {
		_, err := check(t, c.text)
		var e *expr.Error
		if !errors.As(err, &e) || err.Error() != c.want {
			t.Errorf("%s: %v\nwant %s", c.text, err, c.want)
		}
	}
}

func TestFollowFails(t *testing.T) {
	broken := errors.New("broken")
	env := &Env{Follow: func(string, string) (Row, error) { return nil, broken }}
	of := collections(t)
	r := newRow(t, of("orders"), `{"owner":"u1"}`)
	for _, text := range []string{`owner.name = "x"`, `!(owner.name = "x")`, `owner.name in ("x")`, `paid || owner.name = "x"`, `"x" in (owner.name)`} {
		cond, err := check(t, text)
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := cond.Holds(env, r, nil); ok || !errors.Is(err, broken) {
			t.Errorf("%s: %v, %v", text, ok, err)
		}
	}
}

// randomText returns the text of a random condition on orders.
func randomText(rng *rand.Rand, depth int) string {
	pick := func(all ...string) string { return all[rng.IntN(len(all))] }
	if depth > 0 {
		switch rng.IntN(5) {
		case 0:
			return "(" + randomText(rng, depth-1) + " && " + randomText(rng, depth-1) + ")"
		case 1:
			return "(" + randomText(rng, depth-1) + " || " + randomText(rng, depth-1) + ")"
		case 2:
			return "!(" + randomText(rng, depth-1) + ")"
		}
	}
	order := pick("=", "!=", "<", "<=", ">", ">=")
	switch rng.IntN(8) {
	case 0:
		return pick("count", "total", "ratio", "rev", "meta.n") + " " + order + " " + pick("0", "3", "null")
	case 1:
		return pick("3", "null", "0") + " " + order + " " + pick("count", "rev")
	case 2:
		return pick("status", "null", `"open"`) + " " + pick("=", "!=") + " " + pick("status", "null", `"done"`)
	case 3:
		return "at " + order + " @now" + pick("", " - 1d", " + 1w")
	case 4:
		return pick("count in (1, 3, null)", "count not in (0)", "status in ()", `status in ("open")`)
	case 5:
		return pick("paid", "@auth.verified", "true", "false")
	case 6:
		return "owner " + order + " " + pick("@auth.id", "@auth.email", `"u2"`)
	}
	return pick(`title ~ "a"`, `title ~ "%b"`, `tags ?= "a"`, `@auth.roles ?= "editor"`, "1 = 1", "@new.count > count")
}

// TestBind checks that binding changes nothing, and that every record that meets a condition is within its bounds.
func TestBind(t *testing.T) {
	rng := seed.Rand(t)
	env, k := environment(t), collections(t)("orders")
	var rows []*row
	for range 60 {
		var parts []string
		for _, all := range [][]string{{`"count":3`, `"count":0`, `"count":1`}, {`"total":"12.5"`, `"total":"3"`}, {`"status":"open"`, `"status":"done"`}, {`"at":"2026-01-09T12:00:00Z"`, `"at":"2026-01-10T12:00:00Z"`},
			{`"paid":true`, `"paid":false`}, {`"owner":"u1"`, `"owner":"u2"`}, {`"title":"ab"`, `"title":""`}, {`"tags":["a"]`}, {`"meta":{"n":3}`}} {
			if rng.IntN(3) > 0 {
				parts = append(parts, all[rng.IntN(len(all))])
			}
		}
		rows = append(rows, newRow(t, k, "{"+strings.Join(parts, ",")+"}"))
	}
	bounds := 0
	for range 3_000 {
		text := randomText(rng, 3)
		cond, err := check(t, text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		b := cond.Bind(env)
		for _, r := range rows {
			after := rows[rng.IntN(len(rows))]
			want, _ := cond.Holds(env, r, after)
			if got, _ := b.Holds(env, r, after); got != want {
				t.Fatalf("%s: bound %v, want %v, for %s", text, got, want, k.Append(nil, r.Data))
			}
			if b.Always() && !want || b.Never() && want {
				t.Fatalf("%s: always %v, never %v, but %v", text, b.Always(), b.Never(), want)
			}
			if inside := !slices.ContainsFunc(b.Bounds(k), func(x Bound) bool { return !within(k, r, x) }); b.Bounded(k) && inside != want {
				t.Fatalf("%s: %s is within the bounds: %v, but meets the condition: %v", text, k.Append(nil, r.Data), inside, want)
			} else if b.Bounded(k) {
				bounds++
			}
			if !want {
				continue
			}
			for _, x := range b.Bounds(k) {
				if bounds++; !within(k, r, x) {
					t.Fatalf("%s: %s is not within %s %v %v", text, k.Append(nil, r.Data), x.Name, x.Op, x.Values)
				}
			}
		}
	}
	if bounds == 0 {
		t.Error("there were no bounds")
	}
}

// within reports whether a record meets a bound.
func within(k *schema.Compiled, r *row, b Bound) bool {
	v := r.columns[b.Name]
	if i, ok := k.Index(b.Name); ok {
		v = r.Field(i)
	}
	for _, want := range b.Values {
		if (&Cond{op: b.Op}).compare(v, want) {
			return true
		}
	}
	return false
}

func TestPattern(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"k", "\u212a", true}, {"\u212a", "K", true}, {"s", "ſ", true}, {"é", "É", true}, {"e", "é", false}, {"%", "", true}, {"%%", "x", true}, {"a%a", "a", false}, {"a%a", "aa", true}, {"a%b%a", "aba", true}, {"a%b%a", "abca", true},
		{"%b%", "abc", true}, {"b%", "abc", false}, {`100\%`, "100%", true}, {`100\%`, "1000", false}, {`a\\b`, `a\b`, true}, {`a\b`, `a\b`, true}, {"", "", true}, {"x", "", false}, {"i", "İ", false}, {"istanbul", "İSTANBUL", false}, {"ß", "ẞ", true},
	} {
		if got := newPattern(c.pattern).match(c.text); got != c.want {
			t.Errorf("%q ~ %q is %v", c.text, c.pattern, got)
		}
	}
	for r := rune(1); r <= unicode.MaxRune; r++ { // letters match as strings.EqualFold has it
		next := unicode.SimpleFold(r)
		if next == r && fold(string(r)) != string(r) && utf8.ValidRune(r) {
			t.Errorf("%U has no other case, and is folded to %q", r, fold(string(r)))
		}
		if fold(string(r)) != fold(string(next)) {
			t.Errorf("%U and %U do not match", r, next)
		}
	}
	many := newPattern(strings.Repeat("a%", 1000) + "b")
	if many.match(strings.Repeat("a", 100_000)) {
		t.Error("a text without b matches")
	}
}

func ExampleCheck() {
	c, _ := schema.Collection{Name: "orders", Fields: []schema.Field{{Name: "total", Type: schema.Int}}}.Compile()
	x, _ := expr.Parse("totl > 100")
	_, err := Check(x, Scope{Collection: c})
	fmt.Println(err)
	// Output: orders has no field "totl"; did you mean total? at character 1
}
