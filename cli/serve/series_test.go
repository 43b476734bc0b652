package serve

import (
	"reflect"
	"testing"
	"time"

	"github.com/skerrydb/skerry/series"
)

func TestParseSeries(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string][]series.Collection{
		"plant":                   {{Name: "plant"}},
		"telegraf=30d,plant=1y":   {{Name: "telegraf", Retention: 30 * day}, {Name: "plant", Retention: 365 * day}},
		" a=12h , b=2w,c=1h30m,d": {{Name: "a", Retention: 12 * time.Hour}, {Name: "b", Retention: 14 * day}, {Name: "c", Retention: 90 * time.Minute}, {Name: "d"}},
		"p=30d,hours=5y:p/1h/avg+p99,days:p/1d/max": {
			{Name: "p", Retention: 30 * day},
			{Name: "hours", Retention: 1825 * day, Rollup: &series.Rollup{Of: "p", Step: time.Hour, Aggregates: []series.Aggregate{series.Avg, series.Percentile(99)}}},
			{Name: "days", Rollup: &series.Rollup{Of: "p", Step: day, Aggregates: []series.Aggregate{series.Max}}},
		},
		"a=100y": {{Name: "a", Retention: 36500 * day}},
	} {
		if got, err := parseSeries(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"a=", "a=x", "a=0d", "a=-1d", "a=101y", "a=1.5d", "a=0s", "a=-5m", "a=30", "a=1d=2d", "a=99999999999999999999d", "a=1D", "a==1d", "a:", "a:b/1h", "a:b/1h/avg/max", "a:b/x/avg", "a:b/1h/", "a:b/1h/middle", "a:b/1h/avg+"} {
		if got, err := parseSeries(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
	var all []series.Collection
	s := seriesSetting(&all)
	if err := s.Set("a=1d"); err != nil || len(all) != 1 || s.Name != "series" {
		t.Errorf("Set: %v, %v", all, err)
	}
}
