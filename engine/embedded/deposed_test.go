package embedded

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skerrydb/skerry/btree"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/raft"
)

// quorum is a committer whose raft only notes what it is given; the test is the
// machine's goroutine.
type quorum struct {
	*raftCommitter
	proposer
	got chan *raft.Proposal
}

func (q quorum) Propose(p *raft.Proposal) { q.got <- p }

func (q quorum) Confirm(term uint64, _ func(error)) { q.got <- &raft.Proposal{Term: term} }

// first returns the time of the first and of the last transaction in p.
func times(t *testing.T, p *raft.Proposal) (first, last int64) {
	t.Helper()
	for c, err := range changes(p.Data) {
		if err != nil {
			t.Fatal(err)
		}
		if last = c.Time.UnixMicro(); first == 0 {
			first = last
		}
	}
	return first, last
}

// leading returns an executor that takes calls as the leader of term 5.
func leading(t *testing.T) (*executor, quorum) {
	t.Helper()
	o, err := Options{Logger: quiet()}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{snap: &snapshot{}}
	q := quorum{raftCommitter: newRaftCommitter(func(*roster) {}), got: make(chan *raft.Proposal, 16)}
	x := newExecutor(o, q.raftCommitter, &snapshot{tree: btree.NewPairs()})
	x.overtake, x.record, x.visible, x.show, x.fail = func(*batch) {}, func(*batch) {}, g.current, g.show, func(error) {}
	q.x, q.raft = x, q
	q.accept(5)
	t.Cleanup(func() {
		close(x.handed)
		close(x.runOn)
		x.stopped.Wait()
	})
	return x, q
}

// held returns a transaction that says when it runs, and ends when it is let go.
func held(fn func(engine.Tx) error) (run func(engine.Tx) error, runs, let chan struct{}) {
	runs, let = make(chan struct{}), make(chan struct{})
	return func(tx engine.Tx) error {
		close(runs)
		<-let
		return fn(tx)
	}, runs, let
}

func nothing(engine.Tx) error { return nil }

// within fails the test if fn does not return.
func within(t *testing.T, what string, fn func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { fn(); close(done) }()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatalf("%s did not end", what)
	}
}

// TestNothingIsSealedAfterDeposition: the caller that leads when the node is
// deposed runs on, over a state that was dropped meanwhile. What it still runs
// must come to nothing, and must not be in the way of the new leader's batches.
func TestNothingIsSealedAfterDeposition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, q := leading(t)
		first, runs, let := held(nothing)
		zero := start(t.Context(), x, first)
		<-runs
		big, bigRuns, bigLet := held(putting("big", strings.Repeat("x", batchBytes)))
		one := start(t.Context(), x, big)
		settled(t, x, func() bool { return len(x.queue) == 1 })
		two := start(t.Context(), x, putting("late", "1"))
		settled(t, x, func() bool { return len(x.queue) == 2 })
		three := make(chan error, 1)
		go func() {
			c := x.take()
			c.n, c.fn = 3, func(tx engine.Tx, _ int) error { return putting("each", strings.Repeat("x", batchBytes))(tx) }
			three <- x.do(t.Context(), c)
		}()
		settled(t, x, func() bool { return len(x.queue) == 3 })
		close(let)
		<-q.got // that of the first call, which wrote nothing
		<-bigRuns
		yielded := make(chan struct{})
		go func() {
			q.yield(engine.Errorf(engine.CodeNotLeader, "deposed"))
			close(yielded)
		}()
		settled(t, x, func() bool { return q.term == 0 })
		close(bigLet)
		within(t, "yield", func() { <-yielded })
		for _, c := range []<-chan error{one, two, three} {
			within(t, "a call of a deposed leader", func() {
				if err := <-c; !errors.Is(err, engine.ErrNotLeader) && engine.CodeOf(err) != engine.CodeOutcomeUnknown {
					t.Errorf("a call that ran on after the node was deposed: %v", err)
				}
			})
		}
		select {
		case b := <-q.got:
			t.Errorf("a batch of term %d was proposed after the node was deposed: %q", b.Term, b.Data)
		default:
		}
		theirs := newBatch(0, 0)
		theirs.add(1, 1)
		theirs.put([]byte("k"), []byte("v"))
		within(t, "the new leader's batch", func() {
			if err := q.applyAll([]raft.Entry{{Index: 1, Term: 6, Data: theirs.buf}}); err != nil {
				t.Error(err)
			}
		})
		if _, ok := x.tree.Get([]byte("k")); !ok {
			t.Error("the new leader's batch was not applied")
		}
		within(t, "the call before", func() { <-zero })
	})
}

// TestCallsAreAnsweredOnce: a batch that was refused, and is still the one on its
// way when the node is deposed, is not answered again: its caller may be gone.
func TestCallsAreAnsweredOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, q := leading(t)
		ctx, cancel := context.WithCancel(t.Context())
		write := start(ctx, x, putting("k", "1"))
		b := <-q.got
		cancel()
		<-write
		slow, runs, let := held(nothing)
		other := start(t.Context(), x, slow)
		<-runs
		q.notTaken(b, engine.Errorf(engine.CodeNotLeader, "refused"))
		yielded := make(chan struct{})
		go func() {
			q.yield(engine.Errorf(engine.CodeNotLeader, "deposed"))
			close(yielded)
		}()
		settled(t, x, func() bool { return q.term == 0 })
		close(let)
		within(t, "yield", func() { <-yielded })
		within(t, "an entry of the next term", func() {
			if err := q.applyAll([]raft.Entry{{Index: 1, Term: 6}}); err != nil {
				t.Error(err)
			}
		})
		within(t, "the other call", func() { <-other })
	})
}
