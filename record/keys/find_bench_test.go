package keys

import (
	"math/rand/v2"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/query"
	"github.com/skerrydb/skerry/record/schema"
)

// BenchmarkFind measures pages of 20 of 100,000 records, of which a tenth has each value of s.
func BenchmarkFind(b *testing.B) {
	s := newShelf(b, rand.New(rand.NewPCG(1, 2)), schema.Index{Name: "by_s", Fields: []schema.IndexField{{Name: "s"}, {Name: "n", Desc: true}}}, schema.Index{Name: "by_n", Fields: []schema.IndexField{{Name: "n"}}})
	s.fill(b, 0, 100_000)
	for _, c := range []struct {
		name, filter, sort string
		after              bool
	}{
		{"by id", "", "", false}, {"equal in order", `s = "s3"`, "-n", false}, {"next page", `s = "s3"`, "-n", true}, {"range", "n > 50000 && n < 60000", "n", false}, {"half of the entries", `s = "s3" && d < 500`, "-n", false},
		{"three values merged", `s in ("s1", "s2", "s3")`, "-n", false}, {"union merged", `s = "s1" && b || s = "s2" || n > 99000`, "-n", false}, {"union sorted", `s = "s1" && n < 200 || n < 50`, "-d", false}, {"sort 50", "n < 50", "-d", false}, {"scan finds a tenth", "d >= 900", "", false},
	} {
		q := s.search(b, c.filter, c.sort, query.Live)
		q.Limit = 20
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			s.view(b, func(tx engine.Tx) {
				if page, err := Find(tx, s.c, q); err == nil && c.after {
					q.After = q.Orders.Key(page.Docs[19])
				}
				for b.Loop() {
					if page, err := Find(tx, s.c, q); err != nil || len(page.Docs) != 20 {
						b.Fatal(len(page.Docs), err)
					}
				}
			})
		})
	}
	q := s.search(b, `s = "s3" && n > 20000`, "", query.Live)
	b.Run("count in the index", func(b *testing.B) {
		b.ReportAllocs()
		s.view(b, func(tx engine.Tx) {
			for b.Loop() {
				if n, _, err := Count(tx, s.c, q); err != nil || n != 8_000 {
					b.Fatal(n, err)
				}
			}
		})
	})
	b.Run("get", func(b *testing.B) {
		b.ReportAllocs()
		s.view(b, func(tx engine.Tx) {
			for b.Loop() {
				if d, err := Get(tx, s.c, "r050000"); d == nil {
					b.Fatal(err)
				}
			}
		})
	})
}
