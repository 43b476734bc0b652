package session_test

import (
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/session"
)

// cart is a value of a typical size.
type cart struct {
	Items []int  `json:"items"`
	Note  string `json:"note"`
}

var (
	cartKey = session.NewKey[cart]("cart")
	hits    = session.NewKey[int]("hits")
)

// filled returns the token of a session of a user with about 500 bytes.
func filled(b testing.TB, st *session.Store, user string) string {
	b.Helper()
	s := st.New()
	s.Login(user)
	s.Describe("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0 192.0.2.1")
	if err := cartKey.Set(s, cart{Items: []int{1, 2, 3, 4, 5}, Note: "leave it at the door"}); err != nil {
		b.Fatal(err)
	}
	if err := hits.Set(s, 7); err != nil {
		b.Fatal(err)
	}
	for i := range 5 {
		if err := session.NewKey[string](fmt.Sprint("preference", i)).Set(s, "a value of some forty bytes in this place"); err != nil {
			b.Fatal(err)
		}
	}
	return save(b, s)
}

// BenchmarkLoad measures what most requests do: load a session and read one value.
func BenchmarkLoad(b *testing.B) {
	st, _, _ := open(b, session.Options{Namespace: "bench"})
	token := filled(b, st, "7")
	for i := range 1000 {
		filled(b, st, fmt.Sprint(i))
	}
	ctx := b.Context()
	for _, get := range []string{"", "int", "struct"} {
		b.Run("get "+get, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s, err := st.Load(ctx, token, engine.Read{})
				if err != nil {
					b.Fatal(err)
				}
				switch get {
				case "int":
					_, _, err = hits.Get(s)
				case "struct":
					_, _, err = cartKey.Get(s)
				}
				if err != nil || s.NeedsSave() {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkLoadForged measures a token that was never issued.
func BenchmarkLoadForged(b *testing.B) {
	st, _, _ := open(b, session.Options{})
	token := filled(b, st, "7")
	for _, token := range []string{"A" + token[1:], token[:40]} {
		b.Run(fmt.Sprint(len(token)), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := st.Load(b.Context(), token, engine.Read{}); err == nil {
					b.Fatal("found")
				}
			}
		})
	}
}

// BenchmarkSave measures a request that changes one value. With a real disk, the disk
// dominates, so it runs in parallel as requests do.
func BenchmarkSave(b *testing.B) {
	st, _, _ := open(b, session.Options{})
	b.ReportAllocs()
	b.SetParallelism(64)
	var users atomic.Int64
	b.RunParallel(func(pb *testing.PB) {
		token := filled(b, st, fmt.Sprint(users.Add(1)))
		for n := 0; pb.Next(); n++ {
			s, err := st.Load(b.Context(), token, engine.Read{})
			if err != nil {
				b.Fatal(err)
			}
			if err := hits.Set(s, n); err != nil {
				b.Fatal(err)
			}
			if _, _, err := s.Save(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkBytes measures the memory of one session: the bytes of its keys and values, and
// of the process's heap.
func BenchmarkBytes(b *testing.B) {
	const n = 50_000
	for _, kind := range []struct {
		name string
		fill func(s *session.Session, i int) error
	}{
		{"anonymous", func(s *session.Session, i int) error { return hits.Set(s, i) }},
		{"user", func(s *session.Session, i int) error {
			s.Login(fmt.Sprint("user ", i))
			s.Describe("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0 192.0.2.1")
			return hits.Set(s, i)
		}},
		{"user and 300 bytes", func(s *session.Session, i int) error {
			s.Login(fmt.Sprint("user ", i))
			s.Describe("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0 192.0.2.1")
			return name.Set(s, strings.Repeat("v", 300))
		}},
	} {
		b.Run(kind.name, func(b *testing.B) {
			for b.Loop() {
				eng := openEngine(b, newClock())
				store, err := kv.New(eng, kv.Options{})
				if err != nil {
					b.Fatal(err)
				}
				st, err := session.New(store, session.Options{Namespace: "app"})
				if err != nil {
					b.Fatal(err)
				}
				before := heap()
				for i := 0; i < n; i += 1000 {
					if _, err := eng.Update(b.Context(), func(tx engine.Tx) error {
						for j := i; j < i+1000; j++ {
							s := st.New()
							if err := kind.fill(s, j); err != nil {
								return err
							}
							if _, _, err := s.SaveIn(tx); err != nil {
								return err
							}
						}
						return nil
					}); err != nil {
						b.Fatal(err)
					}
				}
				bytes := 0
				scan(b, eng, func(p engine.Pair) { bytes += len(p.Key) + len(p.Val) })
				b.ReportMetric(float64(bytes)/n, "bytes/session")
				b.ReportMetric(float64(heap()-before)/n, "heap/session")
			}
		})
	}
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
