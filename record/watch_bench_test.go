package record_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine/testengine/recordengine"
	"github.com/skerrydb/skerry/feed"
	"github.com/skerrydb/skerry/record"
)

// BenchmarkCommitToSubscriber measures from the return of a durable update to its event at the one subscriber who sees it,
// beside others who do not, each with a condition of his own. A negative time means that the event came first.
func BenchmarkCommitToSubscriber(b *testing.B) {
	for _, others := range []int{0, 10_000, 100_000} {
		b.Run(fmt.Sprint("Others", others), func(b *testing.B) {
			h := openHouse(b, recordengine.Open(b, recordengine.Options{}), feed.Options{})
			for i := range others {
				s, err := h.Subscribe(b.Context(), record.Actor{ID: fmt.Sprint("u", i)}, with(b, record.Subscription{}, "notes/*"))
				must(b, err)
				defer s.Close()
			}
			h.create("notes", "a", `{"owner":"ann","title":"0"}`)
			r := h.subscribe(record.Actor{ID: "ann"}, record.Subscription{}, "notes/*")
			r.want("state notes/a")
			got := make(chan time.Time)
			go func() {
				for range b.N {
					if _, err := r.Next(b.Context()); err != nil {
						close(got)
						return
					}
					got <- time.Now()
				}
			}()
			var all, whole []time.Duration
			b.ResetTimer()
			for i := range b.N {
				began := time.Now()
				h.patch("notes", "a", fmt.Sprintf(`{"title":"%d"}`, i+1))
				committed := time.Now()
				at := <-got
				all = append(all, at.Sub(committed))
				whole = append(whole, at.Sub(began))
			}
			b.StopTimer()
			slices.Sort(all)
			slices.Sort(whole)
			us := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
			b.ReportMetric(us(all[len(all)/2]), "p50-µs")
			b.ReportMetric(us(all[len(all)*99/100]), "p99-µs")
			b.ReportMetric(us(whole[len(whole)/2]), "p50-from-request-µs")
		})
	}
}
