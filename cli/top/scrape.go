// Package top watches servers from a terminal: it reads their metrics every few seconds and shows rates, latencies, memory and
// what is wrong.
//
// It knows the names of the metrics and how a screen is filled; it must not know how a server is reached, nor flags.
package top

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Limits of what is read from a server.
const (
	maxSeries = 100_000 // lines of a response of /metrics that are read
	maxText   = 200     // characters of a text that a server says
)

// totals is what one response of /metrics says. Counters count since the start of the server.
type totals struct {
	values  map[string]float64 // sums over all labels
	errors  float64            // responses of class 5xx
	buckets map[float64]float64
}

const prefix = "skerry_"

// parse reads the text format of Prometheus. It skips lines that it does not understand.
func parse(text string) totals {
	t := totals{values: map[string]float64{}, buckets: map[float64]float64{}}
	n := 0
	for line := range strings.Lines(text) {
		if n++; n > maxSeries {
			break
		}
		name, labels, v, ok := series(strings.TrimSpace(line))
		if !ok {
			continue
		}
		if route := label(labels, "route"); route == "/metrics" || route == "/cluster" || route == "/nodes" {
			continue // those of this program and of its like
		}
		switch name {
		case "http_request_seconds_bucket", "web_request_seconds_bucket":
			if le, err := strconv.ParseFloat(label(labels, "le"), 64); err == nil && !math.IsNaN(le) {
				t.buckets[le] += v
			}
			continue
		case "http_requests_total", "web_requests_total":
			if label(labels, "class") == "5xx" {
				t.errors += v
			}
		case "cluster_clock_skew_seconds":
			t.values[name] = max(t.values[name], math.Abs(v)) // one for each other node
			continue
		}
		if strings.HasSuffix(name, "_bucket") {
			continue
		}
		t.values[name] += v
	}
	return t
}

// series splits a line like name{labels} value. The name has no prefix then.
func series(line string) (name, labels string, v float64, ok bool) {
	if line == "" || line[0] == '#' {
		return "", "", 0, false
	}
	end := strings.IndexAny(line, "{ ")
	if end < 0 {
		return "", "", 0, false
	}
	name, rest := strings.TrimPrefix(line[:end], prefix), line[end:]
	if rest[0] == '{' {
		closing := strings.LastIndexByte(rest, '}')
		if closing < 0 {
			return "", "", 0, false
		}
		labels, rest = rest[1:closing], rest[closing+1:]
	}
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return "", "", 0, false
	}
	v, err := strconv.ParseFloat(fields[0], 64)
	return name, labels, v, err == nil && !math.IsNaN(v) && !math.IsInf(v, 0)
}

// label returns the value of a label that has no escapes.
func label(labels, name string) string {
	for part := range strings.SplitSeq(labels, ",") {
		if k, v, ok := strings.Cut(part, "="); ok && strings.TrimSpace(k) == name {
			return strings.Trim(v, `"`)
		}
	}
	return ""
}

// quantile returns the q-quantile of the requests between two responses, in seconds, interpolated in its bucket as
// Prometheus does. It is 0 without requests.
func quantile(now, before totals, q float64) float64 {
	var bounds []float64
	for le := range now.buckets {
		bounds = append(bounds, le)
	}
	slices.Sort(bounds)
	if len(bounds) == 0 {
		return 0
	}
	count := func(le float64) float64 { return max(0, now.buckets[le]-before.buckets[le]) }
	all := count(bounds[len(bounds)-1])
	if all <= 0 {
		return 0
	}
	lower, below := 0.0, 0.0
	for _, le := range bounds {
		n := count(le)
		if n >= q*all {
			if math.IsInf(le, 1) { // slower than the last bound
				return lower
			}
			if n <= below {
				return le
			}
			return lower + (le-lower)*(q*all-below)/(n-below)
		}
		lower, below = le, n
	}
	return lower
}

// Clean makes a text from a server safe for a terminal: characters that control it or that are not visible, such as those that
// change the direction of text, become question marks.
func Clean(s string) string {
	if len(s) > 4*maxText { // bytes of a character
		s = s[:4*maxText]
	}
	r := []rune(strings.ToValidUTF8(s, "?"))
	if len(r) > maxText {
		r = append(r[:maxText-1], '…')
	}
	for i, c := range r {
		if !unicode.IsPrint(c) || unicode.Is(unicode.Mn, c) || unicode.Is(unicode.Me, c) {
			r[i] = '?'
		}
	}
	return string(r)
}
