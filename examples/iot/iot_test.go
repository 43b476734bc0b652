package iot_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/examples/iot"
	"github.com/skerrydb/skerry/examples/iot/simulate"
	"github.com/skerrydb/skerry/webtest"
)

const token = "a token of the factory"

func start(t *testing.T) *webtest.Site {
	t.Helper()
	return webtest.Start(t, skerry.Web{Name: "iot", Application: iot.Application(token)})
}

// write sends lines and returns the page that responds.
func write(t *testing.T, b *webtest.Browser, authorization, lines string) *webtest.Page {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.Site.URL+"/api/v2/write?bucket=factory&precision=s", strings.NewReader(lines))
	if err != nil {
		t.Fatal(err)
	}
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	return b.Do(r)
}

// line returns the line of a value that was measured some seconds ago.
func line(kind, sensor string, value float64, ago int64) string {
	return fmt.Sprintf("sensor,kind=%s,line=1,sensor=%s value=%g %d\n", kind, sensor, value, time.Now().Unix()-ago)
}

// TestPage renders the page without data, with data and with an alarm.
func TestPage(t *testing.T) {
	t.Parallel()
	b := start(t).Browser()
	b.Get("/").Expect(200, "No values have arrived yet.", "Temperature", "Vibration", "Nothing yet.").Lacks("<table")
	b.Get("/?kind=noise").Expect(400, "noise")

	write(t, b, "Token "+token, line("temperature", "t-2", 31.26, 5)+line("temperature", "t-1", 30, 5)+line("humidity", "h-1", 44, 5)).Expect(204)
	home := b.Get("/").Expect(200, "No alarms. 3 sensors report.", "30.0 to 31.3 °C", "2 of 2 sensors report", "None above 34.0 °C", "44.0 %")
	if rows := home.All("tbody tr"); len(rows) != 2 || !strings.Contains(rows[0].Text(), "t-1") {
		t.Errorf("%d rows", len(rows))
	}

	write(t, b, "Token "+token, line("temperature", "t-2", 35, 1)+line("temperature", `<b>`, 20, 1)).Expect(204)
	home = b.Get("/").Expect(200, "1 alarm. 4 sensors report.", "1 above 34.0 °C: the chocolate loses its temper", "Temperature of t-2", "&lt;b&gt;")
	if rows := home.All("tbody tr"); len(rows) != 3 || !strings.Contains(rows[0].Text(), "t-2") || !strings.Contains(rows[0].Text(), "Alarm") {
		t.Errorf("the alarm is not first of %d rows", len(rows))
	}
	b.Get("/?kind=humidity").Expect(200, "Humidity of h-1").Lacks("<th scope=\"row\"><a href=\"/?kind=humidity&amp;sensor=t-1")
	b.Get("/").Click("t-1").Expect(200, "Temperature of t-1")
}

// TestOldValues shows the values of an hour ago if there are no newer ones.
func TestOldValues(t *testing.T) {
	t.Parallel()
	b := start(t).Browser()
	write(t, b, "Token "+token, line("pressure", "p-1", 2.5, 30*60)).Expect(204)
	b.Get("/?kind=pressure").Expect(200, "1 sensor reports.", "2.5 bar")
	write(t, b, "Token "+token, line("pressure", "p-2", 2.6, 1)).Expect(204)
	b.Get("/?kind=pressure").Expect(200, "1 of 2 sensors report", "2.6 bar")
}

// TestAllow lets everyone read, and only those write who have the token.
func TestAllow(t *testing.T) {
	t.Parallel()
	one := line("pressure", "p-1", 2, 1)
	b := start(t).Browser()
	for _, authorization := range []string{"", "Token", "Token ", "Token wrong", "Basic " + token, token} {
		write(t, b, authorization, one).Expect(401, "IOT_TOKEN")
	}
	b.Get("/series/factory/latest").Expect(200, `"series":[]`)
	write(t, b, "token "+token, one).Expect(204)
	b.Get("/series/factory/latest").Expect(200, `"sensor":"p-1"`)

	closed := webtest.Start(t, skerry.Web{Application: iot.Application("")}).Browser()
	write(t, closed, "Token ", one).Expect(403, "IOT_TOKEN")
	debug := webtest.Start(t, skerry.Web{Debug: true, Application: iot.Application("")}).Browser()
	write(t, debug, "", one).Expect(204)
}

// TestSimulate checks that queries return every value that was acknowledged, and that a seed makes the values.
func TestSimulate(t *testing.T) {
	t.Parallel()
	const sensors, seconds = 12, 60
	values := map[uint64]string{}
	for _, seed := range []uint64{7, 7, 8} {
		site := start(t)
		b := site.Browser()
		batches := 0
		done, err := simulate.Run(t.Context(), simulate.Options{
			URL: site.URL, Token: token, Sensors: sensors, Duration: seconds * time.Second, Speedup: 1e6, Seed: seed, Client: b.Client,
			Progress: func(simulate.Outcome, time.Duration) { batches++ },
		})
		if err != nil || done.Complete() != nil || done.Acknowledged != sensors*seconds || batches != 6 {
			t.Fatalf("%v, %v, %d batches", done, err, batches)
		}
		got := stored(t, b)
		if n := strings.Count(got, " "); n != sensors*seconds {
			t.Errorf("%d values of %d are returned", n, sensors*seconds)
		}
		if before, ok := values[seed]; ok && before != got {
			t.Errorf("the seed %d made other values:\n%s\n%s", seed, before, got)
		}
		values[seed] = got
		b.Get("/").Expect(200, "12 sensors report.", "temperature-0003")
	}
	if values[7] == values[8] {
		t.Error("the seed makes no difference")
	}
}

// stored returns the values of all sensors.
func stored(t *testing.T, b *webtest.Browser) string {
	t.Helper()
	var got struct {
		Series []struct {
			Labels map[string]string
			Values []float64
		}
	}
	if err := json.Unmarshal([]byte(b.Get("/series/factory?match="+iot.Metric).Expect(200).Body), &got); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, s := range got.Series {
		text.WriteString("\n" + s.Labels["sensor"])
		for _, v := range s.Values {
			fmt.Fprintf(&text, " %g", v)
		}
	}
	return text.String()
}
