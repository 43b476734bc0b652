package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/examples/iot/simulate"
)

// tokenVariable is the variable with the token, for the server and for those who write.
const tokenVariable = "IOT_TOKEN"

var simulator = verb.Verb{
	Name:  "simulate",
	Short: "send values of simulated sensors to a server",
	Long: `Each sensor measures a value a second, and sends those of ten seconds at once. The
simulated time passes faster by --speedup and ends with the real time: with
--speedup 1 values are live, otherwise they begin in the past. Values that the
server is too busy for are sent again. The exit code is 0 if all values were
acknowledged. The server's token is the value of the variable ` + tokenVariable + `.`,
	Start: func(verb.App) verb.Action {
		var o simulate.Options
		return verb.Action{
			Settings: []verb.Setting{
				{Name: "sensors", Arg: "N", Default: "1000", Help: "how many sensors, a quarter of each kind", Set: sensors(&o.Sensors)},
				{Name: "speedup", Arg: "X", Default: "100", Help: "simulated seconds in a second", Set: speedup(&o.Speedup)},
				{Name: "duration", Arg: "TIME", Default: "1h", Help: "simulated time, from 10s to 720h", Set: duration(&o.Duration)},
				{Name: "seed", Arg: "N", Default: "1", Help: "the same number gives the same values", Set: seed(&o.Seed)},
				{Name: "url", Arg: "URL", Default: "http://127.0.0.1:7001", Help: "the server", Set: address(&o.URL)},
			},
			Check: verb.NoArguments,
			Do:    func(ctx context.Context, p verb.Process, _ []string) error { return run(ctx, p, o) },
		}
	},
}

// run sends the values and prints a line a second.
func run(ctx context.Context, p verb.Process, o simulate.Options) error {
	for _, line := range p.Environ {
		if token, ok := strings.CutPrefix(line, tokenVariable+"="); ok {
			o.Token = token
		}
	}
	var printed time.Time
	o.Progress = func(done simulate.Outcome, simulated time.Duration) {
		if now := time.Now(); now.Sub(printed) >= time.Second {
			printed = now
			fmt.Fprintf(p.Stderr, "%s of %s: %s\n", simulated, o.Duration, done)
		}
	}
	done, err := simulate.Run(ctx, o)
	fmt.Fprintln(p.Stdout, done)
	return errors.Join(err, done.Complete())
}

func sensors(to *int) func(string) error {
	return func(v string) error {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 || n > simulate.MaxSensors {
			return fmt.Errorf("%q is not a number from 1 to %d", v, simulate.MaxSensors)
		}
		*to = n
		return nil
	}
}

func speedup(to *float64) func(string) error {
	return func(v string) error {
		x, err := strconv.ParseFloat(v, 64)
		if err != nil || !(x >= 1 && x <= math.MaxInt32) {
			return fmt.Errorf("%q is not a number of at least 1", v)
		}
		*to = x
		return nil
	}
}

func duration(to *time.Duration) func(string) error {
	return func(v string) error {
		d, err := time.ParseDuration(v)
		if err != nil || d < simulate.BatchSeconds*time.Second || d > 720*time.Hour {
			return fmt.Errorf("%q is not a duration from 10s to 720h", v)
		}
		*to = d
		return nil
	}
}

func seed(to *uint64) func(string) error {
	return func(v string) error {
		n, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			return fmt.Errorf("%q is not a whole number", v)
		}
		*to = n
		return nil
	}
}

func address(to *string) func(string) error {
	return func(v string) error {
		u, err := url.Parse(v)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.User != nil {
			return fmt.Errorf("%q is not a URL like http://127.0.0.1:7001", v)
		}
		*to = strings.TrimSuffix(v, "/")
		return nil
	}
}
