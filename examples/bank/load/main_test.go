package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/examples/bank"
	"github.com/skerrydb/skerry/examples/exampletest"
	"github.com/skerrydb/skerry/examples/load"
	"github.com/skerrydb/skerry/proc"
)

func TestMoneyStays(t *testing.T) {
	t.Parallel()
	addr := exampletest.Address(t, bank.Procedures())
	for _, flags := range []string{"-clients 5", "-clients 5 -once"} { // the second time on the same accounts
		args := append(strings.Fields(flags), "-addr", addr, "-duration", "400ms", "-every", "100ms", "-accounts", "10")
		var out, errs bytes.Buffer
		if code := run(t.Context(), args, &out, &errs); code != 0 {
			t.Fatalf("%s: exit code %d\n%s%s", flags, code, &out, &errs)
		}
		want := `(?s)^connecting to 127.0.0.1:\d+\n10 accounts, .*\ndone [1-9]\d*, refused [1-9]\d*, failed 0, of unknown outcome 0; 10 accounts with 1000000 cents, the poorest has \d+\n$`
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("%s:\n%s", flags, &out)
		}
	}
}

// TestWrongBooksAreFound uses servers that create money or allow overdrawn accounts.
func TestWrongBooksAreFound(t *testing.T) {
	t.Parallel()
	makesMoney := proc.Define("transfer", func(tx *proc.Tx, in bank.TransferIn) (bank.TransferOut, error) {
		n, err := bank.Deposit.Run(tx, bank.AmountIn{Account: in.To, Cents: in.Cents})
		return bank.TransferOut{To: n}, err
	})
	overdraws := proc.Define("transfer", func(tx *proc.Tx, in bank.TransferIn) (out bank.TransferOut, err error) {
		if out.From, err = tx.KV(0).Add([]byte("account/"+in.From), -in.Cents); err == nil {
			out.To, err = tx.KV(0).Add([]byte("account/"+in.To), in.Cents)
		}
		return out, err
	})
	for want, liar := range map[string]proc.Procedure{"accounts had": makesMoney, "an account has -": overdraws} {
		var out, errs bytes.Buffer
		args := []string{"-addr", exampletest.Address(t, bank.Procedures(), liar), "-duration", "300ms", "-clients", "3", "-accounts", "3"}
		if code := run(t.Context(), args, &out, &errs); code != load.ExitWrong || !strings.Contains(out.String(), want) {
			t.Errorf("%s: exit code %d\n%s%s", want, code, &out, &errs)
		}
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"-accounts", "1"}, &out, &errs); code != load.ExitUsage || errs.String() != "bank-load: -accounts must be at least 2\n" {
		t.Errorf("exit code %d, %s", code, &errs)
	}
}
