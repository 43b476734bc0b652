package prometheus

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/series"
	"github.com/skerrydb/skerry/web"
)

// bad returns an error of a parameter.
func bad(format string, args ...any) error {
	return engine.Errorf(engine.CodeInvalid, format, args...)
}

// result is the data of a query.
type result struct {
	Type   string `json:"resultType"`
	Result any    `json:"result"`
}

// query evaluates an expression at one time.
func (f *Face) query(r *request) (any, error) {
	at, err := r.time("time", r.now)
	if err != nil {
		return nil, err
	}
	return f.run(r, func(ctx context.Context, text string) (promql.Query, error) {
		return f.engine.NewInstantQuery(ctx, queryable{r.store}, nil, text, at)
	})
}

// queryRange evaluates an expression at regular times.
func (f *Face) queryRange(r *request) (any, error) {
	from, err := r.time("start", time.Time{})
	if err != nil {
		return nil, err
	}
	to, err := r.time("end", time.Time{})
	if err != nil {
		return nil, err
	}
	step, err := duration(r.form("step"))
	switch {
	case err != nil || step < time.Millisecond: // the engine counts in milliseconds
		return nil, bad("the parameter step %.40q is not a duration of at least a millisecond", r.form("step"))
	case from.IsZero() || to.IsZero():
		return nil, bad("the parameters start and end are required")
	case to.Before(from):
		return nil, bad("the parameter end is before start")
	case (to.UnixMilli()-from.UnixMilli())/step.Milliseconds() >= MaxPoints:
		return nil, bad("the step makes more than %d points of each series; a longer one makes them fewer", MaxPoints)
	}
	return f.run(r, func(ctx context.Context, text string) (promql.Query, error) {
		return f.engine.NewRangeQuery(ctx, queryable{r.store}, nil, text, from, to, step)
	})
}

// run runs a query when it is its turn.
func (f *Face) run(r *request, query func(ctx context.Context, text string) (promql.Query, error)) (any, error) {
	done, err := f.turn()
	if err != nil {
		r.Header().Set("Retry-After", busyAgain)
		return nil, err
	}
	defer done()
	if r.form("query") == "" {
		return nil, bad("the parameter query is required")
	}
	q, err := query(r, r.form("query"))
	if err != nil {
		return nil, bad("%v", err)
	}
	defer q.Close()
	res := q.Exec(r)
	if res.Err != nil {
		return nil, res.Err
	}
	value, err := json.Marshal(res.Value) // before Close reuses it
	return result{string(res.Value.Type()), json.RawMessage(value)}, err
}

// turn takes one of the turns of queries, until done is called.
func (f *Face) turn() (done func(), err error) {
	select {
	case f.turns <- struct{}{}:
		return func() { <-f.turns }, nil
	default:
		return nil, engine.Errorf(series.CodeBusy, "%d queries run already, as many as may at once", MaxQueries)
	}
}

// series lists the labels of series.
func (f *Face) series(r *request) (any, error) {
	selectors, err := f.selectors(r)
	if err != nil {
		return nil, err
	}
	if len(selectors) == 0 {
		return nil, bad("the parameter match[] is required")
	}
	most, err := r.limit()
	if err != nil {
		return nil, err
	}
	out := []map[string]string{}
	seen := map[string]bool{}
	for _, match := range selectors {
		found, err := r.store.Find(r, match, engine.Read{}, most)
		if err != nil {
			return nil, err
		}
		for _, l := range found {
			if text := l.String(); !seen[text] && len(out) < most {
				seen[text] = true
				m := make(map[string]string, len(l))
				for _, x := range l {
					m[x.Name] = x.Value
				}
				out = append(out, m)
			}
		}
	}
	return out, nil
}

