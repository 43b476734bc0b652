package embedded

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/journal"
	"github.com/skerrydb/skerry/journal/memfs"
	"github.com/skerrydb/skerry/raft"
)

// simDir is every node's data folder, each on its own disk.
const simDir = "node"

// simNode is one machine: its disk and its clock, and while it is up its
// program. It does with events what raft.Node does with goroutines, in the same
// order.
type simNode struct {
	w     *world
	id    uint64
	fs    *memfs.FS
	wall  time.Duration // what its clock is ahead
	drift float64       // what its clock gains in a second, in seconds
	rate  float64       // of its ticks, 1 is right
	slow  time.Duration // what its disk takes more
	ran   simClock      // its monotonic clock

	frozen  time.Duration // until then its program stands still
	trapped bool          // it is frozen when it next asks whether it leads
	due     time.Duration // when the next tick is to come
	quiet   int           // ticks since it heard a leader

	up      bool
	life    int  // grows at every start and end: plans of an earlier one are void
	harmed  bool // a fault of its disk is planned or was
	limited bool // its disk has little room
	gone    bool // removed from the cluster: it does not come back

	db      *DB
	core    *raft.Core
	inbox   []func() // for the stepping goroutine
	woken   bool
	saves   []*raft.Save
	saving  bool
	full    bool
	lacks   bool // it says that its disk has little room
	room    raft.Room
	tasks   []simTask // for the applying goroutine
	busy    bool
	reads   raft.Reads
	sending map[uint64]bool
	viewing *simView // the View that runs now
	calls   []*simOp // that are not answered
	giveUp  func()   // ends the fuzzy snapshot in progress; nil: there is none
	pieces  *rand.Rand
	pace    raft.Pace
	home    homing
}

// simTask is work for the applying goroutine. One field is set.
type simTask struct {
	apply *raft.Apply
	role  *raft.Role
	hold  uint64 // its number
	fn    func()
}

func newSimNode(w *world, id uint64) *simNode {
	n := &simNode{w: w, id: id, fs: memfs.New(w.rng.Uint64()), rate: 1, pieces: rand.New(rand.NewPCG(w.seed, 2<<32+id))}
	r := rand.New(rand.NewPCG(w.seed, 1<<32+id)) // of its own: clocks change nothing else
	n.wall = time.Duration((2*r.Float64() - 1) * float64(simClocks))
	if r.IntN(2) == 0 {
		n.drift = (2*r.Float64() - 1) * simDrift
	}
	return n
}

// What clocks show when a run begins is at most simClocks from the right time, and
// they gain or lose at most simDrift of the time that passes.
const (
	simClocks = 10 * time.Minute
	simDrift  = 0.05
)

// found writes the initial state of the cluster to the node's disk.
func (n *simNode) found(voters int) {
	r := &roster{LeaderSite: n.w.plan.leaderSite}
	for id := range voters {
		r.Members.Voters = append(r.Members.Voters, uint64(id+1))
		r.Nodes = append(r.Nodes, n.w.info(uint64(id+1)))
	}
	s := n.w.truth.initial(r)
	err := errors.Join(makeFolders(n.fs, simDir), journal.WriteSnapshot(n.fs, snapshotName(simDir, 1), s.head(), s.writePairs))
	if err != nil {
		panic(err)
	}
}

// start starts the node's program. It retries what it cannot open.
func (n *simNode) start() {
	if n.up || n.gone {
		return
	}
	n.life++
	n.frozen, n.trapped, n.quiet, n.due = 0, false, 0, n.w.now
	n.inbox, n.woken, n.saves, n.saving, n.full, n.room = nil, false, nil, false, false, raft.Room{}
	n.tasks, n.busy, n.reads, n.sending, n.calls = nil, false, n.newReads(), map[uint64]bool{}, nil
	n.maybeStop(0.05)
	db, err := Open(simDir, n.options())
	if err != nil {
		n.w.logf("n%d does not start: %v", n.id, err)
		if !n.harmed && !n.limited {
			n.w.violated("node %d does not start: %v", n.id, err)
		}
		n.up = true // half
		n.end(n.w.chance(0.5))
		n.w.after(n.w.between(0, time.Second), n.start)
		return
	}
	n.up, n.db = true, db
	n.w.logf("n%d starts at position %d, index %d", n.id, db.durable.Load(), db.exec.at.index)
	n.w.truth.started(n)
	n.awaitTick()
	n.after(n.w.between(0, 2*time.Second), n.keepHouse)
	n.post(func() {})
}

