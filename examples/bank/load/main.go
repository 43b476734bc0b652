// Command load moves money between random accounts of a bank server, prints its progress every second, and
// audits all the while: no money may appear or disappear, and no account may be overdrawn.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/skerrydb/skerry/client"
	"github.com/skerrydb/skerry/examples/bank"
	"github.com/skerrydb/skerry/examples/load"
	"github.com/skerrydb/skerry/examples/meter"
)

// startCents is the initial balance of an account.
const startCents = 100_000

type transfers struct {
	load.Load
	accounts int
}

func main() { load.Main(run) }

// run is main for tests; it returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	l := transfers{}
	f := l.Flags("bank-load")
	f.IntVar(&l.accounts, "accounts", 1000, "number of accounts")
	return l.Run(ctx, f, args, stdout, stderr, l.check, l.transfer)
}

func (l *transfers) check() error {
	if l.accounts < 2 {
		return errors.New("-accounts must be at least 2")
	}
	return nil
}

// transfer does the whole run; it returns what is wrong with the books, "" if nothing is.
func (l *transfers) transfer(ctx context.Context) (wrong string, err error) {
	if err := l.open(ctx); err != nil {
		return "", err
	}
	var before, after bank.Books
	if err := l.Read(ctx, &before, "audit"); err != nil {
		return "", err
	}
	fmt.Fprintf(l.Out, "%d accounts, transfers for %v, seed %d\n", before.Accounts, l.Duration, l.Seed)
	l.Measure(ctx, func(ctx context.Context) {
		var audits sync.WaitGroup
		audits.Go(func() { wrong = l.audit(ctx, before) })
		l.Callers(ctx, l.random, string(bank.CodeInsufficientFunds))
		audits.Wait()
	})
	if err := l.Read(context.WithoutCancel(ctx), &after, "audit"); err != nil {
		return "", err
	}
	if wrong == "" {
		wrong = judge(before, after)
	}
	m := &l.Meter
	fmt.Fprintf(l.Out, "done %d, refused %d, failed %d, of unknown outcome %d; %d accounts with %d cents, the poorest has %d\n",
		m.Count(meter.Done), m.Count(meter.Refused), m.Count(meter.Failed), m.Count(meter.Unknown), after.Accounts, after.Sum, after.Least)
	return wrong, nil
}

// audit compares the books with before ten times per line of progress, until they are wrong or ctx ends.
func (l *transfers) audit(ctx context.Context, before bank.Books) (wrong string) {
	tick := time.NewTicker(max(l.Every/10, 1))
	defer tick.Stop()
	for wrong == "" {
		var books bank.Books
		if l.Read(ctx, &books, "audit") == nil {
			wrong = judge(before, books)
		}
		select {
		case <-ctx.Done():
			return wrong
		case <-tick.C:
		}
	}
	return wrong
}

// judge compares the books with those of the beginning. It is valid at any time, whatever the outcomes of
// transfers are.
func judge(before, now bank.Books) string {
	switch {
	case now.Sum != before.Sum || now.Accounts != before.Accounts:
		return fmt.Sprintf("%d accounts had %d cents, now %d have %d", before.Accounts, before.Sum, now.Accounts, now.Sum)
	case now.Least < 0:
		return fmt.Sprintf("an account has %d cents", now.Least)
	}
	return ""
}

func account(n int) string { return fmt.Sprintf("load-%d", n) }

// open opens the accounts that do not exist yet.
func (l *transfers) open(ctx context.Context) error {
	for n := range l.accounts {
		_, err := l.Client.CallOnce(ctx, client.NewKey(), "open", account(n), startCents)
		if err != nil && load.Outcome(err, string(bank.CodeAccountExists)) != meter.Refused {
			return fmt.Errorf("open account %d: %w", n, err)
		}
	}
	return nil
}

// random transfers a random amount between two random accounts.
func (l *transfers) random(rnd *rand.Rand) error {
	from := rnd.IntN(l.accounts)
	args := []any{account(from), account((from + 1 + rnd.IntN(l.accounts-1)) % l.accounts), 1 + rnd.Int64N(startCents)}
	if l.Once {
		_, err := l.Client.CallOnce(context.Background(), client.NewKey(), "transfer", args...)
		return err
	}
	_, err := l.Client.Call(context.Background(), "transfer", args...)
	return err
}
