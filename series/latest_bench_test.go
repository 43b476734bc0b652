package series

import (
	"fmt"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine"
)

// BenchmarkLatest reads the newest samples of 1,000 series with a day of samples, one each 30 seconds, most of which are
// sealed.
func BenchmarkLatest(b *testing.B) {
	s := open(b, testengine.Open(b, testengine.Options{}), Options{generation: 500_000}, Collection{Name: "c"})[0]
	var names []Labels
	for i := range 1000 {
		names = append(names, labels(b, "m", "i", fmt.Sprint(i)))
	}
	ids, err := s.Define(b.Context(), names)
	if err != nil {
		b.Fatal(err)
	}
	for at := now.Add(-24*time.Hour + time.Second); at.Before(now); {
		var batch Batch
		for range 100 {
			for i, id := range ids {
				batch.Add(id, at.UnixNano(), float64(i))
			}
			at = at.Add(30 * time.Second)
		}
		if _, err := s.Append(b.Context(), &batch); err != nil {
			b.Fatal(err)
		}
	}
	for _, c := range []struct {
		name  string
		match []Matcher
	}{{"1", []Matcher{{Name: "i", Value: "500"}}}, {"1000", nil}} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				if list, err := s.Latest(b.Context(), c.match, 0, engine.Read{}); err != nil || len(list) == 0 {
					b.Fatal(len(list), err)
				}
			}
		})
	}
}