// remove deletes the series that any of the selectors finds.
func (f *Face) remove(r *request) (any, error) {
	selectors, err := f.selectors(r)
	if err != nil {
		return nil, err
	}
	if len(selectors) == 0 {
		return nil, bad("the parameter match[] is required")
	}
	if r.form("start") != "" || r.form("end") != "" {
		return nil, bad("only whole series can be deleted: leave out start and end")
	}
	for _, match := range selectors {
		if _, _, err := r.store.Delete(r, match); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

func (f *Face) labels(r *request) (any, error) {
	return f.collect(r, func(match []series.Matcher) ([]string, error) {
		return r.store.LabelNames(r, match, engine.Read{})
	})
}

func (f *Face) labelValues(r *request) (any, error) {
	return f.collect(r, func(match []series.Matcher) ([]string, error) {
		return r.store.LabelValues(r, r.name, match, engine.Read{})
	})
}

// collect returns what any of the selectors finds, sorted.
func (f *Face) collect(r *request, find func(match []series.Matcher) ([]string, error)) (any, error) {
	selectors, err := f.selectors(r)
	if err != nil {
		return nil, err
	}
	if len(selectors) == 0 {
		selectors = [][]series.Matcher{nil}
	}
	out := []string{}
	for _, match := range selectors {
		some, err := find(match)
		if err != nil {
			return nil, err
		}
		out = append(out, some...)
	}
	most, err := r.limit()
	if err != nil {
		return nil, err
	}
	slices.Sort(out)
	out = slices.Compact(out)
	return out[:min(len(out), most)], nil
}

// limit returns how many results are listed. 0 asks for as many as there may be.
func (r *request) limit() (int, error) {
	text := r.form("limit")
	if text == "" || text == "0" {
		return MaxListed, nil
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, bad("the parameter limit %.40q is not a number of results", text)
	}
	return min(int(n), MaxListed), nil
}

// metadata has nothing: types and units of metrics are not stored.
func (f *Face) metadata(*request) (any, error) { return map[string]any{}, nil }

// buildInfo answers what Grafana asks to find out which functions there are.
func (f *Face) buildInfo(*request) (any, error) {
	return map[string]string{"version": "3.0.0", "application": "Skerry"}, nil
}

// selectors returns the values of match[].
func (f *Face) selectors(r *request) ([][]series.Matcher, error) {
	if err := r.parse(); err != nil {
		return nil, err
	}
	var out [][]series.Matcher
	for _, text := range r.Request.Form["match[]"] {
		ms, err := f.parser.ParseMetricSelector(text)
		if err != nil {
			return nil, bad("the parameter match[]: %v", err)
		}
		match, err := matchers(ms)
		if err != nil {
			return nil, err
		}
		out = append(out, match)
	}
	return out, nil
}

func matchers(ms []*labels.Matcher) (out []series.Matcher, err error) {
	ops := map[labels.MatchType]series.Op{
		labels.MatchEqual: series.Equal, labels.MatchNotEqual: series.NotEqual, labels.MatchRegexp: series.Regexp, labels.MatchNotRegexp: series.NotRegexp,
	}
	for _, m := range ms {
		x, err := series.NewMatcher(m.Name, ops[m.Type], m.Value)
		if err != nil {
			return nil, err
		}
		out = append(out, x)
	}
	return out, nil
}

// parse reads the parameters, which may be in the body.
func (r *request) parse() error {
	if r.Request.Form != nil {
		return nil
	}
	r.Request.Body = http.MaxBytesReader(r.Writer, r.Request.Body, MaxForm)
	if err := r.Request.ParseForm(); err != nil {
		return bad("the parameters cannot be read: %v", err)
	}
	return nil
}

func (r *request) form(name string) string {
	if r.parse() != nil {
		return ""
	}
	return r.Request.Form.Get(name)
}

// time returns a parameter: Unix seconds or RFC 3339.
func (r *request) time(name string, otherwise time.Time) (time.Time, error) {
	if err := r.parse(); err != nil {
		return time.Time{}, err
	}
	text := r.form(name)
	if text == "" {
		return otherwise, nil
	}
	if s, err := strconv.ParseFloat(text, 64); err == nil && math.Abs(s) < 9e9 {
		whole, part := math.Modf(s)
		return time.Unix(int64(whole), int64(math.Round(part*1000)*1e6)).UTC(), nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return t, bad("the parameter %s %.40q is neither Unix seconds nor RFC 3339", name, text)
	}
	return t, nil
}

// duration reads seconds or a duration in Prometheus's notation.
func duration(text string) (time.Duration, error) {
	if s, err := strconv.ParseFloat(text, 64); err == nil {
		if s > math.MaxInt64/1e9 || s != s {
			return 0, strconv.ErrRange
		}
		return time.Duration(s * 1e9), nil
	}
	for unit, each := range map[string]time.Duration{"d": 24 * time.Hour, "w": 7 * 24 * time.Hour, "y": 365 * 24 * time.Hour} {
		if digits, ok := strings.CutSuffix(text, unit); ok {
			n, err := strconv.ParseUint(digits, 10, 16)
			return time.Duration(n) * each, err
		}
	}
	return time.ParseDuration(text)
}

// respond sends data, or an error, in Prometheus's form.
func respond(c *web.Context, data any, err error) error {
	if err == nil {
		return c.JSON(http.StatusOK, map[string]any{"status": "success", "data": data})
	}
	status, kind := http.StatusUnprocessableEntity, "execution"
	switch code := engine.CodeOf(err); {
	case errors.As(err, new(promql.ErrQueryTimeout)), errors.Is(err, context.DeadlineExceeded):
		status, kind = http.StatusServiceUnavailable, "timeout"
	case errors.As(err, new(promql.ErrQueryCanceled)), errors.Is(err, context.Canceled):
		status, kind = 499, "canceled"
	case code == engine.CodeInvalid || code == series.CodeMatcher || code == engine.CodeLimit:
		status, kind = http.StatusBadRequest, "bad_data"
	case code == series.CodeBusy:
		status, kind = http.StatusTooManyRequests, "unavailable"
	case engine.Retryable(err):
		status, kind = http.StatusServiceUnavailable, "unavailable"
	}
	text := err.Error()
	if e := (*engine.Error)(nil); errors.As(err, &e) {
		text = e.Msg
	}
	return c.JSON(status, map[string]string{"status": "error", "errorType": kind, "error": text})
}
