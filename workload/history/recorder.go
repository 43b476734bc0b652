package history

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// Recorder records the history of a running program. All methods are safe for concurrent
// use.
type Recorder struct {
	w   io.Writer
	now func() int64

	most, mostPending int // MaxOperations, MaxPending

	mu      sync.Mutex // guards the fields below, and writes to w
	ops     []Op
	pending map[*Pending]struct{}
	err     error // the first; nothing is recorded after it
	closed  bool
}

// NewRecorder returns a Recorder that keeps the operations in memory and, if w is not nil,
// also writes each as one line when it ends. The caller must flush w after Close. now is
// the clock; nil means the monotonic time since NewRecorder in nanoseconds.
func NewRecorder(w io.Writer, now func() int64) *Recorder {
	if now == nil {
		start := time.Now()
		now = func() int64 { return int64(time.Since(start)) }
	}
	return &Recorder{w: w, now: now, most: MaxOperations, mostPending: MaxPending, pending: map[*Pending]struct{}{}}
}

// Pending is a call that has not ended. Until End the caller owns it and sets the results
// in Op.
type Pending struct {
	Op Op
	r  *Recorder

	begun Op // as passed to Begin; Close records it if there is no End
}

// Begin sets op's Call and records it as pending. It must be called before the request is
// sent. The Recorder keeps op's slices, which must not be modified afterwards.
func (r *Recorder) Begin(op Op) *Pending {
	op.Outcome = Unknown
	op.Steps = slices.Clone(op.Steps) // the caller will set results in these
	op.Call = r.now()
	p := &Pending{Op: op, r: r, begun: op}
	p.begun.Steps = slices.Clone(op.Steps)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.pending) == r.mostPending {
		r.fail(fmt.Errorf("record history: more than %d calls wait for their end", r.mostPending))
	} else if !r.closed {
		r.pending[p] = struct{}{}
	}
	return p
}

// End sets Return and records the operation with that outcome. It must be called once,
// after the reply was read. A second End does nothing, nor does one after Close, which has
// recorded the operation as Unknown.
func (p *Pending) End(out Outcome) {
	r := p.r
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.pending[p]; !ok {
		return
	}
	delete(r.pending, p)
	p.Op.Return, p.Op.Outcome = now, out
	r.add(p.Op)
}

// Add records an operation that has ended, with its own times.
func (r *Recorder) Add(op Op) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.add(op)
	}
}

func (r *Recorder) add(op Op) {
	if r.err != nil {
		return
	}
	if err := op.Validate(); err != nil {
		r.fail(fmt.Errorf("record history: operation of client %d, called at %d: %w", op.Client, op.Call, err))
		return
	}
	if len(r.ops) == r.most {
		r.fail(fmt.Errorf("record history: more than %d operations", r.most))
		return
	}
	r.ops = append(r.ops, op)
	if r.w == nil {
		return
	}
	b, err := op.MarshalJSON()
	if err == nil && len(b) > MaxLineBytes {
		err = fmt.Errorf("an operation of %d bytes, at most %d", len(b), MaxLineBytes)
	}
	if err == nil {
		_, err = r.w.Write(append(b, '\n'))
	}
	if err != nil {
		r.fail(fmt.Errorf("record history: %w", err))
	}
}

func (r *Recorder) fail(err error) { r.err = errors.Join(r.err, err) }

// Close records pending operations as Unknown, in the order of their calls, and returns the
// first error of the Recorder. It does not close the writer.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	rest := make([]Op, 0, len(r.pending))
	for p := range r.pending {
		rest = append(rest, p.begun)
	}
	clear(r.pending)
	slices.SortStableFunc(rest, func(a, b Op) int {
		return cmp.Or(cmp.Compare(a.Call, b.Call), cmp.Compare(a.Client, b.Client))
	})
	for _, op := range rest {
		r.add(op)
	}
	r.closed = true
	return r.err
}

// Ops returns the operations recorded so far in the order of their ends. The caller owns
// the slice.
func (r *Recorder) Ops() []Op {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.ops)
}

// Write validates operations and writes them as lines of a file.
func Write(w io.Writer, ops []Op) error {
	r := NewRecorder(w, nil)
	for _, op := range ops {
		r.Add(op)
	}
	return r.Close()
}
