package cli

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/workload/history"
)

// The fault tests run three processes of the program over real ports, break them and the network between them
// while clients of several libraries work, and then check the clients' results. SKERRY_SEED repeats the same
// faults; their effect depends on timing, so a failure may need several runs to recur. SKERRY_KILLS is how
// many leaders TestKilledLeaders kills. SKERRY_DEEDS makes TestFaults inject only these faults, by their
// comma-separated names. SKERRY_SOAK is how long TestSoakFaults runs.

// checkWait bounds the check of one history.
const checkWait = 5 * time.Minute

// trial is one cluster with its load and its nemesis.
type trial struct {
	*testing.T
	seed uint64
	f    *fleet
	l    *load
	n    *nemesis
}

func newTrial(t *testing.T, seed uint64) *trial {
	t.Helper()
	silenceGoRedis()
	rng := rand.New(rand.NewPCG(seed, 0))
	f := newFleet(t)
	l := newLoad(t, f)
	x := &trial{T: t, seed: seed, f: f, l: l, n: &nemesis{fleet: f, rng: rng, load: l}}
	x.clients(rng)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("to do the same again: SKERRY_SEED=%d go test ./cli -run '^%s$'", seed, t.Name())
		}
	})
	return x
}

// clients starts the load: three libraries, each on its own terms, and sockets.
func (x *trial) clients(rng *rand.Rand) {
	x.Helper()
	var web, resp []string
	for _, n := range x.f.nodes {
		web, resp = append(web, n.http), append(resp, n.resp)
	}
	add := func(name string, c redisClient) {
		x.Cleanup(c.close)
		x.l.run(name, rng, redisStep(c))
	}
	for i, addr := range resp {
		add(fmt.Sprint("go-redis at ", i+1), newGoRedis(addr))
	}
	add("go-redis cluster", newGoRedisCluster(resp, ""))
	add("go-redis cluster +moved", newGoRedisCluster(resp, "load+moved"))
	c, err := newRueidisClient(resp, "load+moved")
	if err != nil {
		x.Fatal(err)
	}
	add("rueidis", c)
	if c := newIORedis(x.T, resp[0]); c != nil {
		add("ioredis at 1", c)
	}
	x.l.run("socket at 2", rng, redisStep(&plainClient{addr: resp[1]}))
	x.l.run("session", rng, sessionStep(resp, rng))
	for i := range 2 {
		x.l.run(fmt.Sprint("HTTP ", i+1), rng, webStep(newWebClient(web)))
	}
}

// end heals everything, waits until every client writes again, stops them, and checks their results and the
// nodes' data.
func (x *trial) end() {
	x.Helper()
	x.f.net.heal()
	x.f.whole()
	x.l.mark()
	x.f.tell("all is healed")
	if !eventually.Within(healWait, func() bool { return len(x.l.behind()) == 0 }) {
		x.Errorf("%v after all was healed these clients have not written: %s", healWait, strings.Join(x.l.behind(), ", "))
	}
	sums := x.readAll()
	x.l.end()
	x.report()
	for _, wrong := range x.l.wrong {
		x.Error(wrong)
	}
	for _, s := range sums[1:] {
		if s != sums[0] {
			x.Errorf("the nodes have different data:\n%s", strings.Join(sums, "\n"))
			break
		}
	}
	x.check()
	x.stopAll()
}

// readAll reads every key from every node, records that, and returns for each node
// a line that must be the same for all. The load has to be quiet by then.
func (x *trial) readAll() (sums []string) {
	x.Helper()
	x.l.quiet()
	for i, n := range x.f.nodes {
		c := newWebClient([]string{n.http})
		ctx, cancel := context.WithTimeout(context.Background(), healWait)
		defer cancel()
		var pending []*history.Pending
		for _, key := range slices.Sorted(maps.Keys(x.l.keys)) {
			op := opOn(x.l.keys[key], key)
			op.Client = int64(1000 + i)
			pending = append(pending, x.l.rec.Begin(op))
		}
		items, pos, _, err := c.list(ctx, "h/", "linearizable") // nobody writes: all pages are of one state
		if err != nil {
			x.Fatalf("read node %d: %v", n.id, err)
		}
		endReads(pending, items, pos)
		all, last, _, err := c.list(ctx, "", "linearizable")
		if err != nil {
			x.Fatalf("read node %d: %v", n.id, err)
		}
		sum := sha256.New()
		for _, item := range all {
			fmt.Fprintf(sum, "%q %q %d\n", item.Key, item.Value, item.Revision)
		}
		sums = append(sums, fmt.Sprintf("position %d, %d keys, sum %x", last, len(all), sum.Sum(nil)))
	}
	return sums
}

