package history_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/workload/history"
)

// store is a map that does one operation at a time, in the test's own way: what it
// answers is correct.
type store struct {
	rng   *rand.Rand
	text  map[string]string
	lists map[string][]string
	sets  map[string]map[string]bool
	pos   uint64
	old   []map[string]string // text by position
	next  int
}

func newStore(rng *rand.Rand) *store {
	return &store{rng: rng, text: map[string]string{}, lists: map[string][]string{}, sets: map[string]map[string]bool{},
		old: []map[string]string{{}}}
}

func (s *store) value(key string) history.Value {
	v, ok := s.text[key]
	return history.Value{Text: v, Present: ok}
}

func (s *store) number(key string) int64 {
	n, _ := strconv.ParseInt(s.text[key], 10, 64)
	return n
}

func (s *store) put(key string, v history.Value) {
	if v.Present {
		s.text[key] = v.Text
	} else {
		delete(s.text, key)
	}
}

// do runs a step and sets its result.
func (s *store) do(st *history.Step) {
	switch st.Kind {
	case history.Get:
		st.Got = s.value(st.Key)
	case history.Set:
		s.put(st.Key, st.Value)
	case history.Delete:
		st.Done = s.value(st.Key).Present
		delete(s.text, st.Key)
	case history.CAS:
		if st.Done = s.value(st.Key) == st.Expect; st.Done {
			s.put(st.Key, st.Value)
		}
	case history.Add:
		st.Sum = s.number(st.Key) + st.Delta
		s.text[st.Key] = fmt.Sprint(st.Sum)
	case history.Append:
		s.lists[st.Key] = append(s.lists[st.Key], st.Value.Text)
	case history.List:
		st.List = slices.Clone(s.lists[st.Key])
	case history.SetAdd:
		if s.sets[st.Key] == nil {
			s.sets[st.Key] = map[string]bool{}
		}
		st.Done = !s.sets[st.Key][st.Value.Text]
		s.sets[st.Key][st.Value.Text] = true
	case history.SetRead:
		for e := range s.sets[st.Key] {
			st.List = append(st.List, e)
		}
	case history.MGet:
		for _, k := range st.Keys {
			st.Values = append(st.Values, s.value(k))
		}
	case history.MSet:
		for _, p := range st.Pairs {
			s.put(p.Key, p.Value)
		}
	case history.Scan:
		for k := range s.text {
			if strings.HasPrefix(k, st.Prefix) {
				st.Pairs = append(st.Pairs, history.Pair{Key: k, Value: s.value(k)})
			}
		}
		sort.Slice(st.Pairs, func(i, j int) bool { return st.Pairs[i].Key < st.Pairs[j].Key })
	case history.Transfer:
		if st.Done = s.number(st.Key) >= st.Delta; st.Done {
			s.text[st.Key] = fmt.Sprint(s.number(st.Key) - st.Delta)
			s.text[st.To] = fmt.Sprint(s.number(st.To) + st.Delta)
		}
	}
}

// choose returns a random step; mode selects the kind of load.
func (s *store) choose(mode string) history.Step {
	s.next++
	r := s.rng
	key := fmt.Sprint(mode, "/", r.IntN(5))
	fresh := history.Some(fmt.Sprint("v", s.next))
	switch mode {
	case "register":
		return [...]history.Step{
			{Kind: history.Get, Key: key}, {Kind: history.Get, Key: key}, {Kind: history.Set, Key: key, Value: fresh},
			{Kind: history.Set, Key: key, Value: fresh}, {Kind: history.CAS, Key: key, Expect: s.value(key), Value: fresh},
			{Kind: history.Delete, Key: key},
		}[r.IntN(6)]
	case "counter":
		if r.IntN(3) == 0 {
			return history.Step{Kind: history.Get, Key: key}
		}
		return history.Step{Kind: history.Add, Key: key, Delta: 1 + r.Int64N(3)}
	case "list", "set":
		read, add := history.List, history.Append
		if mode == "set" {
			read, add = history.SetRead, history.SetAdd
		}
		if r.IntN(2) == 0 {
			return history.Step{Kind: read, Key: key}
		}
		return history.Step{Kind: add, Key: key, Value: fresh}
	case "bank":
		other := fmt.Sprint(mode, "/", r.IntN(5))
		return [...]history.Step{
			{Kind: history.Scan, Prefix: "bank/"}, {Kind: history.MGet, Keys: []string{key, other}}, {Kind: history.Get, Key: key},
			{Kind: history.Transfer, Key: key, To: other, Delta: r.Int64N(60)}, {Kind: history.Transfer, Key: key, To: other, Delta: r.Int64N(60)},
		}[r.IntN(5)]
	}
	return [...]history.Step{
		{Kind: history.Get, Key: key}, {Kind: history.Set, Key: key, Value: fresh}, {Kind: history.MGet, Keys: []string{key, "txn/0"}},
		{Kind: history.Add, Key: "txn/n", Delta: 1},
	}[r.IntN(4)]
}

