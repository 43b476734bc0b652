package admin

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/series"
)

const (
	maxPromPoints = 500 // times at which one run evaluates an expression
	maxPlanText   = 300 // bytes of one line of a plan
)

// promInput is what the form has for PromQL.
type promInput struct {
	Collection         string
	Range, From, Until string // From is instead of Range; without both it is evaluated once
	Step               string
}

func (a *Admin) hasPromQL() bool { return a.o.Series != nil && a.o.PromQL != nil }

// promCollections returns the collections that expressions can be about.
func (a *Admin) promCollections() []string {
	if !a.hasPromQL() {
		return nil
	}
	all := a.o.Series.Names()
	return all[:min(len(all), maxConsoleCollections)]
}

// promRanges are the ranges of the form, with the names that people see.
func promRanges() []Row {
	return []Row{{"", "one time"}, {"15m", "15 minutes"}, {"1h", "1 hour"}, {"6h", "6 hours"}, {"24h", "1 day"}, {"168h", "7 days"}}
}

// expressionOf reads the form.
func (a *Admin) expressionOf(in consoleInput) (e series.Expression, err error) {
	p := in.Prom
	e = series.Expression{Text: in.Text, To: a.o.Now()}
	if p.Until != "" {
		if e.To, err = parseMoment(p.Until); err != nil {
			return e, engine.Errorf(engine.CodeInvalid, "the end must be a time like 2026-11-21 12:00, in UTC, not %s", strconv.Quote(shorten(p.Until, 50)))
		}
	}
	switch {
	case p.From != "":
		if e.From, err = parseMoment(p.From); err != nil {
			return e, engine.Errorf(engine.CodeInvalid, "the beginning must be a time like 2026-11-21 12:00, in UTC, not %s", strconv.Quote(shorten(p.From, 50)))
		}
	case p.Range != "":
		length, err := time.ParseDuration(p.Range)
		if err != nil || length <= 0 {
			return e, engine.Errorf(engine.CodeInvalid, "the range must be a time like 15m or 24h, not %s", strconv.Quote(shorten(p.Range, 50)))
		}
		e.From = e.To.Add(-length)
	default:
		e.From = e.To
		return e, nil
	}
	length := e.To.Sub(e.From)
	if length <= 0 || length == math.MaxInt64 {
		return e, engine.Errorf(engine.CodeInvalid, "the range must end after it begins")
	}
	if e.Step = plotStep(length); p.Step != "" {
		if e.Step, err = time.ParseDuration(p.Step); err != nil || e.Step < time.Millisecond {
			return e, engine.Errorf(engine.CodeInvalid, "the step must be a time like 10s or 5m, not %s", strconv.Quote(shorten(p.Step, 50)))
		}
	}
	if n := length / e.Step; n > maxPromPoints {
		return e, engine.Errorf(engine.CodeLimit, "%d steps are too many: at most %d; make the step %s or longer", int64(n), maxPromPoints, plotStep(length))
	}
	return e, nil
}

// runPromQL evaluates an expression, once or over a range.
func (a *Admin) runPromQL(ctx context.Context, in consoleInput) (*consoleGrid, error) {
	if in.Prom.Collection == "" {
		return nil, engine.Errorf(engine.CodeInvalid, "choose a collection of time series")
	}
	st, err := a.o.Series.Collection(in.Prom.Collection)
	if err != nil {
		return nil, err
	}
	e, err := a.expressionOf(in)
	if err != nil {
		return nil, err
	}
	plan, err := a.o.PromQL.Plan(ctx, st, e)
	if err != nil {
		return nil, err
	}
	text := a.planText(plan)
	if in.Explain {
		return &consoleGrid{Text: text}, nil
	}
	v, err := a.o.PromQL.Evaluate(ctx, st, e)
	if err != nil {
		return nil, err
	}
	out := &consoleGrid{Notes: v.Warnings[:min(len(v.Warnings), maxNotes)]}
	out.Plan = text + "\n" + a.text("%s series and %s samples were read, at most %s samples were in memory; %s to read, %s to evaluate.",
		numberText(v.Cost.Series), numberText(v.Cost.Samples), numberText(v.Cost.Peak), v.Cost.Prepare.Round(roundTook).String(), v.Cost.Evaluate.Round(roundTook).String())
	switch {
	case v.Type == "string":
		out.Columns = []string{a.text("value")}
		out.add(v.Text)
	case e.Step > 0:
		a.fillRange(out, v.Series)
	default:
		a.fillInstant(out, v)
	}
	return out, nil
}

