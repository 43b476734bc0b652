package prometheus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/prompb"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/series"
)

// store returns the collection of a site.
func (s *site) store() *series.Store {
	s.t.Helper()
	st, err := s.db.Collection("c")
	must(s.t, err)
	return st
}

// TestEvaluate: expressions have the values that the HTTP interface returns, as series.
func TestEvaluate(t *testing.T) {
	s := plain(t)
	s.write(of(values(0, 15, 30, 45, 60), "__name__", "n", "h", "a"), of(values(10, 8, 6, 4, 2), "__name__", "n", "h", "b")).is(204)
	at := start.Add(time.Minute)
	for _, c := range []struct {
		e    series.Expression
		want string
	}{
		{series.Expression{Text: "n", To: at}, `vector n{h="a"} [60] n{h="b"} [2]`},
		{series.Expression{Text: "sum(n)", To: at}, "vector {} [62]"},
		{series.Expression{Text: "1 / 0", To: at}, "scalar {} [+Inf]"},
		{series.Expression{Text: `"text"`, To: at}, "string text"},
		{series.Expression{Text: `n{h="b"}[30s]`, To: at}, `matrix n{h="b"} [4 2]`},
		{series.Expression{Text: "nothing", To: at}, "vector"},
		{series.Expression{Text: `n{h="a"}`, From: start, To: at, Step: 30 * time.Second}, `matrix n{h="a"} [0 30 60]`},
	} {
		v, err := s.face.Evaluate(t.Context(), s.store(), c.e)
		if err != nil {
			t.Errorf("%s: %v", c.e.Text, err)
			continue
		}
		is := v.Type
		if v.Text != "" {
			is += " " + v.Text
		}
		for _, one := range v.Series {
			is += fmt.Sprintf(" %s %v", one.Labels, one.Values)
		}
		if is != c.want {
			t.Errorf("%s is %s, want %s", c.e.Text, is, c.want)
		}
	}
	v, err := s.face.Evaluate(t.Context(), s.store(), series.Expression{Text: "sum(n)", To: at})
	if must(t, err); v.Cost.Series != 2 || v.Cost.Samples != 2 || v.Cost.Peak < 2 {
		t.Errorf("the cost of sum(n) is %+v", v.Cost)
	}
	if want := at.UnixNano(); v.Series[0].Times[0] != want {
		t.Errorf("the time is %d, want %d", v.Series[0].Times[0], want)
	}
	v, err = s.face.Evaluate(t.Context(), s.store(), series.Expression{Text: "rate(n[1m])", To: at})
	if must(t, err); len(v.Warnings) == 0 {
		t.Error("the rate of a metric without _total has no warning")
	}
}

// TestEvaluateErrors: mistakes have their place, and limits their codes.
func TestEvaluateErrors(t *testing.T) {
	s := plain(t)
	var many []prompb.TimeSeries
	for i := range 490 {
		many = append(many, of(values(1), "__name__", "many", "i", fmt.Sprint(i)))
	}
	s.write(many...).is(204)
	at := start.Add(time.Minute)
	for text, pos := range map[string]int{"sum(": 4, "n{": 2, "": 0, "n + ": 4, "n n": 2, "rate(n)": 5, "nosuch(n)": 0, `n{h=~"("}`: 2, "n\n+ )": 4, "ä": 0} {
		for name, run := range map[string]func(series.Expression) error{
			"Evaluate": func(e series.Expression) error { _, err := s.face.Evaluate(t.Context(), s.store(), e); return err },
			"Plan":     func(e series.Expression) error { _, err := s.face.Plan(t.Context(), s.store(), e); return err },
		} {
			err := run(series.Expression{Text: text, To: at})
			if e, ok := errors.AsType[*series.ExpressionError](err); !ok || e.Pos != pos || e.Text == "" {
				t.Errorf("%s of %q: %#v, want a mistake at %d", name, text, err, pos)
			}
		}
	}
	fails := func(ctx context.Context, e series.Expression, code engine.Code, text string) {
		t.Helper()
		_, err := s.face.Evaluate(ctx, s.store(), e)
		if err == nil || engine.CodeOf(err) != code || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v, want %s", e.Text, err, code)
		}
	}
	fails(t.Context(), series.Expression{Text: "many", From: start, To: start.Add(297 * time.Second), Step: 28 * time.Millisecond}, series.CodeQueryLimit, "5000000 samples in memory")
	fails(t.Context(), series.Expression{Text: "many", From: start, To: start.Add(time.Hour), Step: time.Millisecond}, engine.CodeInvalid, "11000 points")
	fails(t.Context(), series.Expression{Text: "many", From: at, To: start, Step: time.Second}, engine.CodeInvalid, "the step")
	fails(t.Context(), series.Expression{Text: "many + on() many", To: at}, engine.CodeInvalid, "many-to-many")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.face.Evaluate(ended, s.store(), series.Expression{Text: "many", To: at}); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
	late, cancel := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancel()
	if _, err := s.face.Evaluate(late, s.store(), series.Expression{Text: "many", To: at}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("after the deadline: %v", err)
	}
	for range MaxQueries {
		s.face.turns <- struct{}{}
	}
	fails(t.Context(), series.Expression{Text: "many", To: at}, series.CodeBusy, "8 queries")
	if _, err := s.face.Plan(t.Context(), s.store(), series.Expression{Text: "many", To: at}); engine.CodeOf(err) != series.CodeBusy {
		t.Errorf("a plan while all turns are taken: %v", err)
	}
}

