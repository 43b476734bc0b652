package embedded

import (
	"slices"
	"sort"
	"sync"

	"github.com/skerrydb/skerry/engine"
)

// historyStep is how many batches a reader of the history takes at once.
const historyStep = 64

// history keeps the newest committed batches, encoded, for Changes.
type history struct {
	limit int // bytes

	mu     sync.Mutex // guards the fields below
	kept   []kept     // oldest first, without gaps
	bytes  int
	floor  engine.Position // changes after it are kept
	wake   chan struct{}   // closed and replaced when there is more
	closed error           // error for readers, once set
}

type kept struct {
	index      uint64 // of the log record
	base, last engine.Position
	time       int64  // of the last transaction, in microseconds; 0: not known
	data       []byte // with little unused capacity: cost counts its length
	borrowed   bool   // data is in a buffer that will be used again
}

// keptOverhead is the memory of a kept batch beside its bytes: the kept itself, and
// rounding.
const keptOverhead = 104

// cost returns how much of the limit k takes.
func (k kept) cost() int { return len(k.data) + keptOverhead }

func newHistory(limit int) *history {
	return &history{limit: limit, wake: make(chan struct{})}
}

// reset drops everything: history begins after pos.
func (h *history) reset(pos engine.Position) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.kept, h.bytes, h.floor = nil, 0, pos
	close(h.wake)
	h.wake = make(chan struct{})
}

// add appends a committed batch and drops the oldest ones over the limit.
func (h *history) add(k kept) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.kept = append(h.kept, k)
	h.bytes += k.cost()
	h.trim()
	h.floor = h.kept[0].base
	close(h.wake)
	h.wake = make(chan struct{})
}

// own copies the data of batches that was borrowed.
func (h *history) own() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := len(h.kept) - 1; i >= 0 && h.kept[i].borrowed; i-- {
		h.kept[i].data, h.kept[i].borrowed = slices.Clone(h.kept[i].data), false
	}
}

// trim drops the oldest batches over the limit, but never the newest batch. The caller
// holds mu.
func (h *history) trim() {
	drop := 0
	for h.bytes > h.limit && drop < len(h.kept)-1 {
		h.bytes -= h.kept[drop].cost()
		h.kept[drop].data = nil
		drop++
	}
	h.kept = h.kept[drop:]
}

// after returns the kept batches with positions after pos, if any, and a channel that is
// closed when there may be more.
func (h *history) after(pos engine.Position) ([]kept, <-chan struct{}, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed != nil:
		return nil, nil, h.closed
	case pos < h.floor:
		return nil, nil, engine.Errorf(engine.CodeTruncated, "changes after position %d are no longer kept; the oldest kept are after %d", pos, h.floor)
	}
	i := sort.Search(len(h.kept), func(i int) bool { return h.kept[i].last > pos })
	return slices.Clone(h.kept[i:min(len(h.kept), i+historyStep)]), h.wake, nil
}

// size returns how many bytes the history takes.
func (h *history) size() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.bytes
}

// firstIndex returns the log index of the oldest kept batch, and whether there is one.
func (h *history) firstIndex() (uint64, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.kept) == 0 {
		return 0, false
	}
	return h.kept[0].index, true
}

// close ends all readers with err.
func (h *history) close(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed == nil {
		h.closed = err
		close(h.wake)
		h.wake = make(chan struct{})
	}
}
