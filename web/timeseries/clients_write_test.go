package timeseries_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skerrydb/skerry/series"
	"github.com/skerrydb/skerry/web/timeseries"
)

// values are fields of all types, and the series that they become.
var values = map[string]any{"f": 0.1, "i": -3, "yes": true, "no": false, "text": `a "quoted, text`}

// TestClientTimes: values come back with exactly the time that was written, in each precision that a client offers.
func TestClientTimes(t *testing.T) {
	eachClient(t, func(t *testing.T, c client) {
		s := serve(t)
		at := time.Unix(start, 123_456_789)
		var writes []clientWrite
		for precision, unit := range c.precisions {
			own := point{Measurement: precision + "-own", Fields: map[string]any{"f": 1.5}, Nanos: fmt.Sprint(at.Truncate(unit).UnixNano()), Time: fmt.Sprint(at.UnixNano() / int64(unit))}
			date := point{Measurement: precision + "-date", Fields: map[string]any{"f": 2.5}, Date: at.UnixMilli()}
			number := point{Measurement: precision, Tags: map[string]string{"host": "a"}, Fields: values, Time: own.Time}
			writes = append(writes, clientWrite{token, "c", precision, []point{number, own, date}})
		}
		for i, r := range c.run(t, s.url, writes...) {
			if !r.OK || len(r.Failed) > 0 {
				t.Errorf("precision %s: %+v", writes[i].Precision, r)
			}
		}
		for precision, unit := range c.precisions {
			exact := at.Truncate(unit)
			for name, want := range map[string]string{"_f": "0.1", "_i": "-3", "_yes": "1", "_no": "0"} {
				s.has(precision+name, fmt.Sprintf(`{"__name__":"%s%s","host":"a"} [%s] [%s]`, precision, name, milliseconds(exact), want))
			}
			s.has(precision+"_text", "")
			s.has(precision+"-own_f", fmt.Sprintf(`{"__name__":"%s-own_f"} [%s] [1.5]`, precision, milliseconds(exact)))
			s.has(precision+"-date_f", fmt.Sprintf(`{"__name__":"%s-date_f"} [%s] [2.5]`, precision, milliseconds(at.Truncate(time.Millisecond).Truncate(unit))))
		}
	})
}

// milliseconds prints a time as responses have it.
func milliseconds(at time.Time) string {
	text := fmt.Sprintf("%d.%06d", at.UnixMilli(), at.Nanosecond()%1e6)
	return strings.TrimRight(strings.TrimRight(text, "0"), ".")
}

// TestClientNoTime: points without a time have that of their arrival.
func TestClientNoTime(t *testing.T) {
	eachClient(t, func(t *testing.T, c client) {
		s := serve(t)
		before := time.Now().UnixMilli()
		r := c.run(t, s.url, clientWrite{token, "c", "ms", []point{{Measurement: "m", Fields: map[string]any{"f": 1.5}}}})[0]
		after := time.Now().UnixMilli()
		_, rest, _ := strings.Cut(s.samples("match=m_f"), "[")
		text, _, _ := strings.Cut(rest, "]")
		if ms, err := strconv.ParseInt(text, 10, 64); !r.OK || err != nil || ms < before || ms > after {
			t.Errorf("%+v: the time is %s, between %d and %d", r, text, before, after)
		}
	})
}

// TestClientNames: names and tags with every character that lines give a meaning to, and beyond ASCII, come back as
// they were.
func TestClientNames(t *testing.T) {
	names := []struct{ measurement, key, value, field string }{
		{"plain", "host", "a", "f"},
		{"with space, comma", "rack no", "a b", "load avg"},
		{`"quoted" 'name'`, `"key"`, `say "hello", it's`, `"f"`},
		{"m", "a=b,c d", "x=y,z w", "p=q,r s"},
		{"Außen-Temperatur °C", "größe", "São Paulo 🚀", "値"},
		{`dir\sub`, `a\b`, `C:\Program Files\x`, `f\g`},
		{"no #comment", "_under", "#", "time-"},
	}
	const share = `\\server\c` // two backslashes are one: see package lineproto
	eachClient(t, func(t *testing.T, c client) {
		s := serve(t)
		points := []point{{Measurement: "share", Tags: map[string]string{"path": share}, Fields: map[string]any{"f": 1.5}, Time: fmt.Sprint(begin.UnixMilli())}}
		for i, n := range names {
			points = append(points, point{Measurement: n.measurement, Tags: map[string]string{n.key: n.value}, Fields: map[string]any{n.field: float64(i) + 0.5}, Time: fmt.Sprint(begin.UnixMilli())})
		}
		if r := c.run(t, s.url, clientWrite{token, "c", "ms", points})[0]; !r.OK {
			t.Fatalf("%+v", r)
		}
		for i, n := range names {
			name := n.measurement + "_" + n.field
			want := fmt.Sprintf("%s [%d] [%d.5]", object(map[string]string{"__name__": name, n.key: n.value}), begin.UnixMilli(), i)
			s.has(fmt.Sprintf("{__name__=%q}", name), want)
		}
		path := share[1:]
		if c.backslashes {
			path = share
		}
		s.has("share_f", fmt.Sprintf("%s [%d] [1.5]", object(map[string]string{"__name__": "share_f", "path": path}), begin.UnixMilli()))
	})
}

