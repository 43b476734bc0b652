package timeseries

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/series"
	"github.com/skerrydb/skerry/web"
)

// query responds with samples or aggregates.
func (f *Face) query(c *web.Context) error {
	store, err := f.store(c, c.Path("collection").String(), false)
	if err != nil {
		return err
	}
	q, err := parseQuery(c)
	if err != nil {
		return err
	}
	list, err := store.Select(c, q)
	if err != nil {
		return err
	}
	return respond(c, store.Name(), list, q.Aggregates)
}

// latest responds with the newest samples.
func (f *Face) latest(c *web.Context) error {
	store, err := f.store(c, c.Path("collection").String(), false)
	if err != nil {
		return err
	}
	match, err := selector(c)
	if err != nil {
		return err
	}
	var since time.Duration
	if text := c.Query("since").String(); text != "" {
		if since, err = parseDuration("since", text); err != nil {
			return err
		}
	}
	read, err := readOf(c)
	if err != nil {
		return err
	}
	list, err := store.Latest(c, match, since, read)
	if err != nil {
		return err
	}
	return respond(c, store.Name(), list, nil)
}

// labels responds with the names of labels, or the values of one.
func (f *Face) labels(c *web.Context) error {
	store, err := f.store(c, c.Path("collection").String(), false)
	if err != nil {
		return err
	}
	match, err := selector(c)
	if err != nil {
		return err
	}
	read, err := readOf(c)
	if err != nil {
		return err
	}
	var list []string
	if label := c.Query("label").String(); label != "" {
		list, err = store.LabelValues(c, label, match, read)
	} else {
		list, err = store.LabelNames(c, match, read)
	}
	if err != nil {
		return err
	}
	if list == nil {
		list = []string{}
	}
	return c.JSON(http.StatusOK, map[string]any{"labels": list})
}

// selector returns the matchers of ?match=, nil without it.
func selector(c *web.Context) ([]series.Matcher, error) {
	if n := len(c.Request.URL.Query()["match"]); n > 1 {
		return nil, engine.Errorf(engine.CodeInvalid, "the parameter match comes %d times, and may come once", n)
	}
	text := c.Query("match").String()
	if len(text) > MaxTermBytes {
		return nil, engine.Errorf(engine.CodeLimit, "the parameter match has %d bytes, over the limit of %d", len(text), MaxTermBytes)
	}
	if text == "" {
		return nil, nil
	}
	return series.ParseSelector(text)
}

func parseQuery(c *web.Context) (q series.Query, err error) {
	if q.Match, err = selector(c); err != nil {
		return q, err
	}
	now := time.Now()
	if q.From, err = parseTime("from", c.Query("from").String(), now); err != nil {
		return q, err
	}
	if q.To, err = parseTime("to", c.Query("to").String(), now); err != nil {
		return q, err
	}
	if text := c.Query("step").String(); text != "" {
		if q.Step, err = parseDuration("step", text); err != nil {
			return q, err
		}
	}
	if text := c.Query("agg").String(); text != "" {
		for name := range strings.SplitSeq(text, ",") {
			a, err := series.ParseAggregate(name)
			if err != nil {
				return q, err
			}
			q.Aggregates = append(q.Aggregates, a)
		}
	} else if q.Step > 0 {
		q.Aggregates = []series.Aggregate{series.Avg}
	}
	q.Read, err = readOf(c)
	return q, err
}

// readOf returns how new a read must be: by default it is linearizable, with ?position= at least that.
func readOf(c *web.Context) (engine.Read, error) {
	text := c.Query("position").String()
	if text == "" {
		return engine.Read{}, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return engine.Read{}, engine.Errorf(engine.CodeInvalid, "the parameter position %.40q is not a number", text)
	}
	return engine.Read{Level: engine.Session, AtLeast: engine.Position(n)}, nil
}

