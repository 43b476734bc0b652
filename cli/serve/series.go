package serve

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/series"
)

func seriesSetting(p *[]series.Collection) verb.Setting {
	return verb.Setting{
		Name: "series", Arg: "NAMES", Server: true,
		Help: SeriesHelp,
		Set:  SeriesList(p),
	}
}

// SeriesHelp describes the setting series.
const SeriesHelp = "comma-separated collections of time series, each with how long samples are kept: telegraf=30d,plant=1y; without a time they are kept forever. hours=5y:plant/1h/avg+max summarizes plant by the hour"

// SeriesList returns the Set of a setting that is parsed.
func SeriesList(p *[]series.Collection) func(string) error {
	return func(v string) (err error) {
		*p, err = parseSeries(v)
		return err
	}
}

// SeriesText returns the Set of a setting that is passed on to a server.
func SeriesText(p *string) func(string) error {
	return func(v string) error {
		*p = v
		_, err := parseSeries(v)
		return err
	}
}

// parseSeries reads NAME or NAME=TIME, separated by commas. After :OF/STEP/AGGREGATE+AGGREGATE a collection summarizes
// another one.
func parseSeries(v string) (all []series.Collection, err error) {
	for item := range strings.SplitSeq(v, ",") {
		item, summary, summarizes := strings.Cut(strings.TrimSpace(item), ":")
		name, keep, limited := strings.Cut(item, "=")
		c := series.Collection{Name: name}
		if summarizes {
			if c.Rollup, err = parseRollup(summary); err != nil {
				return nil, fmt.Errorf("collection %s: %w", name, err)
			}
		}
		if limited {
			if c.Retention, err = parseRetention(keep); err != nil {
				return nil, fmt.Errorf("%q of collection %s is not a time like 12h, 30d or 1y", keep, name)
			}
		}
		all = append(all, c)
	}
	return all, nil
}

// parseRollup reads OF/STEP/AGGREGATE+AGGREGATE.
func parseRollup(text string) (*series.Rollup, error) {
	parts := strings.Split(text, "/")
	if len(parts) != 3 {
		return nil, fmt.Errorf("%q is not COLLECTION/STEP/AGGREGATES, like plant/1h/avg+max", text)
	}
	r := &series.Rollup{Of: parts[0]}
	var err error
	if r.Step, err = parseRetention(parts[1]); err != nil {
		return nil, fmt.Errorf("the step %q is not a time like 5m, 1h or 1d", parts[1])
	}
	for name := range strings.SplitSeq(parts[2], "+") {
		a, err := series.ParseAggregate(name)
		if err != nil {
			return nil, err
		}
		r.Aggregates = append(r.Aggregates, a)
	}
	return r, nil
}

// parseRetention reads Go's durations, and whole days, weeks and years.
func parseRetention(text string) (time.Duration, error) {
	const day = 24 * time.Hour
	for unit, each := range map[string]time.Duration{"d": day, "w": 7 * day, "y": 365 * day} {
		if digits, ok := strings.CutSuffix(text, unit); ok {
			n, err := strconv.ParseInt(digits, 10, 64)
			if err != nil || n <= 0 || n > int64(100*365*day/each) {
				return 0, strconv.ErrRange
			}
			return time.Duration(n) * each, nil
		}
	}
	d, err := time.ParseDuration(text)
	if err == nil && d <= 0 {
		err = strconv.ErrRange
	}
	return d, err
}