// endReads gives reads that have begun what one listing shows.
func endReads(pending []*history.Pending, items []listed, pos uint64) {
	vals, sets := map[string]string{}, map[string][]string{}
	for _, i := range items {
		vals[i.Key] = i.Value
		at := strings.LastIndexByte(i.Key, '/')
		sets[i.Key[:at]] = append(sets[i.Key[:at]], i.Key[at+1:])
	}
	for _, p := range pending {
		val, found := vals[p.Op.Key]
		positioned(&p.Op, webAnswer{pos: pos})
		switch p.Op.Kind {
		case history.List:
			p.Op.List = elementsOf(val)
		case history.SetRead:
			p.Op.List = sets[p.Op.Key]
		default:
			p.Op.Got = history.Value{Text: val, Present: found}
		}
		p.End(history.OK)
	}
}

// check decides whether the history is that of one store.
func (x *trial) check() {
	x.Helper()
	began := time.Now()
	ops := x.l.rec.Ops()
	r := history.Check(context.Background(), ops, history.Options{Timeout: checkWait})
	if r.Verdict != history.Correct {
		x.Errorf("%s\n%s", r.Verdict, r.Explanation)
	}
	x.Logf("checked %d operations over %d sets of keys in %v: %s", r.Operations, r.Partitions, time.Since(began).Round(time.Millisecond), r.Verdict)
}

// report prints what the clients did.
func (x *trial) report() {
	for _, w := range x.l.workers {
		slices.Sort(w.gaps)
		longest, middle := time.Duration(0), time.Duration(0)
		if k := len(w.gaps); k > 0 {
			longest, middle = w.gaps[k-1], w.gaps[k/2]
		}
		x.Logf("%-24s %6d done, %3d unknown, writes again after a fault within %5d ms, half of the times within %4d ms",
			w.name, w.ok, w.unk, longest.Milliseconds(), middle.Milliseconds())
		if w.ok == 0 {
			x.Errorf("%s has done nothing", w.name)
		}
	}
}

// stopAll stops the nodes as an operator would, and has their folders checked.
func (x *trial) stopAll() {
	x.Helper()
	for _, n := range x.f.nodes {
		x.f.signal(n, syscall.SIGTERM)
		x.f.tell("node %d has stopped", n.id)
	}
	for _, n := range x.f.nodes {
		if out, err := x.f.verb("check", "--data", n.dir); err != nil || !strings.Contains(out, "sound") {
			x.Errorf("check of node %d: %v\n%s", n.id, err, out)
		}
	}
}

// TestFaults does every deed in an order of the seed, as far as its time goes.
func TestFaults(t *testing.T) {
	t.Parallel()
	budget := 15 * time.Second
	if testing.Short() {
		budget = 5 * time.Second
	}
	x := newTrial(t, seed.Of(t))
	all := deeds()
	x.n.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	if only := os.Getenv("SKERRY_DEEDS"); only != "" {
		all = slices.DeleteFunc(append(deeds(), bigDeeds()...), func(d deed) bool { return !strings.Contains(","+only+",", ","+d.name+",") })
	}
	began := time.Now()
	for _, d := range all {
		if x.n.run(d); time.Since(began) > budget {
			break
		}
	}
	x.end()
}

// TestKilledLeaders kills one leader after the other.
func TestKilledLeaders(t *testing.T) {
	t.Parallel()
	kills := 20
	if testing.Short() {
		kills = 2
	}
	if v := os.Getenv("SKERRY_KILLS"); v != "" {
		fmt.Sscan(v, &kills)
	}
	x := newTrial(t, seed.Of(t))
	x.kills(kills)
	x.end()
}

// kills kills the leader n times at random moments; it comes back at once.
func (x *trial) kills(n int) {
	x.Helper()
	for range n {
		x.f.whole()
		l, _ := x.f.leader()
		time.Sleep(x.n.upTo(200 * time.Millisecond))
		x.n.kill(l)
		x.n.comeBack(l)
	}
}

// TestSoakFaults goes on for as long as SKERRY_SOAK says: one cluster after the
// other, each with a seed of its own.
func TestSoakFaults(t *testing.T) {
	v := os.Getenv("SKERRY_SOAK")
	if v == "" {
		t.Skip("SKERRY_SOAK says for how long")
	}
	d, err := time.ParseDuration(v)
	if err != nil {
		t.Fatal(err)
	}
	next := seed.Of(t)
	for began, round := time.Now(), 0; time.Since(began) < d && !t.Failed(); round++ {
		t.Run(fmt.Sprintf("SKERRY_SEED=%d", next), func(t *testing.T) { soakRound(t, next, min(4*time.Minute, d-time.Since(began))) })
		fmt.Printf("%v of %v, round %d, seed %d: failed %v\n", time.Since(began).Round(time.Second), d, round+1, next, t.Failed())
		next++
	}
}

// soakRound is one cluster's life: 20 leaders are killed, then for d it meets
// everything else, in any order.
func soakRound(t *testing.T, seed uint64, d time.Duration) {
	x := newTrial(t, seed)
	all := append(deeds(), bigDeeds()...)
	x.kills(20)
	for began := time.Now(); time.Since(began) < d; {
		x.n.run(all[x.n.rng.IntN(len(all))])
	}
	x.end()
}
