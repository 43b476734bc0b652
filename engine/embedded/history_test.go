package embedded

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
)

// TestHistoryEdges compares the history after every step of many random ones with
// what it says that it keeps, at every position there is: before the oldest kept,
// at it, in the middle of batches, at the newest and after it.
func TestHistoryEdges(t *testing.T) {
	first := seed.Of(t)
	runs := 200
	if testing.Short() {
		runs = 30
	}
	for run := range runs {
		r := rand.New(rand.NewPCG(first, uint64(run)))
		m := &historyModel{limit: []int{0, 1, 10, 30, 31, 100, 1000}[r.IntN(7)] + r.IntN(20)*keptOverhead}
		m.floor = engine.Position(r.IntN(3))
		m.last = m.floor
		h := newHistory(m.limit)
		h.reset(m.floor)
		m.check(t, h)
		for range 3 + r.IntN(80) {
			switch n := r.IntN(20); {
			case n == 0:
				m.last += engine.Position(r.IntN(3))
				m.all, m.floor = nil, m.last
				h.reset(m.last)
			default:
				k := kept{index: uint64(m.last) + 7, base: m.last, last: m.last + engine.Position(1+r.IntN(4)), data: make([]byte, []int{1, 9, 10, 11, 30}[r.IntN(5)])}
				m.all, m.last = append(m.all, k), k.last
				h.add(k)
			}
			if m.trim(); !m.check(t, h) {
				return
			}
		}
	}
}

// historyModel is a history in its plainest form.
type historyModel struct {
	limit       int
	all         []kept
	floor, last engine.Position
}

// trim drops the oldest batch as long as the rest is over the limit with it, but not the
// newest.
func (m *historyModel) trim() {
	for {
		bytes := 0
		for _, k := range m.all {
			bytes += len(k.data) + keptOverhead
		}
		if bytes <= m.limit || len(m.all) < 2 {
			return
		}
		m.all, m.floor = m.all[1:], m.all[1].base
	}
}

func (m *historyModel) check(t *testing.T, h *history) bool {
	t.Helper()
	first, ok := h.firstIndex()
	if ok != (len(m.all) > 0) || ok && first != m.all[0].index {
		t.Errorf("the oldest batch has index %d, %v; want %d batches, the oldest %+v", first, ok, len(m.all), m.all)
	}
	for pos := engine.Position(0); pos <= m.last+1; pos++ {
		var want []kept
		for _, k := range m.all {
			if k.last > pos && len(want) < historyStep {
				want = append(want, k)
			}
		}
		got, _, err := h.after(pos)
		if pos < m.floor {
			if !errors.Is(err, engine.ErrTruncated) {
				t.Errorf("after %d come %d batches, %v; kept are those after %d", pos, len(got), err, m.floor)
			}
			continue
		}
		if err != nil || len(got) != len(want) || len(want) > 0 && (got[0].index != want[0].index || got[len(got)-1].index != want[len(want)-1].index) {
			t.Errorf("after %d come %+v, %v; want %+v of those after %d", pos, got, err, want, m.floor)
		}
		for _, k := range got {
			if k.data == nil {
				t.Errorf("after %d comes a batch of %d to %d whose data is gone", pos, k.base, k.last)
			}
		}
	}
	return !t.Failed()
}

// TestHistoryResetWakes: a reader that waits for more learns at once that what comes next
// will never come, as a snapshot has taken its place.
func TestHistoryResetWakes(t *testing.T) {
	h := newHistory(1 << 20)
	_, moved, err := h.after(0)
	if err != nil {
		t.Fatal(err)
	}
	h.reset(5)
	select {
	case <-moved:
	default:
		t.Error("the reader still waits")
	}
	if _, _, err := h.after(0); engine.CodeOf(err) != engine.CodeTruncated {
		t.Errorf("then it gets %v", err)
	}
}
