package timeseries_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/series"
	"github.com/skerrydb/skerry/web/timeseries"
)

// TestMatch: all operators.
func TestMatch(t *testing.T) {
	s := plain(t)
	for i, labels := range []string{"", ",h=a", ",h=b", ",h=ab", ",h=a,z=1"} {
		s.write(fmt.Sprintf("m%s f=%d 1000000", labels, i)).is(204)
	}
	for match, want := range map[string]string{
		`m_f`:                  "0 1 2 3 4",
		`m_f{}`:                "0 1 2 3 4",
		`{}`:                   "0 1 2 3 4",
		`{__name__="m_f"}`:     "0 1 2 3 4",
		`m_f{h="a"}`:           "1 4",
		`m_f{h!="a"}`:          "0 2 3",
		`m_f{h=""}`:            "0",
		`m_f{h!=""}`:           "1 2 3 4",
		`m_f{h=~"a|b"}`:        "1 2 4",
		`m_f{h=~"a.*"}`:        "1 3 4",
		`m_f{h=~"a"}`:          "1 4",
		`m_f{h!~"a.*"}`:        "0 2",
		`m_f{h!~"a|b"}`:        "0 3",
		`m_f{h=~".*"}`:         "0 1 2 3 4",
		`m_f{h=~".+",z=""}`:    "1 2 3",
		"m_f{h='a',z=`1`}":     "4",
		` { h = "b" , } `:      "2",
		`x`:                    "",
		`{h="nobody"}`:         "",
		`{nothing=""}`:         "0 1 2 3 4",
		`m_f{h=~"(?i)A",z=""}`: "1",
	} {
		r := s.ask("GET", "/series/c?match="+url.QueryEscape(match), "").is(200)
		var v struct{ Series []struct{ Values []int } }
		must(t, json.Unmarshal(r.Body.Bytes(), &v))
		var got []string
		for _, x := range v.Series {
			got = append(got, fmt.Sprint(x.Values[0]))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s selects %v, want %s", match, got, want)
		}
	}
	for _, match := range []string{`m_f{`, `m_f}`, `{h}`, `{h="a"`, `{h=a}`, `{h=~"("}`, `{h=="a"}`, `{h="a" z="1"}`, `{h='a}`, `1`, `m_f x`, `{="a"}`, `{h=~"` + strings.Repeat("a", 5000) + `"}`} {
		s.ask("GET", "/series/c?match="+url.QueryEscape(match), "").is(400, "series_matcher")
	}
	s.ask("GET", "/series/c?match="+url.QueryEscape(`{`+strings.Repeat(`h="a",`, 100)+`}`), "").is(400, `"code":"limit"`)
	s.ask("GET", "/series/c?match="+strings.Repeat("a", timeseries.MaxTermBytes+1), "").is(400, `"code":"limit"`)
}

