package prometheus

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/prompb"

	"github.com/skerrydb/skerry/series"
	"github.com/skerrydb/skerry/web"
)

// TestByHand: results that were computed by hand.
func TestByHand(t *testing.T) {
	s := plain(t)
	s.write(of(values(0, 15, 30, 45, 60), "__name__", "n", "h", "a"), of(values(10, 8, 6, 4, 2), "__name__", "n", "h", "b")).is(204)
	for _, c := range []struct{ at, query, want string }{
		{"1700000060", `n{h="a"}`, `{"resultType":"vector","result":[{"metric":{"__name__":"n","h":"a"},"value":[1700000060,"60"]}]}`},
		{"1700000044.999", `n{h="a"}`, `{"resultType":"vector","result":[{"metric":{"__name__":"n","h":"a"},"value":[1700000044.999,"30"]}]}`},
		{"2023-11-14T22:14:20Z", `round(rate(n{h="a"}[1m]), 0.001)`, `{"resultType":"vector","result":[{"metric":{"h":"a"},"value":[1700000060,"1"]}]}`},
		{"1700000060", `sum_over_time(n{h="a"}[1m])`, `{"resultType":"vector","result":[{"metric":{"h":"a"},"value":[1700000060,"150"]}]}`},
		{"1700000060", `sum(n)`, `{"resultType":"vector","result":[{"metric":{},"value":[1700000060,"62"]}]}`},
		{"1700000060", `max by (h) (n) offset 1m`, ``},
		{"1700000060", `n{h="b"}[30s]`, `{"resultType":"matrix","result":[{"metric":{"__name__":"n","h":"b"},"values":[[1700000045,"4"],[1700000060,"2"]]}]}`},
		{"1700000060", `n offset 1m`, `{"resultType":"vector","result":[{"metric":{"__name__":"n","h":"a"},"value":[1700000060,"0"]},{"metric":{"__name__":"n","h":"b"},"value":[1700000060,"10"]}]}`},
		{"1700000060", `1 / 0`, `{"resultType":"scalar","result":[1700000060,"+Inf"]}`},
		{"1700000060", `"text"`, `{"resultType":"string","result":[1700000060,"text"]}`},
		{"1700000060", `nothing`, `{"resultType":"vector","result":[]}`},
		{"1700000060", `nothing[5m]`, `{"resultType":"matrix","result":[]}`},
		{"1700000361", `n`, `{"resultType":"vector","result":[]}`},
	} {
		if c.want == "" {
			s.get("query", "query", c.query, "time", c.at).is(400, `"errorType":"bad_data"`)
			continue
		}
		if got := s.get("query", "query", c.query, "time", c.at).data(); got != c.want {
			t.Errorf("%s at %s: %s, want %s", c.query, c.at, got, c.want)
		}
	}
	over := []string{"query", `n{h="a"}`, "start", "1700000010", "end", "1700000040", "step", "15"}
	const want = `{"resultType":"matrix","result":[{"metric":{"__name__":"n","h":"a"},"values":[[1700000010,"0"],[1700000025,"15"],[1700000040,"30"]]}]}`
	for _, step := range []string{"15", "15s", "15.0", "15000ms"} {
		over[7] = step
		if got := s.get("query_range", over...).data(); got != want {
			t.Errorf("step %s: %s", step, got)
		}
	}
	if got := s.ask("POST", "query_range", query(over), "Content-Type", "application/x-www-form-urlencoded").data(); got != want {
		t.Errorf("as a form: %s", got)
	}
	over[1] = "nothing"
	if got := s.get("query_range", over...).data(); got != `{"resultType":"matrix","result":[]}` {
		t.Errorf("nothing: %s", got)
	}
}

