package embedded

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerrydb/skerry/btree"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/raft"
)

// TestOutcomeOfOrphans: the result of a call whose leader was deposed while its batch was
// in flight, for everything that can come next. The error means "nothing was written" only
// if that is known.
func TestOutcomeOfOrphans(t *testing.T) {
	entry := func(q quorum, term uint64, data []byte) {
		if err := q.applyAll([]raft.Entry{{Index: 1, Term: term, Data: data}}); err != nil {
			t.Error(err)
		}
	}
	const none = engine.Code("none yet")
	for name, c := range map[string]struct {
		next func(q quorum, b *raft.Proposal)
		want engine.Code
	}{
		"its own entry":               {func(q quorum, b *raft.Proposal) { entry(q, 5, b.Data) }, ""},
		"an empty entry of its term":  {func(q quorum, _ *raft.Proposal) { entry(q, 5, nil) }, none},
		"an empty entry of a new one": {func(q quorum, _ *raft.Proposal) { entry(q, 6, nil) }, engine.CodeNotLeader},
		"a batch of a new term":       {func(q quorum, b *raft.Proposal) { entry(q, 6, b.Data) }, engine.CodeNotLeader},
		"nothing for long":            {func(q quorum, _ *raft.Proposal) { q.expire(0) }, engine.CodeOutcomeUnknown},
		"nothing for a moment":        {func(q quorum, _ *raft.Proposal) { q.expire(OutcomeWait) }, none},
		"a snapshot":                  {func(q quorum, _ *raft.Proposal) { q.install(&snapshot{tree: btree.NewPairs()}) }, engine.CodeOutcomeUnknown},
		"a refusal":                   {func(q quorum, b *raft.Proposal) { q.notTaken(b, engine.Errorf(engine.CodeDiskFull, "full")) }, engine.CodeDiskFull},
		"a refusal of another":        {func(q quorum, _ *raft.Proposal) { q.notTaken(&raft.Proposal{}, engine.ErrNotLeader) }, none},
	} {
		t.Run(name, func(t *testing.T) {
			x, q := leading(t)
			call := start(t.Context(), x, putting("k", "1"))
			b := <-q.got
			q.yield(engine.Errorf(engine.CodeNotLeader, "deposed"))
			c.next(q, b)
			if c.want == none {
				if len(q.orphans) != 1 {
					t.Fatalf("the call was answered: %v", <-call)
				}
				q.expire(0)
				<-call
				return
			}
			if err := <-call; engine.CodeOf(err) != c.want && (err != nil || c.want != "") {
				t.Errorf("the call returned %v, want %q", err, c.want)
			}
			if len(q.orphans) != 0 {
				t.Errorf("%d batches still wait for their outcome", len(q.orphans))
			}
		})
	}
}

// TestLateProposalAfterHold: a batch that was sealed before the node was held back, and
// is proposed after it leads again in the same term, must not get into the log: what
// runs since is built without it.
func TestLateProposalAfterHold(t *testing.T) {
	x, q := leading(t)
	var first atomic.Bool
	sealed, let := make(chan struct{}), make(chan struct{})
	mono := x.opts.mono
	x.opts.mono = func() time.Time {
		if !first.Swap(true) {
			close(sealed)
			<-let
		}
		return mono()
	}
	call := start(t.Context(), x, putting("k", "1"))
	<-sealed
	q.yield(engine.Errorf(engine.CodeDiskFull, "held"))
	q.accept(5)
	close(let)
	b := <-q.got
	if b.Term == 5 {
		t.Error("a batch of before Hold is proposed after Lead")
	}
	q.notTaken(b, engine.Errorf(engine.CodeNotLeader, "refused"))
	if err := <-call; engine.CodeOf(err) != engine.CodeNotLeader {
		t.Error(err)
	}
}

// TestEntryOfAnotherBatch: a batch is acknowledged by its own entry only, never by
// another one that was built on the same position in the same term.
func TestEntryOfAnotherBatch(t *testing.T) {
	x, q := leading(t)
	first := start(t.Context(), x, putting("k", "1"))
	one := <-q.got
	q.yield(engine.Errorf(engine.CodeDiskFull, "held"))
	q.accept(5)
	second := start(t.Context(), x, putting("l", "2"))
	two := <-q.got
	err := q.applyAll([]raft.Entry{{Index: 1, Term: 5, Data: one.Data}})
	select {
	case got := <-second:
		t.Errorf("a batch is answered %v when another one is committed", got)
		return
	default:
	}
	if err == nil {
		t.Error("the node still runs although its state differs")
	}
	q.notTaken(two, engine.ErrNotLeader)
	<-second
	q.expire(0)
	<-first
}

// TestEntryOfAnotherOrphan: of two batches on one position in one term, which both wait
// for their outcome, only the one that the log brings is acknowledged.
func TestEntryOfAnotherOrphan(t *testing.T) {
	x, q := leading(t)
	first := start(t.Context(), x, putting("k", "1"))
	<-q.got
	q.yield(engine.Errorf(engine.CodeDiskFull, "held"))
	q.accept(5)
	second := start(t.Context(), x, putting("l", "2"))
	two := <-q.got
	q.yield(engine.Errorf(engine.CodeDiskFull, "held"))
	if err := q.applyAll([]raft.Entry{{Index: 1, Term: 5, Data: two.Data}}); err != nil {
		t.Error(err)
	}
	q.expire(0)
	if err := <-second; err != nil {
		t.Errorf("the batch that was committed: %v", err)
	}
	if err := <-first; engine.CodeOf(err) != engine.CodeOutcomeUnknown {
		t.Errorf("the other batch: %v", err)
	}
}

// TestTimeOfHeldReads: while the node is held back, linearizable reads do not take a time
// after that of a batch that may yet be committed: they could see a key expired that it
// has prolonged.
func TestTimeOfHeldReads(t *testing.T) {
	x, q := leading(t)
	call := start(t.Context(), x, putting("k", "1"))
	b := <-q.got
	firstTime, lastTime := times(t, b)
	q.yield(engine.Errorf(engine.CodeDiskFull, "held"))
	for x.wall.micros() <= lastTime {
		runtime.Gosched()
	}
	if got := x.flight.bound(&x.wall); got > firstTime {
		t.Errorf("a read of a held leader has time %d, a batch on its way %d", got, firstTime)
	}
	q.expire(0) // which is no news of the batch
	<-call
	if got := x.flight.bound(&x.wall); got > firstTime {
		t.Errorf("later a read has time %d, the batch %d", got, firstTime)
	}
	if err := q.applyAll([]raft.Entry{{Index: 1, Term: 5, Data: b.Data}}); err != nil {
		t.Error(err)
	}
	if got := x.flight.bound(&x.wall); got <= lastTime { // it is visible: others have learned of its time
		t.Errorf("the time is still %d", got)
	}
}