// TestClientPartial: of a batch that is refused in part, the client's error has the report with the refused lines, and
// the other lines are stored.
func TestClientPartial(t *testing.T) {
	eachClient(t, func(t *testing.T, c client) {
		s := serve(t)
		at := []string{"1700000000", "9000000000", "1700000001", "9100000000"} // the second and the last are in the future
		var points []point
		for i, sec := range at {
			points = append(points, point{Measurement: "m", Fields: map[string]any{"f": float64(i) + 0.5}, Time: sec})
		}
		r := c.run(t, s.url, clientWrite{token, "c", "s", points})[0]
		if r.OK || !slices.Equal(r.Failed, []int{400}) || !strings.Contains(r.Message, "partial write: refused 2 and stored 2 of the lines; line 2: ") {
			t.Errorf("%+v", r)
		}
		for _, text := range []string{`{"line":2,"code":"series_too_new","detail":"`, `{"line":4,"code":"series_too_new","detail":"`, `"code":"series_partial"`} {
			if !strings.Contains(r.Body, text) {
				t.Errorf("no %s in %s", text, r.Body)
			}
		}
		s.has("m_f", `{"__name__":"m_f"} [1700000000000,1700000001000] [0.5,2.5]`)
	})
}

// TestClientRefused: a wrong token and a collection that does not exist are refused, and the client's error says why.
func TestClientRefused(t *testing.T) {
	eachClient(t, func(t *testing.T, c client) {
		s := serve(t)
		points := []point{{Measurement: "m", Fields: map[string]any{"f": 1.5}, Time: fmt.Sprint(start)}}
		results := c.run(t, s.url, clientWrite{"wrong", "c", "s", points}, clientWrite{token, "nothing", "s", points}, clientWrite{token, "c", "s", points})
		for i, want := range []struct {
			status int
			text   string
		}{{401, "the password is wrong"}, {404, "series_no_collection"}} {
			r := results[i]
			if r.OK || !slices.Equal(r.Failed, []int{want.status}) || !strings.Contains(r.Message, want.text) || !strings.Contains(r.Message, fmt.Sprint(want.status)) {
				t.Errorf("want %d %s: %+v", want.status, want.text, r)
			}
		}
		if !results[2].OK {
			t.Errorf("the right token: %+v", results[2])
		}
		s.has("m_f", `{"__name__":"m_f"} [1700000000000] [1.5]`)
	})
}

// attempt is a write as the server of TestClientBusy sees it.
type attempt struct {
	coding     string
	status     int
	retryAfter string
}

// TestClientBusy: while a server is busy it refuses a write with 429 and Retry-After. The client of version 2 then tries
// again by itself; those of version 1 report the status. Bodies are compressed by those clients that can.
func TestClientBusy(t *testing.T) {
	eachClient(t, func(t *testing.T, c client) {
		site := open(t, series.Options{}, timeseries.Options{Allow: everyone}, series.Collection{Name: "c"})
		store, err := site.db.Collection("c")
		must(t, err)
		// Two series of which the server remembers only one at a time are forgotten each time that it reads the body.
		site.write("known f=1 1000000").is(204)
		site.face.Forget(store, 0)

		var mu sync.Mutex // guards attempts
		var attempts []attempt
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			recorded := httptest.NewRecorder()
			site.app.ServeHTTP(recorded, r)
			mu.Lock()
			attempts = append(attempts, attempt{r.Header.Get("Content-Encoding"), recorded.Code, recorded.Header().Get("Retry-After")})
			mu.Unlock()
			site.face.Forget(store, 100) // it was busy only for a moment
			for name, v := range recorded.Header() {
				w.Header()[name] = v
			}
			w.WriteHeader(recorded.Code)
			_, _ = w.Write(recorded.Body.Bytes())
		}))
		t.Cleanup(server.Close)

		points := []point{{Measurement: "known", Fields: map[string]any{"f": 1.5}, Time: fmt.Sprint(start)}, {Measurement: "new", Fields: map[string]any{"f": 2.5}, Time: fmt.Sprint(start)}}
		r := c.run(t, server.URL, clientWrite{token, "c", "s", points})[0]
		mu.Lock()
		defer mu.Unlock()
		want := []attempt{{c.coding, 429, "2"}}
		stored := ""
		if c.retries {
			want = append(want, attempt{c.coding, 204, ""})
			stored = `{"__name__":"new_f"} [1700000000000] [2.5]`
		} else if !strings.Contains(r.Message, "429") || !strings.Contains(r.Message, "series_busy") {
			t.Errorf("the error is %s", r.Message)
		}
		if r.OK != (stored != "") || !slices.Equal(r.Failed, []int{429}) || !slices.Equal(attempts, want) {
			t.Errorf("%+v, and the server saw %v, want %v", r, attempts, want)
		}
		site.has("new_f", stored)
	})
}

// has expects what samples returns.
func (s *server) has(match, want string) {
	s.t.Helper()
	if got := s.samples("match=" + url.QueryEscape(match)); got != want {
		s.t.Errorf("%s:\n%s\nwant\n%s", match, got, want)
	}
}