// maybeStop has the power fail soon, where much depends on the order of things.
func (n *simNode) maybeStop(p float64) {
	if p = p * n.w.plan.fragile; !n.w.healed && n.w.chance(p) {
		n.harmed = true
		n.fs.StopAfter(n.w.rng.IntN(6))
	}
}

func (n *simNode) options() Options {
	logger := slog.New(slog.DiscardHandler)
	if n.w.trace != nil {
		logger = slog.New(slog.NewTextHandler(n.w.trace, &slog.HandlerOptions{
			Level:       slog.LevelDebug,
			ReplaceAttr: n.describe,
		}))
	}
	return Options{
		FS: n.fs, Logger: logger, Now: n.clock, mono: n.mono, sim: n.join, PositionWait: 1,
		HistoryBytes: n.w.plan.history, segmentBytes: 8 << 10, LogReserveBytes: 4 << 10, random: entropy,
		QueueCalls: n.w.plan.queue, pieceBytes: 1 + int(n.w.seed%199),
		aheadFrom: -1, // keys are looked up ahead in small maps, too
	}
}

func (n *simNode) describe(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.String("of", string(rune('0'+n.id)))
	}
	return a
}

// join implements Options.sim.
func (n *simNode) join(db *DB) proposer {
	db.group.self = n.id
	db.group.log.lull.alarm = &simAlarm{n: n, ring: db.group.log.lullOver}
	if n.w.seed%2 != 0 { // callers that do not come back have hardly any
		db.group.log.lull.skip = math.MaxInt
	}
	core, err := raft.NewCore(raft.Config{
		ID: n.id, Start: n.w.rng.Uint64(), Applied: db.exec.at.index, Log: db.group.store, Stamps: db.group,
		Logger: db.opts.Logger, Leases: n.w.plan.lease, HeartbeatTicks: 3, MessageBytes: n.w.plan.message, Inflight: n.w.plan.inflight,
	})
	if err != nil {
		n.w.violated("node %d does not join: %v", n.id, err)
	}
	n.core, n.home = core, homing{settle: simSettle}
	n.pace = raft.NewPace(func() time.Duration { return n.w.now }, db.group.catchUpRate)
	n.pace.Lag = n.w.plan.lag
	record := db.exec.record
	db.exec.record = func(b *batch) {
		n.w.truth.published(n, b)
		record(b)
	}
	return n
}

func (n *simNode) clock() time.Time {
	gained := time.Duration(n.drift * float64(n.w.now))
	return time.Unix(1_800_000_000, 0).Add(n.w.now + gained + n.wall)
}

func (n *simNode) mono() time.Time {
	now := n.w.now
	if n.viewing != nil && n.viewing.confirmed {
		now = n.viewing.asked
	}
	return time.Unix(0, int64(now))
}

// after plans fn for this life of the program.
func (n *simNode) after(d time.Duration, fn func()) {
	life := n.life
	var do func()
	do = func() {
		switch {
		case !n.up || n.life != life:
		case n.frozen > n.w.now:
			n.w.after(n.frozen-n.w.now, do)
		default:
			fn()
			n.settle()
		}
	}
	n.w.after(d, do)
}

// settle handles the effects of an event in the program: calls that have returned, or a
// program that has stopped.
func (n *simNode) settle() {
	if !n.up {
		return
	}
	keep := n.calls[:0]
	for _, op := range n.calls {
		select {
		case err := <-op.call.done:
			op.answered(n, err)
		default:
			keep = append(keep, op)
		}
	}
	n.calls = keep
	err := n.db.Err()
	if err != nil && !n.harmed {
		n.w.violated("node %d has stopped: %v", n.id, err)
	}
	if err != nil || n.powerless() {
		n.w.logf("n%d stops: %v", n.id, err)
		n.end(n.w.chance(0.6))
		n.w.after(n.w.between(50*time.Millisecond, 3*time.Second), n.start)
	}
}

// powerless reports whether a planned power failure has happened.
func (n *simNode) powerless() bool {
	if !n.harmed {
		return false
	}
	f, err := n.fs.OpenFile(simDir+"/"+voteName, os.O_RDONLY)
	if err == nil {
		f.Close()
	}
	return errors.Is(err, memfs.ErrStopped)
}

