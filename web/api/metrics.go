package api

import (
	"iter"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web"
)

// metricPrefix begins the name of each of Skerry's own metrics.
const metricPrefix = "skerry_"

// newRegistry returns the metrics of /metrics.
func (a *app) newRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collector(a.web.RequestMetrics("http")), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if a.forward != nil {
		r.MustRegister(collector(a.forward.metrics))
	}
	if a.o.Metrics != nil {
		r.MustRegister(collector(func(yield func(engine.Metric) bool) { a.o.Metrics()(yield) }))
	}
	return r
}

// collector is a prometheus.Collector of Skerry's own metrics.
type collector iter.Seq[engine.Metric]

// Describe sends nothing: the metrics are known only when they are collected.
func (c collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c collector) Collect(to chan<- prometheus.Metric) {
	for own := range c {
		names, values := make([]string, len(own.Labels)), make([]string, len(own.Labels))
		for i, l := range own.Labels {
			names[i], values[i] = l.Name, l.Value
		}
		desc := prometheus.NewDesc(metricPrefix+own.Name, own.Help, names, nil)
		m, err := metricOf(desc, &own, values)
		if err != nil {
			m = prometheus.NewInvalidMetric(desc, err)
		}
		to <- m
	}
}

func metricOf(desc *prometheus.Desc, own *engine.Metric, labels []string) (prometheus.Metric, error) {
	if h := own.Histogram; h != nil {
		atMost, sum := make(map[float64]uint64, len(h.Bounds)), uint64(0)
		for i, bound := range h.Bounds {
			sum += h.Counts[i]
			atMost[bound] = sum
		}
		return prometheus.NewConstHistogram(desc, h.Count, h.Sum, atMost, labels...)
	}
	kind := prometheus.GaugeValue
	if own.Counter {
		kind = prometheus.CounterValue
	}
	return prometheus.NewConstMetric(desc, kind, own.Value, labels...)
}

// scrape serves GET /metrics.
func (a *app) scrape() web.Handler {
	h, scrapes := promhttp.HandlerFor(a.newRegistry(), promhttp.HandlerOpts{}), &semaphore{max: MaxScrapes}
	return func(c *web.Context) error {
		if _, err := query(c.Request, "name[]"); err != nil {
			return err
		}
		if err := scrapes.enter("requests for metrics"); err != nil {
			return err
		}
		defer scrapes.leave()
		h.ServeHTTP(c.Writer, c.Request)
		return nil
	}
}
