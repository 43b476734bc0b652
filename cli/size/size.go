// Package size is the verb `skerry size`: how much memory, disk, CPU and network a number of keys and writes needs.
//
// It knows the capacity model of docs/scale.md and its constants, which were measured; it must not know servers or engines:
// it only computes.
package size

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/skerrydb/skerry/cli/verb"
)

// Verb is `skerry size`.
var Verb = verb.Verb{
	Name: "size", Short: "compute the memory, disk, CPU and network that data and writes need",
	Long: `The numbers come from a model with measured constants (docs/scale.md), so they are estimates:
leave room. Counts accept k, M and G: 10M is 10,000,000. Sizes are like 100 or 4KiB. The limits of
one node's machine are checked if they are given. The voting nodes are spread evenly over --sites, and the
leader is in a site with the most nodes.`,
	Start: func(verb.App) verb.Action {
		o := &options{}
		return verb.Action{Settings: o.settings(), Check: o.check, Do: func(_ context.Context, p verb.Process, _ []string) error {
			c := measured()
			a := compute(o.need(), o.machine(), c)
			if o.json {
				return verb.PrintJSON(p.Stdout, a)
			}
			return a.print(p.Stdout, c)
		}, Abrupt: true}
	},
}

// options are the settings.
type options struct {
	keys, writes                   float64
	key, value                     int64
	nodes, replicas, sites         int
	roundTrip, sync                time.Duration
	memory, disk                   int64
	cores                          int
	network, diskWrite, catchUpMax int64
	json                           bool
}

// Limits of the settings. Memory of more than maxKeys keys would not fit into any machine.
const (
	maxKeys     = 1e12
	maxWrites   = 1e9
	maxKey      = 4096     // bytes; embedded.MaxKeyBytes
	maxValue    = 16 << 20 // bytes; embedded.MaxValBytes without a capability's header
	maxNodes    = 15
	maxReplicas = 32
	maxCores    = 4096
)

func (o *options) settings() []verb.Setting {
	whole, text := verb.Whole, "of one node's machine, to check"
	return []verb.Setting{
		{Name: "keys", Arg: "COUNT", Help: "how many keys", Set: count(&o.keys, 1, maxKeys)},
		{Name: "key", Arg: "SIZE", Default: "16", Help: "bytes of a key", Set: upTo(&o.key, 1, maxKey)},
		{Name: "value", Arg: "SIZE", Default: "100", Help: "bytes of a value, on average", Set: upTo(&o.value, 0, maxValue)},
		{Name: "writes", Arg: "COUNT", Default: "1k", Help: "writes a second", Set: count(&o.writes, 0, maxWrites)},
		{Name: "nodes", Arg: "N", Default: "1", Help: "nodes with a vote", Set: whole(&o.nodes, 1, maxNodes)},
		{Name: "replicas", Arg: "N", Default: "0", Help: "read replicas, which never vote", Set: whole(&o.replicas, 0, maxReplicas)},
		{Name: "sites", Arg: "N", Default: "1", Help: "sites that the nodes with a vote are in", Set: whole(&o.sites, 1, maxNodes)},
		{Name: "round-trip", Arg: "TIME", Help: "between sites; between the nodes of one site it is not counted (default 30ms if there are several, or replicas)", Set: verb.Duration(&o.roundTrip, 0, time.Minute)},
		{Name: "sync", Arg: "TIME", Default: "1ms", Help: "fsync of the disk", Set: verb.Duration(&o.sync, 0, time.Minute)},
		{Name: "catch-up-limit", Arg: "SIZE", Help: "bytes a second that a new node may be sent (default no limit)", Set: verb.Size(&o.catchUpMax, 1)},
		{Name: "memory", Arg: "SIZE", Help: "memory " + text, Set: verb.Size(&o.memory, 1)},
		{Name: "disk", Arg: "SIZE", Help: "disk " + text, Set: verb.Size(&o.disk, 1)},
		{Name: "cores", Arg: "N", Help: "cores " + text, Set: whole(&o.cores, 1, maxCores)},
		{Name: "network", Arg: "SIZE", Help: "bytes a second of the network " + text, Set: verb.Size(&o.network, 1)},
		{Name: "disk-write", Arg: "SIZE", Help: "bytes a second that the disk can write, " + text, Set: verb.Size(&o.diskWrite, 1)},
		verb.JSON(&o.json),
	}
}

func (o *options) check(rest []string) error {
	var wrong []error
	if o.keys == 0 {
		wrong = append(wrong, errors.New("needs --keys"))
	}
	if o.sites > o.nodes {
		wrong = append(wrong, fmt.Errorf("--sites: %d sites need at least as many nodes, and --nodes is %d", o.sites, o.nodes))
	}
	if o.roundTrip > 0 && o.sites == 1 && o.replicas == 0 {
		wrong = append(wrong, errors.New("--round-trip: needs --sites or --replicas; it is that between sites"))
	}
	return verb.Mistakes(append(wrong, verb.NoArguments(rest))...)
}

// farTrip is the default round trip between sites, as within a continent.
const farTrip = 30 * time.Millisecond

func (o *options) need() Need {
	n := Need{o.keys, float64(o.key), float64(o.value), o.writes, o.nodes, o.replicas, o.sites, o.roundTrip, o.sync, float64(o.catchUpMax)}
	if n.RoundTrip == 0 && (n.Sites > 1 || n.Replicas > 0) {
		n.RoundTrip = farTrip
	}
	return n
}

func (o *options) machine() Machine {
	return Machine{float64(o.memory), float64(o.disk), float64(o.cores), float64(o.network), float64(o.diskWrite)}
}

// countUnits are powers of 1000, largest first.
var countUnits = []struct {
	name   string
	factor float64
}{{"G", 1e9}, {"M", 1e6}, {"k", 1e3}}

// count parses a count like 10M or 1.5k.
func count(p *float64, lo, hi float64) func(string) error {
	return func(v string) error {
		digits, factor := v, 1.0
		for _, u := range countUnits {
			if d, ok := strings.CutSuffix(v, u.name); ok {
				digits, factor = d, u.factor
			}
		}
		n, err := strconv.ParseFloat(digits, 64)
		n *= factor
		if err != nil || math.IsNaN(n) || strings.ContainsAny(digits, "xXpPeE_+") || n < lo || n > hi || n != math.Trunc(n) {
			return fmt.Errorf("%q is not a count from %s to %s, like 5000, 50k or 10M", v, countText(lo), countText(hi))
		}
		*p = n
		return nil
	}
}

// upTo parses a size with an upper limit.
func upTo(p *int64, lo, hi int64) func(string) error {
	return func(v string) error {
		if err := verb.Size(p, lo)(v); err != nil {
			return err
		}
		if *p > hi {
			return fmt.Errorf("%q is more than %s, the most that the server accepts", v, verb.FormatSize(hi))
		}
		return nil
	}
}
