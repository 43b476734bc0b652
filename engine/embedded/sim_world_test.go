package embedded

import (
	"container/heap"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime/debug"
	"strings"
	"time"

	hist "github.com/skerrydb/skerry/workload/history"
)

// world is a cluster with its network, disks, clocks and clients in one goroutine. All
// randomness comes from one seed: the same seed gives the same history, step by step. The
// nodes run the real code: raft.Core, raft.Store, the journal, the executor and the files,
// on a disk in memory. What raft.Node does with goroutines simNode does with events.
type world struct {
	seed   uint64
	rng    *rand.Rand
	plan   plan
	now    time.Duration // since the beginning
	events eventQueue
	count  uint64 // of events so far
	stamp  int64  // of the newest call or return

	nodes     []*simNode // by id-1
	net       simNet
	truth     truth
	clocks    clockTruth
	hidden    *simNode // which clients with even ids do not reach
	lull      bool     // no client writes
	clients   []*simClient
	ops       []*simOp // in the order of their calls
	healed    bool     // there will be no more faults
	undecided bool

	trace io.Writer // nil: no trace
}

// violation is the panic value of a run that has found a violation.
type violation string

func (w *world) violated(format string, args ...any) {
	panic(violation(fmt.Sprintf(format, args...)))
}

func (w *world) logf(format string, args ...any) {
	if w.trace != nil {
		fmt.Fprintf(w.trace, "%9.4f "+format+"\n", append([]any{w.now.Seconds()}, args...)...)
	}
}

// event is an event at a time.
type event struct {
	at    time.Duration
	order uint64 // among those of one time
	do    func()
}

type eventQueue []event

func (q eventQueue) Len() int { return len(q) }
func (q eventQueue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].order < q[j].order
}
func (q eventQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *eventQueue) Push(e any)   { *q = append(*q, e.(event)) }
func (q *eventQueue) Pop() any {
	old := *q
	e := old[len(old)-1]
	old[len(old)-1] = event{}
	*q = old[:len(old)-1]
	return e
}

// after plans do.
func (w *world) after(d time.Duration, do func()) {
	w.count++
	heap.Push(&w.events, event{w.now + d, w.count, do})
}

// maxSteps bounds the events of one run: more mean a loop without progress.
const maxSteps = 2_000_000

// until advances time until then or, if done is not nil, until done returns true.
func (w *world) until(then time.Duration, done func() bool) bool {
	for steps := 0; len(w.events) > 0 && w.events[0].at <= then; steps++ {
		if steps > maxSteps {
			w.violated("%d events and no end: something goes round in circles", steps)
		}
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		e.do()
		if done != nil && done() {
			return true
		}
	}
	w.now = then
	return false
}

// mark returns a time for a call or a return; no two are the same.
func (w *world) mark() int64 {
	w.stamp = max(w.stamp+1, int64(w.now))
	return w.stamp
}

// between returns a duration, short ones more often.
func (w *world) between(low, high time.Duration) time.Duration {
	f := w.rng.Float64()
	return low + time.Duration(f*f*float64(high-low))
}

func (w *world) chance(p float64) bool { return w.rng.Float64() < p }

// newWorld returns a cluster of plan.voters nodes, none of which runs yet.
func newWorld(seed uint64, trace io.Writer) *world {
	w := &world{seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), trace: trace}
	w.plan = newPlan(w.rng)
	w.plan.useLeases(seed)
	w.plan.useReplicas(seed)
	w.plan.usePlaces(seed)
	w.truth.init(w)
	w.clocks.w = w
	w.net.init(w, w.plan.voters+w.plan.spares)
	for id := range w.plan.voters + w.plan.spares {
		w.nodes = append(w.nodes, newSimNode(w, uint64(id+1)))
	}
	for _, n := range w.nodes[:w.plan.voters] {
		n.found(w.plan.voters)
	}
	for i := range w.plan.clients {
		w.clients = append(w.clients, &simClient{w: w, id: int64(i + 1)})
	}
	return w
}

// outcome is the result of one run.
type outcome struct {
	seed      uint64
	wrong     string // "" if nothing was
	undecided bool
	ops       int
	acked     int
	unknown   int
	elections int
	installed int
	refused   int
	virtual   time.Duration
	events    uint64
	sum       uint64 // of all that happened
}

// simulate runs one seed to its end.
func simulate(seed uint64, trace io.Writer) (o outcome) {
	entropy.reset(seed)
	w := newWorld(seed, trace)
	defer func() {
		o = w.outcome()
		switch v := recover().(type) {
		case nil:
		case violation:
			o.wrong = string(v)
		default:
			o.wrong = fmt.Sprintf("panic: %v\n%s", v, shortStack())
		}
		for _, n := range w.nodes {
			n.drop()
		}
		if o.wrong != "" {
			w.logf("WRONG: %s", o.wrong)
		}
	}()
	w.logf("plan %+v", w.plan)
	w.begin()
	w.until(w.plan.length, nil)
	w.heal()
	w.converge()
	w.finalReads()
	w.truth.end()
	w.clocks.end()
	w.verdict()
	return o
}

// shortStack returns the stack of a panic without the frames that are always the same.
func shortStack() string {
	lines := strings.Split(string(debug.Stack()), "\n")
	return strings.Join(lines[:min(len(lines), 40)], "\n")
}

func (w *world) begin() {
	for _, n := range w.nodes[:w.plan.voters] {
		w.after(w.between(0, 50*time.Millisecond), n.start)
	}
	for _, c := range w.clients {
		w.after(w.between(200*time.Millisecond, time.Second), c.next)
	}
	for id := range w.plan.replicas {
		w.after(w.between(500*time.Millisecond, 2*time.Second), func() { w.joinReplica(uint64(w.plan.voters + w.plan.spares - id)) })
	}
	w.plan.schedule(w)
	w.shortages()
}

func (w *world) outcome() outcome {
	o := outcome{seed: w.seed, undecided: w.undecided, ops: len(w.ops), virtual: w.now, events: w.count, sum: w.truth.sum()}
	for _, op := range w.ops {
		switch op.rec.Outcome {
		case hist.OK:
			o.acked++
		case hist.Unknown:
			o.unknown++
		}
	}
	o.elections, o.installed, o.refused = len(w.truth.leaders), w.truth.installed, w.truth.refused
	return o
}
