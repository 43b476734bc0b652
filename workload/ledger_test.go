package workload

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/engine"
)

func TestLedgerLogReplaysToTheSame(t *testing.T) {
	var log strings.Builder
	l := NewLedger(3, &log)
	results := []error{nil, engine.ErrOutcomeUnknown, engine.ErrQueueFull, context.Canceled, engine.ErrStopped}
	for i, result := range results {
		it := Item{Kind: 's', Key: uint64(i), Writer: l.nextID(), Seq: 9}
		if err := errors.Join(l.begin(it), l.end(it, 7, result)); err != nil {
			t.Fatal(err)
		}
	}
	open := Item{Kind: 'a', Writer: l.nextID(), Seq: 1}
	if err := l.begin(open); err != nil { // never ended: killed here
		t.Fatal(err)
	}
	if got := fmt.Sprint(l.Counts()); got != "1 3 2" {
		t.Fatalf("counts are %s", got)
	}
	back := NewLedger(0, nil)
	if err := back.Replay(strings.NewReader(log.String() + "ack a 0 12884")); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []byte{'s', 'a'} {
		want := l.of(kind)
		got := back.of(kind)
		if len(got) != len(want) {
			t.Fatalf("replayed %d items of %d", len(got), len(want))
		}
		for it, r := range want {
			if got[it].outcome != r.outcome || r.outcome == Acked && got[it].pos != r.pos {
				t.Errorf("%v replayed as %+v, was %+v", it, got[it], r)
			}
		}
	}
	if id := NewLedger(4, nil).nextID(); id <= l.nextID() {
		t.Errorf("the next epoch begins with %d", id)
	}
}

func TestLedgerWipeForgetsOneKind(t *testing.T) {
	var log strings.Builder
	l := NewLedger(0, &log)
	if err := errors.Join(l.begin(Item{Kind: 's'}), l.begin(Item{Kind: 'a'}), l.wipe('s')); err != nil {
		t.Fatal(err)
	}
	back := NewLedger(0, nil)
	if err := back.Replay(strings.NewReader(log.String())); err != nil {
		t.Fatal(err)
	}
	for _, l := range []*Ledger{l, back} {
		if len(l.of('s')) != 0 || len(l.of('a')) != 1 {
			t.Errorf("after the wipe: %v, %v", l.of('s'), l.of('a'))
		}
	}
}

func TestLedgerRefusesNonsense(t *testing.T) {
	for _, log := range []string{"ack s 1\n", "hello\n", "wipe sa\n", "try s 1 1 x\n", "\n", "try s 1 1 1\ntry s 1 1 1\n"} {
		if err := NewLedger(0, nil).Replay(strings.NewReader(log)); err == nil {
			t.Errorf("%q was read", log)
		}
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no room") }

func TestLedgerThatCannotBeWrittenStopsTheCall(t *testing.T) {
	if err := NewLedger(0, fullDisk{}).begin(Item{Kind: 's'}); err == nil {
		t.Error("begin reported no error")
	}
}

func TestOrderChecks(t *testing.T) {
	item := func(n uint64) Item { return Item{Kind: 'a', Writer: n} }
	known := map[Item]record{
		item(1): {Acked, 10, 1, 2},
		item(2): {Acked, 11, 3, 6}, // beside 3
		item(3): {Acked, 12, 4, 5},
		item(4): {Maybe, 0, 7, 0},
	}
	for _, c := range []struct {
		order []uint64
		good  bool
	}{
		{[]uint64{1, 2, 3, 4}, true},
		{[]uint64{1, 3, 2, 4}, true},
		{[]uint64{2, 1, 3}, false},
		{[]uint64{1, 4, 2, 3}, false}, // 4 began after 3 had been acknowledged
		{[]uint64{1, 2, 3}, true},
	} {
		var list []Item
		for _, n := range c.order {
			list = append(list, item(n))
		}
		if err := inOrder("append", list, known); (err == nil) != c.good {
			t.Errorf("order %v: %v", c.order, err)
		}
	}
	if err := positionsInOrder("append", known); err != nil {
		t.Error(err)
	}
	known[item(5)] = record{Acked, 12, 8, 9}
	if err := positionsInOrder("append", known); err == nil {
		t.Error("two items at one position are accepted")
	}
	known[item(5)] = record{Acked, 9, 8, 9}
	if err := positionsInOrder("append", known); err == nil {
		t.Error("a later item at an earlier position is accepted")
	}
}

func TestOutcomes(t *testing.T) {
	for _, c := range []struct {
		err  error
		want Outcome
	}{
		{nil, Acked},
		{engine.Errorf(engine.CodeOutcomeUnknown, "cut: %w", context.Canceled), Maybe},
		{context.DeadlineExceeded, Failed},
		{engine.ErrClosed, Failed},
		{engine.ErrTxTooLarge, Failed},
		{engine.ErrStopped, Maybe},
		{errors.New("what?"), Maybe},
	} {
		if got := outcomeOf(c.err); got != c.want {
			t.Errorf("%v means %v, want %v", c.err, got, c.want)
		}
	}
}
