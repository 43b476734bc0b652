package embedded

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/skerrydb/skerry/engine"
	hist "github.com/skerrydb/skerry/workload/history"
)

// plan is the configuration of one run. All of it is derived from the seed.
type plan struct {
	voters, spares int // spares are machines that may be added
	replicas       int // of the spares: they join without a vote
	clients        int
	length         time.Duration // of the time with faults
	think          time.Duration
	history        int // bytes
	queue          int
	message        uint64
	inflight       int
	promoteLag     uint64
	snapshots      float64 // chance, at every houseEvery
	houseEvery     time.Duration
	diskDelay      time.Duration
	applyDelay     time.Duration
	faultEvery     time.Duration
	faults         []simFault
	theme          []string // names of faults that this run has many of
	fragile        float64  // 1: the power may fail while files are put in place
	shrink         float64  // chance that a small cluster gets smaller
	readers        bool     // every second client only reads
	kinds          []func(*world, *simOp)
	values         int     // bytes that a value has more
	lease          bool    // leaders use leases
	hasty          bool    // nodes stand for election as soon as they may
	places         []place // by id-1; nil: none has a site or a rate
	leaderSite     string  // at first
	lag            uint64  // raft.Pace.Lag
}

func newPlan(r *rand.Rand) plan {
	pick := func(n ...int) int { return n[r.IntN(len(n))] }
	dur := func(ms ...int) time.Duration { return time.Duration(pick(ms...)) * time.Millisecond }
	p := plan{
		voters: pick(3, 3, 3, 5), spares: pick(0, 1, 2), clients: 2 + r.IntN(4),
		length: dur(4000, 6000, 9000), think: dur(50, 150, 400),
		history: pick(1, 4<<10, 64<<10), queue: pick(1000, 1000, 2),
		message: uint64(pick(1, 200, 1<<20)), inflight: pick(2, 64, 64), fragile: float64(pick(0, 1, 1)), shrink: 0.1, promoteLag: uint64(pick(0, 10, 1024)),
		snapshots: []float64{0.1, 0.5, 1}[r.IntN(3)], houseEvery: dur(300, 1000, 3000),
		diskDelay: dur(1, 5, 40), applyDelay: dur(1, 5, 60, 200), faultEvery: dur(300, 700, 1500),
		values: pick(0, 0, 100, 400),
	}
	p.theme = themes[r.IntN(len(themes))]
	for _, f := range simFaults {
		switch {
		case slices.Contains(p.theme, f.name):
			p.faults = append(p.faults, f, f)
		case len(p.theme) == 0 && r.IntN(10) < f.odds, r.IntN(40) < f.odds:
			p.faults = append(p.faults, f)
		}
	}
	if slices.Contains(p.theme, "members") {
		p.snapshots, p.faultEvery, p.promoteLag, p.shrink = p.snapshots/10, 400*time.Millisecond, 1024, 0.6
	}
	if slices.Contains(p.theme, "lag") {
		p.snapshots, p.houseEvery, p.history, p.values = 1, 300*time.Millisecond, 1, 400
	}
	if slices.Contains(p.theme, "transfer") {
		p.applyDelay, p.clients, p.think = 200*time.Millisecond, 6, 50*time.Millisecond
	}
	p.readers = r.IntN(3) == 0
	kinds := slices.Clone(simKinds)
	r.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	p.kinds = kinds[:1+r.IntN(len(kinds))]
	return p
}

// themes are sets of faults that together find problems that each alone would not.
var themes = [][]string{
	{}, {}, {}, // anything
	{"rivals", "crash", "loss"},
	{"transfer", "transfer", "slow disk"},
	{"members", "crash all", "crash", "cut"},
	{"isolate", "drift"},
	{"full disk", "failed sync", "crash within"},
	{"lag", "crash within", "loss"},
}

// choose returns a random operation.
func (p *plan) choose(w *world, op *simOp) {
	for {
		p.kinds[w.rng.IntN(len(p.kinds))](w, op)
		if w.lull && !readsOnly(&op.rec) {
			op.rec = hist.Op{}
			continue
		}
		if !p.readers || op.client.id%2 == 0 || readsOnly(&op.rec) || w.chance(0.02) {
			break
		}
		op.rec = hist.Op{}
	}
	if !readsOnly(&op.rec) || p.readers && w.chance(0.6) || w.chance(0.3) {
		return // the latter is a transaction that only reads
	}
	op.view = &simView{read: engine.Read{Level: engine.Linearizable}}
	switch w.rng.IntN(3) {
	case 0:
		op.rec.Level = hist.Session
		op.view.read = engine.Read{Level: engine.Session, AtLeast: engine.Position(op.client.seen)}
		op.rec.Asked = op.client.seen
	case 1:
		op.rec.Level = hist.Local
		op.view.read = engine.Read{Level: engine.Local, MaxStale: w.between(10*time.Millisecond, 3*time.Second)}
	}
}

