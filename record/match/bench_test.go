package match_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/skerrydb/skerry/record/match"
)

// BenchmarkMatch matches one update of one record against 100,000 subscriptions, 1 of which sees it unless the name says
// otherwise.
func BenchmarkMatch(b *testing.B) {
	const n = 100_000
	k := collection(b)
	was := record(b, k, "r7", `{"owner":"u7","status":"open","total":7,"title":"The seventh order"}`)
	is := record(b, k, "r7", `{"owner":"u7","status":"open","total":8,"title":"The seventh order"}`)
	for _, c := range []struct {
		name string
		text func(i int) string
		hits int // subscriptions
	}{
		{"EachHisOwn", func(int) string { return `owner = @auth.id` }, 1},
		{"EachHisOwnOpen", func(int) string { return `status = "open" && owner = @auth.id && total > 5` }, 1},
		{"OwnOrPublic", func(int) string { return `owner = @auth.id || public` }, 1},
		{"EachOneRecord", func(i int) string { return fmt.Sprintf(`id = "r%d"`, i) }, 1},
		{"OneConditionOfAllMiss", func(int) string { return `status = "done" && total > 100` }, 0},
		{"OneConditionOfAllHit", func(int) string { return `status = "open"` }, n},
		{"100RangesMiss", func(i int) string { return fmt.Sprintf(`total > %d`, 1_000+i%100) }, 0},
		{"1000RangesMiss", func(i int) string { return fmt.Sprintf(`total > %d`, 1_000+i%1_000) }, 0},
		{"10000RangesMiss", func(i int) string { return fmt.Sprintf(`total > %d`, 1_000+i%10_000) }, 0},
		{"EachOwnRange", func(i int) string { return fmt.Sprintf(`total > %d && total <= %d`, i, i+1) }, 2},
		{"EachOwnRangeOpen", func(i int) string { return fmt.Sprintf(`status = "open" && total >= %d`, i) }, 9},
		{"EachOwnRangeOrPublic", func(i int) string { return fmt.Sprintf(`total < %d || public`, 10-i) }, 3},
		{"EachOwnTwoRangesMiss", func(i int) string { return fmt.Sprintf(`total >= %d && title < "%d"`, i%1_000, i/1_000) }, 0},
		{"EachOwnRangeHit1000", func(i int) string { return fmt.Sprintf(`total >= %d`, i-999+8) }, 1_000},
		{"10000PatternsMiss", func(i int) string { return fmt.Sprintf(`title ~ "x%d"`, i%10_000) }, 0},
	} {
		b.Run(c.name, func(b *testing.B) {
			var s match.Set[int]
			for i := range n {
				if _, err := s.Add(condition(b, k, c.text(i), fmt.Sprint("u", i)), nil, i); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				hits := 0
				s.Match(noon, was, is, func(h match.Hit[int]) { hits += len(h.Subs) })
				if hits != c.hits {
					b.Fatalf("%d hits, want %d", hits, c.hits)
				}
			}
		})
	}
}

// BenchmarkAdd adds and removes a subscription beside 100,000 others.
func BenchmarkAdd(b *testing.B) {
	k := collection(b)
	var s match.Set[int]
	for i := range 100_000 {
		if _, err := s.Add(condition(b, k, `status = "open" && owner = @auth.id`, fmt.Sprint("u", i)), nil, i); err != nil {
			b.Fatal(err)
		}
	}
	cond := condition(b, k, `status = "open" && owner = @auth.id`, "u7x")
	for b.Loop() {
		sub, err := s.Add(cond, nil, 0)
		if err != nil {
			b.Fatal(err)
		}
		s.Remove(sub)
	}
}

// BenchmarkMemory adds 100,000 subscriptions and measures what the heap has of them and their conditions then.
func BenchmarkMemory(b *testing.B) {
	const n = 100_000
	k := collection(b)
	for _, c := range []struct {
		name string
		text func(i int) string
	}{
		{"OneConditionOfAll", func(int) string { return `status = "open"` }},
		{"EachHisOwn", func(int) string { return `owner = @auth.id` }},
		{"EachOwnRange", func(i int) string { return fmt.Sprintf(`total > %d`, i) }},
		{"EachOwnRangeOpen", func(i int) string { return fmt.Sprintf(`status = "open" && total > %d`, i) }},
		{"OwnOrPublic", func(int) string { return `owner = @auth.id || public` }},
		{"EachTenRecords", func(i int) string {
			return fmt.Sprintf(`id in ("%[1]d0", "%[1]d1", "%[1]d2", "%[1]d3", "%[1]d4", "%[1]d5", "%[1]d6", "%[1]d7", "%[1]d8", "%[1]d9")`, i)
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				var s match.Set[int]
				before := heap()
				for i := range n {
					if _, err := s.Add(condition(b, k, c.text(i), fmt.Sprint("u", i)), nil, i); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(heap()-before)/n, "B/subscription")
				runtime.KeepAlive(&s)
			}
		})
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
