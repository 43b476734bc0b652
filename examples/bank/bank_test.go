package bank_test

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/examples/bank"
	"github.com/skerrydb/skerry/examples/exampletest"
	"github.com/skerrydb/skerry/proc"
)

// expect calls f, which must return want, or fail with code.
func expect[In, Out comparable](t *testing.T, set *proc.Set, f *proc.Func[In, Out], in In, want Out, code engine.Code) {
	t.Helper()
	got, _, err := f.Call(t.Context(), set, in)
	if got != want || engine.CodeOf(err) != code {
		t.Errorf("%s %+v: %v, %v, want %v, %q", f.Schema().Name, in, got, err, want, code)
	}
}

func TestRules(t *testing.T) {
	t.Parallel()
	set := exampletest.Set(t, bank.Procedures()...)
	long := strings.Repeat("x", bank.MaxName+1)
	expect(t, set, bank.Open, bank.AmountIn{Account: "anna", Cents: 100}, 100, "")
	expect(t, set, bank.Open, bank.AmountIn{Account: "ben"}, 0, "")
	expect(t, set, bank.Open, bank.AmountIn{Account: "anna", Cents: 5}, 0, bank.CodeAccountExists)
	expect(t, set, bank.Open, bank.AmountIn{Account: "carl", Cents: -1}, 0, engine.CodeInvalid)
	expect(t, set, bank.Open, bank.AmountIn{Account: long}, 0, engine.CodeInvalid)
	expect(t, set, bank.Open, bank.AmountIn{}, 0, engine.CodeInvalid)
	expect(t, set, bank.Deposit, bank.AmountIn{Account: "anna", Cents: 50}, 150, "")
	expect(t, set, bank.Deposit, bank.AmountIn{Account: "anna", Cents: 0}, 0, engine.CodeInvalid)
	expect(t, set, bank.Deposit, bank.AmountIn{Account: "anna", Cents: bank.MaxCents}, 0, engine.CodeInvalid)
	expect(t, set, bank.Deposit, bank.AmountIn{Account: "nobody", Cents: 1}, 0, bank.CodeUnknownAccount)
	expect(t, set, bank.Withdraw, bank.AmountIn{Account: "anna", Cents: 151}, 0, bank.CodeInsufficientFunds)
	expect(t, set, bank.Withdraw, bank.AmountIn{Account: "anna", Cents: 30}, 120, "")
	expect(t, set, bank.Transfer, bank.TransferIn{"anna", "ben", 20}, bank.TransferOut{100, 20}, "")
	expect(t, set, bank.Transfer, bank.TransferIn{"anna", "ben", 101}, bank.TransferOut{}, bank.CodeInsufficientFunds)
	expect(t, set, bank.Transfer, bank.TransferIn{"anna", "anna", 1}, bank.TransferOut{}, engine.CodeInvalid)
	expect(t, set, bank.Transfer, bank.TransferIn{"anna", "nobody", 1}, bank.TransferOut{}, bank.CodeUnknownAccount)
	expect(t, set, bank.Balance, bank.AccountIn{"anna"}, 100, "")
	expect(t, set, bank.Balance, bank.AccountIn{"ben"}, 20, "")
	expect(t, set, bank.Balance, bank.AccountIn{"nobody"}, 0, bank.CodeUnknownAccount)
	expect(t, set, bank.Audit, struct{}{}, bank.Books{Accounts: 2, Sum: 120, Least: 20}, "")
}

// TestStatement: refused calls, including a transfer whose first half was done, are not in the statement.
func TestStatement(t *testing.T) {
	t.Parallel()
	set := exampletest.Set(t, bank.Procedures()...)
	expect(t, set, bank.Open, bank.AmountIn{Account: "anna", Cents: 100}, 100, "")
	expect(t, set, bank.Open, bank.AmountIn{Account: "ben"}, 0, "")
	expect(t, set, bank.Transfer, bank.TransferIn{"anna", "nobody", 60}, bank.TransferOut{}, bank.CodeUnknownAccount)
	expect(t, set, bank.Transfer, bank.TransferIn{"anna", "ben", 60}, bank.TransferOut{40, 60}, "")
	list, _, err := bank.Statement.Call(t.Context(), set, bank.StatementIn{Account: "anna"})
	if err != nil || len(list) != 2 {
		t.Fatalf("%+v, %v", list, err)
	}
	for i, want := range []bank.Entry{{Number: 2, Cents: -60, Balance: 40, Note: "to ben"}, {Number: 1, Cents: 100, Balance: 100, Note: "opened"}} {
		if want.At = list[i].At; list[i] != want || want.At.IsZero() {
			t.Errorf("entry %d: %+v, want %+v", i, list[i], want)
		}
	}
	if list, _, err := bank.Statement.Call(t.Context(), set, bank.StatementIn{Account: "anna", Limit: 1}); len(list) != 1 || list[0].Number != 2 || err != nil {
		t.Errorf("one entry: %+v, %v", list, err)
	}
	for _, n := range []int{-1, bank.MaxEntries + 1} {
		if _, _, err := bank.Statement.Call(t.Context(), set, bank.StatementIn{Account: "anna", Limit: n}); engine.CodeOf(err) != engine.CodeInvalid {
			t.Errorf("limit %d: %v", n, err)
		}
	}
	if _, _, err := bank.Statement.Call(t.Context(), set, bank.StatementIn{Account: "nobody"}); engine.CodeOf(err) != bank.CodeUnknownAccount {
		t.Errorf("statement of nobody: %v", err)
	}
}

// TestMoneyStays moves money at random from many goroutines, and audits in the
// middle.
func TestMoneyStays(t *testing.T) {
	t.Parallel()
	set := exampletest.Set(t, bank.Procedures()...)
	const accounts, callers, calls, cents = 10, 8, 200, 1000
	name := func(n int) string { return "a" + strconv.Itoa(n) }
	for n := range accounts {
		expect(t, set, bank.Open, bank.AmountIn{Account: name(n), Cents: cents}, cents, "")
	}
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(c)))
			for range calls {
				in := bank.TransferIn{From: name(rnd.IntN(accounts)), To: name(rnd.IntN(accounts)), Cents: 1 + rnd.Int64N(cents)}
				out, _, err := bank.Transfer.Call(t.Context(), set, in)
				code := engine.CodeOf(err)
				if out.From < 0 || in.From == in.To && code != engine.CodeInvalid || in.From != in.To && code != "" && code != bank.CodeInsufficientFunds {
					t.Errorf("%+v: %+v, %v", in, out, err)
				}
				books, _, err := bank.Audit.Call(t.Context(), set, struct{}{})
				if books.Accounts != accounts || books.Sum != accounts*cents || books.Least < 0 || err != nil {
					t.Errorf("%+v, %v", books, err)
				}
			}
		})
	}
	wg.Wait()
}
