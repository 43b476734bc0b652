package admin

import (
	"context"
	"errors"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/series"
	"github.com/skerrydb/skerry/web"
)

// Limits of the page of time series.
const (
	maxSeriesShown = 20  // lines of a plot, and columns of its table
	maxSeriesFound = 500 // series that a selector may match
	maxSteps       = 500 // windows of a plot
	seriesRows     = 100 // rows of one page of the table of values
	seriesNames    = 200 // names of series that are suggested
	maxSeriesLabel = 200 // bytes of the labels of a series that are shown
	seriesWait     = 10 * time.Second
)

func (a *Admin) addSeries(g *web.Group) { g.Get("/series", a.seriesPage) }

// seriesCollection is a collection as the page lists it.
type seriesCollection struct {
	Name string
	series.Stats
	Link string
	Here bool
}

// seriesAsk is what somebody wants to plot.
type seriesAsk struct {
	Collection, Selector, Range, Aggregate, Step, Until string

	match []series.Matcher
	from  time.Time
	to    time.Time
	step  time.Duration
	agg   series.Aggregate
}

// seriesRanges are the ranges of the form, with the names that people see.
func seriesRanges() []Row {
	return []Row{{"15m", "15 minutes"}, {"1h", "1 hour"}, {"6h", "6 hours"}, {"24h", "1 day"}, {"168h", "7 days"}, {"720h", "30 days"}, {"8760h", "1 year"}}
}

// seriesAggregates are the aggregates of the form.
func seriesAggregates() []string {
	return []string{"avg", "min", "max", "sum", "count", "first", "last", "p50", "p90", "p99"}
}

// seriesFault is a mistake in one field of the form.
type seriesFault struct{ Field, Detail string }

func (f *seriesFault) Error() string { return f.Detail }

// seriesAsk reads the form.
func (a *Admin) seriesAsk(c *web.Context) (q seriesAsk, err error) {
	q = seriesAsk{
		Collection: c.Query("collection").String(), Selector: c.Query("selector").String(), Range: c.Query("range").Or("1h").String(),
		Aggregate: c.Query("aggregate").Or("avg").String(), Step: strings.TrimSpace(c.Query("step").String()), Until: strings.TrimSpace(c.Query("until").String()),
	}
	length, err := time.ParseDuration(q.Range)
	if err != nil || length <= 0 {
		return q, &seriesFault{"range", a.text("The range must be a time like 15m or 24h, not %s.", strconv.Quote(shorten(q.Range, 50)))}
	}
	q.to = a.o.Now()
	if q.Until != "" {
		if q.to, err = parseMoment(q.Until); err != nil {
			return q, &seriesFault{"until", a.text("The end must be a time like 2026-11-21 12:00, in UTC, not %s.", strconv.Quote(shorten(q.Until, 50)))}
		}
	}
	q.from = q.to.Add(-length)
	if q.agg, err = series.ParseAggregate(q.Aggregate); err != nil {
		return q, &seriesFault{"aggregate", c.Detail(err)}
	}
	if q.step = plotStep(length); q.Step != "" {
		if q.step, err = time.ParseDuration(q.Step); err != nil || q.step < time.Millisecond {
			return q, &seriesFault{"step", a.text("The step must be a time like 10s or 5m, not %s.", strconv.Quote(shorten(q.Step, 50)))}
		}
	}
	if n := length / q.step; n > maxSteps {
		return q, &seriesFault{"step", a.text("%d steps are too many for a plot: at most %d. Make the step %s or longer.", int64(n), maxSteps, plotStep(length).String())}
	}
	if strings.TrimSpace(q.Selector) == "" {
		return q, nil
	}
	if q.match, err = series.ParseSelector(q.Selector); err != nil {
		return q, &seriesFault{"selector", c.Detail(err)}
	}
	return q, nil
}

