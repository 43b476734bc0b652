// Command load votes at a voter server as fast as it can and prints its progress every second. At the end it
// reports whether the server has counted exactly the votes that it acknowledged.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/skerrydb/skerry/client"
	"github.com/skerrydb/skerry/examples/meter"
	"github.com/skerrydb/skerry/examples/voter"
)

// Exit codes.
const (
	exitFailed = 1
	exitUsage  = 2
	exitWrong  = 3 // the totals do not match the acknowledged votes
)

// options are the values of the flags.
type options struct {
	addr        string
	mode        string
	clients     int
	inFlight    int
	duration    time.Duration
	once        bool
	contestants int
	maxVotes    int64
	phones      uint64
	seed        uint64
	timeout     time.Duration
	every       time.Duration
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
	f.StringVar(&o.mode, "mode", "blocking", "blocking, async or sql")
	f.IntVar(&o.clients, "clients", 64, "goroutines that call (blocking and sql)")
	f.IntVar(&o.inFlight, "inflight", 1024, "calls in flight (async)")
	f.DurationVar(&o.duration, "duration", 10*time.Second, "how long to call")
	f.BoolVar(&o.once, "once", false, "give each call a key, under which it is carried out once however often it is sent")
	f.IntVar(&o.contestants, "contestants", 6, "how many to vote for")
	f.Int64Var(&o.maxVotes, "max", 2, "votes that each phone has")
	f.Uint64Var(&o.phones, "phones", 1_000_000, "phones that call, at random")
	f.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "of the random phones and contestants")
	f.DurationVar(&o.timeout, "timeout", 30*time.Second, "how long one call may take, elections of a new leader included")
	f.DurationVar(&o.every, "every", time.Second, "between two lines")
	if err := f.Parse(args); err != nil {
		return exitUsage
	}
	if f.NArg() > 0 || o.clients < 1 || o.inFlight < 1 || o.phones < 1 || o.phones > voter.Phones {
		fmt.Fprintln(stderr, "load: -clients, -inflight and -phones begin at 1, and nothing may stand behind the flags")
		return exitUsage
	}
	right, err := vote(ctx, o, stdout)
	switch {
	case err != nil:
		fmt.Fprintln(stderr, "load:", err)
		return exitFailed
	case !right:
		return exitWrong
	}
	return 0
}

// vote does the whole run; it reports whether the totals are right.
func vote(ctx context.Context, o options, w io.Writer) (right bool, err error) {
	c, addrs, err := open(o)
	if err != nil {
		return false, err
	}
	defer c.Close()
	if err := connect(ctx, c, addrs, w); err != nil {
		return false, err
	}
	if _, err := c.CallOnce(ctx, client.NewKey(), "initialize", o.contestants); err != nil {
		return false, fmt.Errorf("initialize: %w", err)
	}
	before, err := read(ctx, c)
	if err != nil {
		return false, err
	}
	fmt.Fprintf(w, "voting for %v, mode %s, seed %d\n", o.duration, o.mode, o.seed)
	var m meter.Meter
	shown, stopShow := context.WithCancel(context.Background())
	reported := make(chan struct{})
	go func() {
		m.Report(shown, w, o.every, func() int64 { return int64(c.Stats().Retries) })
		close(reported)
	}()
	during, stop := context.WithTimeout(ctx, o.duration)
	err = o.call(during, c, &m)
	stop()
	stopShow()
	<-reported
	if err != nil {
		return false, err
	}
	after, err := read(context.WithoutCancel(ctx), c)
	if err != nil {
		return false, err
	}
	return o.judge(w, &m, before, after), nil
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

// open opens the client, and returns its addresses.
func open(o options) (c *client.Client, addrs []string, err error) {
	opt := client.Options{Addrs: strings.Split(o.addr, ",")}
	if strings.Contains(o.addr, "://") {
		if opt, err = client.ParseURL(o.addr); err != nil {
			return nil, nil, err
		}
	}
	opt.Name, opt.Timeout = "voter-load", o.timeout
	if o.mode == "async" {
		opt.MaxInFlight, opt.Full = o.inFlight, client.Block
	}
	c, err = client.Open(opt)
	return c, opt.Addrs, err
}

// count returns the server's results and the total of votes.
type count struct {
	results []voter.Result
	totals  voter.Totals
}

func read(ctx context.Context, c *client.Client) (n count, err error) {
	res, err := c.CallRead(ctx, "results")
	if err != nil {
		return n, fmt.Errorf("results: %w", err)
	}
	if err := res.Scan(&n.results); err != nil {
		return n, fmt.Errorf("results: %w", err)
	}
	if res, err = c.CallRead(ctx, "check"); err != nil {
		return n, fmt.Errorf("check: %w", err)
	}
	if err := res.Scan(&n.totals); err != nil {
		return n, fmt.Errorf("check: %w", err)
	}
	return n, nil
}

// judge prints the results and reports whether they are right: the server must have counted every acknowledged
// vote, and beyond those at most the votes of unknown outcome. Nobody else may vote meanwhile.
func (o *options) judge(w io.Writer, m *meter.Meter, before, after count) bool {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "\ncontestant\tvotes\tmost from\t\n")
	var sum int64
	for _, r := range after.results {
		fmt.Fprintf(t, "%s\t%d\t%s\t\n", r.Name, r.Votes, r.BestState)
		sum += r.Votes
	}
	t.Flush()
	if len(after.results) > 0 {
		fmt.Fprintf(w, "\nThe winner is %s.\n\n", after.results[0].Name)
	}
	counted := after.totals.ByContestant - before.totals.ByContestant
	done, unknown := m.Count(meter.Done), m.Count(meter.Unknown)
	fmt.Fprintf(w, "acknowledged %d, refused %d, failed %d, of unknown outcome %d; the server counted %d\n",
		done, m.Count(meter.Refused), m.Count(meter.Failed), unknown, counted)
	if text := m.LastError(); text != "" {
		fmt.Fprintf(w, "the last error: %s\n", text)
	}
	switch {
	case !after.totals.Agree() || after.totals.ByContestant != sum:
		fmt.Fprintf(w, "WRONG: the server's counters do not agree: %+v, results %d\n", after.totals, sum)
		return false
	case counted < done:
		fmt.Fprintf(w, "WRONG: %d acknowledged votes are missing\n", done-counted)
		return false
	case counted > done+unknown:
		fmt.Fprintf(w, "WRONG: %d votes more than were cast\n", counted-done-unknown)
		return false
	case unknown > 0:
		fmt.Fprintf(w, "right: between %d and %d\n", done, done+unknown)
	default:
		fmt.Fprintln(w, "right: exactly the acknowledged votes")
	}
	return true
}
