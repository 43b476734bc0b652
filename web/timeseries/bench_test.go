package timeseries_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/series"
	"github.com/skerrydb/skerry/web/timeseries"
)

// BenchmarkWrite takes bodies of 10,000 lines of ten fields.
func BenchmarkWrite(b *testing.B) {
	const lines = 10_000
	s := open(b, series.Options{}, timeseries.Options{Allow: everyone}, series.Collection{Name: "c"})
	var bodies []string
	for n := range 10 {
		var text strings.Builder
		for i := range lines {
			fmt.Fprintf(&text, "cpu,hostname=host_%d,region=eu-central-1,datacenter=eu-central-1a,rack=6,os=Ubuntu15.10,arch=x86,team=SF,service=19,service_version=1,service_environment=test", i%100)
			for f, name := range []string{"user", "system", "idle", "nice", "iowait", "irq", "softirq", "steal", "guest", "guest_nice"} {
				fmt.Fprintf(&text, "%cusage_%s=%di", " ,"[min(f, 1)], name, (i*7+f*13+n)%100)
			}
			fmt.Fprintf(&text, " %d\n", 1451606400+n*lines+i/100)
		}
		bodies = append(bodies, text.String())
	}
	b.ResetTimer()
	for i := range b.N {
		r := httptest.NewRequest(http.MethodPost, "/write?db=c&precision=s", strings.NewReader(bodies[i%len(bodies)]))
		w := httptest.NewRecorder()
		s.app.ServeHTTP(w, r)
		if w.Code != http.StatusNoContent {
			b.Fatalf("%d: %s", w.Code, w.Body)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*lines*10), "ns/value")
}
