package match_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/expr"
	"github.com/skerrydb/skerry/record/match"
	"github.com/skerrydb/skerry/record/query"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/record/value"
)

var noon = time.Date(2026, 1, 10, 12, 0, 0, 0, time.UTC)

func atNoon() time.Time { return noon }

func collection(tb testing.TB) *schema.Compiled {
	k, err := schema.Collection{Name: "orders", Extra: true, Fields: []schema.Field{
		{Name: "owner", Type: schema.Reference, Collection: "orders"}, {Name: "status", Type: schema.Select, Options: []string{"open", "done"}},
		{Name: "total", Type: schema.Int}, {Name: "public", Type: schema.Bool}, {Name: "at", Type: schema.Time}, {Name: "title", Type: schema.Text},
	}}.Compile()
	if err != nil {
		tb.Fatal(err)
	}
	return k
}

// condition returns a condition bound to a user.
func condition(tb testing.TB, k *schema.Compiled, text, user string) *query.Cond {
	tb.Helper()
	x, err := expr.Parse(text)
	if err != nil {
		tb.Fatalf("%s: %v", text, err)
	}
	c, err := query.Check(x, query.Scope{Collection: k, Other: func(string) *schema.Compiled { return k }})
	if err != nil {
		tb.Fatalf("%s: %v", text, err)
	}
	return c.Bind(&query.Env{Auth: query.Auth{ID: user}, KeepTimes: true})
}

type row struct {
	schema.Data
	id string
}

func (r *row) Column(i int) value.Value {
	if i == 0 {
		v, _ := value.OfText(r.id)
		return v
	}
	return value.Value{}
}
func (r *row) Field(i int) value.Value { return r.Get(i) }

func record(tb testing.TB, k *schema.Compiled, id, data string) *row {
	tb.Helper()
	d, err := k.Patch(schema.Data{}, []byte(data))
	if err != nil {
		tb.Fatal(err)
	}
	return &row{d, id}
}

// nilRow returns r as a Row, nil if it is nil.
func nilRow(r *row) query.Row {
	if r == nil {
		return nil
	}
	return r
}

// matched returns what a change is for each subscription that sees something of it.
func matched[T comparable](tb testing.TB, s *match.Set[T], before, after *row) map[T]match.Op {
	tb.Helper()
	all := map[T]match.Op{}
	s.Match(noon, nilRow(before), nilRow(after), func(h match.Hit[T]) {
		for _, sub := range h.Subs {
			if _, ok := all[sub.To]; ok || h.Err != nil {
				tb.Errorf("%v is hit twice, or the change is not known: %v", sub.To, h.Err)
			}
			all[sub.To] = h.Op
		}
	})
	return all
}

func TestMatch(t *testing.T) {
	k := collection(t)
	var s match.Set[string]
	subs := map[string]*match.Sub[string]{}
	for name, c := range map[string]*query.Cond{
		"open":   condition(t, k, `status = "open"`, ""),
		"rich":   condition(t, k, `total > 100`, ""),
		"mine":   condition(t, k, `owner = @auth.id || public`, "u1"),
		"others": condition(t, k, `owner = @auth.id || public`, "u2"),
		"a":      query.IsOneOf("a"),
		"b":      query.IsOneOf("b"),
		"past":   condition(t, k, `at < @now`, ""),
		"never":  condition(t, k, `@auth.id = "root"`, "u1"),
		"always": condition(t, k, `true`, ""),
	} {
		sub, err := s.Add(c, nil, name)
		if err != nil {
			t.Fatal(err)
		}
		subs[name] = sub
	}
	one := record(t, k, "a", `{"owner":"u1","status":"open","total":100,"at":"2026-01-10T11:59:59Z"}`)
	two := record(t, k, "a", `{"owner":"u2","status":"done","total":101,"at":"2026-01-10T12:00:00Z"}`)
	public := record(t, k, "b", `{"owner":"u2","public":true}`)
	for _, c := range []struct {
		before, after *row
		want          map[string]match.Op
	}{
		{nil, one, map[string]match.Op{"a": match.Enter, "always": match.Enter, "mine": match.Enter, "open": match.Enter, "past": match.Enter}},
		{one, two, map[string]match.Op{"a": match.Update, "always": match.Update, "mine": match.Leave, "open": match.Leave, "others": match.Enter, "past": match.Leave, "rich": match.Enter}},
		{two, nil, map[string]match.Op{"a": match.Leave, "always": match.Leave, "others": match.Leave, "rich": match.Leave}},
		{public, public, map[string]match.Op{"b": match.Update, "always": match.Update, "mine": match.Update, "others": match.Update}},
		{nil, nil, map[string]match.Op{}},
	} {
		if got := matched(t, &s, c.before, c.after); !maps.Equal(got, c.want) {
			t.Errorf("%+v to %+v: %v, want %v", c.before, c.after, got, c.want)
		}
	}
	for name, sub := range subs {
		s.Remove(sub)
		s.Remove(sub)
		if _, ok := matched(t, &s, public, one)[name]; ok {
			t.Errorf("%s is matched after its removal", name)
		}
	}
	if n := s.Len(); n != 0 {
		t.Errorf("%d subscriptions are left", n)
	}
}

