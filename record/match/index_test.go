package match_test

import (
	"fmt"
	"maps"
	"testing"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/record/match"
	"github.com/skerrydb/skerry/record/query"
)

// TestLooksAtFew checks that of 5,000 different conditions a change evaluates those that see something of it, and hardly
// any others.
func TestLooksAtFew(t *testing.T) {
	const n = 5_000
	k := collection(t)
	was := record(t, k, "r7", `{"owner":"u7","status":"open","total":7,"title":"g"}`)
	is := record(t, k, "r7", `{"owner":"u7","status":"open","total":8,"title":"g"}`)
	for _, c := range []struct {
		text         func(i int) string
		hits, wasted int
	}{
		{func(i int) string { return fmt.Sprintf("total > %d", i) }, 8, 0},
		{func(i int) string { return fmt.Sprintf("total <= %d", i) }, n - 7, 0},
		{func(i int) string { return fmt.Sprintf("total < %d", n-i) }, n - 7, 0},
		{func(i int) string { return fmt.Sprintf("total >= %d && total < %d", i*2, i*2+2) }, 2, 0},
		{func(i int) string { return fmt.Sprintf("total > %d && total < %d", -i, i-100) }, n - 108, 0},
		{func(i int) string { return fmt.Sprintf(`status = "open" && total > %d`, i) }, 8, 8},
		{func(i int) string { return fmt.Sprintf(`status = "done" && total > %d`, i) }, 0, 0},
		{func(i int) string { return fmt.Sprintf(`(status = "open" || public) && total > %d`, i) }, 8, 8},
		{func(i int) string { return fmt.Sprintf(`status in ("open", null) && owner = "u%d" && total > 2`, i) }, 1, 8},
		{func(i int) string { return fmt.Sprintf(`title > "g%04d" || id = "r%d"`, i, i) }, 1, 0},
		{func(i int) string { return fmt.Sprintf(`title ~ "%d"`, i) }, 0, n}, // what no index helps with
	} {
		t.Run(c.text(1), func(t *testing.T) {
			var s match.Set[int]
			looked := map[int]bool{}
			for i := range n {
				cond := condition(t, k, c.text(i), "")
				test := func(r query.Row) (bool, error) {
					looked[i] = true
					return cond.Holds(&query.Env{Now: atNoon}, r, nil)
				}
				if _, err := s.Add(cond, test, i); err != nil {
					t.Fatal(err)
				}
			}
			got := matched(t, &s, was, is)
			if wasted := len(looked) - len(got); len(got) != c.hits || wasted > c.wasted {
				t.Errorf("%d hits, want %d; %d others were evaluated, want at most %d", len(got), c.hits, wasted, c.wasted)
			}
		})
	}
}

// TestIntervals compares an index of many intervals of one field with the evaluation of each, while they come and go.
func TestIntervals(t *testing.T) {
	k, rng := collection(t), seed.Rand(t)
	var s match.Set[int]
	subs, conds := map[int]*match.Sub[int]{}, map[int]*query.Cond{}
	env := &query.Env{Now: atNoon}
	for i := range 2_000 {
		low := rng.IntN(1_000)
		text := []string{
			fmt.Sprintf("total > %d", low), fmt.Sprintf("total <= %d", low), fmt.Sprintf("total = %d", low),
			fmt.Sprintf("total >= %d && total < %d", low, low+1+rng.IntN(20)), fmt.Sprintf("total > %d && total <= %d", low, low+rng.IntN(500)),
		}[rng.IntN(5)]
		conds[i] = condition(t, k, text, "")
		sub, err := s.Add(conds[i], nil, i)
		if err != nil {
			t.Fatal(err)
		}
		subs[i] = sub
		if gone := rng.IntN(i + 1); rng.IntN(3) == 0 && subs[gone] != nil {
			s.Remove(subs[gone])
			delete(subs, gone)
			delete(conds, gone)
		}
		if i%20 != 0 {
			continue
		}
		before, after := record(t, k, "a", fmt.Sprintf(`{"total":%d}`, rng.IntN(1_100)-50)), record(t, k, "a", fmt.Sprintf(`{"total":%d}`, rng.IntN(1_100)-50))
		want := map[int]match.Op{}
		for i, c := range conds {
			was, _ := c.Holds(env, before, nil)
			is, _ := c.Holds(env, after, nil)
			if op := opOf(was, is); op != 0 {
				want[i] = op
			}
		}
		if got := matched(t, &s, before, after); !maps.Equal(got, want) {
			t.Fatalf("after %d conditions: %v, want %v", i+1, got, want)
		}
	}
	for _, sub := range subs {
		s.Remove(sub)
	}
	if n := s.Nodes(); n != 0 {
		t.Errorf("%d nodes of the index are left after the last subscription", n)
	}
}

func opOf(was, is bool) match.Op {
	switch {
	case was && is:
		return match.Update
	case is:
		return match.Enter
	case was:
		return match.Leave
	}
	return 0
}
