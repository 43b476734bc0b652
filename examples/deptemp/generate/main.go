// Command generate fills a PostgreSQL database with departments and employees. It shows its progress, and
// continues where it was when it is started again.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/skerrydb/skerry/examples/deptemp"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	info, err := os.Stderr.Stat()
	os.Exit(run(ctx, os.Args[1:], os.Stderr, err == nil && info.Mode()&os.ModeCharDevice != 0))
}

// run is main for tests; it returns the exit code. On a terminal it redraws one line.
func run(ctx context.Context, args []string, stderr io.Writer, terminal bool) int {
	f := flag.NewFlagSet("generate", flag.ContinueOnError)
	f.SetOutput(stderr)
	url := f.String("postgres", os.Getenv("DEPTEMP_POSTGRES"), "URL of the database; the default is $DEPTEMP_POSTGRES")
	n := f.Int64("departments", 10_000_000, "number of departments, each with 10 employees")
	if err := f.Parse(args); err != nil {
		return 2
	}
	if *url == "" || *n < 1 || f.NArg() > 0 {
		fmt.Fprintln(stderr, "generate: needs -postgres URL, and -departments of at least 1")
		return 2
	}
	b := &bar{out: stderr, terminal: terminal, start: time.Now()}
	err := deptemp.Generate(ctx, *url, *n, b.show)
	b.end()
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "generate: stopped; start it again to continue")
		return 130
	case err != nil:
		fmt.Fprintln(stderr, "generate:", err)
		return 1
	}
	return 0
}

// bar shows progress.
type bar struct {
	out         io.Writer
	terminal    bool
	start, last time.Time
	first       int64 // departments that existed
	begun, open bool
}

// lineEvery is how often progress is shown where lines cannot be redrawn.
const lineEvery = 5 * time.Second

func (b *bar) show(p deptemp.Progress) {
	if !b.begun {
		b.begun, b.first = true, p.Done
	}
	now := time.Now()
	if !b.terminal && p.Done < p.Of && now.Sub(b.last) < lineEvery {
		return
	}
	b.last = now
	const width = 30
	share := min(1, float64(p.Done)/float64(p.Of))
	full := int(share * width)
	line := fmt.Sprintf("[%s%s] %3.0f %%  %d of %d departments", strings.Repeat("#", full), strings.Repeat(".", width-full), share*100, p.Done, p.Of)
	if made, took := p.Done-b.first, now.Sub(b.start); made > 0 && p.Done < p.Of {
		left := time.Duration(float64(took) / float64(made) * float64(p.Of-p.Done))
		line += fmt.Sprintf(", %.0f/s, %v left", float64(made)/took.Seconds(), left.Round(time.Second))
	}
	if b.terminal {
		fmt.Fprintf(b.out, "\r%s\x1b[K", line)
		b.open = true
		return
	}
	fmt.Fprintln(b.out, line)
}

// end ends the line that is redrawn.
func (b *bar) end() {
	if b.open {
		fmt.Fprintln(b.out)
	}
}