// parseMoment reads a time as the form has it, in UTC.
func parseMoment(text string) (time.Time, error) {
	var at time.Time
	err := errors.New("no layout")
	for _, layout := range timeLayouts {
		if at, err = time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	return at, err
}

// plotStep returns a round step that makes some hundred points of a range.
func plotStep(length time.Duration) time.Duration {
	for _, step := range []time.Duration{time.Second, 5 * time.Second, 15 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour} {
		if length/step <= 300 {
			return step
		}
	}
	return max(7*24*time.Hour, (length / 300).Truncate(24*time.Hour))
}

// seriesPlot is what a plot and its table show.
type seriesPlot struct {
	Names  []string     `json:"names"`
	Times  []float64    `json:"times"`  // Unix seconds
	Values [][]*float64 `json:"values"` // of each series; nil: no sample in that step
	Left   int          `json:"-"`      // series that are not shown
}

func (a *Admin) seriesPage(c *web.Context) error {
	all := a.seriesCollections(c.Query("collection").String())
	q, err := a.seriesAsk(c)
	fault := &seriesFault{}
	status := http.StatusOK
	var plot *seriesPlot
	var names []string
	moreNames := false
	var st *series.Store
	if err == nil && q.Collection != "" {
		st, err = a.o.Series.Collection(q.Collection)
	}
	if st != nil {
		if names, moreNames, err = st.FirstLabelValues(c, series.NameLabel, seriesNames, engine.Read{Level: engine.Local}); err == nil && q.match != nil {
			plot, err = a.plotSeries(c, st, &q)
		}
	}
	if err != nil {
		if !errors.As(err, &fault) {
			code := engine.CodeOf(err)
			if code == engine.CodeInternal {
				return err
			}
			fault = &seriesFault{"", c.Detail(err)}
		}
		status = http.StatusUnprocessableEntity
	}
	locals := web.Locals{
		"title": a.text("Time series"), "collections": all, "ask": q, "fault": fault, "plot": plot, "names": names, "more_names": moreNames, "most_names": seriesNames,
		"ranges": seriesRanges(), "aggregates": seriesAggregates(), "auto_step": plotStep(max(time.Second, q.to.Sub(q.from))).String(), "more": "", "limit": maxSeriesShown,
	}
	if plot != nil {
		table, more := seriesTable(plot, c)
		locals["table"], locals["more"], locals["step"] = table, more, q.step.String()
	}
	return a.show(c, status, "series", locals)
}

func (a *Admin) seriesCollections(here string) (all []seriesCollection) {
	for _, name := range a.o.Series.Names() {
		st, err := a.o.Series.Collection(name)
		if err != nil {
			continue // it went away
		}
		all = append(all, seriesCollection{Name: name, Stats: st.Stats(), Link: "?" + url.Values{"collection": {name}}.Encode(), Here: name == here})
	}
	return all
}

// plotSeries reads the values of a plot.
func (a *Admin) plotSeries(ctx context.Context, st *series.Store, q *seriesAsk) (*seriesPlot, error) {
	ctx, cancel := context.WithTimeout(ctx, seriesWait)
	defer cancel()
	r := engine.Read{Level: engine.Local}
	found, err := st.Find(ctx, q.match, r, maxSeriesFound+1)
	if err == nil && len(found) > maxSeriesFound {
		return nil, &seriesFault{"selector", a.text("The selector matches more than %d series. Add a label, like {host=\"a\"}.", maxSeriesFound)}
	}
	var got []series.Series
	if err == nil {
		got, err = st.Select(ctx, series.Query{Match: q.match, From: q.from, To: q.to, Read: r, Step: q.step, Aggregates: []series.Aggregate{q.agg}})
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, &seriesFault{"range", a.text("Reading took longer than %s. Choose a shorter range or fewer series.", seriesWait)}
	}
	if err != nil {
		return nil, err
	}
	return alignSeries(got, func(s series.Series) []float64 { return s.Columns[0] }), nil
}

// alignSeries makes a plot of the first series, with the values of all at the same times.
func alignSeries(got []series.Series, values func(s series.Series) []float64) *seriesPlot {
	p := &seriesPlot{Left: max(0, len(got)-maxSeriesShown)}
	got = got[:min(len(got), maxSeriesShown)]
	at := map[int64]int{}
	for _, s := range got {
		for _, t := range s.Times {
			at[t] = 0
		}
	}
	for i, t := range slices.Sorted(maps.Keys(at)) {
		at[t] = i
		p.Times = append(p.Times, float64(t)/1e9)
	}
	for _, s := range got {
		line := make([]*float64, len(at))
		for i, t := range s.Times {
			if v := values(s)[i]; !math.IsNaN(v) && !math.IsInf(v, 0) { // neither JSON nor a plot has them
				line[at[t]] = &v
			}
		}
		p.Names, p.Values = append(p.Names, seriesName(s.Labels)), append(p.Values, line)
	}
	return p
}

// seriesRow is a row of the table of values, newest first.
type seriesRow struct {
	At     time.Time
	Values []string
}

// seriesTable returns a page of the table, and the link to the next one.
func seriesTable(p *seriesPlot, c *web.Context) (rows []seriesRow, more string) {
	skip, _ := strconv.Atoi(c.Query("skip").String()) // malformed: from the newest
	skip = max(0, skip)
	for i := len(p.Times) - 1 - skip; i >= 0; i-- {
		if len(rows) == seriesRows {
			q := c.Request.URL.Query()
			q.Set("skip", strconv.Itoa(skip+seriesRows))
			return rows, "?" + q.Encode() + "#values"
		}
		row := seriesRow{At: time.Unix(0, int64(p.Times[i]*1e9)).UTC()}
		for _, values := range p.Values {
			text := "–"
			if v := values[i]; v != nil {
				text = strconv.FormatFloat(*v, 'g', 8, 64)
			}
			row.Values = append(row.Values, text)
		}
		rows = append(rows, row)
	}
	return rows, ""
}