// flat returns a plan in one line.
func flat(n *series.PlanNode) string {
	text := n.Kind + ">" + n.Returns
	if e := n.Reads; e != nil {
		text += fmt.Sprintf("=%d(%d..%d)", e.Series, e.From.Sub(start)/time.Second, e.To.Sub(start)/time.Second)
	}
	var parts []string
	for i := range n.Parts {
		parts = append(parts, flat(&n.Parts[i]))
	}
	if parts != nil {
		text += "[" + strings.Join(parts, " ") + "]"
	}
	return text
}

// TestPlan: each selector has the series and the time that it reads.
func TestPlan(t *testing.T) {
	s := plain(t)
	s.write(of(values(0, 15, 30, 45, 60), "__name__", "n", "h", "a"), of(values(10, 8, 6, 4, 2), "__name__", "n", "h", "b")).is(204)
	at := start.Add(time.Hour)
	for text, want := range map[string]string{
		"n":                                "selector>vector=2(3300..3600)",
		`(n{h="a"})`:                       "selector>vector=1(3300..3600)",
		"n offset 5m":                      "selector>vector=2(3000..3300)",
		`sum by (h) (rate(n[1m]))`:         "aggregation sum>vector[function rate>vector[selector>matrix=2(3540..3600)]]",
		`n{h="a"} / on () n{h="b"}`:        "operator />vector[selector>vector=1(3300..3600) selector>vector=1(3300..3600)]",
		"topk(1, n)":                       "aggregation topk>vector[selector>vector=2(3300..3600) number>scalar]",
		"max_over_time(n[10m:1m])":         "function max_over_time>vector[subquery>matrix[selector>vector=2(2700..3600)]]",
		"-nothing @ 1700000060 + 1":        "operator +>vector[sign>vector[selector>vector=0(-239..60)] number>scalar]",
		`"text"`:                           "string>string",
		"n + on() n":                       "operator +>vector[selector>vector=2(3300..3600) selector>vector=2(3300..3600)]",
		`label_replace(n,"a","b","c","d")`: "function label_replace>vector[selector>vector=2(3300..3600) string>string string>string string>string string>string]",
	} {
		p, err := s.face.Plan(t.Context(), s.store(), series.Expression{Text: text, To: at})
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if is := flat(p); strings.ReplaceAll(is, "(3301..", "(3300..") != want {
			t.Errorf("%s: %s, want %s", text, is, want)
		}
	}
	long := "n" + strings.Repeat(" + n", maxPlanned)
	if _, err := s.face.Plan(t.Context(), s.store(), series.Expression{Text: long, To: at}); engine.CodeOf(err) != series.CodeQueryLimit {
		t.Errorf("a plan of many parts: %v", err)
	}
	p, err := s.face.Plan(t.Context(), s.store(), series.Expression{Text: "n", From: start, To: at, Step: time.Minute})
	if must(t, err); flat(p) != "selector>vector=2(-299..3600)" && flat(p) != "selector>vector=2(-300..3600)" {
		t.Errorf("over a range: %s", flat(p))
	}
}