func readsOnly(o *hist.Op) bool {
	switch o.Kind {
	case hist.Get, hist.List, hist.SetRead, hist.MGet:
		return true
	}
	return false
}

// simKinds are the workloads.
var simKinds = []func(*world, *simOp){simRegisters, simCounters, simLists, simSets, simBank, simPairs}

// text returns a value that no other operation writes.
func (w *world) text() hist.Value {
	b := fmt.Appendf(nil, "%d.", len(w.ops))
	for range w.plan.values {
		b = append(b, 'x')
	}
	return hist.Some(string(b))
}

func (w *world) key(kind string, n int) string { return fmt.Sprintf("%s%d", kind, w.rng.IntN(n)) }

func simRegisters(w *world, op *simOp) {
	s := &op.rec.Step
	s.Key = w.key("r", 3)
	switch n := w.rng.IntN(10); {
	case n < 4:
		s.Kind = hist.Get
	case n < 7:
		s.Kind, s.Value = hist.Set, w.text()
	case n < 8:
		s.Kind = hist.Delete
	default:
		s.Kind, s.Value = hist.CAS, w.text()
		s.Expect = w.known(s.Key)
	}
}

// known is a value that a key may have.
func (w *world) known(key string) hist.Value {
	for i := len(w.ops) - 1; i >= max(0, len(w.ops)-20); i-- {
		if o := w.ops[i]; o.rec.Key == key && w.chance(0.7) {
			if o.rec.Kind == hist.Get {
				return o.rec.Got
			}
			return o.rec.Value
		}
	}
	return hist.Value{}
}

func simCounters(w *world, op *simOp) {
	op.rec.Step = hist.Step{Kind: hist.Add, Key: w.key("c", 2), Delta: int64(1 + w.rng.IntN(3))}
	if w.chance(0.3) {
		op.rec.Step = hist.Step{Kind: hist.Get, Key: op.rec.Key}
	}
}

func simLists(w *world, op *simOp) {
	op.rec.Step = hist.Step{Kind: hist.Append, Key: w.key("l", 2), Value: hist.Some(fmt.Sprint(len(w.ops)))}
	if w.chance(0.4) {
		op.rec.Step = hist.Step{Kind: hist.List, Key: op.rec.Key}
	}
}

func simSets(w *world, op *simOp) {
	op.rec.Step = hist.Step{Kind: hist.SetAdd, Key: "s0", Value: hist.Some(fmt.Sprint(w.rng.IntN(30)))}
	if w.chance(0.4) {
		op.rec.Step = hist.Step{Kind: hist.SetRead, Key: op.rec.Key}
	}
}

var accounts = []string{"a0", "a1", "a2", "a3"}

func simBank(w *world, op *simOp) {
	switch n := w.rng.IntN(20); {
	case n < 2:
		op.rec.Step = hist.Step{Kind: hist.MSet}
		for _, key := range accounts {
			op.rec.Pairs = append(op.rec.Pairs, hist.Pair{Key: key, Value: hist.Some("100")})
		}
	case n < 8:
		op.rec.Step = hist.Step{Kind: hist.MGet, Keys: accounts}
	default:
		from := w.rng.IntN(len(accounts))
		to := (from + 1 + w.rng.IntN(len(accounts)-1)) % len(accounts)
		op.rec.Step = hist.Step{Kind: hist.Transfer, Key: accounts[from], To: accounts[to], Delta: int64(w.rng.IntN(80))}
	}
}

// pairs are transactions of several steps.
func simPairs(w *world, op *simOp) {
	op.rec.Step = hist.Step{Kind: hist.Txn}
	for range 1 + w.rng.IntN(3) {
		key := w.key("t", 2)
		s := hist.Step{Kind: hist.Get, Key: key}
		switch w.rng.IntN(3) {
		case 0:
			s = hist.Step{Kind: hist.Set, Key: key, Value: w.text()}
		case 1:
			s = hist.Step{Kind: hist.CAS, Key: key, Expect: w.known(key), Value: w.text()}
		}
		op.rec.Steps = append(op.rec.Steps, s)
	}
}
