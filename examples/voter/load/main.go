// Command load votes at a voter server as fast as it can and prints its progress every second. At the end it
// reports whether the server has counted exactly the votes that it acknowledged.
package main

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/skerrydb/skerry/client"
	"github.com/skerrydb/skerry/client/sqldriver"
	"github.com/skerrydb/skerry/examples/load"
	"github.com/skerrydb/skerry/examples/meter"
	"github.com/skerrydb/skerry/examples/voter"
)

type votes struct {
	load.Load
	mode        string
	contestants int
	maxVotes    int64
	phones      uint64
}

func main() { load.Main(run) }

// run is main for tests; it returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	l := votes{}
	f := l.Flags("voter-load")
	f.StringVar(&l.mode, "mode", "blocking", "blocking, async or sql")
	f.IntVar(&l.InFlight, "inflight", 1024, "calls in flight (async)")
	f.IntVar(&l.contestants, "contestants", 6, "number of contestants")
	f.Int64Var(&l.maxVotes, "max", 2, "votes that each phone has")
	f.Uint64Var(&l.phones, "phones", 1_000_000, "number of phones")
	return l.Run(ctx, f, args, stdout, stderr, l.check, l.vote)
}

func (l *votes) check() error {
	switch {
	case l.InFlight < 1:
		return fmt.Errorf("-inflight must be at least 1")
	case l.phones < 1 || l.phones > voter.Phones:
		return fmt.Errorf("-phones must be between 1 and %d", voter.Phones)
	case l.mode != "blocking" && l.mode != "async" && l.mode != "sql":
		return fmt.Errorf("unknown -mode %q: use blocking, async or sql", l.mode)
	case l.mode != "async":
		l.InFlight = 0
	}
	return nil
}

// vote does the whole run; it returns what is wrong with the totals, "" if nothing is.
func (l *votes) vote(ctx context.Context) (wrong string, err error) {
	if _, err := l.Client.CallOnce(ctx, client.NewKey(), "initialize", l.contestants); err != nil {
		return "", fmt.Errorf("initialize: %w", err)
	}
	var before, after voter.Totals
	if err := l.Read(ctx, &before, "check"); err != nil {
		return "", err
	}
	fmt.Fprintf(l.Out, "voting for %v, mode %s, seed %d\n", l.Duration, l.mode, l.Seed)
	l.Measure(ctx, map[string]func(context.Context){"blocking": l.blocking, "async": l.async, "sql": l.sql}[l.mode])
	ctx = context.WithoutCancel(ctx)
	var results []voter.Result
	if err := l.Read(ctx, &results, "results"); err != nil {
		return "", err
	}
	if err := l.Read(ctx, &after, "check"); err != nil {
		return "", err
	}
	return l.judge(before, after, results), nil
}

// judge prints the results and returns what is wrong with them: the server must have counted every acknowledged
// vote, and beyond those at most the votes of unknown outcome. Nobody else may vote meanwhile.
func (l *votes) judge(before, after voter.Totals, results []voter.Result) (wrong string) {
	t := tabwriter.NewWriter(l.Out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "\ncontestant\tvotes\tmost from\t\n")
	var sum int64
	for _, r := range results {
		fmt.Fprintf(t, "%s\t%d\t%s\t\n", r.Name, r.Votes, r.BestState)
		sum += r.Votes
	}
	t.Flush()
	if len(results) > 0 {
		fmt.Fprintf(l.Out, "\nThe winner is %s.\n\n", results[0].Name)
	}
	counted := after.ByContestant - before.ByContestant
	done, unknown := l.Meter.Count(meter.Done), l.Meter.Count(meter.Unknown)
	fmt.Fprintf(l.Out, "acknowledged %d, refused %d, failed %d, of unknown outcome %d; the server counted %d\n",
		done, l.Meter.Count(meter.Refused), l.Meter.Count(meter.Failed), unknown, counted)
	switch {
	case !after.Agree() || after.ByContestant != sum:
		return fmt.Sprintf("the server's counters do not agree: %+v, results %d", after, sum)
	case counted < done:
		return fmt.Sprintf("%d acknowledged votes are missing", done-counted)
	case counted > done+unknown:
		return fmt.Sprintf("%d votes more than were cast", counted-done-unknown)
	case unknown > 0:
		fmt.Fprintf(l.Out, "right: between %d and %d\n", done, done+unknown)
	default:
		fmt.Fprintln(l.Out, "right: exactly the acknowledged votes")
	}
	return ""
}

// refusals are the error codes with which vote refuses.
func refusals() []string {
	return []string{string(voter.CodeTooManyVotes), string(voter.CodeUnknownContestant)}
}

// args returns the arguments of a random vote.
func (l *votes) args(rnd *rand.Rand) []any {
	return []any{voter.Phone(rnd.Uint64N(l.phones)), 1 + rnd.IntN(l.contestants), l.maxVotes}
}

// blocking runs one goroutine per caller; each waits for its reply.
func (l *votes) blocking(ctx context.Context) {
	l.Callers(ctx, func(rnd *rand.Rand) error {
		args := l.args(rnd)
		if !l.Once {
			_, err := l.Client.Call(context.Background(), "vote", args...)
			return err
		}
		// A call that the client gave up on can be repeated: because of the key, the vote counts once.
		for key := client.NewKey(); ; {
			_, err := l.Client.CallOnce(context.Background(), key, "vote", args...)
			if load.Outcome(err) != meter.Unknown || ctx.Err() != nil {
				return err
			}
		}
	}, refusals()...)
}

// async is one goroutine that makes calls without waiting. Once -inflight calls are in flight, CallAsync blocks
// until one has a reply.
func (l *votes) async(ctx context.Context) {
	rnd := rand.New(rand.NewPCG(l.Seed, 0))
	var out sync.WaitGroup
	for ctx.Err() == nil {
		args := l.args(rnd)
		from := time.Now()
		done := func(_ client.Result, err error) {
			l.Meter.End(load.Outcome(err, refusals()...), time.Since(from), err)
			out.Done()
		}
		l.Meter.Begin()
		out.Add(1)
		var err error
		if l.Once {
			err = l.Client.CallOnceAsync(context.Background(), done, client.NewKey(), "vote", args...)
		} else {
			err = l.Client.CallAsync(context.Background(), done, "vote", args...)
		}
		if err != nil {
			done(client.Result{}, err)
		}
	}
	out.Wait()
}

// sql is blocking through database/sql, whose connections share one client.
func (l *votes) sql(ctx context.Context) {
	db := sql.OpenDB(sqldriver.NewConnector(l.Client, sqldriver.Options{Once: l.Once}))
	defer db.Close()
	db.SetMaxOpenConns(l.Clients)
	db.SetMaxIdleConns(l.Clients)
	l.Callers(ctx, func(rnd *rand.Rand) error {
		var cast int64
		// No prepared statement: the driver caches parsed statements.
		return db.QueryRow("CALL vote(?, ?, ?)", l.args(rnd)...).Scan(&cast)
	}, refusals()...)
}