// op chooses a random operation and runs it atomically.
func (s *store) op(mode string) history.Op {
	var o history.Op
	if mode == "txn" && s.rng.IntN(2) == 0 {
		o.Kind = history.Txn
		for range 1 + s.rng.IntN(3) {
			st := s.choose(mode)
			s.do(&st)
			o.Steps = append(o.Steps, st)
		}
	} else {
		o.Step = s.choose(mode)
		s.do(&o.Step)
	}
	return o
}

// generate makes a correct history of n operations of clients that overlap, some
// with an unknown outcome, done or not.
func generate(rng *rand.Rand, mode string, n, clients int, unknown float64) []history.Op {
	s := newStore(rng)
	free := make([]int64, clients) // when each client can call again
	var ops []history.Op
	now := int64(0) // the moment at which the store does an operation
	if mode == "bank" {
		pairs := []history.Pair{}
		for i := range 5 {
			pairs = append(pairs, history.Pair{Key: fmt.Sprint("bank/", i), Value: history.Some("100")})
		}
		o := history.Op{Step: history.Step{Kind: history.MSet, Pairs: pairs}, Call: 0, Return: 1, Outcome: history.OK}
		s.do(&o.Step)
		ops, now = append(ops, o), 10
	}
	for len(ops) < n {
		c := rng.IntN(clients)
		now += 1 + rng.Int64N(20)
		call := max(free[c], now-rng.Int64N(100))
		if call > now {
			continue
		}
		var o history.Op
		if rng.Float64() < unknown/2 { // never done
			o = history.Op{Step: s.choose(mode), Outcome: history.Unknown}
		} else {
			o = s.op(mode)
			o.Outcome = history.OK
			if rng.Float64() < unknown/2 {
				o.Outcome = history.Unknown
			}
		}
		o.Client, o.Call, o.Return = int64(c), call, now+rng.Int64N(100)
		free[c] = o.Return + 1
		ops = append(ops, o)
	}
	return ops
}

// position gives an operation that the store has just done its position; now and
// then it is a read of an older state instead.
func (s *store) position(o *history.Op, told uint64) {
	text := make(map[string]string, len(s.text))
	for k, v := range s.text {
		text[k] = v
	}
	if o.Kind == history.Get {
		if s.rng.IntN(2) == 0 {
			o.Level, o.Pos = history.Session, told+s.rng.Uint64N(s.pos-told+1)
			if o.Pos == 0 {
				o.Level, o.Pos = "", s.pos
				return
			}
			v, ok := s.old[o.Pos][o.Key]
			o.Got = history.Value{Text: v, Present: ok}
			return
		}
		o.Pos = s.pos
		return
	}
	if o.Done || o.Kind == history.Set || o.Kind == history.Add {
		s.pos++
		s.old = append(s.old, text)
		o.Pos = s.pos
	}
}

// generatePositions is generate with positions, one operation after another but for
// those with unknown outcomes.
func generatePositions(rng *rand.Rand, mode string, n int) []history.Op {
	s := newStore(rng)
	told := map[int64]uint64{}
	var ops, waiting []history.Op
	for now := int64(10); len(ops) < n; now += 10 {
		o := history.Op{Client: rng.Int64N(4), Step: s.choose(mode), Call: now, Return: now + 5, Outcome: history.OK}
		if o.Kind != history.Get && rng.IntN(8) == 0 {
			o.Outcome = history.Unknown
			waiting = append(waiting, o)
			ops = append(ops, o)
			continue
		}
		if len(waiting) > 0 && rng.IntN(3) == 0 { // one that is done late
			late := waiting[0]
			waiting = waiting[1:]
			s.do(&late.Step)
			s.position(&late, 0)
		}
		s.do(&o.Step)
		s.position(&o, told[o.Client])
		told[o.Client] = max(told[o.Client], o.Pos)
		ops = append(ops, o)
	}
	return ops
}