// end ends the program: with the loss of power, or with the machine running on.
func (n *simNode) end(power bool) {
	if !n.up {
		return
	}
	n.w.logf("n%d ends, power %v", n.id, power)
	n.drop()
	n.w.clocks.ended()
	for _, op := range n.calls {
		op.lost()
	}
	n.calls = nil
	n.harmed, n.limited = false, false
	if power {
		n.fs.Crash()
	} else {
		n.fs.Kill()
	}
}

// drop discards the state of the program.
func (n *simNode) drop() {
	n.endFuzzy()
	n.up = false
	n.life++
	if n.db != nil {
		close(n.db.exec.handed)
		close(n.db.exec.runOn)
	}
	n.db, n.core = nil, nil
}

// admits does what the peer port does: it refuses nodes that were removed.
func (n *simNode) admits(from uint64) bool {
	return !slices.Contains(n.db.group.view.Load().roster.Removed, from)
}

// post passes fn to the stepping goroutine.
func (n *simNode) post(fn func()) {
	n.inbox = append(n.inbox, fn)
	if !n.woken {
		n.woken = true
		n.after(n.w.between(0, 200*time.Microsecond), n.step)
	}
}

// step is raft.Node's loop.
func (n *simNode) step() {
	n.woken = false
	work := n.inbox
	n.inbox = nil
	for _, fn := range work {
		fn()
	}
	asked := n.reads.Ask(n.core)
	defer func() { n.trap(asked) }()
	for {
		rd, busy := n.core.Ready()
		if !busy {
			return
		}
		n.carryOut(rd)
	}
}

// simTick leads to elections after 300 to 600 milliseconds without a leader.
const simTick = 30 * time.Millisecond

func (n *simNode) tickAfter() time.Duration {
	return time.Duration(float64(simTick) * n.rate)
}

// awaitTick waits for the next tick: as of time.Ticker, those that come while the
// program stands still are one, and the next may follow at once.
func (n *simNode) awaitTick() {
	for n.due <= n.w.now {
		n.due += n.tickAfter()
	}
	n.after(n.due-n.w.now, n.tick)
}

func (n *simNode) tick() {
	n.awaitTick()
	n.post(func() {
		n.core.Tick()
		n.stand()
		n.reads.Tick()
		n.keepPlaces()
		if id := n.core.CaughtUp(n.w.plan.promoteLag, n.db.group.mayVote); id != 0 && n.core.Role().Ready {
			err := n.core.ProposeChange([]raft.Step{{Op: raft.Promote, Node: id}}, nil)
			n.w.logf("n%d promotes n%d: %v", n.id, id, err)
		}
		switch hold, lead := n.room.Tick(n.core, n.full || n.lacks); {
		case hold != 0:
			n.w.logf("n%d holds %d", n.id, hold)
			n.do(simTask{hold: hold})
		case lead != nil:
			n.do(simTask{role: lead})
		}
		n.do(simTask{fn: func() { n.db.group.log.expire(OutcomeWait) }})
	})
}

func (n *simNode) carryOut(rd raft.Ready) {
	n.room.Took(rd)
	if rd.Role != nil {
		n.w.logf("n%d role %+v", n.id, *rd.Role)
		n.w.clocks.roles(*rd.Role)
		n.do(simTask{role: rd.Role})
		n.reads.Lost()
	}
	for _, m := range rd.Messages {
		if !n.holds(m) {
			n.send(m)
		}
	}
	if rd.Save != nil {
		n.saves = append(n.saves, rd.Save)
		n.save()
	}
	if rd.Apply != nil {
		n.do(simTask{apply: rd.Apply})
	}
	for _, r := range rd.Reads {
		n.reads.Confirmed(r, n.core)
	}
}

func (n *simNode) send(m *raft.Message) {
	if m.GetSnapshot() != nil {
		n.sendSnapshot(m)
		return
	}
	if n.full || n.lacks {
		raft.TellShort(m)
	}
	n.w.net.send(n, m)
}

// do passes t to the applying goroutine.
func (n *simNode) do(t simTask) {
	n.tasks = append(n.tasks, t)
	if !n.busy {
		n.busy = true
		n.after(n.w.between(0, n.w.plan.applyDelay), n.apply)
	}
}

