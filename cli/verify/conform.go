package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"os"
	"path"
	"time"

	"github.com/skerrydb/skerry/cli/serve"
	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/enginetest"
)

// conformOptions are the options of `skerry conform`.
type conformOptions struct {
	only   string
	steps  int
	seed   uint64
	memory int64
	json   bool
}

func (o *conformOptions) settings() []verb.Setting {
	return []verb.Setting{
		{Name: "only", Arg: "PATTERN", Default: "*/*", Help: "cases to run, like changes/* or */order", Set: verb.Text(&o.only)},
		{Name: "steps", Arg: "N", Default: "2000", Help: "steps of each case that puts load on the engine", Set: verb.Whole(&o.steps, 1, 1e9)},
		{Name: "seed", Arg: "N", Help: "random seed (default a new one, which is printed)", Set: verb.Seed(&o.seed)},
		serve.MemorySetting(&o.memory),
		verb.JSON(&o.json),
	}
}

// Conform is `skerry conform`.
var Conform = verb.Verb{
	Name: "conform", Args: "[URL]", Short: "test whether an engine keeps its promises, case by case",
	Long: `URL names an engine without data, like embedded:///folder (default an embedded engine in
a temporary folder). An engine that has data is refused and left as it is. Every case
deletes what it wrote. Cases for promises that the engine does not make are skipped. The
exit code is 3 if a case fails.`,
	Start: func(verb.App) verb.Action {
		o := &conformOptions{}
		check := func(rest []string) error {
			if _, err := path.Match(o.only, ""); err != nil {
				return verb.Mistakes(oneURL(rest), fmt.Errorf("--only: %w", err))
			}
			return oneURL(rest)
		}
		return verb.Action{Settings: o.settings(), Check: check, Do: func(ctx context.Context, p verb.Process, rest []string) error {
			u, done, err := engineURL(rest)
			if err != nil {
				return err
			}
			defer done()
			return conform(ctx, p, o, u)
		}}
	},
}

func conform(ctx context.Context, p verb.Process, o *conformOptions, u *url.URL) error {
	if o.seed == 0 {
		o.seed = rand.Uint64()
	}
	// Report an error that concerns all cases once, not once per case.
	eng, err := p.Engines.Open(ctx, u, verb.EngineOptions{MemoryBytes: o.memory, Logger: verb.Quiet(p.Stderr)})
	if err != nil {
		return err
	}
	if err := errors.Join(empty(ctx, eng), eng.Close()); err != nil {
		return err
	}
	open := func(t enginetest.T) engine.Engine {
		t.Helper()
		eng, err := p.Engines.Open(ctx, u, verb.EngineOptions{MemoryBytes: o.memory, Logger: verb.Quiet(io.Discard)})
		if err != nil {
			t.Fatalf("open %s: %v", verb.Redacted(u), err)
		}
		return eng
	}
	only := func(name string) bool {
		ok, _ := path.Match(o.only, name) // the pattern is well formed
		return ok
	}
	count := map[enginetest.Status]int{}
	for v := range enginetest.Conform(open, enginetest.Options{
		Reopen: open, Wipe: true, Steps: o.steps, Seed: o.seed, Only: only,
	}) {
		count[v.Status]++
		if err := printVerdict(p.Stdout, o.json, v); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if !o.json {
		fmt.Fprintf(p.Stdout, "%d passed, %d failed, %d skipped (seed %d)\n",
			count[enginetest.Pass], count[enginetest.Fail], count[enginetest.Skip], o.seed)
	}
	switch {
	case count[enginetest.Fail] > 0:
		return verb.Broken(fmt.Sprintf("%s failed, seed %d", verb.Plural(count[enginetest.Fail], "case"), o.seed))
	case count[enginetest.Pass] == 0:
		return fmt.Errorf("no case ran: --only %s", o.only)
	}
	return nil
}

// empty returns an error if the engine has data, as far as it can tell.
func empty(ctx context.Context, eng engine.Engine) error {
	if !eng.Promises().Ordered {
		return nil
	}
	_, err := eng.View(ctx, engine.Read{}, func(tx engine.Tx) error {
		for pair, err := range tx.Scan(nil, nil) {
			if err != nil {
				return err
			}
			return fmt.Errorf("the engine has data, such as key %q: conform needs an empty engine; nothing was changed", pair.Key)
		}
		return nil
	})
	return err
}

func printVerdict(w io.Writer, asJSON bool, v enginetest.Verdict) error {
	if asJSON {
		return verb.PrintJSON(w, v)
	}
	if _, err := fmt.Fprintf(w, "%s  %-40s %6v\n", v.Status, v.Case, v.Elapsed.Round(time.Millisecond)); err != nil {
		return err
	}
	if v.Status != enginetest.Pass {
		for _, line := range v.Log {
			fmt.Fprintf(w, "      %s\n", line)
		}
	}
	return nil
}

// oneURL is the Check of a verb that accepts at most one URL of an engine.
func oneURL(rest []string) error {
	switch {
	case len(rest) > 1:
		return verb.Usagef("unexpected argument %q: only one URL is allowed", rest[1])
	case len(rest) == 1:
		_, err := verb.ParseEngine(rest[0])
		return verb.Mistakes(err)
	}
	return nil
}

// engineURL returns the URL in args, or that of an embedded engine in a temporary folder, which done removes.
func engineURL(args []string) (u *url.URL, done func(), err error) {
	if len(args) == 1 {
		u, err = verb.ParseEngine(args[0])
		return u, func() {}, err
	}
	dir, err := os.MkdirTemp("", "skerry-")
	if err != nil {
		return nil, nil, err
	}
	return verb.FolderURL(dir), func() { os.RemoveAll(dir) }, nil
}
