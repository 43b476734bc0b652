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

// Recorder gathers the history of a running program. All methods may be called by
// many goroutines at once.
type Recorder struct {
	w   io.Writer
	now func() int64

	most, mostPending int // MaxOperations, MaxPending

	mu      sync.Mutex // guards what follows, and writes to w
	ops     []Op
	pending map[*Pending]struct{}
	err     error // the first; nothing is recorded after it
	closed  bool
}

// NewRecorder returns a Recorder that keeps the operations in memory and, if w is
// not nil, also writes each as one line when it ends; whoever gave w flushes it
// after Close. now is the clock; nil means the time since NewRecorder, monotonic,
// in nanoseconds.
func NewRecorder(w io.Writer, now func() int64) *Recorder {
	if now == nil {
		start := time.Now()
		now = func() int64 { return int64(time.Since(start)) }
	}
	return &Recorder{w: w, now: now, most: MaxOperations, mostPending: MaxPending, pending: map[*Pending]struct{}{}}
}

// Pending is a call that has not ended. Until End its caller owns it, and puts the
// results into Op.
type Pending struct {
	Op Op
	r  *Recorder

	begun Op // as Begin got it: what Close records if there is no End
}

// Begin stamps op's Call and remembers it. It must come before the request leaves.
// The Recorder keeps op's slices: nobody may write to them afterwards.
func (r *Recorder) Begin(op Op) *Pending {
	op.Outcome = Unknown
	op.Steps = slices.Clone(op.Steps) // results will be put into these
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

// End stamps Return and records the operation with that outcome. It must come
// after the reply was read, and once; later ones, and those after Close, which has
// recorded the operation as Unknown, do nothing.
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

// Add records an operation that has ended, with the times that it has.
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

// Close records what has not ended as Unknown, in the order of the calls, and
// returns the first error of all that was recorded. It does not close the writer.
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

// Ops returns what is recorded so far, ordered by end; the slice is the caller's.
func (r *Recorder) Ops() []Op {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.ops)
}

// Write writes operations as lines of a file. It validates each first.
func Write(w io.Writer, ops []Op) error {
	r := NewRecorder(w, nil)
	for _, op := range ops {
		r.Add(op)
	}
	return r.Close()
}