// TestTimes: from and to are included, and may be written in several ways.
func TestTimes(t *testing.T) {
	s := plain(t)
	for i := range 10 {
		s.write(fmt.Sprintf("m f=%d %d", i, begin.Add(time.Duration(i)*time.Second).UnixNano())).is(204)
	}
	for query, want := range map[string]string{
		"":                                   "0,1,2,3,4,5,6,7,8,9",
		"from=1700000003":                    "3,4,5,6,7,8,9",
		"from=1700000003.5&to=1.700000006e9": "4,5,6",
		"to=2023-11-14T22:13:21Z":            "0,1",
		"from=2023-11-14T22:13:21.999999999Z&to=2023-11-14T23:13:22%2B01:00": "2",
		"from=-50000d": "0,1,2,3,4,5,6,7,8,9",
		"to=-1w":       "0,1,2,3,4,5,6,7,8,9",
		"to=now":       "0,1,2,3,4,5,6,7,8,9",
		"from=-1h":     "",
		"to=-5":        "",
	} {
		got := s.samples(query)
		_, got, _ = strings.Cut(got, "] [")
		if strings.TrimSuffix(got, "]") != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	for _, query := range []string{"from=x", "from=NaN", "to=1e300", "from=-NaNd", "from=-Infd", "from=--1d", "from=-99999999w", "from=2&to=1", "step=0s", "step=-1m", "step=x", "step=NaNd", "agg=avg", "step=1m&agg=", "step=1m&agg=nope", "step=1m&agg=p101", "step=1m&agg=pNaN", "position=x", "match=a&match=b",
		"step=1m&agg=" + strings.Repeat("avg,", 20) + "avg"} {
		if query == "step=1m&agg=" { // the average
			s.ask("GET", "/series/c?"+query, "").is(200, `"avg"`)
			continue
		}
		s.ask("GET", "/series/c?"+query, "").is(400)
	}
}

// TestForms: how times and values are written.
func TestForms(t *testing.T) {
	s := plain(t)
	c, err := s.db.Collection("c")
	must(t, err)
	l, err := series.NewLabels("odd", series.Label{Name: `a"b`, Value: "\n<é"})
	must(t, err)
	ids, err := c.Define(t.Context(), []series.Labels{l})
	must(t, err)
	var b series.Batch
	for i, v := range oddValues {
		b.Add(ids[0], int64(i)*1_000_001-2_000_002, v)
	}
	pos, err := c.Append(t.Context(), &b)
	must(t, err)
	const times = `[-2.000002,-1.000001,0,1.000001,2.000002,3.000003,4.000004]`
	s.ask("GET", fmt.Sprintf("/series/c?match=odd&position=%d", pos), "").is(200,
		`{"collection":"c","series":[{"labels":{"__name__":"odd","a\"b":"\n\u003cé"},"times":`+times+`,"values":["NaN","+Inf","-Inf",-0,1e+300,0.1,999999999999999]}]}`)
	s.ask("GET", "/series/c?match=odd&from=0&to=0.001", "").is(200, `"times":[0],"values":["-Inf"]`)
	s.ask("GET", "/series/c/latest?match=odd", "").is(200, `"series":[]`)
	s.ask("GET", "/series/c/latest?match=odd&since=40000d", "").is(200, `"times":[4.000004],"values":[999999999999999]`)
	s.ask("GET", "/series/c?match=odd&step=1h&agg=min,max,count", "").is(200, `"times":[-3600000,0],"min":["+Inf","-Inf"],"max":["+Inf",1e+300],"count":[1,5]`)
	if r := s.ask("HEAD", "/series/c?match=odd", "").is(200); r.Header().Get("Content-Type") != "application/json" {
		t.Errorf("the type is %s", r.Header().Get("Content-Type"))
	}
}

// TestSteps: aggregates of windows.
func TestSteps(t *testing.T) {
	s := plain(t)
	for i, v := range []int{4, 1, 3, 2, 10} {
		s.write(fmt.Sprintf("m f=%d %d", v, begin.Add(time.Duration(i)*15*time.Second).UnixNano())).is(204)
	}
	const first, second = start*1000 - 20_000, start*1000 + 40_000 // of the minutes
	s.ask("GET", "/series/c?step=1m&agg=count,sum,avg,min,max,first,last,p50,p0,p100,p25", "").is(200, fmt.Sprintf(`"times":[%d,%d],`, first, second),
		`"count":[3,2],"sum":[8,12],"avg":[2.6666666666666665,6],"min":[1,2],"max":[4,10],"first":[4,2],"last":[3,10],"p50":[3,6],"p0":[1,2],"p100":[4,10],"p25":[2,4]`)
	s.ask("GET", "/series/c?step=60s", "").is(200, `"avg":[2.6666666666666665,6]`)
	s.ask("GET", "/series/c?step=1d&agg=p12.5", "").is(200, `"p12.5":[1.5]`)
	s.ask("GET", "/series/c?step=1ns&agg=sum", "").is(200, `"sum":[4,1,3,2,10]`)
	var body strings.Builder
	for i := range series.MaxWindows + 1 {
		fmt.Fprintf(&body, "long f=1 %d\n", i)
	}
	s.write(body.String()).is(204)
	s.ask("GET", "/series/c?match=long_f&step=1ns", "").is(413, "series_query_limit")
	s.ask("GET", "/series/c?match=long_f&step=2ns", "").is(200)
}

// TestLabels: their names and values.
func TestLabels(t *testing.T) {
	s := plain(t)
	s.ask("GET", "/series/c/labels", "").is(200, `{"labels":[]}`)
	s.write("m,h=b,z=1 f=1 1000000\nm,h=a f=1,g=2 1000000").is(204)
	for query, want := range map[string]string{
		"":                                `["__name__","h","z"]`,
		"match=m_g":                       `["__name__","h"]`,
		"label=h":                         `["a","b"]`,
		"label=h&match=%7Bz%3D%221%22%7D": `["b"]`,
		"label=nothing":                   `[]`,
		"match=x":                         `[]`,
	} {
		s.ask("GET", "/series/c/labels?"+query, "").is(200, `{"labels":`+want+`}`)
	}
	s.ask("GET", "/series/c/labels?match=%7B", "").is(400, "series_matcher")
}

// TestUnknownPaths: what there is not.
func TestUnknownPaths(t *testing.T) {
	s := plain(t)
	for _, path := range []string{"/series/", "/series/c/x", "/series/c/latest/x", "/api/v2/query"} {
		s.ask("GET", path, "").is(404)
	}
	s.ask("GET", "/series/x", "").is(404, "series_no_collection")
}
