package fraud_test

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/examples/fraud"
	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/graph/traversal"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/proc"
)

// bank is the procedures on an engine of their own.
type bank struct {
	*proc.Set
	eng engine.Engine
	db  *graph.DB
}

func open(t *testing.T) *bank {
	t.Helper()
	eng, err := embedded.Open(t.TempDir(), embedded.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { eng.Close() })
	set, err := proc.New(eng, proc.Options{}, fraud.Procedures()...)
	if err != nil {
		t.Fatal(err)
	}
	db, err := graph.New(eng)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.AddIndex(t.Context(), graph.Default, fraud.Index); err != nil {
		t.Fatal(err)
	}
	return &bank{set, eng, db}
}

// expect calls f, which must return want, or fail with code and a message that has text.
func expect[In, Out comparable](t *testing.T, b *bank, f *proc.Func[In, Out], in In, want Out, code engine.Code, text string) {
	t.Helper()
	got, _, err := f.Call(t.Context(), b.Set, in)
	if code == "" && got != want || engine.CodeOf(err) != code || err != nil && !strings.Contains(err.Error(), text) {
		t.Errorf("%s %+v: %v, %v, want %v, %q", f.Schema().Name, in, got, err, want, code)
	}
}

// TestRefused: what is refused has a code and says why, and changes neither keys nor graph.
func TestRefused(t *testing.T) {
	t.Parallel()
	b := open(t)
	long := "A" + strings.Repeat("x", 40)
	expect(t, b, fraud.Open, fraud.OpenIn{Account: "ann", Holder: "Ann", Device: "phone", Card: "visa", Cents: 100}, 100, "", "")
	expect(t, b, fraud.Open, fraud.OpenIn{Account: "ben", Device: "phone"}, 0, "", "")
	expect(t, b, fraud.Pay, fraud.PayIn{"ann", "ben", 30}, fraud.PayOut{"T1", 70, 30}, "", "")
	before := b.state(t)
	for _, in := range []fraud.OpenIn{
		{Account: ""}, {Account: long}, {Account: "1"}, {Account: "a b"}, {Account: "<b>"}, {Account: "cy", Cents: -1}, {Account: "cy", Cents: fraud.MaxCents + 1},
		{Account: "cy", Device: "no/device"}, {Account: "cy", Card: "1"},
	} {
		expect(t, b, fraud.Open, in, 0, engine.CodeInvalid, "")
	}
	expect(t, b, fraud.Open, fraud.OpenIn{Account: "ann"}, 0, fraud.CodeAccountExists, "account ann exists")
	nothing := fraud.PayOut{}
	expect(t, b, fraud.Pay, fraud.PayIn{"ann", "ben", -5}, nothing, engine.CodeInvalid, "and not -5")
	expect(t, b, fraud.Pay, fraud.PayIn{"ann", "ben", 0}, nothing, engine.CodeInvalid, "an amount must be")
	expect(t, b, fraud.Pay, fraud.PayIn{"ann", "ben", fraud.MaxCents + 1}, nothing, engine.CodeInvalid, "an amount must be")
	expect(t, b, fraud.Pay, fraud.PayIn{"ann", "ann", 5}, nothing, engine.CodeInvalid, "two different accounts")
	expect(t, b, fraud.Pay, fraud.PayIn{"ann", "nobody", 5}, nothing, fraud.CodeUnknownAccount, "there is no account nobody")
	expect(t, b, fraud.Pay, fraud.PayIn{"nobody", "ann", 5}, nothing, fraud.CodeUnknownAccount, "there is no account nobody")
	expect(t, b, fraud.Pay, fraud.PayIn{"ann", "2", 5}, nothing, fraud.CodeUnknownAccount, "there is no account") // 2 is a number of a vertex
	expect(t, b, fraud.Pay, fraud.PayIn{"ann", "device/phone", 5}, nothing, fraud.CodeUnknownAccount, "there is no account")
	expect(t, b, fraud.Pay, fraud.PayIn{"ann", "ben", 71}, nothing, fraud.CodeInsufficientFunds, "ann has 70 cents, but 71 are needed")
	expect(t, b, fraud.Fill, fraud.FillIn{1}, fraud.FillOut{}, fraud.CodeNotEmpty, "accounts already")
	if after := b.state(t); after != before {
		t.Errorf("what was refused has changed\n%s\nto\n%s", before, after)
	}
}

