package prometheus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/prometheus/prometheus/util/stats"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/series"
)

var _ series.Evaluator = (*Face)(nil)

// maxPlanned bounds the parts of an expression in a plan.
const maxPlanned = 200

// Evaluate implements series.Evaluator: with MaxTried samples in memory, MaxPoints times, and the turns of all queries.
func (f *Face) Evaluate(ctx context.Context, st *series.Store, e series.Expression) (*series.Evaluation, error) {
	done, err := f.turn()
	if err != nil {
		return nil, err
	}
	defer done()
	q, err := f.prepare(ctx, queryable{st}, e)
	if err != nil {
		return nil, err
	}
	defer q.Close()
	res := q.Exec(ctx)
	if res.Err != nil {
		return nil, plainError(res.Err)
	}
	out := valueOf(res.Value)
	for _, w := range res.Warnings.AsErrors() {
		out.Warnings = append(out.Warnings, w.Error())
	}
	s := stats.NewQueryStats(q.Stats()).Builtin()
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	out.Cost = series.Cost{Prepare: seconds(s.Timings.QueryPreparationTime), Evaluate: seconds(s.Timings.EvalTotalTime)}
	if s.Samples != nil {
		out.Cost.Series, out.Cost.Samples, out.Cost.Peak = s.Samples.SeriesTouched, s.Samples.SamplesRead, s.Samples.PeakSamples
	}
	return out, nil
}

// prepare parses an expression.
func (f *Face) prepare(ctx context.Context, from storage.Queryable, e series.Expression) (q promql.Query, err error) {
	if e.Step != 0 {
		if e.Step < time.Millisecond || e.To.Before(e.From) {
			return nil, bad("the step of %v from %s to %s is not one of at least a millisecond in a time that ends after it begins", e.Step, e.From, e.To)
		}
		if n := (e.To.UnixMilli() - e.From.UnixMilli()) / e.Step.Milliseconds(); n >= MaxPoints {
			return nil, bad("the step makes more than %d points of each series; a longer one makes them fewer", MaxPoints)
		}
		q, err = f.tries.NewRangeQuery(ctx, from, nil, e.Text, e.From, e.To, e.Step)
	} else {
		q, err = f.tries.NewInstantQuery(ctx, from, nil, e.Text, e.To)
	}
	if err != nil {
		return nil, textError(err)
	}
	return q, nil
}

// textError returns the error of an expression that is not evaluated.
func textError(err error) error {
	first, ok := (*parser.ParseErr)(nil), false
	if all, many := errors.AsType[parser.ParseErrors](err); many && len(all) > 0 {
		first, ok = &all[0], true
	} else {
		first, ok = errors.AsType[*parser.ParseErr](err)
	}
	if !ok {
		return bad("%v", err)
	}
	pos := int(first.PositionRange.Start)
	if text := first.Err.Error(); strings.HasPrefix(text, "unexpected right parenthesis") && pos > 0 {
		pos-- // the lexer has passed it
	}
	return &series.ExpressionError{Pos: max(0, pos), Text: first.Err.Error()}
}

// plainError returns an error of the engine as one of package series, if it has one.
func plainError(err error) error {
	var storageErr promql.ErrStorage
	switch {
	case errors.As(err, &storageErr):
		return storageErr.Err
	case errors.As(err, new(promql.ErrTooManySamples)):
		return engine.Errorf(series.CodeQueryLimit, "the query would have more than %d samples in memory; a longer step, a shorter time or more labels make them fewer", MaxTried)
	case errors.As(err, new(promql.ErrQueryTimeout)):
		return context.DeadlineExceeded
	case errors.As(err, new(promql.ErrQueryCanceled)):
		return context.Canceled
	case engine.CodeOf(err) == engine.CodeInternal:
		return bad("%v", err)
	}
	return err
}

// valueOf copies a value, which the engine reuses.
func valueOf(v parser.Value) *series.Evaluation {
	out := &series.Evaluation{Type: string(v.Type())}
	add := func(l labels.Labels, points ...promql.FPoint) {
		s := series.Series{}
		l.Range(func(x labels.Label) { s.Labels = append(s.Labels, series.Label{Name: x.Name, Value: x.Value}) })
		for _, p := range points {
			s.Times, s.Values = append(s.Times, p.T*milli), append(s.Values, p.F)
		}
		out.Series = append(out.Series, s)
	}
	switch v := v.(type) {
	case promql.String:
		out.Text = v.V
	case promql.Scalar:
		add(labels.EmptyLabels(), promql.FPoint{T: v.T, F: v.V})
	case promql.Vector:
		for _, s := range v {
			add(s.Metric, promql.FPoint{T: s.T, F: s.F})
		}
	case promql.Matrix:
		for _, s := range v {
			add(s.Metric, s.Floats...)
		}
	}
	return out
}

