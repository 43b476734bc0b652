package history_test

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/workload/history"
)

// explainable tries every order: the truth that Check is compared with.
func explainable(done, rest []history.Op) bool {
	needed := slices.ContainsFunc(rest, func(o history.Op) bool { return o.Outcome == history.OK })
	if !needed {
		return true
	}
	for i, o := range rest {
		late := slices.ContainsFunc(rest, func(x history.Op) bool { return x.Outcome == history.OK && x.Return < o.Call })
		if late {
			continue
		}
		order := append(slices.Clone(done), o)
		if o.Outcome == history.OK && !fits(order) {
			continue
		}
		if explainable(order, slices.Delete(slices.Clone(rest), i, i+1)) {
			return true
		}
	}
	return false
}

// fits runs operations one by one and reports whether the last has its result.
func fits(order []history.Op) bool {
	s := newStore(nil)
	for i, o := range order {
		st := o.Step
		st.Got, st.Done, st.Sum, st.List, st.Values = history.Value{}, false, 0, nil, nil
		if st.Kind == history.Scan {
			st.Pairs = nil
		}
		s.do(&st)
		if i < len(order)-1 {
			continue
		}
		if st.Kind == history.SetRead {
			slices.Sort(st.List)
			o.List = slices.Sorted(slices.Values(o.List))
		}
		return len(st.List) == len(o.List) && (len(st.List) == 0 || slices.Equal(st.List, o.List)) &&
			st.Got == o.Got && st.Done == o.Done && st.Sum == o.Sum && reflect.DeepEqual(st.Values, o.Values) && slices.Equal(st.Pairs, o.Pairs)
	}
	return true
}

// TestBruteForce compares verdicts on small histories, one in two of them changed.
func TestBruteForce(t *testing.T) {
	t.Parallel()
	first := seed.Of(t)
	verdicts := map[bool]int{}
	for i := range uint64(150) {
		for _, mode := range []string{"register", "counter", "list", "set", "bank"} {
			rng := rand.New(rand.NewPCG(first+i, 5))
			ops := generate(rng, mode, 7, 3, 0.4)
			if i%2 == 0 {
				mutate(rng, ops)
			}
			for j := range ops { // fewer keys, so that operations meet
				ops[j].Key = squeeze(ops[j].Key, mode)
			}
			want := explainable(nil, ops)
			verdicts[want]++
			r := history.Check(t.Context(), ops, history.Options{})
			if (r.Verdict == history.Correct) != want {
				for _, o := range ops {
					t.Logf("%+v", o)
				}
				t.Fatalf("seed %d, %s: %s, but every order tried says %t\n%s", first+i, mode, r.Verdict, want, r.Explanation)
			}
		}
	}
	t.Logf("explainable: %v", verdicts)
	if verdicts[true] < 100 || verdicts[false] < 100 {
		t.Errorf("one-sided: %v", verdicts)
	}
}

// squeeze leaves two keys of those that a load has.
func squeeze(key, mode string) string {
	if mode == "bank" || key == "" {
		return key
	}
	return mode + "/" + string('0'+(key[len(key)-1]-'0')%2)
}
