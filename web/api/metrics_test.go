package api_test

import (
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web/api"
)

// TestMetricsWithLabels: metrics with labels, and histograms, are on /metrics in Prometheus's format.
func TestMetricsWithLabels(t *testing.T) {
	all := []engine.Metric{
		{Name: "x_total", Help: "X.", Counter: true, Value: 3, Labels: []engine.Label{{Name: "route", Value: "GET /\"a\"/{b}"}, {Name: "class", Value: "2xx"}}},
		{Name: "x_total", Help: "X.", Counter: true, Value: 4, Labels: []engine.Label{{Name: "route", Value: "none"}, {Name: "class", Value: "4xx"}}},
		{Name: "y_seconds", Help: "Y.", Labels: []engine.Label{{Name: "route", Value: "z"}}, Histogram: &engine.Histogram{Bounds: []float64{.5, 2}, Counts: []uint64{1, 2}, Count: 4, Sum: 7.5}},
	}
	s := serve(t, api.Options{Metrics: func() iter.Seq[engine.Metric] { return slices.Values(all) }})
	text := string(s.do(t, "GET", "/metrics", nil).body)
	for _, want := range []string{
		"# TYPE skerry_x_total counter\n", `skerry_x_total{class="2xx",route="GET /\"a\"/{b}"} 3`, `skerry_x_total{class="4xx",route="none"} 4`,
		"# TYPE skerry_y_seconds histogram\n", `skerry_y_seconds_bucket{route="z",le="0.5"} 1`, `skerry_y_seconds_bucket{route="z",le="2"} 3`,
		`skerry_y_seconds_bucket{route="z",le="+Inf"} 4`, `skerry_y_seconds_sum{route="z"} 7.5`, `skerry_y_seconds_count{route="z"} 4`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("/metrics has no %s", want)
		}
	}
}
