package iot

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/series"
	"github.com/skerrydb/skerry/web"
)

const (
	maxRows   = 40               // of the table
	chartSpan = 30 * time.Minute // of the chart, before the newest value
	chartStep = 10 * time.Second // of a window of the chart
)

// looksBack returns how far the page looks for the newest values: further if there are none.
func looksBack() []time.Duration { return []time.Duration{2 * time.Minute, time.Hour, 24 * time.Hour} }

// reading is the newest value of a sensor.
type reading struct {
	Sensor, Line string
	Value        float64
	Time         time.Time
	Alarm        bool
}

// Text returns the value as it is shown.
func (r reading) Text() string { return text(r.Value) }

func text(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }

// overview is what the page says of one kind.
type overview struct {
	Kind
	Known    int       // sensors that ever had a value
	Readings []reading // alarms first, then by name
	Alarms   int
	Newest   time.Time
	Least    float64
	Most     float64
}

// Range returns the lowest and the highest of the newest values.
func (o *overview) Range() string {
	if text(o.Least) == text(o.Most) {
		return text(o.Most)
	}
	return text(o.Least) + " to " + text(o.Most)
}

// Limit returns what an alarm is.
func (o *overview) Limit() string { return text(o.Alarm) }

// add adds the newest value of a sensor.
func (o *overview) add(s series.Series) {
	r := reading{Sensor: s.Labels.Get("sensor"), Line: s.Labels.Get("line"), Value: s.Values[0], Time: time.Unix(0, s.Times[0]).UTC()}
	if math.IsNaN(r.Value) {
		return
	}
	if r.Alarm = r.Value > o.Alarm; r.Alarm {
		o.Alarms++
	}
	if len(o.Readings) == 0 {
		o.Least, o.Most = r.Value, r.Value
	}
	o.Least, o.Most = min(o.Least, r.Value), max(o.Most, r.Value)
	if r.Time.After(o.Newest) {
		o.Newest = r.Time
	}
	o.Readings = append(o.Readings, r)
}

// sort puts alarms first.
func (o *overview) sort() {
	slices.SortFunc(o.Readings, func(a, b reading) int {
		if a.Alarm != b.Alarm {
			if a.Alarm {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.Sensor, b.Sensor)
	})
}

// look returns an overview of each kind.
func look(ctx context.Context, store *series.Store) ([]overview, error) {
	var all []overview
	byKind := map[string]int{}
	for i, k := range Kinds() {
		m, err := series.NewMatcher("kind", series.Equal, k.Name)
		if err != nil {
			return nil, err
		}
		known, err := store.Find(ctx, []series.Matcher{m}, engine.Read{}, 0)
		if err != nil {
			return nil, err
		}
		all, byKind[k.Name] = append(all, overview{Kind: k, Known: len(known)}), i
	}
	m, err := series.NewMatcher(series.NameLabel, series.Equal, Metric)
	if err != nil {
		return nil, err
	}
	for _, since := range looksBack() {
		list, err := store.Latest(ctx, []series.Matcher{m}, since, engine.Read{})
		if err != nil {
			return nil, err
		}
		for _, s := range list {
			if i, ok := byKind[s.Labels.Get("kind")]; ok {
				all[i].add(s)
			}
		}
		if len(list) > 0 {
			break
		}
	}
	for i := range all {
		all[i].sort()
	}
	return all, nil
}

// chart is what the script needs to draw the values of one sensor.
type chart struct {
	Sensor, Match string
	From, Step    int64 // Unix seconds, seconds
}

// page shows the overview, and the sensors of one kind: ?kind= and ?sensor= choose.
func page(store *series.Store) web.Handler {
	return func(c *web.Context) error {
		all, err := look(c, store)
		if err != nil {
			return err
		}
		kind := &all[0]
		if name := c.Query("kind").String(); name != "" {
			i := slices.IndexFunc(all, func(o overview) bool { return o.Name == name })
			if i < 0 {
				return engine.Errorf(engine.CodeInvalid, "there is no kind of sensor called %.40q", name)
			}
			kind = &all[i]
		}
		l := web.Locals{"title": kind.Title, "kinds": all, "kind": kind, "chart": nil, "more": max(0, len(kind.Readings)-maxRows)}
		l["rows"] = kind.Readings[:min(len(kind.Readings), maxRows)]
		l["status"] = status(all)
		if len(kind.Readings) == 0 {
			return c.Render("factory", l)
		}
		shown := kind.Readings[0].Sensor
		if s := c.Query("sensor").String(); s != "" {
			shown = s
		}
		l["title"] = kind.Title + " of " + shown
		l["chart"] = chart{
			Sensor: shown, Match: fmt.Sprintf("%s{kind=%q,sensor=%q}", Metric, kind.Name, shown),
			From: kind.Newest.Add(-chartSpan).Unix(), Step: int64(chartStep / time.Second),
		}
		return c.Render("factory", l)
	}
}

// status says how the factory is.
func status(all []overview) string {
	sensors, alarms := 0, 0
	for _, o := range all {
		sensors += len(o.Readings)
		alarms += o.Alarms
	}
	switch {
	case sensors == 0:
		return "No values have arrived yet."
	case alarms == 0:
		return fmt.Sprintf("No alarms. %s.", count(sensors, "sensor reports", "sensors report"))
	}
	return fmt.Sprintf("%s. %s.", count(alarms, "alarm", "alarms"), count(sensors, "sensor reports", "sensors report"))
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}
