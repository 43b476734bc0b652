package api

import (
	"iter"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/skerrydb/skerry/engine"
)

// metricPrefix begins the name of every figure of Skerry's own.
const metricPrefix = "skerry_"

// metrics are the figures of the HTTP face, in a registry of their own.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec   // by route, method, class
	seconds  *prometheus.HistogramVec // by route, method
	inFlight prometheus.Gauge

	keys, lists, calls, none *route
	nodes                    *route // all that other nodes passed on
}

// methodNames are the methods told apart; all others are "other", so that
// clients cannot make up time series.
func methodNames() [7]string {
	return [...]string{"GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS", "other"}
}

func classNames() [6]string { return [...]string{"1xx", "2xx", "3xx", "4xx", "5xx", "cut"} }

// route counts the requests to one route. The counters are looked up once.
type route struct {
	m        *metrics
	name     string
	requests [7][6]atomic.Pointer[prometheus.Counter]
	seconds  [7]atomic.Pointer[prometheus.Observer]
}

func newMetrics(figures func() iter.Seq[engine.Metric]) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: metricPrefix + "http_requests_total",
			Help: "Answered requests by route, method and class of status; cut: the connection was cut off.",
		}, []string{"route", "method", "class"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    metricPrefix + "http_request_seconds",
			Help:    "Time from the end of a request's headers to the end of its answer.",
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10},
		}, []string{"route", "method"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: metricPrefix + "http_requests_in_flight",
			Help: "Requests that are being answered.",
		}),
	}
	m.registry.MustRegister(m.requests, m.seconds, m.inFlight,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if figures != nil {
		m.registry.MustRegister(engineFigures(figures))
	}
	m.nodes = m.route("node")
	m.keys, m.lists, m.none = m.route(dbPath+"{key}"), m.route(dbPath), m.route("none")
	m.calls = m.route(callPath + "{name}")
	return m
}

func (m *metrics) route(name string) *route { return &route{m: m, name: name} }

// observe counts one request. Status 0 means that it was never answered.
func (r *route) observe(method string, status int, took time.Duration) {
	names, classes := methodNames(), classNames()
	i := methodIndex(method)
	class := len(classes) - 1
	if c := status/100 - 1; c >= 0 && c < class {
		class = c
	}
	count := r.requests[i][class].Load()
	if count == nil {
		c := r.m.requests.WithLabelValues(r.name, names[i], classes[class])
		count = &c
		r.requests[i][class].Store(count)
	}
	(*count).Inc()
	seconds := r.seconds[i].Load()
	if seconds == nil {
		o := r.m.seconds.WithLabelValues(r.name, names[i])
		seconds = &o
		r.seconds[i].Store(seconds)
	}
	(*seconds).Observe(took.Seconds())
}

func methodIndex(method string) int {
	names := methodNames()
	for i, name := range names {
		if name == method {
			return i
		}
	}
	return len(names) - 1
}

// engineFigures is a prometheus.Collector of what an engine tells of itself.
type engineFigures func() iter.Seq[engine.Metric]

// Describe sends nothing: which figures there are is the engine's to say.
func (f engineFigures) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (f engineFigures) Collect(to chan<- prometheus.Metric) {
	for fig := range f() {
		names, values := make([]string, len(fig.Labels)), make([]string, len(fig.Labels))
		for i, l := range fig.Labels {
			names[i], values[i] = l.Name, l.Value
		}
		desc := prometheus.NewDesc(metricPrefix+fig.Name, fig.Help, names, nil)
		m, err := figure(desc, &fig, values)
		if err != nil {
			m = prometheus.NewInvalidMetric(desc, err)
		}
		to <- m
	}
}

func figure(desc *prometheus.Desc, fig *engine.Metric, labels []string) (prometheus.Metric, error) {
	if h := fig.Histogram; h != nil {
		atMost, sum := make(map[float64]uint64, len(h.Bounds)), uint64(0)
		for i, bound := range h.Bounds {
			sum += h.Counts[i]
			atMost[bound] = sum
		}
		return prometheus.NewConstHistogram(desc, h.Count, h.Sum, atMost, labels...)
	}
	if fig.Counter {
		return prometheus.NewConstMetric(desc, prometheus.CounterValue, fig.Value, labels...)
	}
	return prometheus.NewConstMetric(desc, prometheus.GaugeValue, fig.Value, labels...)
}

// scrape answers GET /metrics.
func (a *app) scrape() handler {
	h := promhttp.HandlerFor(a.metrics.registry, promhttp.HandlerOpts{})
	return func(x *exchange, r *http.Request) error {
		if _, err := query(r, "name[]"); err != nil {
			return err
		}
		if err := a.scrapes.enter("requests for figures"); err != nil {
			return err
		}
		defer a.scrapes.leave()
		h.ServeHTTP(x, r)
		return nil
	}
}