// parseTime reads a time: RFC 3339, Unix seconds with any fraction, or an age like -1h.
func parseTime(name, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if text == "now" {
		return now, nil
	}
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return t, nil
	}
	if age, ok := strings.CutPrefix(text, "-"); ok {
		if d, err := duration(age); err == nil {
			return now.Add(-d), nil
		}
	}
	if s, err := strconv.ParseFloat(text, 64); err == nil && math.Abs(s) < 9e9 {
		whole, part := math.Modf(s)
		return time.Unix(int64(whole), int64(math.Round(part*1e9))), nil
	}
	return time.Time{}, engine.Errorf(engine.CodeInvalid, "the parameter %s %.40q is not a time: use RFC 3339, Unix seconds, or an age like -1h", name, text)
}

func parseDuration(name, text string) (time.Duration, error) {
	d, err := duration(text)
	if err != nil || d <= 0 {
		return 0, engine.Errorf(engine.CodeInvalid, "the parameter %s %.40q is not a positive duration like 30s, 5m, 1h or 7d", name, text)
	}
	return d, nil
}

// duration reads Go's durations that are not negative, and days and weeks.
func duration(text string) (time.Duration, error) {
	for unit, each := range map[string]time.Duration{"d": 24 * time.Hour, "w": 7 * 24 * time.Hour} {
		if n, ok := strings.CutSuffix(text, unit); ok {
			v, err := strconv.ParseFloat(n, 64)
			if err != nil || !(v >= 0 && v <= float64(math.MaxInt64/each)) { // NaN neither

				return 0, strconv.ErrRange
			}
			return time.Duration(v * float64(each)), nil
		}
	}
	d, err := time.ParseDuration(text)
	if err == nil && d < 0 {
		err = strconv.ErrRange
	}
	return d, err
}

// respond sends series as JSON: times in Unix milliseconds, values as numbers, or as the strings "NaN", "+Inf" and
// "-Inf", which JSON has no numbers for.
func respond(c *web.Context, collection string, list []series.Series, aggregates []series.Aggregate) error {
	b := append([]byte(`{"collection":`), strconv.Quote(collection)...)
	b = append(b, `,"series":[`...)
	for i, s := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendLabels(append(b, `{"labels":`...), s.Labels)
		b = append(b, `,"times":[`...)
		for j, t := range s.Times {
			b = appendMillis(comma(b, j), t)
		}
		b = append(b, ']')
		if s.Values != nil {
			b = appendValues(append(b, `,"values":`...), s.Values)
		}
		for j, a := range aggregates {
			b = appendValues(append(b, `,"`+a.String()+`":`...), s.Columns[j])
		}
		b = append(b, '}')
	}
	b = append(b, "]}\n"...)
	h := c.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-cache")
	c.Writer.WriteHeader(http.StatusOK)
	_, _ = c.Writer.Write(b) // an error means that the client is gone
	return nil
}

func comma(b []byte, i int) []byte {
	if i > 0 {
		return append(b, ',')
	}
	return b
}

func appendValues(b []byte, values []float64) []byte {
	b = append(b, '[')
	for i, v := range values {
		b = appendValue(comma(b, i), v)
	}
	return append(b, ']')
}

func appendValue(b []byte, v float64) []byte {
	switch {
	case math.IsNaN(v):
		return append(b, `"NaN"`...)
	case math.IsInf(v, 1):
		return append(b, `"+Inf"`...)
	case math.IsInf(v, -1):
		return append(b, `"-Inf"`...)
	case v == math.Trunc(v) && math.Abs(v) < 1e15 && (v != 0 || !math.Signbit(v)):
		return strconv.AppendInt(b, int64(v), 10)
	}
	return strconv.AppendFloat(b, v, 'g', -1, 64)
}

// appendMillis appends a time in nanoseconds as milliseconds, with as many decimals as it needs.
func appendMillis(b []byte, t int64) []byte {
	const each = int64(time.Millisecond)
	ms, rest := t/each, t%each
	if rest < 0 {
		if ms == 0 {
			b = append(b, '-')
		}
		rest = -rest
	}
	b = strconv.AppendInt(b, ms, 10)
	if rest == 0 {
		return b
	}
	digits := strconv.FormatInt(each+rest, 10)[1:]
	return append(append(b, '.'), strings.TrimRight(digits, "0")...)
}
