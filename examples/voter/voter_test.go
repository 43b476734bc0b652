package voter_test

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/examples/exampletest"
	"github.com/skerrydb/skerry/examples/voter"
	"github.com/skerrydb/skerry/proc"
)

// newSet returns the vote on a new engine, with all contestants.
func newSet(t testing.TB) *proc.Set {
	t.Helper()
	set := exampletest.Set(t, voter.Procedures()...)
	if n, _, err := voter.Initialize.Call(t.Context(), set, voter.InitializeIn{Contestants: voter.MaxContestants}); n != voter.MaxContestants || err != nil {
		t.Fatalf("initialize: %d, %v", n, err)
	}
	return set
}

func TestOnePhone(t *testing.T) {
	t.Parallel()
	set := newSet(t)
	cast := func(phone int64, contestant int) (int64, error) {
		n, _, err := voter.Vote.Call(t.Context(), set, voter.VoteIn{Phone: phone, Contestant: contestant, MaxVotes: 2})
		return n, err
	}
	const newYork, nowhere = 212_555_0123, 999_555_0123
	for i, c := range []struct {
		phone      int64
		contestant int
		want       int64
		code       engine.Code
	}{
		{newYork, 3, 1, ""},
		{newYork, 13, 0, voter.CodeUnknownContestant},
		{newYork, 0, 0, voter.CodeUnknownContestant},
		{newYork, 1, 2, ""},
		{newYork, 3, 0, voter.CodeTooManyVotes},
		{nowhere, 3, 1, ""},
		{199_999_9999, 3, 0, engine.CodeInvalid},
		{1_000_000_0000, 3, 0, engine.CodeInvalid},
	} {
		if got, err := cast(c.phone, c.contestant); got != c.want || engine.CodeOf(err) != c.code {
			t.Errorf("call %d: %d, %v, want %d, %q", i, got, err, c.want, c.code)
		}
	}
	all, _, err := voter.Results.Call(t.Context(), set, struct{}{})
	if err != nil || len(all) != voter.MaxContestants {
		t.Fatalf("%v, %v", all, err)
	}
	for i, want := range []voter.Result{{3, "Cato Holm", 2, "NY"}, {1, "Alda Strand", 1, "NY"}, {2, "Bryn Calder", 0, ""}} {
		if all[i] != want {
			t.Errorf("place %d: %v, want %v", i+1, all[i], want)
		}
	}
	totals, _, err := voter.Check.Call(t.Context(), set, struct{}{})
	if want := (voter.Totals{Phones: 2, ByPhone: 3, ByContestant: 3, ByState: 3}); totals != want || err != nil {
		t.Errorf("check: %+v, %v, want %+v", totals, err, want)
	}
}

func TestInitializeAgainKeepsVotes(t *testing.T) {
	t.Parallel()
	set := newSet(t)
	if _, _, err := voter.Vote.Call(t.Context(), set, voter.VoteIn{Phone: voter.Phone(1), Contestant: 12, MaxVotes: 1}); err != nil {
		t.Fatal(err)
	}
	if n, _, err := voter.Initialize.Call(t.Context(), set, voter.InitializeIn{Contestants: 12}); n != 0 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	for _, n := range []int{-1, 0, voter.MaxContestants + 1} {
		if _, _, err := voter.Initialize.Call(t.Context(), set, voter.InitializeIn{Contestants: n}); engine.CodeOf(err) != engine.CodeInvalid {
			t.Errorf("%d contestants: %v", n, err)
		}
	}
	if totals, _, err := voter.Check.Call(t.Context(), set, struct{}{}); totals.ByContestant != 1 || !totals.Agree() || err != nil {
		t.Errorf("%+v, %v", totals, err)
	}
}

// TestManyAtOnce: with few phones, many concurrent votes are refused. Each phone has exactly as many votes as
// it may, and the counters agree with the replies, also in the middle.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	set := newSet(t)
	const callers, calls, phones, limit = 8, 300, 50, 3
	var acked, refused atomic.Int64
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(c)))
			for i := range calls {
				in := voter.VoteIn{Phone: voter.Phone(rnd.Uint64N(phones)), Contestant: 1 + rnd.IntN(12), MaxVotes: limit}
				_, _, err := voter.Vote.Call(t.Context(), set, in)
				switch {
				case err == nil:
					acked.Add(1)
				case engine.CodeOf(err) == voter.CodeTooManyVotes:
					refused.Add(1)
				default:
					t.Error(err)
				}
				if i%100 == 0 {
					if totals, _, err := voter.Check.Call(t.Context(), set, struct{}{}); !totals.Agree() || err != nil {
						t.Errorf("in the middle: %+v, %v", totals, err)
					}
				}
			}
		})
	}
	wg.Wait()
	want := voter.Totals{Phones: phones, ByPhone: phones * limit, ByContestant: phones * limit, ByState: phones * limit}
	if totals, _, err := voter.Check.Call(t.Context(), set, struct{}{}); totals != want || err != nil {
		t.Errorf("%+v, %v, want %+v", totals, err, want)
	}
	if acked.Load() != phones*limit || acked.Load()+refused.Load() != callers*calls {
		t.Errorf("%d acknowledged, %d refused", acked.Load(), refused.Load())
	}
}

func TestPhones(t *testing.T) {
	t.Parallel()
	seen := map[int64]bool{}
	for n := range uint64(10_000) {
		p := voter.Phone(n * 199_999)
		if p < 200_000_0000 || p > 999_999_9999 || seen[p] {
			t.Fatalf("number %d makes the phone %d", n, p)
		}
		if seen[p] = true; voter.StateOf(p) == voter.Nowhere {
			t.Fatalf("phone %d is nowhere", p)
		}
	}
	for phone, want := range map[int64]string{212_555_0123: "NY", 907_555_0123: "AK", 999_555_0123: voter.Nowhere} {
		if got := voter.StateOf(phone); got != want {
			t.Errorf("%d: %s, want %s", phone, got, want)
		}
	}
}

// BenchmarkVote is one caller in process, which waits for the disk every time.
func BenchmarkVote(b *testing.B) {
	set := newSet(b)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		in := voter.VoteIn{Phone: voter.Phone(uint64(i % 1_000_000)), Contestant: 1 + i%12, MaxVotes: 1_000_000}
		if _, _, err := voter.Vote.Call(b.Context(), set, in); err != nil {
			b.Fatal(err)
		}
	}
}