func TestRandomPositions(t *testing.T) {
	t.Parallel()
	first := seed.Of(t)
	tried, caught := 0, 0
	for i := range uint64(40) {
		for _, mode := range []string{"register", "counter"} {
			rng := rand.New(rand.NewPCG(first+i, 3))
			ops := generatePositions(rng, mode, 80)
			r := history.Check(t.Context(), ops, history.Options{Timeout: time.Minute})
			if r.Verdict != history.Correct {
				t.Fatalf("seed %d, %s: %s\n%s", first+i, mode, r.Verdict, r.Explanation)
			}
			for range 5 { // another position for a read, or another value
				bad := slices.Clone(ops)
				o := &bad[rng.IntN(len(bad))]
				if o.Level != history.Session {
					continue
				}
				tried++
				o.Got = history.Some("0" + o.Got.Text)
				if r := history.Check(t.Context(), bad, history.Options{Timeout: time.Minute}); r.Verdict == history.Violation {
					caught++
				}
			}
		}
	}
	t.Logf("caught %d of %d", caught, tried)
	if caught < tried || tried == 0 {
		t.Errorf("caught only %d of %d", caught, tried)
	}
}

var modes = []string{"register", "counter", "list", "set", "bank", "txn"}

func TestRandomCorrect(t *testing.T) {
	t.Parallel()
	first := seed.Of(t)
	for i := range uint64(30) {
		for _, mode := range modes {
			ops := generate(rand.New(rand.NewPCG(first+i, 0)), mode, 100, 6, 0.05)
			r := history.Check(t.Context(), ops, history.Options{Timeout: time.Minute})
			if r.Verdict != history.Correct {
				t.Fatalf("seed %d, %s: %s\n%s", first+i, mode, r.Verdict, r.Explanation)
			}
		}
	}
}

// mutate changes one result, which may still be correct by chance.
func mutate(rng *rand.Rand, ops []history.Op) bool {
	for range 1000 {
		o := &ops[rng.IntN(len(ops))]
		if o.Outcome != history.OK || o.Kind == history.Txn {
			continue
		}
		st := &o.Step
		switch st.Kind {
		case history.Get:
			st.Got = history.Some(st.Got.Text + "0")
		case history.CAS, history.Delete, history.SetAdd, history.Transfer:
			st.Done = !st.Done
		case history.Add:
			st.Sum++
		case history.List, history.SetRead:
			if len(st.List) < 2 {
				continue
			}
			st.List = slices.Delete(slices.Clone(st.List), 0, 1)
		case history.MGet:
			st.Values[0] = history.Some(st.Values[0].Text + "1")
		case history.Scan:
			if len(st.Pairs) == 0 {
				continue
			}
			st.Pairs = st.Pairs[1:]
		default:
			continue
		}
		return true
	}
	return false
}

func TestRandomViolations(t *testing.T) {
	t.Parallel()
	first := seed.Of(t)
	tried, caught := 0, 0
	for i := range uint64(30) {
		for _, mode := range modes {
			rng := rand.New(rand.NewPCG(first+i, 1))
			ops := generate(rng, mode, 100, 6, 0.03)
			if !mutate(rng, ops) {
				continue
			}
			tried++
			r := history.Check(t.Context(), ops, history.Options{Timeout: time.Minute})
			switch r.Verdict {
			case history.Violation:
				caught++
			case history.Undecided:
				t.Errorf("seed %d, %s: %s", first+i, mode, r.Explanation)
			}
		}
	}
	t.Logf("caught %d of %d", caught, tried)
	if caught*100 < tried*85 {
		t.Errorf("caught only %d of %d", caught, tried)
	}
}

func BenchmarkCheck(b *testing.B) {
	for _, unknown := range []float64{0, 0.03} {
		for _, mode := range modes {
			b.Run(fmt.Sprintf("%s/unknown=%v", mode, unknown), func(b *testing.B) {
				var all [][]history.Op
				for i := range uint64(20) {
					all = append(all, generate(rand.New(rand.NewPCG(i, 2)), mode, 200, 8, unknown))
				}
				b.ReportAllocs()
				worst := time.Duration(0)
				for i := 0; b.Loop(); i++ {
					start := time.Now()
					r := history.Check(b.Context(), all[i%len(all)], history.Options{Timeout: time.Minute})
					if r.Verdict != history.Correct {
						b.Fatal(r.Verdict, r.Explanation)
					}
					worst = max(worst, time.Since(start))
				}
				b.ReportMetric(float64(worst.Microseconds()), "µs-worst")
			})
		}
	}
}
