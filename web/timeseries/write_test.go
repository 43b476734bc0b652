package timeseries_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerrydb/skerry/series"
	"github.com/skerrydb/skerry/web/timeseries"
)

func zipped(t testing.TB, body string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write([]byte(body))
	must(t, err)
	must(t, z.Close())
	return b.String()
}

// TestKinds: each kind of field becomes a number of a series of its own, and strings are left out.
func TestKinds(t *testing.T) {
	s := plain(t)
	r := s.write(`m,host=a f=1.5,i=-3i,u=7u,yes=true,no=F,text="x y" 1700000000000000000`).is(204)
	if got := r.Header().Get("X-Skerry-Skipped-Strings"); got != "1" {
		t.Errorf("%q strings were skipped, want 1", got)
	}
	if has := r.Header().Get("X-Skerry-Position") != ""; has != s.Positions {
		t.Errorf("there is a position: %t", has)
	}
	for name, want := range map[string]string{"m_f": "1.5", "m_i": "-3", "m_u": "7", "m_yes": "1", "m_no": "0"} {
		s.has(name, `{"__name__":"`+name+`","host":"a"} [1700000000000] [`+want+`]`)
	}
	s.has("m_text", "")

	r = s.write("m text=\"only\"\n\n# a comment\n").is(204)
	if got := r.Header().Get("X-Skerry-Skipped-Strings"); got != "1" {
		t.Errorf("%q strings were skipped, want 1", got)
	}
	if h := s.write("m f=1 1700000000000000000").is(204).Header(); h.Get("X-Skerry-Skipped-Strings") != "" {
		t.Error("strings were skipped that are not there")
	}
	s.write("").is(204)
}

