package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/anishathalye/porcupine"
)

// Verdict is the verdict of Check.
type Verdict string

// Verdicts.
const (
	Correct   Verdict = "ok"
	Violation Verdict = "violation"
	Undecided Verdict = "undecided"
)

// Bounds of one search. A search that goes over them ends undecided.
const (
	DefaultMaxSearchBytes = 1 << 30 // of memory that a search uses, approximately
	MaxPictureOperations  = 1_000   // operations that one picture shows
)

// pictureTime bounds the search for a picture.
const pictureTime = 20 * time.Second

// Options of Check. The zero value has no time limit and the default bounds.
type Options struct {
	// Timeout is how long Check may take; 0: as long as ctx lasts.
	Timeout time.Duration
	// MaxSearchBytes bounds the memory of a search; 0: DefaultMaxSearchBytes.
	MaxSearchBytes int64
	// Progress, if not nil, is called after each partition with the number of checked
	// operations and the number of all.
	Progress func(done, all int)
}

// Result is the result of Check.
type Result struct {
	Verdict Verdict
	// Explanation is for people: what was violated, or why nothing was decided.
	// Empty if the history is correct.
	Explanation string
	Operations  int // checked operations, without failed ones and reads without a result
	Partitions  int // sets of keys that no operation connects

	shown *search // what WriteHTML draws
}

// Check decides whether a history is correct, as defined in docs/histories.md. It does
// not modify ops. Result keeps the operations of one partition. A history with an invalid
// operation is undecided.
//
// Check searches the smallest partitions first and stops at the first violation. With a
// time limit, each partition gets a share of the remaining time.
func Check(ctx context.Context, ops []Op, o Options) Result {
	if o.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.Timeout)
		defer cancel()
	}
	o.MaxSearchBytes = cmp.Or(o.MaxSearchBytes, DefaultMaxSearchBytes)
	for i := range ops {
		if err := ops[i].Validate(); err != nil {
			return Result{Verdict: Undecided, Explanation: fmt.Sprintf("operation %d is not valid: %v\n", i+1, err)}
		}
	}
	parts := partitions(ops)
	r := Result{Verdict: Correct, Partitions: len(parts)}
	for _, p := range parts {
		r.Operations += len(p.ops)
	}
	order := newOrder(ops)
	if why := order.positions(ops); why != "" {
		r.Verdict, r.Explanation = Violation, why
		return r
	}
	r.searchAll(ctx, parts, order, o)
	return r
}

func (r *Result) searchAll(ctx context.Context, parts []*partition, order *order, o Options) {
	done := 0
	for i, p := range parts {
		part, cancel := share(ctx, len(parts)-i)
		for _, s := range []*search{p.byTime(), p.byPosition(order)} {
			if s == nil {
				continue
			}
			verdict := s.run(part, o.MaxSearchBytes)
			if r.shown == nil || verdict != Correct || r.Verdict == Correct && len(s.calls) > len(r.shown.calls) {
				r.shown = s
			}
			if verdict == Violation {
				r.Verdict = Violation
				r.shown, r.Explanation = s.explain(part, o.MaxSearchBytes)
				cancel()
				return
			}
			if verdict == Undecided && r.Verdict == Correct {
				r.Verdict = Undecided
				r.Explanation = fmt.Sprintf("%s: undecided for %d operations on %s\n", s.ended, len(p.ops), keyList(p.keys))
			}
		}
		cancel()
		done += len(p.ops)
		if o.Progress != nil {
			o.Progress(done, r.Operations)
		}
	}
}

// share returns a context that ends after 1/n of the remaining time of ctx.
func share(ctx context.Context, n int) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(end)/time.Duration(n))
}

// run searches for an order of the calls that explains all results.
func (s *search) run(ctx context.Context, memory int64) Verdict {
	if len(s.calls) == 0 {
		return Correct
	}
	s.start(ctx, memory)
	result := porcupine.CheckOperationsTimeout(s.porcupine(), s.operations(), 0)
	return s.verdict(result)
}

// start sets the bounds of the model. A step that the search remembers needs one bit per
// call, the state, and about 200 bytes.
func (s *search) start(ctx context.Context, memory int64) {
	s.ctx, s.ended = ctx, ""
	s.budget = memory / int64(200+len(s.calls)/8+4*s.slots())
}

func (s *search) verdict(result porcupine.CheckResult) Verdict {
	switch {
	case result == porcupine.Ok:
		return Correct
	case s.ended != "":
		return Undecided
	}
	return Violation
}

// WriteHTML writes a self-contained page with a picture of the partition that Explanation
// is about, or of the largest partition if there is no Explanation.
func (r *Result) WriteHTML(w io.Writer) error {
	if r.shown == nil {
		return errors.New("draw history: the history was not searched, so there is nothing to draw")
	}
	s := r.shown
	if len(s.calls) > MaxPictureOperations {
		return fmt.Errorf("draw history: a picture of %d operations, at most %d", len(s.calls), MaxPictureOperations)
	}
	ctx, cancel := context.WithTimeout(context.Background(), pictureTime)
	defer cancel()
	s.start(ctx, DefaultMaxSearchBytes)
	m := s.porcupine()
	_, info := porcupine.CheckOperationsVerbose(m, s.operations(), 0)
	// The picture replays the partial orders, which is not a search.
	s.start(context.Background(), DefaultMaxSearchBytes)
	if err := porcupine.Visualize(m, info, w); err != nil {
		return fmt.Errorf("draw history: %w", err)
	}
	return nil
}
