// Package load is the frame of the examples' load programs: flags, the client, callers, a line of progress every
// second, and the exit code.
//
// It knows how to connect and how calls end; it must not know which procedures are called.
package load

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/skerrydb/skerry/client"
	"github.com/skerrydb/skerry/examples/meter"
)

// Exit codes.
const (
	ExitFailed = 1
	ExitUsage  = 2
	ExitWrong  = 3 // the server's data does not match its replies
)

// connectWait is how long to wait for the first response of the servers.
const connectWait = 4 * time.Second

// Load is one run of a load program: the values of its flags, and its client. Programs embed it.
type Load struct {
	Clients  int
	Duration time.Duration
	Every    time.Duration // between two lines of progress
	Once     bool
	Seed     uint64
	InFlight int // most calls in flight, 0 for the client's default; not a flag

	Out    io.Writer
	Client *client.Client
	Meter  meter.Meter

	addr    string
	timeout time.Duration
}

// Main runs a program with the arguments of the process and exits with the code that run returns. SIGINT and
// SIGTERM end ctx.
func Main(run func(ctx context.Context, args []string, stdout, stderr io.Writer) int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// Flags returns a set with the flags that all programs have. name is the program's in messages, and that of its
// connections.
func (l *Load) Flags(name string) *flag.FlagSet {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.StringVar(&l.addr, "addr", client.DefaultAddr, "`addresses` of the servers, separated by commas, or a skerry:// URL")
	f.IntVar(&l.Clients, "clients", 64, "number of concurrent callers")
	f.DurationVar(&l.Duration, "duration", 10*time.Second, "how long to call")
	f.BoolVar(&l.Once, "once", false, "give each call an idempotency key, so that it takes effect once however often it is sent")
	f.Uint64Var(&l.Seed, "seed", uint64(time.Now().UnixNano()), "seed of the random arguments")
	f.DurationVar(&l.timeout, "timeout", 30*time.Second, "timeout of one call, including elections")
	f.DurationVar(&l.Every, "every", time.Second, "interval between lines of progress")
	return f
}

// Run parses the arguments, connects, calls do and returns the exit code. check validates the program's own
// flags; do returns what is wrong with the server's data, "" if nothing is.
func (l *Load) Run(ctx context.Context, f *flag.FlagSet, args []string, stdout, stderr io.Writer, check func() error, do func(context.Context) (wrong string, err error)) int {
	l.Out = stdout
	f.SetOutput(stderr)
	if f.Parse(args) != nil {
		return ExitUsage
	}
	fail := func(code int, err error) int {
		fmt.Fprintf(stderr, "%s: %v\n", f.Name(), err)
		return code
	}
	if f.NArg() > 0 {
		return fail(ExitUsage, fmt.Errorf("unexpected argument %q", f.Arg(0)))
	}
	if l.Clients < 1 {
		return fail(ExitUsage, errors.New("-clients must be at least 1"))
	}
	if err := check(); err != nil {
		return fail(ExitUsage, err)
	}
	if err := l.connect(ctx, f.Name()); err != nil {
		return fail(ExitFailed, err)
	}
	defer l.Client.Close()
	wrong, err := do(ctx)
	if err != nil {
		return fail(ExitFailed, err)
	}
	if wrong != "" {
		fmt.Fprintln(stdout, "WRONG:", wrong)
		return ExitWrong
	}
	return 0
}

// connect opens the client, prints its addresses without a password, and checks that a server responds.
func (l *Load) connect(ctx context.Context, name string) (err error) {
	opt := client.Options{Addrs: strings.Split(l.addr, ",")}
	if strings.Contains(l.addr, "://") {
		if opt, err = client.ParseURL(l.addr); err != nil {
			return err
		}
	}
	opt.Name, opt.Timeout = name, l.timeout
	if l.InFlight > 0 {
		opt.MaxInFlight, opt.Full = l.InFlight, client.Block
	}
	if l.Client, err = client.Open(opt); err != nil {
		return err
	}
	where := strings.Join(opt.Addrs, ", ")
	fmt.Fprintln(l.Out, "connecting to", where)
	ctx, cancel := context.WithTimeout(ctx, connectWait)
	defer cancel()
	if err := l.Client.Ping(ctx); err != nil {
		l.Client.Close()
		return fmt.Errorf("connect to %s: %w", where, err)
	}
	return nil
}

// Measure runs calls with a context that ends after Duration, and prints the progress meanwhile.
func (l *Load) Measure(ctx context.Context, calls func(ctx context.Context)) {
	during, stop := context.WithTimeout(ctx, l.Duration)
	defer stop()
	shown, hide := context.WithCancel(context.Background())
	var report sync.WaitGroup
	report.Go(func() { l.Meter.Report(shown, l.Out, l.Every, func() int64 { return int64(l.Client.Stats().Retries) }) })
	calls(during)
	hide()
	report.Wait()
	if text := l.Meter.LastError(); text != "" {
		fmt.Fprintf(l.Out, "the last error: %s\n", text)
	}
}

// Callers makes calls from as many goroutines as the load has clients until ctx ends, and returns when all calls
// have. Each goroutine has its own random source; refusals are as in Outcome.
func (l *Load) Callers(ctx context.Context, call func(rnd *rand.Rand) error, refusals ...string) {
	var wg sync.WaitGroup
	for id := range l.Clients {
		wg.Go(func() {
			for rnd := rand.New(rand.NewPCG(l.Seed, uint64(id))); ctx.Err() == nil; {
				l.Meter.Begin()
				start := time.Now()
				err := call(rnd)
				l.Meter.End(Outcome(err, refusals...), time.Since(start), err)
			}
		})
	}
	wg.Wait()
}

// Outcome returns how a call ended that returned err. refusals are the error codes with which its procedure
// refuses.
func Outcome(err error, refusals ...string) meter.Outcome {
	e, ok := errors.AsType[*client.Error](err)
	switch {
	case err == nil:
		return meter.Done
	case errors.Is(err, client.ErrOutcomeUnknown), !ok:
		return meter.Unknown
	case slices.Contains(refusals, e.Code):
		return meter.Refused
	}
	return meter.Failed
}

// Read calls a procedure that only reads and stores its result in v.
func (l *Load) Read(ctx context.Context, v any, name string) error {
	res, err := l.Client.CallRead(ctx, name)
	if err == nil {
		err = res.Scan(v)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