// state returns all keys and the whole graph as text.
func (b *bank) state(t *testing.T) string {
	t.Helper()
	var text strings.Builder
	if _, err := b.eng.View(t.Context(), engine.Read{}, func(tx engine.Tx) error {
		for p, err := range tx.Scan(nil, nil) {
			if err != nil {
				return err
			}
			text.WriteString(strconv.Quote(string(p.Key)) + " " + strconv.Quote(string(p.Val)) + "\n")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// TestKeysAndGraphAgree: many make transfers at once, of which some are refused. In each snapshot, also meanwhile, the
// balance of each account is what the edges say, and the sum stays.
func TestKeysAndGraphAgree(t *testing.T) {
	t.Parallel()
	b := open(t)
	s := seed.Of(t)
	const accounts, callers, calls, cents = 6, 6, 40, 1000
	name := func(n int) string { return "a" + strconv.Itoa(n) }
	for n := range accounts {
		expect(t, b, fraud.Open, fraud.OpenIn{Account: name(n), Cents: cents}, cents, "", "")
	}
	var wg sync.WaitGroup
	var made atomic.Int64
	for c := range callers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(s, uint64(c)))
			for i := range calls {
				in := fraud.PayIn{From: name(r.IntN(accounts)), To: name(r.IntN(accounts + 1)), Cents: r.Int64N(cents) - 50}
				_, _, err := fraud.Pay.Call(t.Context(), b.Set, in)
				switch code := engine.CodeOf(err); {
				case err == nil:
					made.Add(1)
				case code != engine.CodeInvalid && code != fraud.CodeUnknownAccount && code != fraud.CodeInsufficientFunds:
					t.Errorf("%+v: %v", in, err)
				}
				if i%10 == 0 {
					b.audit(t, accounts, cents)
				}
			}
		})
	}
	wg.Wait()
	if n := b.audit(t, accounts, cents); int64(n) != made.Load() || n == 0 {
		t.Errorf("%d transfers were made, and %d are in the graph", made.Load(), n)
	}
}

// audit compares keys and graph in one snapshot, and returns the number of transfers.
func (b *bank) audit(t *testing.T, accounts, cents int64) (transfers int) {
	_, err := b.eng.View(t.Context(), engine.Read{}, func(tx engine.Tx) error {
		g, err := graph.Begin(tx, graph.Default, false)
		if err != nil {
			return err
		}
		ctx, sum := context.Background(), int64(0)
		transfers, _, err = traversal.First[int](ctx, traversal.G(g).E().HasLabel("transfer").Count())
		if err != nil {
			return err
		}
		for n := range accounts {
			id := "a" + strconv.FormatInt(n, 10)
			in, err := traversal.All[int64](ctx, traversal.G(g).V(id).InE("transfer").Values("cents"))
			if err != nil {
				return err
			}
			out, err := traversal.All[int64](ctx, traversal.G(g).V(id).OutE("transfer").Values("cents"))
			if err != nil {
				return err
			}
			want := cents
			for _, c := range in {
				want += c
			}
			for _, c := range out {
				want -= c
			}
			e, _, err := kv.In(tx, fraud.Balances).Get([]byte("balance/" + id))
			if err != nil {
				return err
			}
			if string(e.Val) != strconv.FormatInt(want, 10) || want < 0 {
				t.Errorf("the balance of %s is %s, and its edges say %d", id, e.Val, want)
			}
			sum += want
		}
		if sum != accounts*cents {
			t.Errorf("the sum is %d, want %d", sum, accounts*cents)
		}
		return g.End()
	})
	if err != nil {
		t.Error(err)
	}
	return transfers
}