// TestTest checks that subscriptions with a test are each decided by it, and that a failure is reported to those whom it
// concerns.
func TestTest(t *testing.T) {
	k := collection(t)
	var s match.Set[string]
	broken := errors.New("broken")
	for name, test := range map[string]match.Test{
		"sees":   func(query.Row) (bool, error) { return true, nil },
		"blind":  func(query.Row) (bool, error) { return false, nil },
		"broken": func(query.Row) (bool, error) { return true, broken },
	} {
		if _, err := s.Add(condition(t, k, `owner.title = "x"`, ""), test, name); err != nil {
			t.Fatal(err)
		}
	}
	got := map[string]match.Op{}
	s.Match(noon, nil, record(t, k, "a", `{"owner":"b"}`), func(h match.Hit[string]) {
		for _, sub := range h.Subs {
			got[sub.To] = h.Op
			if (h.Err != nil) != (sub.To == "broken") {
				t.Errorf("%s: %v", sub.To, h.Err)
			}
		}
	})
	if want := map[string]match.Op{"sees": match.Enter, "broken": 0}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestClear(t *testing.T) {
	k := collection(t)
	var s match.Set[int]
	var subs []*match.Sub[int]
	for i := range 100 {
		var test match.Test
		if i%4 == 2 {
			test = func(query.Row) (bool, error) { return true, nil }
		}
		sub, err := s.Add(condition(t, k, []string{`total > 1`, `status = "open"`, `owner.total = 1`, `true`}[i%4], ""), test, i)
		if err != nil {
			t.Fatal(err)
		}
		subs = append(subs, sub)
	}
	cleared := map[int]bool{}
	s.Clear(func(sub *match.Sub[int]) { cleared[sub.To] = true })
	if len(cleared) != 100 || s.Len() != 0 {
		t.Errorf("%d of 100 are cleared, %d are left", len(cleared), s.Len())
	}
	for _, sub := range subs {
		s.Remove(sub)
	}
	if _, err := s.Add(condition(t, k, `true`, ""), nil, 1); err != nil || s.Len() != 1 {
		t.Errorf("add after clear: %d, %v", s.Len(), err)
	}
}

func TestLimits(t *testing.T) {
	k := collection(t)
	var s match.Set[int]
	var last *match.Sub[int]
	for i := range match.MaxScanned {
		sub, err := s.Add(condition(t, k, fmt.Sprint("total != ", i), ""), nil, i)
		if err != nil {
			t.Fatal(err)
		}
		last = sub
	}
	if _, err := s.Add(condition(t, k, "!public", ""), nil, 0); !errors.Is(err, engine.ErrLimit) {
		t.Errorf("one more condition to scan: %v", err)
	}
	s.Remove(last)
	if _, err := s.Add(condition(t, k, "!public", ""), nil, 0); err != nil {
		t.Errorf("in place of one that was removed: %v", err)
	}
	same := condition(t, k, "public", "")
	for s.Len() < match.MaxSubscriptions {
		if _, err := s.Add(same, nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Add(same, nil, 0); !errors.Is(err, engine.ErrLimit) {
		t.Errorf("one more subscription: %v", err)
	}
}

// randomCondition returns the text of a condition of some depth.
func randomCondition(rng *rand.Rand, depth int) string {
	terms := []string{
		fmt.Sprintf(`owner = "u%d"`, rng.IntN(4)), fmt.Sprintf(`"u%d" = owner`, rng.IntN(4)), `owner = @auth.id`, `owner = null`, `public`, `!public`,
		`status = "open"`, `status != "open"`, `status in ("open", null)`, `status in ()`, fmt.Sprintf("total = %d", rng.IntN(3)), fmt.Sprintf("total in (%d, %d, 1)", rng.IntN(3), rng.IntN(3)), fmt.Sprintf("total > %d", rng.IntN(3)),
		fmt.Sprintf("total %s %d", []string{"<", "<=", ">", ">="}[rng.IntN(4)], rng.IntN(40)), fmt.Sprintf("%d %s total", rng.IntN(40), []string{"<", "<=", ">", ">="}[rng.IntN(4)]),
		fmt.Sprintf("total > %d && total <= %d", rng.IntN(40), rng.IntN(40)), fmt.Sprintf("(total < %d || status = null)", rng.IntN(40)), `total >= null`,
		fmt.Sprintf(`title >= "%c"`, 'A'+rng.IntN(26)), fmt.Sprintf(`at < "2026-01-1%d"`, rng.IntN(4)), fmt.Sprintf(`id > "r%d"`, rng.IntN(3)),
		`at < @now`, `at = "2026-01-10"`, `title ~ "a"`, `title = status`, `more = 1`, fmt.Sprintf(`id = "r%d"`, rng.IntN(3)), `true`, `false`, `rev = null`,
	}
	if depth == 0 || rng.IntN(3) == 0 {
		return terms[rng.IntN(len(terms))]
	}
	a, b := randomCondition(rng, depth-1), randomCondition(rng, depth-1)
	return []string{"(" + a + ") && (" + b + ")", "(" + a + ") || (" + b + ")", "!(" + a + ")", a}[rng.IntN(4)]
}

func randomRecord(tb testing.TB, rng *rand.Rand, k *schema.Compiled) *row {
	if rng.IntN(6) == 0 {
		return nil
	}
	data := fmt.Sprintf(`{"owner":%s`, []string{"null", `"u0"`, `"u1"`, `"u2"`}[rng.IntN(4)])
	for _, values := range [][]string{
		{`"public":true`, `"public":false`}, {`"status":"open"`, `"status":"done"`}, {`"total":0`, `"total":1`, `"total":2`, `"total":3`, fmt.Sprintf(`"total":%d`, rng.IntN(42)), fmt.Sprintf(`"total":%d`, rng.IntN(42))},
		{`"at":"2026-01-10"`, `"at":"2026-01-11"`}, {`"title":"open"`, `"title":"A"`}, {`"more":1`, `"more":2`},
	} {
		if rng.IntN(2) == 0 {
			data += "," + values[rng.IntN(len(values))]
		}
	}
	return record(tb, k, fmt.Sprint("r", rng.IntN(3)), data+"}")
}

// TestMatchesNaive compares the Set with the evaluation of every subscription, while subscriptions come and go.
func TestMatchesNaive(t *testing.T) {
	k, rng := collection(t), seed.Rand(t)
	var s match.Set[int]
	type one struct {
		sub  *match.Sub[int]
		cond *query.Cond
		text string
	}
	all, hits := map[int]one{}, 0
	env := &query.Env{Now: atNoon}
	for step := range 1_000 {
		for range rng.IntN(4) {
			text := randomCondition(rng, 3)
			cond := condition(t, k, text, fmt.Sprint("u", rng.IntN(4)))
			sub, err := s.Add(cond, nil, step)
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := all[step]; ok {
				s.Remove(sub)
				continue
			}
			all[step] = one{sub, cond, text}
		}
		if x, ok := all[rng.IntN(step+1)]; ok {
			s.Remove(x.sub)
			delete(all, x.sub.To)
		}
		before, after := randomRecord(t, rng, k), randomRecord(t, rng, k)
		got := matched(t, &s, before, after)
		for i, x := range all {
			was, _ := holds(x.cond, env, before)
			is, _ := holds(x.cond, env, after)
			want := opOf(was, is)
			if got[i] != want {
				t.Fatalf("%s: %+v to %+v is %d, want %d", x.text, before, after, got[i], want)
			}
			delete(got, i)
			if want != 0 {
				hits++
			}
		}
		if len(got) > 0 || s.Len() != len(all) {
			t.Fatalf("hits of subscriptions that are gone: %v; there are %d, want %d", got, s.Len(), len(all))
		}
	}
	if hits < 2_000 {
		t.Errorf("only %d hits: this tests little", hits)
	}
	for _, x := range all {
		s.Remove(x.sub)
	}
	if n := s.Nodes(); n != 0 {
		t.Errorf("%d nodes of the index are left after the last subscription", n)
	}
}

func holds(c *query.Cond, env *query.Env, r *row) (bool, error) {
	if r == nil {
		return false, nil
	}
	return c.Holds(env, r, nil)
}