// TestErrors: errors have Prometheus's form.
func TestErrors(t *testing.T) {
	s := plain(t)
	s.write(of(values(1), "__name__", "n", "h", "a"), of(values(1), "__name__", "n", "h", "b")).is(204)
	const form = `"status":"error"`
	over := func(start, end, step string) []string {
		return []string{"query", "n", "start", start, "end", end, "step", step}
	}
	for _, params := range [][]string{over("", "2", "1"), over("1", "", "1"), over("2", "1", "1"), over("1", "2", ""), over("1", "2", "0"), over("1", "2", "-1"), over("1", "2", "NaN"),
		over("1", "2", "x"), over("x", "2", "1"), over("0", "11000", "1"), over("0001-01-02T00:00:00Z", "9999-01-01T00:00:00Z", "11d"), over("1", "2", "0.0001"), over("1", "1", "1e-9"), over("1", "2", "-Inf"), over("1", "2", "-1e300")} {
		s.get("query_range", params...).is(400, form, `"errorType":"bad_data"`)
	}
	s.get("query_range", over("0", "10999", "1")...).is(200)
	s.get("query", "query", "(").is(400, form, "bad_data", "parse error")
	s.get("query", "query", "").is(400, form, "bad_data")
	s.get("query", "query", "n", "time", "x").is(400, form, "bad_data")
	s.get("query", "query", "n + on() n", "time", "1700000000").is(422, form, `"errorType":"execution"`)
	s.get("series").is(400, form, "match[]")
	s.get("series", "match[]", "{").is(400, form, "bad_data")
	s.get("labels", "match[]", "{").is(400, form, "bad_data")
	s.get("label/h/values", "match[]", "n{").is(400, form, "bad_data")
	s.get("nothing").is(404)
	s.get("query/x").is(404)
	s.ask("DELETE", "query", "").is(405)
	s.ask("GET", "write", "").is(405)
	s.ask("POST", "query", "query="+strings.Repeat("1", MaxForm), "Content-Type", "application/x-www-form-urlencoded").is(400, form)
}

// TestLists: series, labels and their values.
func TestLists(t *testing.T) {
	s := plain(t)
	s.get("series", "match[]", "n").is(200, `"data":[]`)
	s.get("labels").is(200, `"data":[]`)
	s.write(of(values(1), "__name__", "n", "h", "a"), of(values(1), "__name__", "n", "h", "b", "z", "1"), of(values(1), "__name__", "m", "h", "c")).is(204)
	for _, c := range [][]string{
		{`[{"__name__":"n","h":"a"},{"__name__":"n","h":"b","z":"1"}]`, "series", "match[]", "n", "match[]", `n{h="a"}`},
		{`[{"__name__":"n","h":"a"}]`, "series", "match[]", "n", "limit", "1"},
		{`["__name__","h","z"]`, "labels"},
		{`["__name__","h","z"]`, "labels", "limit", "0"},
		{`["__name__"]`, "labels", "limit", "1"},
		{`["__name__","h"]`, "labels", "match[]", "m"},
		{`["a","b","c"]`, "label/h/values"},
		{`["a","c"]`, "label/h/values", "match[]", "m", "match[]", `n{z=""}`},
		{`["m","n"]`, "label/__name__/values"},
		{`[]`, "label/nothing/values"},
		{`{}`, "metadata"},
	} {
		if got := s.get(c[1], c[2:]...).data(); got != c[0] {
			t.Errorf("%v: %s", c[1:], got)
		}
	}
	for _, limit := range []string{"-1", "x", "1.5", "99999999999"} {
		s.get("series", "match[]", "n", "limit", limit).is(400, "the parameter limit")
		s.get("labels", "limit", limit).is(400, "the parameter limit")
	}
	s.get("status/buildinfo").is(200, `"version"`)
}

// TestWho: by default only superadmins may do anything, and keys need scopes.
func TestWho(t *testing.T) {
	s := open(t, series.Options{}, Options{}, series.Collection{Name: "c"})
	s.ask("GET", "query?query=1", "").is(403, "forbidden")
	s.ask("GET", "query?query=1", "", "User", "ann").is(403, "forbidden")
	s.ask("GET", "query?query=1", "", "User", "root").is(200)
	s.write(of(values(1), "__name__", "n")).is(403, "forbidden")
	s = plain(t)
	s.ask("GET", "query?query=1", "", "User", "ann", "Scope", "series:c:read").is(200)
	s.ask("GET", "query?query=1", "", "User", "ann", "Scope", "series:c:write").is(200)
	s.ask("GET", "query?query=1", "", "User", "ann", "Scope", "series:d:read").is(403, "lacks the scope")
	s.ask("POST", "write", "", "User", "ann", "Scope", "series:c:read").is(403, "lacks the scope")
}

// TestTurns: more queries than may run at once are sent away.
func TestTurns(t *testing.T) {
	s := plain(t)
	for range MaxQueries {
		s.face.turns <- struct{}{}
	}
	if r := s.get("query", "query", "1").is(429, `"errorType":"unavailable"`); r.Header().Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	<-s.face.turns
	s.get("query", "query", "1").is(200)
}

