package prometheus

import (
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/prompb"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/series"
	"github.com/skerrydb/skerry/web/problem"
)

// remoteWrite stores the samples of Prometheus's remote write, version 1. Samples that are refused do not prevent the
// others from being stored: the response is then 400, so that Prometheus does not send them again.
func (f *Face) remoteWrite(r *request) (any, error) {
	if kind := r.Request.Header.Get("Content-Type"); strings.Contains(kind, "io.prometheus.write.v2") {
		return nil, engine.Errorf(problem.CodeMediaType, "this server takes version 1 of remote write, prometheus.WriteRequest")
	}
	body, err := r.ReadBody()
	if err != nil {
		return nil, err
	}
	if n, err := snappy.DecodedLen(body); err == nil && n > MaxBody {
		return nil, engine.Errorf(problem.CodeBodyTooLarge, "the body has %d bytes when it is decompressed, over the limit of %d", n, MaxBody)
	}
	raw, err := snappy.Decode(nil, body)
	if err != nil {
		return nil, bad("the body is not Snappy: %v", err)
	}
	var req prompb.WriteRequest
	if err := req.Unmarshal(raw); err != nil {
		return nil, bad("the body is no prometheus.WriteRequest: %v", err)
	}
	refused, first, err := f.append(r, &req)
	for range appendAgain {
		if engine.CodeOf(err) != series.CodeGone {
			break
		}
		refused, first, err = f.append(r, &req) // defines the series again that were removed
	}
	switch {
	case engine.CodeOf(err) == series.CodeBusy:
		r.Header().Set("Retry-After", busyAgain)
		return nil, err
	case err != nil:
		return nil, err
	case refused > 0:
		return nil, engine.Errorf(series.CodePartial, "%d samples were refused and all others stored; the first: %v", refused, first)
	}
	return nil, nil
}

// append stores what can be stored, and counts what cannot.
func (f *Face) append(r *request, req *prompb.WriteRequest) (refused int, first error, err error) {
	refuse := func(n int, why error) {
		refused += n
		if first == nil {
			first = errors.New(text(why))
		}
	}
	all := make([]series.Labels, 0, len(req.Timeseries))
	from := make([]*prompb.TimeSeries, 0, len(req.Timeseries))
	for i := range req.Timeseries {
		ts := &req.Timeseries[i]
		if n := len(ts.Histograms); n > 0 {
			refuse(n, errors.New("native histograms are not stored"))
		}
		if len(ts.Samples) == 0 {
			continue
		}
		l, err := labelsFrom(ts.Labels)
		if err != nil {
			refuse(len(ts.Samples), err)
			continue
		}
		all, from = append(all, l), append(from, ts)
	}
	ids, err := r.store.Define(r, all)
	full := err
	if err != nil && engine.CodeOf(err) != series.CodeTooManySeries {
		return 0, nil, err
	}
	var batch series.Batch
	check := checker(r.store)
	for i, ts := range from {
		if ids[i] == 0 {
			refuse(len(ts.Samples), full)
			continue
		}
		for _, s := range ts.Samples {
			if err := check(s.Timestamp); err != nil {
				refuse(1, err)
				continue
			}
			batch.Add(ids[i], s.Timestamp*milli, s.Value)
		}
	}
	_, err = r.store.Append(r, &batch)
	return refused, first, err
}

// checker returns a function that checks times in milliseconds.
func checker(store *series.Store) func(ms int64) error {
	oldest, newest := store.Bounds()
	return func(ms int64) error {
		t := ms * milli
		switch {
		case ms > math.MaxInt64/milli || ms < math.MinInt64/milli:
			return errors.New("the time " + strconv.FormatInt(ms, 10) + " ms is out of range")
		case t < oldest || t > newest:
			return store.Check(t) // nil if the clock has moved on since
		}
		return nil
	}
}

func labelsFrom(pairs []prompb.Label) (series.Labels, error) {
	name := ""
	labels := make([]series.Label, 0, len(pairs))
	for _, p := range pairs {
		if p.Name == series.NameLabel && name == "" {
			name = p.Value
			continue
		}
		labels = append(labels, series.Label{Name: strings.Clone(p.Name), Value: strings.Clone(p.Value)})
	}
	return series.NewLabels(strings.Clone(name), labels...)
}

// text returns the text of an error without its code.
func text(err error) string {
	if e := (*engine.Error)(nil); errors.As(err, &e) {
		return e.Msg
	}
	return err.Error()
}