// TestPrecision: both versions, with all their precisions.
func TestPrecision(t *testing.T) {
	s := plain(t)
	n := 0
	for path, precisions := range map[string]map[string]time.Duration{
		"/write?db=c":            {"": 1, "n": 1, "ns": 1, "u": 1e3, "us": 1e3, "µ": 1e3, "ms": 1e6, "s": 1e9, "m": time.Minute, "h": time.Hour},
		"/api/v2/write?bucket=c": {"": 1, "ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9},
	} {
		for precision, each := range precisions {
			n++
			at := begin.Truncate(time.Hour)
			s.ask("POST", path+"&precision="+precision, fmt.Sprintf("p%d f=1 %d", n, at.UnixNano()/int64(each))).is(204)
			s.has(fmt.Sprintf("p%d_f", n), fmt.Sprintf(`{"__name__":"p%d_f"} [%d] [1]`, n, at.UnixMilli()))
		}
		s.ask("POST", path+"&precision=day", "p f=1 1").is(400, `"code":"invalid"`, `"detail":"the precision`, `"message":"the precision`, `"error":"the precision`)
	}
	s.ask("POST", "/api/v2/write?bucket=c&precision=m", "p f=1 1").is(400, "precision")
	s.ask("POST", "/write?db=c&precision=h", "p f=1 9999999999999999").is(400, `"line":1`)
	s.has("p_f", "")
}

// TestNoTime: lines without a time have that of their arrival, in the precision of the request.
func TestNoTime(t *testing.T) {
	s := plain(t)
	before := time.Now()
	s.ask("POST", "/api/v2/write?bucket=c&precision=s", "m f=1\nm g=2").is(204)
	s.write("m h=3").is(204)
	var times []int64
	for _, name := range []string{"m_f", "m_g", "m_h"} {
		text := s.samples("match=" + name)
		_, rest, _ := strings.Cut(text, "[")
		text, _, _ = strings.Cut(rest, "]")
		ms, err := strconv.ParseFloat(text, 64)
		must(t, err)
		times = append(times, int64(ms))
	}
	if times[0] != times[1] || times[0]%1000 != 0 || times[0] < before.Unix()*1000 {
		t.Errorf("the times are %v, after %v", times, before)
	}
	if times[2] < before.UnixMilli() || times[2] > time.Now().UnixMilli() {
		t.Errorf("the time is %d, after %v", times[2], before)
	}
}

// TestHalfBroken: every line that can be stored is, the others are listed, and nothing of them is stored.
func TestHalfBroken(t *testing.T) {
	s := open(t, series.Options{}, timeseries.Options{Allow: everyone}, series.Collection{Name: "c", Window: 48 * time.Hour, Ahead: time.Hour})
	at := time.Now().Truncate(time.Second)
	ns := at.UnixNano()
	bad := []struct{ line, code, detail string }{
		{"m", "invalid", "no fields"},
		{fmt.Sprintf("m,a=1,a=2 f=1 %d", ns), "invalid", "twice"},
		{fmt.Sprintf("m,__name__=x f=1 %d", ns), "series_labels", "twice"},
		{fmt.Sprintf("m new1=1,f=NaN %d", ns), "invalid", "byte"},
		{fmt.Sprintf("m new2=1,f=+Inf %d", ns), "invalid", "byte"},
		{fmt.Sprintf("m new3=1,f=1e999 %d", ns), "invalid", "byte"},
		{fmt.Sprintf("m new4=1,f=9223372036854775808i %d", ns), "invalid", "byte"},
		{"m new5=1,f= 1", "invalid", "byte"},
		{"m new6=1 12x", "invalid", "timestamp"},
		{fmt.Sprintf("m new7=1 %d", at.Add(-49*time.Hour).UnixNano()), "series_too_old", "oldest"},
		{fmt.Sprintf("m new8=1 %d", at.Add(2*time.Hour).UnixNano()), "series_too_new", "ahead"},
		{"m new9=1 9223372036854775808", "invalid", "timestamp"},
		{fmt.Sprintf("m,t=%s f=1 %d", strings.Repeat("x", 3000), ns), "series_labels", "3000"},
		{"m," + strings.Repeat("x", 1<<20) + "=1 f=1", "invalid", "more than 65536 bytes"},
		{fmt.Sprintf("m,\xff=1 f=1 %d", ns), "series_labels", "UTF-8"},
	}
	var body strings.Builder
	for i, b := range bad {
		fmt.Fprintf(&body, "m,n=%d f=%d %d\n%s\n", i, i, ns, b.line)
	}
	for range 2 { // once all series are new, once none
		r := s.write(body.String()).is(400)
		p := r.partial()
		if p.Status != 400 || p.Code != "series_partial" || p.Refused != len(bad) || p.Stored != len(bad) || len(p.Errors) != len(bad) || p.Message == "" || p.Message != p.Error {
			t.Fatalf("the report is %.2000s", r.Body)
		}
		if !strings.Contains(p.Message, "line 2:") {
			t.Errorf("the message is %s", p.Message)
		}
		for i, e := range p.Errors {
			if e.Line != 2*i+2 || e.Code != bad[i].code || !strings.Contains(e.Detail, bad[i].detail) {
				t.Errorf("line %d %.80s: %+v", 2*i+2, bad[i].line, e)
			}
		}
		for i := range bad {
			s.has(fmt.Sprintf(`m_f{n="%d"}`, i), fmt.Sprintf(`{"__name__":"m_f","n":"%d"} [%d] [%d]`, i, ns/1e6, i))
		}
		s.has(`{__name__=~"m_.*",n=""}`, "")
	}
	s.ask("GET", "/series/c/labels?label=__name__", "").is(200, `{"labels":["m_f"]}`)
}

// TestManyBroken: a report lists the first faults and counts all.
func TestManyBroken(t *testing.T) {
	s := plain(t)
	p := s.write(strings.Repeat("x\n", 1000) + "m f=1 1\n").is(400).partial()
	if p.Refused != 1000 || p.Stored != 1 || len(p.Errors) != timeseries.MaxReported {
		t.Errorf("refused %d, stored %d, listed %d", p.Refused, p.Stored, len(p.Errors))
	}
}

// TestCardinality: lines of new series are refused when there is no room, others are not.
func TestCardinality(t *testing.T) {
	s := open(t, series.Options{}, timeseries.Options{Allow: everyone}, series.Collection{Name: "c", MaxSeries: 3})
	s.write("m a=1,b=2 1000000").is(204)
	r := s.write("m a=3 2000000\nm c=4,d=5 2000000\nm b=6 2000000\nm c=7 3000000\nm d=8 3000000").is(400, "series_too_many")
	if p := r.partial(); p.Refused != 2 || p.Stored != 3 || p.Errors[0].Line != 2 || p.Errors[1].Line != 5 || p.Errors[0].Code != "series_too_many" {
		t.Errorf("the report is %s", r.Body)
	}
	s.has("m_a", `{"__name__":"m_a"} [1,2] [1,3]`)
	s.has("m_b", `{"__name__":"m_b"} [1,2] [2,6]`)
	s.has("m_c", `{"__name__":"m_c"} [3] [7]`)
	s.write("m a=9 4000000").is(204)
}

// TestOrder: of two values of one time the later one counts, also if the series is new, and if other series in between
// are.
func TestOrder(t *testing.T) {
	s := plain(t)
	s.write("m f=1 1000000\nm f=2 1000000\nm f=3,f=4 1000000").is(204)
	s.has("m_f", `{"__name__":"m_f"} [1] [4]`)
	s.write("m f=5 1000000\nn f=1 1000000\nm f=6 1000000\nn f=2 1000000").is(204)
	s.has("m_f", `{"__name__":"m_f"} [1] [6]`)
	s.has("n_f", `{"__name__":"n_f"} [1] [2]`)
	s.write("k,a=1,b=2 f=1 1000000\nk,b=2,a=1 f=2 1000000").is(204)
	s.has("k_f", `{"__name__":"k_f","a":"1","b":"2"} [1] [2]`)
	s.write("k,b=2,a=1 f=3 1000000\nk,a=1,b=2 f=4 1000000").is(204)
	s.has("k_f", `{"__name__":"k_f","a":"1","b":"2"} [1] [4]`)
}

// TestMovingBounds: lines that become too old while their request is handled are stored.
func TestMovingBounds(t *testing.T) {
	var late atomic.Bool
	now := func() time.Time { // is later from the second call on
		if late.Swap(true) {
			return begin.Add(5 * time.Second)
		}
		return begin
	}
	for _, lines := range []int{1, 100} {
		s := open(t, series.Options{Now: now}, timeseries.Options{Allow: everyone}, series.Collection{Name: "c", Window: time.Hour})
		first := begin.Add(-time.Hour)
		s.write(fmt.Sprintf("m f=1 %d", begin.UnixNano())).is(204)
		var body strings.Builder
		for i := range lines {
			fmt.Fprintf(&body, "m f=%d %d\n", i, first.Add(time.Duration(i)*time.Second).UnixNano())
		}
		late.Store(false)
		s.write(body.String()).is(204)
	}
}

// TestNoLongerTooNew: a line may become acceptable while its request is handled.
func TestNoLongerTooNew(t *testing.T) {
	var late atomic.Bool
	now := func() time.Time {
		if late.Swap(true) {
			return begin.Add(time.Minute)
		}
		return begin
	}
	s := open(t, series.Options{Now: now}, timeseries.Options{Allow: everyone}, series.Collection{Name: "c", Ahead: time.Minute})
	s.write(fmt.Sprintf("m f=1 %d", begin.UnixNano())).is(204)
	late.Store(false)
	s.write(fmt.Sprintf("m f=2 %d", begin.Add(90*time.Second).UnixNano())).is(204)
	s.has("m_f", fmt.Sprintf(`{"__name__":"m_f"} [%d,%d] [1,2]`, begin.UnixMilli(), begin.UnixMilli()+90_000))
}

// TestForgotten: lines whose series are forgotten, while those of other lines are defined, are stored.
func TestForgotten(t *testing.T) {
	s := plain(t)
	c, err := s.db.Collection("c")
	must(t, err)
	s.face.Forget(c, 2)
	var body strings.Builder
	for i := range 5 {
		fmt.Fprintf(&body, "m%d f=%d 1000000\n", i, i)
		s.write(body.String()).is(204)
	}
	for i := range 5 {
		body.Reset()
		for j := range i + 1 {
			fmt.Fprintf(&body, "m%d f=%d %d000000\n", j, i, i+2)
		}
		fmt.Fprintf(&body, "n%d f=1 1000000\n", i)
		s.write(body.String()).is(204)
		for j := range i + 1 {
			if got := s.samples(fmt.Sprintf("match=m%d_f&from=%g", j, float64(i+2)/1000)); !strings.HasSuffix(got, fmt.Sprintf("[%d] [%d]", i+2, i)) {
				t.Errorf("series %d after write %d has %s", j, i, got)
			}
		}
	}
}

// TestBodies: what a body may be.
func TestBodies(t *testing.T) {
	s := plain(t)
	const line = "m f=1 1000000\n"
	s.write(zipped(t, line), "Content-Encoding", "gzip").is(204)
	s.write(line, "Content-Encoding", "identity").is(204)
	s.has("m_f", `{"__name__":"m_f"} [1] [1]`)
	for _, coding := range []string{"deflate", "br", "zstd", "gzip, gzip"} {
		s.write(line, "Content-Encoding", coding).is(400, "Content-Encoding")
	}
	s.write(line, "Content-Encoding", "gzip").is(400, "not gzip")
	whole := zipped(t, "new f=1 1\n")
	s.write(whole[:len(whole)-5], "Content-Encoding", "gzip").is(400, "not whole gzip")
	s.has("new_f", "")

	bomb := zipped(t, strings.Repeat(" ", timeseries.MaxBody+1))
	s.write(bomb, "Content-Encoding", "gzip").is(http.StatusRequestEntityTooLarge, "body_too_large")
	if testing.Short() {
		return
	}
	s.write(zipped(t, strings.Repeat(" ", timeseries.MaxBody-20)+"\nlong f=1 1"), "Content-Encoding", "gzip").is(204)
	s.write(strings.Repeat("#", timeseries.MaxBody+1)).is(http.StatusRequestEntityTooLarge, "body_too_large")
}

// TestWho: who may read and write what.
func TestWho(t *testing.T) {
	s := open(t, series.Options{}, timeseries.Options{}, series.Collection{Name: "c"}, series.Collection{Name: "d"})
	const line = "m f=1 1000000"
	root := []string{"User", "root"}
	s.write(line).is(401, "unauthenticated")
	s.write(line, "User", "ann").is(403, "forbidden")
	s.write(line, root...).is(204)
	for _, path := range []string{"/series/c", "/series/c/latest", "/series/c/labels", "/series/c/live"} {
		s.ask("GET", path, "").is(401)
		s.ask("GET", path, "", "User", "ann").is(403)
	}
	s.ask("GET", "/series/c", "", root...).is(200)
	s.ask("GET", "/series", "").is(200, `{"collections":[]}`)
	s.ask("GET", "/series", "", root...).is(200, `"name":"c","series":1`, `"name":"d"`)

	s.ask("POST", "/write?db=x", line, root...).is(404, "series_no_collection", "there are: c, d")
	s.ask("POST", "/write", line, root...).is(400, "the parameter db")
	s.ask("GET", "/series/x", "", root...).is(404, "series_no_collection")
	s.ask("GET", "/write", "", root...).is(405)
}

// TestScopes: an API key needs a scope for what it does.
func TestScopes(t *testing.T) {
	s := open(t, series.Options{}, timeseries.Options{Allow: everyone}, series.Collection{Name: "c"}, series.Collection{Name: "d"})
	const line = "m f=1 1000000"
	for scopes, may := range map[string][2]int{
		"":                       {403, 403},
		"series:c:write":         {204, 200},
		"series:c:read":          {403, 200},
		"series:d:write":         {403, 403},
		"series:d:read series:c": {403, 403},
	} {
		s.write(line, "User", "ann", "Scopes", scopes).is(may[0])
		s.ask("GET", "/series/c", "", "User", "ann", "Scopes", scopes).is(may[1])
	}
	s.ask("GET", "/series", "", "User", "ann", "Scopes", "series:d:read").is(200, `"name":"d"`)
	if r := s.ask("GET", "/series", "", "User", "ann", "Scopes", "series:d:read"); strings.Contains(r.Body.String(), `"c"`) {
		t.Errorf("it lists %s", r.Body)
	}
}
