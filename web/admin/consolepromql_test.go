package admin_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/examples/browsertest"
	"github.com/skerrydb/skerry/series"
	"github.com/skerrydb/skerry/web/api"
	"github.com/skerrydb/skerry/web/prometheus"
)

// startPromQL runs a server with an hour of samples, and PromQL as cmd/skerry has it.
func startPromQL(t *testing.T) (*world, *skerry.Services) {
	t.Helper()
	w, s := startLive(t, skerry.Options{Series: []series.Collection{{Name: "plant"}, {Name: "wide"}}, OperatorRoutes: func(s *skerry.Services) []api.Route {
		s.PromQL = prometheus.New(s.Series, slog.New(slog.DiscardHandler))
		return nil
	}})
	addLiveSamples(t, s, "plant", 4)
	return w, s
}

// TestConsolePromQL: expressions are evaluated once or over a range, and mistakes have their place.
func TestConsolePromQL(t *testing.T) {
	t.Parallel()
	w, _ := startPromQL(t)
	c := w.anna()
	c.get("/admin/console").expect(200, "PromQL", ">plant</option>", "7 days")
	c.get(consoleAt("promql", "temperature", "series", "plant")).expect(200, "temperature{room=&#34;a&#34;}", "4 rows", "How it was found", "4 series match", "selector → vector: temperature", "4 series and 4 samples were read").lacks("id=\"plot\"")
	c.get(consoleAt("promql", "odd", "series", "plant")).expect(200, "1 rows").lacks("<script>alert")
	c.get(consoleAt("promql", "1 + 1", "series", "plant")).expect(200, "<td class=\"cell\">2</td>")
	c.get(consoleAt("promql", "-1 / 0", "series", "plant")).expect(200, "-Inf")
	c.get(consoleAt("promql", "1e30 * 10", "series", "plant")).expect(200, "1e&#43;31")
	c.get(consoleAt("promql", `"<b>"`, "series", "plant")).expect(200, "&lt;b&gt;").lacks("<b>\"")
	c.get(consoleAt("promql", `temperature{room="a"}[2m]`, "series", "plant")).expect(200, " rows in", "<td class=\"cell\">temperature{room=&#34;a&#34;}</td>")
	c.get(consoleAt("promql", "nothing", "series", "plant")).expect(200, "There is no result", "0 series match")
	c.get(consoleAt("promql", "temperature", "series", "plant", "as", "json")).expect(200, "&#34;series&#34;: &#34;temperature{room=\\&#34;a\\&#34;}&#34;")
	c.get(consoleAt("promql", "avg by (room) (temperature)", "series", "plant", "range", "15m")).expect(200, "id=\"plot\"", "{room=&#34;a&#34;}", "\"names\":", "181 rows")
	c.get(consoleAt("promql", "temperature / 0", "series", "plant", "range", "15m", "step", "5m")).expect(200, "&#43;Inf", "null", "4 rows")
	c.get(consoleAt("promql", "rate(temperature[5m])", "series", "plant", "range", "1h")).expect(200, "might not be a counter")
	c.get(consoleAt("promql", "temperature", "series", "plant", "range", "1h", "as", "json")).expect(200, "<pre", "&#34;time&#34;: ")
	c.get(consoleAt("promql", "temperature", "series", "plant", "from", "2001-01-01", "until", "2001-01-02")).expect(200, "There is no result")
	c.get(consoleAt("promql", "temperature", "series", "plant", "until", "2001-01-02")).expect(200, "There is no result", "2001-01-02 00:00:00 UTC")
	for text, mark := range map[string]string{"temperature + ": "temperature &#43; \n              ^", "rate(temperature)": "rate(temperature)\n     ^", "nosuch(1)": "nosuch(1)\n^", "temperature{room=~\"(\"}": "            ^", "1 +\n2 )": "2 )\n  ^"} {
		c.get(consoleAt("promql", text, "series", "plant")).expect(422, mark)
		c.get(consoleAt("promql", text, "series", "plant", "explain", "1")).expect(422, mark)
		c.get(consoleAt("promql", text, "series", "plant", "range", "1h")).expect(422, mark)
	}
	for want, fields := range map[string][]string{
		"choose a collection": {}, "nosuch": {"series", "nosuch"}, "nothing to run": {"series", "plant", "text", " "}, "the range must be a time": {"series", "plant", "range", "<x>"}, "range must end after": {"series", "plant", "from", "2031-01-01", "until", "2030-01-01"},
		"the step must be": {"series", "plant", "range", "1h", "step", "0s"}, "steps are too many": {"series", "plant", "range", "24h", "step", "1s"}, "the end must be a time": {"series", "plant", "until", "<b>"}, "the beginning must be": {"series", "plant", "from", "soon"},
	} {
		c.get(consoleAt("promql", "temperature", fields...)).expect(422, want)
	}
	c.get(consoleAt("promql", "sum(rate(temperature[5m]))", "series", "plant", "explain", "1")).expect(200, "This was not run", "aggregation sum → vector", "  function rate → vector", "selector → matrix", "4 series match").lacks("were read")
	c.get(consoleAt("promql", "temperature + on() temperature", "series", "plant")).expect(422, "many-to-many")
	w.liveViewer().get(consoleAt("promql", "temperature", "series", "plant")).expect(200, "4 rows")
	c.post("/admin/console", "run", "1", "lang", "promql", "text", "temperature", "series", "plant", "write", "1").expect(200, "4 rows")
}