// Plan implements series.Evaluator. The engine evaluates the expression over nothing, which says what it selects.
func (f *Face) Plan(ctx context.Context, st *series.Store, e series.Expression) (*series.PlanNode, error) {
	done, err := f.turn()
	if err != nil {
		return nil, err
	}
	defer done()
	seen := &selections{}
	q, err := f.prepare(ctx, seen, e)
	if err != nil {
		return nil, err
	}
	defer q.Close()
	stmt, ok := q.Statement().(*parser.EvalStmt)
	if !ok {
		return nil, bad("this is no expression")
	}
	var p planner
	root, err := p.node(stmt.Expr) // before the engine changes the expression
	if err != nil {
		return nil, err
	}
	if res := q.Exec(ctx); res.Err != nil && len(seen.order) < len(p.selectors) {
		return nil, plainError(res.Err)
	}
	for i, x := range p.selectors {
		h := seen.order[i]
		if *x.reads, err = st.Estimate(ctx, series.Query{Match: x.match, From: time.UnixMilli(h.Start), To: time.UnixMilli(h.End)}); err != nil {
			return nil, err
		}
	}
	return root, nil
}

// selections is a storage that has nothing and remembers what it was asked for, in the order of the selectors.
type selections struct{ order []storage.SelectHints }

// Querier implements storage.Queryable.
func (s *selections) Querier(int64, int64) (storage.Querier, error) { return nothing{s}, nil }

type nothing struct{ *selections }

// Select implements storage.Querier.
func (n nothing) Select(_ context.Context, _ bool, hints *storage.SelectHints, _ ...*labels.Matcher) storage.SeriesSet {
	if hints != nil {
		n.order = append(n.order, *hints)
	}
	return storage.EmptySeriesSet()
}

// LabelValues implements storage.LabelQuerier.
func (nothing) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

// LabelNames implements storage.LabelQuerier.
func (nothing) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

// Close implements storage.LabelQuerier.
func (nothing) Close() error { return nil }

// planner makes the plan of one expression.
type planner struct {
	parts     int
	selectors []selector // in the order in which the engine selects
}

// selector is a selector of a plan.
type selector struct {
	match []series.Matcher
	reads *series.Estimate // to be filled in
}

// node returns the plan of an expression.
func (p *planner) node(x parser.Expr) (*series.PlanNode, error) {
	if p.parts++; p.parts > maxPlanned {
		return nil, engine.Errorf(series.CodeQueryLimit, "the expression has more than %d parts", maxPlanned)
	}
	n := &series.PlanNode{Text: x.String(), Kind: kindOf(x), Returns: string(x.Type())}
	switch x := x.(type) {
	case *parser.StepInvariantExpr:
		return p.node(x.Expr)
	case *parser.ParenExpr:
		return p.node(x.Expr)
	case *parser.VectorSelector:
		return n, p.selects(n, x)
	case *parser.MatrixSelector:
		return n, p.selects(n, x.VectorSelector.(*parser.VectorSelector))
	}
	for _, c := range parser.Children(x) {
		child, ok := c.(parser.Expr)
		if !ok {
			continue
		}
		part, err := p.node(child)
		if err != nil {
			return nil, err
		}
		n.Parts = append(n.Parts, *part)
	}
	return n, nil
}

// selects notes a selector.
func (p *planner) selects(n *series.PlanNode, x *parser.VectorSelector) error {
	match, err := matchers(x.LabelMatchers)
	n.Reads = &series.Estimate{}
	p.selectors = append(p.selectors, selector{match, n.Reads})
	return err
}

func kindOf(x parser.Expr) string {
	switch x := x.(type) {
	case *parser.VectorSelector, *parser.MatrixSelector:
		return "selector"
	case *parser.AggregateExpr:
		return "aggregation " + x.Op.String()
	case *parser.Call:
		return "function " + x.Func.Name
	case *parser.BinaryExpr:
		return "operator " + x.Op.String()
	case *parser.SubqueryExpr:
		return "subquery"
	case *parser.NumberLiteral:
		return "number"
	case *parser.StringLiteral:
		return "string"
	case *parser.UnaryExpr:
		return "sign"
	}
	return fmt.Sprintf("%T", x)
}
