// Command load moves money between random accounts of a bank server, prints its progress every second, and
// audits all the while: no money may appear or disappear, and no account may be overdrawn.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/skerrydb/skerry/client"
	"github.com/skerrydb/skerry/examples/bank"
	"github.com/skerrydb/skerry/examples/meter"
)

// Exit codes.
const (
	exitFailed = 1
	exitUsage  = 2
	exitWrong  = 3 // money has appeared or disappeared, or an account is overdrawn
)

// startCents is the initial balance of an account.
const startCents = 100_000

// options are the values of the flags.
type options struct {
	addr     string
	clients  int
	accounts int
	duration time.Duration
	once     bool
	seed     uint64
	timeout  time.Duration
	every    time.Duration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is main for tests; it returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o := options{}
	f := flag.NewFlagSet("load", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.addr, "addr", client.DefaultAddr, "`addresses` of the servers, with commas between them, or one skerry:// URL")
	f.IntVar(&o.clients, "clients", 64, "goroutines that transfer")
	f.IntVar(&o.accounts, "accounts", 1000, "accounts that they use")
	f.DurationVar(&o.duration, "duration", 10*time.Second, "how long")
	f.BoolVar(&o.once, "once", false, "give each transfer a key, under which it is carried out once however often it is sent")
	f.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "of the random transfers")
	f.DurationVar(&o.timeout, "timeout", 30*time.Second, "how long one call may take, elections of a new leader included")
	f.DurationVar(&o.every, "every", time.Second, "between two lines")
	if err := f.Parse(args); err != nil {
		return exitUsage
	}
	if f.NArg() > 0 || o.clients < 1 || o.accounts < 2 {
		fmt.Fprintln(stderr, "load: -clients begin at 1, -accounts at 2, and nothing may stand behind the flags")
		return exitUsage
	}
	wrong, err := o.bank(ctx, stdout)
	switch {
	case err != nil:
		fmt.Fprintln(stderr, "load:", err)
		return exitFailed
	case wrong != "":
		fmt.Fprintln(stdout, "WRONG:", wrong)
		return exitWrong
	}
	return 0
}

// bank does the whole run; it returns what is wrong with the books, "" if nothing is.
func (o *options) bank(ctx context.Context, w io.Writer) (wrong string, err error) {
	c, addrs, err := o.client()
	if err != nil {
		return "", err
	}
	defer c.Close()
	if err := connect(ctx, c, addrs, w); err != nil {
		return "", err
	}
	if err := o.open(ctx, c); err != nil {
		return "", err
	}
	before, err := audit(ctx, c)
	if err != nil {
		return "", err
	}
	fmt.Fprintf(w, "%d accounts, transfers for %v, seed %d\n", before.Accounts, o.duration, o.seed)
	var m meter.Meter
	during, stop := context.WithTimeout(ctx, o.duration)
	shown, stopShow := context.WithCancel(context.Background())
	var others sync.WaitGroup
	others.Go(func() { m.Report(shown, w, o.every, func() int64 { return int64(c.Stats().Retries) }) })
	others.Go(func() {
		for during.Err() == nil && wrong == "" {
			if books, err := audit(during, c); err == nil {
				wrong = judge(before, books)
			}
			time.Sleep(o.every / 10)
		}
	})
	o.transfers(during, c, &m)
	stop()
	stopShow()
	others.Wait()
	after, err := audit(context.WithoutCancel(ctx), c)
	if err != nil {
		return "", err
	}
	if wrong == "" {
		wrong = judge(before, after)
	}
	fmt.Fprintf(w, "done %d, refused %d, failed %d, of unknown outcome %d; %d accounts with %d cents, the poorest has %d\n",
		m.Count(meter.Done), m.Count(meter.Refused), m.Count(meter.Failed), m.Count(meter.Unknown), after.Accounts, after.Sum, after.Least)
	if text := m.LastError(); text != "" {
		fmt.Fprintf(w, "the last error: %s\n", text)
	}
	return wrong, nil
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

// connectWait is how long to wait for the first response of the servers.
const connectWait = 4 * time.Second

// connect returns the servers' addresses, without a password, and checks that one responds.
func connect(ctx context.Context, c *client.Client, addrs []string, w io.Writer) error {
	where := strings.Join(addrs, ", ")
	fmt.Fprintln(w, "connecting to", where)
	ctx, cancel := context.WithTimeout(ctx, connectWait)
	defer cancel()
	if err := c.Ping(ctx); err != nil {
		return fmt.Errorf("connect to %s: %w", where, err)
	}
	return nil
}

// client opens the client, and returns its addresses.
func (o *options) client() (c *client.Client, addrs []string, err error) {
	opt := client.Options{Addrs: strings.Split(o.addr, ",")}
	if strings.Contains(o.addr, "://") {
		if opt, err = client.ParseURL(o.addr); err != nil {
			return nil, nil, err
		}
	}
	opt.Name, opt.Timeout = "bank-load", o.timeout
	c, err = client.Open(opt)
	return c, opt.Addrs, err
}

func account(n int) string { return fmt.Sprintf("load-%d", n) }

// open opens the accounts that do not exist yet.
func (o *options) open(ctx context.Context, c *client.Client) error {
	for n := range o.accounts {
		_, err := c.CallOnce(ctx, client.NewKey(), "open", account(n), startCents)
		if err != nil && !refused(err, bank.CodeAccountExists) {
			return fmt.Errorf("open account %d: %w", n, err)
		}
	}
	return nil
}

func audit(ctx context.Context, c *client.Client) (b bank.Books, err error) {
	res, err := c.CallRead(ctx, "audit")
	if err == nil {
		err = res.Scan(&b)
	}
	if err != nil {
		return b, fmt.Errorf("audit: %w", err)
	}
	return b, nil
}

// transfers runs the goroutines that transfer, until ctx ends.
func (o *options) transfers(ctx context.Context, c *client.Client, m *meter.Meter) {
	var wg sync.WaitGroup
	for id := range o.clients {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(o.seed, uint64(id)))
			for ctx.Err() == nil {
				from := rnd.IntN(o.accounts)
				to := (from + 1 + rnd.IntN(o.accounts-1)) % o.accounts
				cents := 1 + rnd.Int64N(startCents)
				m.Begin()
				start := time.Now()
				var err error
				if o.once {
					_, err = c.CallOnce(context.Background(), client.NewKey(), "transfer", account(from), account(to), cents)
				} else {
					_, err = c.Call(context.Background(), "transfer", account(from), account(to), cents)
				}
				m.End(outcome(err), time.Since(start), err)
			}
		})
	}
	wg.Wait()
}

// outcome returns what an error means for the transfer.
func outcome(err error) meter.Outcome {
	switch {
	case err == nil:
		return meter.Done
	case errors.Is(err, client.ErrOutcomeUnknown):
		return meter.Unknown
	case refused(err, bank.CodeInsufficientFunds):
		return meter.Refused
	}
	return meter.Failed
}

// refused reports whether err has that code of a procedure.
func refused[Code ~string](err error, code Code) bool {
	e, ok := errors.AsType[*client.Error](err)
	return ok && e.Code == string(code)
}
