package series

import (
	"context"
	"time"
)

// Evaluator evaluates expressions of a query language over a collection. This package has no such language; web/prometheus
// has PromQL.
type Evaluator interface {
	// Evaluate evaluates an expression. A mistake in its text is an *ExpressionError; beyond a limit the error is
	// CodeQueryLimit, and if too many are evaluated already CodeBusy.
	Evaluate(ctx context.Context, st *Store, e Expression) (*Evaluation, error)

	// Plan returns what evaluating an expression would read, without reading samples.
	Plan(ctx context.Context, st *Store, e Expression) (*PlanNode, error)
}

// Expression is a query in an Evaluator's language.
type Expression struct {
	Text     string
	From, To time.Time     // the first and the last time at which it is evaluated
	Step     time.Duration // between these times; 0: it is evaluated once, at To
}

// ExpressionError is a mistake in the text of an expression.
type ExpressionError struct {
	Pos  int // of the byte at which it is
	Text string
}

// Error implements error.
func (e *ExpressionError) Error() string { return e.Text }

// Evaluation is the value of an expression.
type Evaluation struct {
	Type     string   // "scalar", "string", "vector" or "matrix", as in Prometheus
	Text     string   // of a string
	Series   []Series // of all others; that of a scalar has no labels
	Warnings []string
	Cost     Cost
}

// Cost is what an evaluation took.
type Cost struct {
	Series   int64         // that selectors found, once for each selector
	Samples  int64         // that were read
	Peak     int           // samples in memory at once
	Prepare  time.Duration // for reading
	Evaluate time.Duration
}

// PlanNode is a part of an expression, with the parts that it is made of.
type PlanNode struct {
	Text    string
	Kind    string    // "selector", "function", "aggregation", …
	Returns string    // a type of Evaluation
	Reads   *Estimate // of a selector
	Parts   []PlanNode
}

// Estimate is what a query would read.
type Estimate struct {
	From, To time.Time
	Series   int    // that match
	Unsealed int    // samples of these series that are in memory
	Parts    int    // of compressed samples that reach into the time
	Samples  uint64 // in these parts, of all series and times: no more than that are read
}

// Estimate returns what Select would read, without reading it.
func (s *Store) Estimate(ctx context.Context, q Query) (Estimate, error) {
	if err := q.check(); err != nil {
		return Estimate{}, err
	}
	h, ids, err := s.find(ctx, q.Match, q.Read)
	if err != nil {
		return Estimate{}, err
	}
	e := Estimate{From: q.From, To: q.To, Series: len(ids)}
	sel := selection{from: minTime, to: maxTime}
	if !q.From.IsZero() {
		sel.from = nanos(q.From)
	}
	if !q.To.IsZero() {
		sel.to = nanos(q.To)
	}
	var unsealed []buffer
	h.mu.RLock()
	for _, id := range ids {
		if m := h.members.get(id); m != nil { // otherwise it was removed since
			unsealed = append(unsealed, m.buffers()...)
		}
	}
	for _, p := range h.parts {
		if p.to >= sel.from && p.from <= sel.to {
			e.Parts++
			e.Samples += p.samples
		}
	}
	h.mu.RUnlock()
	for _, b := range unsealed {
		for _, x := range b.samples {
			if x.Time >= sel.from && x.Time <= sel.to {
				e.Unsealed++
			}
		}
	}
	return e, nil
}
