package embedded

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/raft"
)

// commitFirst commits a call that takes a millisecond, while another one waits for the
// next batch. It returns the outcome of the latter.
func commitFirst(t *testing.T, x *executor, q quorum) (second <-chan error) {
	t.Helper()
	first := start(t.Context(), x, putting("a", "1"))
	p := <-q.got
	second = start(t.Context(), x, putting("b", "1"))
	synctest.Wait()
	time.Sleep(time.Millisecond)
	commitAs(t, q, 1, p)
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	return second
}

// commitAs commits what was proposed.
func commitAs(t *testing.T, q quorum, index uint64, p *raft.Proposal) {
	t.Helper()
	if err := q.applyAll([]raft.Entry{{Index: index, Term: 5, Data: p.Data}}); err != nil {
		t.Fatal(err)
	}
}

// wantKeys checks which keys a proposal writes.
func wantKeys(t *testing.T, p *raft.Proposal, want string) {
	t.Helper()
	got := ""
	for c, err := range changes(p.Data) {
		if err != nil {
			t.Fatal(err)
		}
		got += string(c.Writes[0].Key)
	}
	if got != want {
		t.Errorf("the batch writes %q, not %q", got, want)
	}
}

// TestCallersShareABatch: the next batch waits for the caller whose call was committed,
// and no longer.
func TestCallersShareABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, q := leading(t)
		second := commitFirst(t, x, q)
		synctest.Wait()
		if len(q.got) > 0 {
			t.Fatal("the batch did not wait for the first caller")
		}
		began := time.Now()
		third := start(t.Context(), x, putting("c", "1"))
		p := <-q.got
		wantKeys(t, p, "bc")
		if d := time.Since(began); d != 0 {
			t.Errorf("the batch waited for %v although both callers were there", d)
		}
		commitAs(t, q, 2, p)
		if err := errors.Join(<-second, <-third); err != nil {
			t.Error(err)
		}
	})
}

// TestLoneCallerWaitsForNobody: a caller that is alone has no lulls.
func TestLoneCallerWaitsForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, q := leading(t)
		for i := range uint64(20) {
			began := time.Now()
			only := start(t.Context(), x, putting("a", "1"))
			p := <-q.got
			if d := time.Since(began); d != 0 {
				t.Fatalf("batch %d waited for %v", i, d)
			}
			time.Sleep(time.Millisecond)
			commitAs(t, q, i+1, p)
			if err := <-only; err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestReadersDoNotWaitForALull: without calls in the next batch, a read that waits is
// shown the state at once.
func TestReadersDoNotWaitForALull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, q := leading(t)
		for i := range uint64(unreadBatches + 4) {
			only := start(t.Context(), x, putting("a", "1"))
			p := <-q.got
			if i == unreadBatches+3 {
				x.wanted.Store(true)
			}
			time.Sleep(time.Millisecond)
			commitAs(t, q, i+1, p)
			if err := <-only; err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if pos := uint64(x.visible().pos); i >= unreadBatches && i < unreadBatches+3 && pos > i {
				t.Fatalf("position %d was shown without a reader: this tests nothing", pos)
			}
		}
		if pos := x.visible().pos; pos != unreadBatches+4 {
			t.Errorf("position %d is shown, not %d", pos, unreadBatches+4)
		}
	})
}

// TestLullsInVainAreRare: if callers do not come back, a batch waits for as long as a
// commit took, and then most batches do not wait at all.
func TestLullsInVainAreRare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, q := leading(t)
		next := commitFirst(t, x, q)
		waits := 0
		for i := range uint64(200) {
			began := time.Now()
			p := <-q.got
			switch d := time.Since(began); d {
			case 0:
			case time.Millisecond:
				waits++
			default:
				t.Fatalf("batch %d waited for %v", i, d)
			}
			after := start(t.Context(), x, putting("b", "1")) // another caller; this one stays away
			synctest.Wait()
			time.Sleep(time.Millisecond)
			commitAs(t, q, i+2, p)
			if err := <-next; err != nil {
				t.Fatal(err)
			}
			next = after
		}
		if waits < 5 || waits > 10 {
			t.Errorf("%d of 200 batches waited", waits)
		}
		commitAs(t, q, 202, <-q.got)
		if err := <-next; err != nil {
			t.Fatal(err)
		}
	})
}

// TestDeposedInLull: a node that is deposed while calls gather refuses them, and
// proposes nothing afterwards.
func TestDeposedInLull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, q := leading(t)
		second := commitFirst(t, x, q)
		why := engine.Errorf(engine.CodeNotLeader, "deposed")
		q.yield(why)
		if err := <-second; !errors.Is(err, why) {
			t.Errorf("the call that waited returned %v", err)
		}
		q.accept(7)
		time.Sleep(time.Second)
		synctest.Wait()
		if len(q.got) > 0 {
			t.Error("a call was proposed that was refused")
		}
		third := start(t.Context(), x, putting("c", "1"))
		p := <-q.got
		wantKeys(t, p, "c")
		if p.Term != 7 {
			t.Errorf("proposed in term %d", p.Term)
		}
		if err := q.applyAll([]raft.Entry{{Index: 2, Term: 7, Data: p.Data}}); err != nil {
			t.Fatal(err)
		}
		if err := <-third; err != nil {
			t.Error(err)
		}
	})
}
