package admin_test

import (
	"net/url"
	"testing"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/series"
)

// TestSeries: collections and values are shown, and mistakes are named with what was typed kept.
func TestSeries(t *testing.T) {
	t.Parallel()
	start(t, skerry.Options{}).anna().get("/admin/series").expect(200, "There are no collections")

	w, s := startLive(t, skerry.Options{Series: []series.Collection{{Name: "plant"}, {Name: "none"}}})
	c := w.anna()
	c.get("/admin/series").expect(200, ">plant</a>", ">none</a>", "Choose a collection")
	c.get("/admin/series?collection=none").expect(200, "no series in this collection")
	addLiveSamples(t, s, "plant", 3)
	c.get("/admin/series?collection=plant").expect(200, "temperature", "odd")
	ask := func(fields ...string) string {
		q := url.Values{"collection": {"plant"}}
		for i := 0; i < len(fields); i += 2 {
			q.Set(fields[i], fields[i+1])
		}
		return "/admin/series?" + q.Encode()
	}
	c.get(ask("selector", `temperature{room="a"}`)).expect(200, "Values", "temperature{room=&#34;a&#34;}", "20.").lacks("room=&#34;b&#34;</th>")
	c.get(ask("selector", "temperature", "aggregate", "count", "step", "10m")).expect(200, ">30<")
	c.get(ask("selector", "temperature", "step", "10s")).expect(200, "Older")
	c.get(ask("selector", "temperature", "until", "2001-01-01")).expect(200, "none has a sample in this range")
	c.get(ask("selector", "odd")).expect(200, "Values").lacks("<script>alert")
	c.get(ask("selector", `temperature{room="a"`)).expect(422, "the end", "temperature{room=&#34;a&#34;", "aria-invalid")
	c.get(ask("selector", `temperature{room=~"("}`)).expect(422, "aria-invalid")
	c.get(ask("selector", "temperature", "aggregate", "most")).expect(422, "most")
	c.get(ask("selector", "temperature", "range", "x")).expect(422, "range")
	c.get(ask("selector", "temperature", "range", "8760h", "step", "1s")).expect(422, "too many")
	c.get(ask("selector", "temperature", "until", "<b>")).expect(422, "&lt;b&gt;")
	c.get("/admin/series?collection=nothing").expect(422, "nothing")
	w.liveViewer().get(ask("selector", "temperature")).expect(200, "Values")
}

// TestLooksSeries looks at the page of time series with its plot.
func TestLooksSeries(t *testing.T) {
	t.Parallel()
	w, s := startLive(t, skerry.Options{Series: []series.Collection{{Name: "plant"}, {Name: "none"}}})
	c := w.open()
	c.visit("/admin/series")
	c.looks("series-empty")
	addLiveSamples(t, s, "plant", 4)
	c.visit("/admin/series?collection=plant&selector=" + url.QueryEscape(`{__name__=~".+"}`))
	c.Until(`document.querySelectorAll(".uplot canvas").length === 2`)
	c.looks("series")
}