// apply is the applying goroutine of raft.Node.
func (n *simNode) apply() {
	n.busy = false
	work := n.tasks
	n.tasks = nil
	if k := 1 + n.w.rng.IntN(2*len(work)); k < len(work) { // not all at once
		work, n.tasks = work[:k:k], work[k:]
		n.busy = true
		n.after(n.w.between(0, n.w.plan.applyDelay), n.apply)
	}
	for _, t := range work {
		switch {
		case t.apply != nil:
			n.w.truth.committed(n, t.apply.Entries)
			if err := n.db.group.Apply(t.apply.Entries); err != nil {
				n.db.group.Fail(err)
			}
			n.w.truth.applied(n, t.apply.Entries)
			n.post(func() {
				if role := n.core.Applied(t.apply); role != nil {
					n.w.clocks.leads(n, role.Term)
					n.do(simTask{role: role})
				}
				n.reads.Applied(n.core)
			})
		case t.fn != nil:
			t.fn()
		case t.hold != 0:
			n.db.group.Hold()
			n.post(func() { n.room.Obeyed(t.hold) })
		case t.role.Ready:
			n.w.truth.leads(n, t.role.Term)
			n.db.group.Lead(t.role.Term)
		default:
			n.db.group.Follow(t.role.Term, t.role.Leader)
		}
	}
}

// Propose implements proposer.
func (n *simNode) Propose(p *raft.Proposal) {
	n.post(func() {
		err := raft.ErrFull
		if !n.full && !n.room.Held() {
			err = n.core.Propose(p.Term, p.Data)
		}
		if err != nil {
			n.do(simTask{fn: func() { n.db.group.Refused(p, err) }})
		}
	})
}

// keepHouse does the engine's background work from time to time.
func (n *simNode) keepHouse() {
	n.after(n.w.between(100*time.Millisecond, n.w.plan.houseEvery), n.keepHouse)
	n.db.exec.tidy()
	if !n.w.chance(n.w.plan.snapshots) {
		return
	}
	n.maybeStop(0.05)
	if n.pieces.IntN(4) > 0 {
		n.takeFuzzy()
		return
	}
	size, err := n.saveSnapshot()
	n.saved(size, err)
}

func (n *simNode) saved(size int64, err error) {
	if size > 0 || err != nil {
		n.w.logf("n%d saves a snapshot: %d bytes, %v, base %+v, fuzzy %d", n.id, size, err, n.db.group.store.Base(), n.db.group.fuzzy)
	}
	if err != nil && !errors.Is(err, errUnsettled) && engine.CodeOf(err) != engine.CodePositionTimeout && !n.harmed && !n.limited {
		n.w.violated("node %d cannot save a snapshot: %v", n.id, err)
	}
}

// saveSnapshot saves a snapshot of one state. It does not wait for one in progress, which
// is given up.
func (n *simNode) saveSnapshot() (int64, error) {
	n.endFuzzy()
	return n.db.saveSnapshot()
}

// takeFuzzy takes a fuzzy snapshot. Between two pieces other events happen.
func (n *simNode) takeFuzzy() {
	if n.giveUp != nil {
		return
	}
	var size int64
	var err error
	db := n.db
	next, stop := iter.Pull(func(yield func(struct{}) bool) {
		size, err = db.saveFuzzy(func(time.Duration) error {
			if !yield(struct{}{}) {
				return errUnsettled
			}
			return nil
		})
	})
	ended := false
	n.giveUp = func() {
		ended = true
		stop()
	}
	var step func()
	step = func() {
		if ended {
			return
		}
		if _, more := next(); more {
			n.after(time.Duration(n.pieces.Int64N(int64(20*time.Millisecond))), step)
			return
		}
		n.giveUp = nil
		n.saved(size, err)
	}
	step()
}

// endFuzzy gives up the fuzzy snapshot in progress.
func (n *simNode) endFuzzy() {
	if n.giveUp != nil {
		n.giveUp()
		n.giveUp = nil
	}
}

var errAsk = errors.New("the simulation has to ask first")

// ReadIndex implements proposer: a View continues only once its request was confirmed.
func (n *simNode) ReadIndex(context.Context) (stamp uint64, err error) {
	if n.viewing == nil || !n.viewing.confirmed {
		return 0, errAsk
	}
	return n.viewing.stamp, nil
}
