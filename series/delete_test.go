package series

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
)

func match(t *testing.T, text string) []Matcher {
	t.Helper()
	m, err := ParseSelector(text)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestDelete: series are deleted at random, while others are written, sealed and merged. What is deleted is gone at once and
// on every node, and never comes back; what is written afterwards, also at the same times, is there. In the end nothing is
// left of them.
func TestDelete(t *testing.T) {
	rng := seed.Rand(t)
	e := newExpiring(t, Collection{Name: "c"})
	other := e.node()
	m := model{}
	for round := range 60 {
		var names []string
		for i := range 12 {
			names = append(names, fmt.Sprintf("m%d", i))
		}
		ids := e.define(names...)
		var b Batch
		for range rng.IntN(40) {
			i := rng.IntN(len(ids))
			at, v, name := now.UnixNano()-int64(rng.IntN(50))*int64(time.Hour), rng.Float64(), labels(t, names[i], "k", "v").String()
			b.Add(ids[i], at, v)
			if m[name] == nil {
				m[name] = map[int64]uint64{}
			}
			m[name][at] = math.Float64bits(v)
		}
		if _, err := e.s.Append(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
		if rng.IntN(3) == 0 {
			i := rng.IntN(10)
			n, _, err := e.s.Delete(t.Context(), match(t, fmt.Sprintf(`{__name__=~"m%d|m%d|none"}`, i, i+2)))
			if err != nil || n != 2 {
				t.Fatalf("%d series are deleted, want 2: %v", n, err)
			}
			delete(m, labels(t, names[i], "k", "v").String())
			delete(m, labels(t, names[i+2], "k", "v").String())
			m.check(t, e.s, Query{}, nil)
		}
		if rng.IntN(3) == 0 {
			e.work()
		}
		if rng.IntN(8) == 0 {
			e.reopen()
		}
		m.check(t, e.s, Query{}, nil)
		m.check(t, other, Query{Match: match(t, `{k="v"}`)}, nil)
		if a, b := e.s.Stats(), other.Stats(); a != b {
			t.Fatalf("round %d: the nodes have %+v and %+v", round, a, b)
		}
	}
	e.work()
	m.check(t, e.node(), Query{}, nil)
	left := e.s.Stats().Series
	if n, _, err := e.s.Delete(t.Context(), match(t, `{k="v"}`)); err != nil || n != left {
		t.Fatalf("%d series are deleted, want %d: %v", n, left, err)
	}
	for _, s := range []*Store{e.s, other, e.node()} {
		e.is(s, "in the end")
		if st := s.Stats(); st.Unsealed != 0 {
			t.Errorf("%d samples are in memory", st.Unsealed)
		}
	}
}

// TestDeleteFrees: merging leaves out what was deleted, and a part of which nothing is left is none.
func TestDeleteFrees(t *testing.T) {
	e := newExpiring(t, Collection{Name: "c"})
	fill := func(id ID) {
		t.Helper()
		for i := range 21 {
			var b Batch
			b.Add(id, now.UnixNano()-int64(i), float64(i))
			if _, err := e.s.Append(t.Context(), &b); err != nil {
				t.Fatal(err)
			}
		}
	}
	keep := e.define("keep")[0]
	for _, name := range []string{"a", "b"} {
		id := e.define(name)[0]
		fill(id)
		if name == "b" {
			fill(keep)
		}
		if _, _, err := e.s.Delete(t.Context(), match(t, name)); err != nil {
			t.Fatal(err)
		}
		fill(e.define("c")[0])
		fill(e.define("d")[0])
		e.work()
		if _, _, err := e.s.Delete(t.Context(), match(t, `{__name__=~"c|d"}`)); err != nil {
			t.Fatal(err)
		}
	}
	fill(keep)
	fill(keep)
	fill(keep)
	e.work()
	if st := e.s.Stats(); int(st.Samples)+st.Unsealed > 4*21+20 {
		t.Errorf("%+v: more than what was kept", st)
	}
	if n := count(t, e.s, Query{}); n != 21 {
		t.Errorf("%d samples, want 21", n)
	}
	noOrphans(t, e.s)
}

// TestDeleteWhileAppended forces a deletion between the check of a batch and its transaction.
func TestDeleteWhileAppended(t *testing.T) {
	e := newExpiring(t, Collection{Name: "c"})
	ids := e.define("a", "b")
	remove := func(func(engine.Tx) error) error {
		e.eng.before = nil
		_, _, err := e.s.Delete(t.Context(), match(t, "a"))
		return err
	}
	e.eng.before = remove
	if err := e.append(ids[0], 1); engine.CodeOf(err) != CodeGone {
		t.Errorf("%v, want %s", err, CodeGone)
	}
	again := e.define("a")[0]
	e.eng.before = remove
	if err := e.append(ids[1], 1); err != nil {
		t.Errorf("of another series: %v", err)
	}
	var b Batch
	b.Add(ids[1], now.UnixNano()-1, 1)
	b.Add(again, now.UnixNano(), 1)
	if _, err := e.s.Append(t.Context(), &b); engine.CodeOf(err) != CodeGone || !strings.Contains(err.Error(), fmt.Sprint(again)) {
		t.Errorf("a batch of both: %v", err)
	}
	for _, s := range []*Store{e.s, e.node()} {
		e.is(s, "in the end", "b")
		if n := count(t, s, Query{}); n != 1 {
			t.Errorf("%d samples, want 1", n)
		}
	}
}

// TestDeleteWhileSealed forces a deletion, of some series and of all, before each transaction of the work that seals and
// merges.
func TestDeleteWhileSealed(t *testing.T) {
	deleteWhileSealed(t, "a", 30)
	deleteWhileSealed(t, `{k="v"}`, 0)
}

func deleteWhileSealed(t *testing.T, what string, left int) {
	t.Helper()
	for step := 1; ; step++ {
		e := newExpiring(t, Collection{Name: "c"})
		ids := e.define("a", "b")
		for i := range 60 {
			var b Batch
			b.Add(ids[i%2], now.UnixNano()-int64(i), float64(i))
			if _, err := e.s.Append(t.Context(), &b); err != nil {
				t.Fatal(err)
			}
		}
		n := 0
		e.eng.before = func(func(engine.Tx) error) error {
			if n++; n != step {
				return nil
			}
			before := e.eng.before
			e.eng.before = nil
			defer func() { e.eng.before = before }()
			_, _, err := e.s.Delete(t.Context(), match(t, what))
			return err
		}
		e.work()
		e.eng.before = nil
		for _, s := range []*Store{e.s, e.node()} {
			if got := count(t, s, Query{}); n >= step && got != left {
				t.Fatalf("step %d: %d samples, want %d", step, got, left)
			}
			_, h := s.state()
			for _, p := range h.allParts() {
				if p.samples == 0 {
					t.Errorf("step %d: part %d is empty", step, p.no)
				}
			}
		}
		if n < step {
			t.Logf("%d steps", step-1)
			return
		}
	}
}

// TestDeleteMany: each series of several transactions is deleted once, and if one fails, the others can be deleted later.
func TestDeleteMany(t *testing.T) {
	e := newExpiring(t, Collection{Name: "c"})
	var all []Labels
	for i := range MaxDefine + 10 {
		all = append(all, labels(t, "m", "i", fmt.Sprint(i)))
	}
	if _, err := e.s.Define(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	died, n := errors.New("died"), 0
	e.eng.before = func(func(engine.Tx) error) error {
		if n++; n == 2 {
			return died
		}
		return nil
	}
	if n, _, err := e.s.Delete(t.Context(), match(t, "m")); n != MaxDefine || !errors.Is(err, died) {
		t.Errorf("%d series are deleted: %v", n, err)
	}
	e.eng.before = nil
	if n, _, err := e.s.Delete(t.Context(), match(t, "m")); n != 10 || err != nil {
		t.Errorf("%d series are deleted: %v", n, err)
	}
	e.is(e.node(), "in the end")
	if n, _, err := e.s.Delete(t.Context(), match(t, "m")); n != 0 || err != nil {
		t.Errorf("%d series are deleted: %v", n, err)
	}
	if _, _, err := e.s.Delete(t.Context(), nil); engine.CodeOf(err) != CodeMatcher {
		t.Errorf("without a matcher: %v", err)
	}
	tables := open(t, newMemory(t), Options{}, Collection{Name: "c"})[0]
	if _, _, err := tables.Delete(t.Context(), match(t, "m")); engine.CodeOf(err) != engine.CodeUnsupported {
		t.Errorf("in tables: %v", err)
	}
}