// TestStale: a marker of the end of a series keeps its bits, and ends the series.
func TestStale(t *testing.T) {
	s := plain(t)
	stale := math.Float64frombits(value.StaleNaN)
	s.write(of(values(1, stale, math.NaN()), "__name__", "n")).is(204)
	for at, want := range map[string]string{"1700000014": `"1"`, "1700000030": `"NaN"`} {
		s.get("query", "query", "n", "time", at).is(200, want)
	}
	s.get("query", "query", "n", "time", "1700000015").is(200, `"result":[]`)
	c, err := s.db.Collection("c")
	must(t, err)
	list, err := c.Select(t.Context(), series.Query{})
	must(t, err)
	if !value.IsStaleNaN(list[0].Values[1]) || value.IsStaleNaN(list[0].Values[2]) {
		t.Errorf("the samples are %x", math.Float64bits(list[0].Values[1]))
	}
}

// TestSameMillisecond: of samples within one millisecond the last counts.
func TestSameMillisecond(t *testing.T) {
	s := plain(t)
	c, err := s.db.Collection("c")
	must(t, err)
	l, err := series.NewLabels("n")
	must(t, err)
	ids, err := c.Define(t.Context(), []series.Labels{l})
	must(t, err)
	var b series.Batch
	for i, after := range []time.Duration{0, time.Millisecond, time.Millisecond + 1, 2*time.Millisecond - 1, 2 * time.Millisecond} {
		b.Add(ids[0], start.Add(after).UnixNano(), float64(i))
	}
	_, err = c.Append(t.Context(), &b)
	must(t, err)
	s.get("query", "query", "n[1s]", "time", "1700000000.002").is(200, `"values":[[1700000000,"0"],[1700000000.001,"3"],[1700000000.002,"4"]]`)
	s.get("query", "query", "n", "time", "1700000000.001").is(200, `"value":[1700000000.001,"3"]`)
}

// TestRemoteWrite: what is refused does not prevent the rest from being stored.
func TestRemoteWrite(t *testing.T) {
	s := open(t, series.Options{}, Options{Allow: func(*web.Context, string, bool) error { return nil }}, series.Collection{Name: "c", MaxSeries: 2, Ahead: time.Hour})
	good := of(values(1, 2), "h", "a", "__name__", "n")
	s.write(good).is(204)
	s.write().is(204)
	far := func(ms int64) prompb.TimeSeries {
		return of([]prompb.Sample{{Timestamp: ms, Value: 1}, {Timestamp: start.UnixMilli(), Value: 5}}, "__name__", "n", "h", "a")
	}
	h := of(nil, "__name__", "n", "h", "a")
	h.Histograms = make([]prompb.Histogram, 3)
	for i, c := range []struct {
		ts   prompb.TimeSeries
		n    int
		text string
	}{
		{of(values(1, 2), "__name__", "n", "h", "a", "h", "b"), 2, "comes twice"},
		{of(values(1, 2), "__name__", "n", "__name__", "m"), 2, "comes twice"},
		{of(values(1)), 1, "needs a name or a label"},
		{of(values(1), "__name__", "n", "h", "\xff"), 1, "UTF-8"},
		{of(values(1), "__name__", "n", "", "x"), 1, "no name"},
		{far(math.MaxInt64), 1, "out of range"},
		{far(math.MinInt64), 1, "out of range"},
		{far(time.Now().Add(2 * time.Hour).UnixMilli()), 1, "ahead"},
		{h, 3, "histograms"},
	} {
		other := of(values(float64(i)), "__name__", "other")
		s.write(c.ts, other).is(400, fmt.Sprintf("%d samples were refused", c.n), c.text, "series_partial")
		s.get("query", "query", "other", "time", "1700000000").is(200, fmt.Sprintf(`"%d"`, i))
	}
	s.write(of(values(1, 2), "__name__", "third"), good).is(400, "2 samples were refused", "as many as it may have")
	var v []any
	must(t, json.Unmarshal([]byte(s.get("series", "match[]", "{}", "match[]", `{__name__=~".*"}`).data()), &v))
	if len(v) != 2 {
		t.Errorf("there are %v", v)
	}

	const v2 = "application/x-protobuf;proto=io.prometheus.write.v2.Request"
	s.ask("POST", "write", "", "Content-Type", v2).is(415, "version 1")
	s.ask("POST", "write", "x").is(400, "Snappy")
	s.ask("POST", "write", string(snappy.Encode(nil, []byte("xxxxxxx")))).is(400, "WriteRequest")
	s.ask("POST", "write", "\xff\xff\xff\xff\x0f").is(413, "body_too_large")
}
