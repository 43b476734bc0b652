package verify

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/skerrydb/skerry/cli/serve"
	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/workload"
)

// Bounds of a load.
const (
	maxClients  = 100_000
	maxDuration = 30 * 24 * time.Hour
)

// benchOptions are the options of `skerry bench`.
type benchOptions struct {
	workloads []string
	clients   int
	duration  time.Duration
	seed      uint64
	memory    int64
	json      bool
}

func (o *benchOptions) settings() []verb.Setting {
	var names []string
	for _, w := range workload.All() {
		names = append(names, w.Name())
	}
	return []verb.Setting{
		{Name: "workload", Arg: "NAMES", Help: "comma-separated workloads: bank, counter, append, set (default all)", Set: verb.Several(&o.workloads, names...)},
		{Name: "clients", Arg: "N", Default: "64", Help: "number of concurrent calls", Set: verb.Whole(&o.clients, 1, maxClients)},
		{Name: "duration", Arg: "TIME", Default: "5s", Help: "how long to run each workload", Set: verb.Duration(&o.duration, time.Millisecond, maxDuration)},
		{Name: "seed", Arg: "N", Help: "random seed (default a new one, which is printed)", Set: verb.Seed(&o.seed)},
		serve.MemorySetting(&o.memory),
		verb.JSON(&o.json),
	}
}

// Bench is `skerry bench`.
var Bench = verb.Verb{
	Name: "bench", Args: "[URL]", Short: "run workloads on an engine and check that their invariants hold",
	Long: `URL names an engine, like embedded:///folder (default an embedded engine in a temporary
folder). The workloads write keys that begin with "w" and leave them there. Calls go
straight to the engine, without a protocol. The exit code is 3 if an invariant does not
hold.`,
	Start: func(verb.App) verb.Action {
		o := &benchOptions{}
		return verb.Action{Settings: o.settings(), Check: oneURL, Do: func(ctx context.Context, p verb.Process, rest []string) error {
			u, done, err := engineURL(rest)
			if err != nil {
				return err
			}
			defer done()
			eng, err := p.Engines.Open(ctx, u, verb.EngineOptions{MemoryBytes: o.memory, Logger: verb.Quiet(p.Stderr)})
			if err != nil {
				return err
			}
			return errors.Join(bench(ctx, p, o, eng), eng.Close())
		}}
	},
}

func bench(ctx context.Context, p verb.Process, o *benchOptions, eng engine.Engine) error {
	if o.seed == 0 {
		o.seed = rand.Uint64()
	}
	loads := workload.All()
	if o.workloads != nil {
		loads = nil
		for _, name := range o.workloads {
			w, err := workload.New(name)
			if err != nil {
				return err
			}
			loads = append(loads, w)
		}
	}
	for _, w := range loads {
		stats, err := workload.Run(ctx, eng, w, workload.Options{Clients: o.clients, Duration: o.duration, Seed: o.seed})
		if err != nil {
			err = fmt.Errorf("%s, seed %d: %w", w.Name(), o.seed, err)
			if errors.As(err, new(*workload.Violation)) {
				return verb.Broken(err.Error())
			}
			return err
		}
		if o.json {
			err = verb.PrintJSON(p.Stdout, stats)
		} else {
			_, err = fmt.Fprintf(p.Stdout, "%v; the invariant holds\n", stats)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
