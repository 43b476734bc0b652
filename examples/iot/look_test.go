package iot_test

import (
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/skerrydb/skerry/examples/browsertest"
	"github.com/skerrydb/skerry/examples/iot/simulate"
)

// TestLooks looks at the page in a real browser, on a phone and on a desktop, light and dark, and sees a new value arrive.
func TestLooks(t *testing.T) {
	t.Parallel()
	site := start(t)
	other, b := site.Browser(), browsertest.Open(t)
	b.Visit(site.URL+"/", "empty")
	done, err := simulate.Run(t.Context(), simulate.Options{
		URL: site.URL, Token: token, Sensors: 100, Duration: 30 * time.Minute, Speedup: 1e6, Seed: 3, Client: other.Client,
	})
	if err != nil || done.Complete() != nil {
		t.Fatal(done, err)
	}
	b.Do(chromedp.Navigate(site.URL + "/"))
	b.Until(`document.querySelector("#chart canvas") && document.querySelector("#figure").dataset.newest`)
	b.Looks("factory")
	b.Visit(site.URL+"/?kind=vibration&sensor=vibration-0007", "vibration")
	b.Until(`document.querySelector("#figure").dataset.newest`)
	b.Do(chromedp.Evaluate[chromedp.Void](`window.same = true`))
	write(t, other, "Token "+token, line("vibration", "vibration-0007", 9.87, -60)).Expect(204)
	b.Until(`document.querySelector("#figure").dataset.newest === "9.87"`)
	b.Until(`document.querySelector("#caption").textContent.includes("9.9 mm/s") && document.querySelector("#caption").textContent.includes("above the limit")`)
	b.Until(`document.querySelector("#newest tbody tr").textContent.includes("vibration-0007") && window.same`) // the table as well
	b.Looks("live")
	b.Visit(site.URL+"/?kind=noise", "wrong")
	b.Refused(1)
}