// fillInstant makes a table with a row for each value.
func (a *Admin) fillInstant(out *consoleGrid, v *series.Evaluation) {
	out.Columns = []string{a.text("series"), a.text("time"), a.text("value")}
	if v.Type == "scalar" {
		out.Columns = out.Columns[1:]
	}
	for _, s := range v.Series {
		for i, t := range s.Times {
			row := []string{seriesName(s.Labels), when(time.Unix(0, t)), sampleText(s.Values[i])}
			if !out.add(row[3-len(out.Columns):]...) {
				out.Cut = a.text("The result is larger than a page shows; the rest is left out.")
				return
			}
		}
	}
}

// fillRange makes a plot, and a table with a row for each time, the newest first, and a column for each series.
func (a *Admin) fillRange(out *consoleGrid, all []series.Series) {
	if len(all) == 0 {
		return
	}
	out.Plot = alignSeries(all, func(s series.Series) []float64 { return s.Values })
	shown := all[:min(len(all), maxSeriesShown)]
	if len(all) > len(shown) {
		out.Notes = append(out.Notes, a.text("There are %s series. Only the first %d are shown.", numberText(len(all)), len(shown)))
	}
	out.Columns = []string{a.text("time")}
	texts := map[int64][]string{}
	for i, s := range shown {
		out.Columns = append(out.Columns, seriesName(s.Labels))
		for j, t := range s.Times {
			if texts[t] == nil {
				texts[t] = slices.Repeat([]string{"–"}, len(shown))
			}
			texts[t][i] = sampleText(s.Values[j])
		}
	}
	for _, t := range slices.Backward(slices.Sorted(maps.Keys(texts))) {
		if !out.add(append([]string{when(time.Unix(0, t))}, texts[t]...)...) {
			out.Cut = a.text("There are more times. Only the newest %d are in the table.", len(out.Rows))
			return
		}
	}
}

// seriesName returns the labels of a series for people.
func seriesName(l series.Labels) string {
	return shorten(l.String(), maxSeriesLabel)
}

// sampleText returns a value without an exponent, unless it would be long.
func sampleText(v float64) string {
	if size := math.Abs(v); size != 0 && (size < 1e-6 || size >= 1e21) {
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// planText returns a plan as a tree, a part a line, with what each selector reads beneath it.
func (a *Admin) planText(root *series.PlanNode) string {
	var b strings.Builder
	var write func(n *series.PlanNode, indent string)
	write = func(n *series.PlanNode, indent string) {
		fmt.Fprintf(&b, "%s%s → %s: %s\n", indent, n.Kind, n.Returns, shorten(strings.Join(strings.Fields(n.Text), " "), maxPlanText))
		if e := n.Reads; e != nil {
			reads := a.text("%s series match; from %s to %s there are %s samples of them in memory", numberText(e.Series), when(e.From), when(e.To), numberText(e.Unsealed))
			if e.Parts > 0 {
				reads += a.text(", and %s compressed parts with %s samples of all series", numberText(e.Parts), numberText(e.Samples))
			}
			fmt.Fprintf(&b, "%s    %s\n", indent, reads)
		}
		for i := range n.Parts {
			write(&n.Parts[i], indent+"  ")
		}
	}
	write(root, "")
	return b.String()
}