// TestConsolePromQLMany: a result that is larger than a page is cut, and says so.
func TestConsolePromQLMany(t *testing.T) {
	t.Parallel()
	w, s := startPromQL(t)
	st, err := s.Series.Collection("wide")
	if err != nil {
		t.Fatal(err)
	}
	var labels []series.Labels
	for i := range 250 {
		l, err := series.NewLabels("n", series.Label{Name: "i", Value: fmt.Sprintf("%03d", i)})
		if err != nil {
			t.Fatal(err)
		}
		labels = append(labels, l)
	}
	ids, err := st.Define(t.Context(), labels)
	if err != nil {
		t.Fatal(err)
	}
	var b series.Batch
	for _, id := range ids {
		b.Add(id, time.Now().Add(-time.Second).UnixNano(), 1)
	}
	if _, err := st.Append(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	c := w.anna()
	c.get(consoleAt("promql", "n", "series", "wide")).expect(200, "200 rows", "larger than a page shows")
	page := c.get(consoleAt("promql", "n", "series", "wide", "range", "15m", "step", "2s")).expect(200, "There are 250 series. Only the first 20 are shown.")
	if n := strings.Count(page.Body, "<th scope=\"col\">"); n != 21 {
		t.Errorf("%d columns", n)
	}
	c.get(consoleAt("promql", "vector(1)", "series", "wide", "range", "1h", "step", "10s")).expect(200, "Only the newest 200 are in the table", "200 rows")
	// Without an evaluator there is no PromQL.
	plain, _ := startLive(t, skerry.Options{Series: []series.Collection{{Name: "plant"}}})
	c = plain.anna()
	c.get("/admin/console").expect(200).lacks("PromQL")
	c.get(consoleAt("promql", "n", "series", "plant")).expect(422, "no language")
}

// TestLooksPromQL looks at a plot in the console, and at its plan.
func TestLooksPromQL(t *testing.T) {
	t.Parallel()
	w, _ := startPromQL(t)
	c := w.open()
	c.visit(consoleAt("promql", `{__name__=~".+"}`, "series", "plant", "range", "15m", "step", "1m"))
	c.Until(`document.querySelectorAll(".uplot canvas").length === 2 && document.querySelectorAll("#result tbody tr").length === 16`)
	browsertest.Eval[bool](c.Tab, `document.querySelector("section[aria-labelledby=result-title] details").open = true`)
	c.looks("console-promql")
	c.visit(consoleAt("promql", "sum(rate(temperature[5m]) + )", "series", "plant"))
	c.Refused(1) // the status is 422
	c.Until(`document.querySelector("#problem pre") !== null`)
	c.looks("console-promql-error")
	c.visit(consoleAt("promql", "sum by (room) (rate(temperature[5m]))", "series", "plant", "explain", "1"))
	c.looks("console-promql-plan")
}
