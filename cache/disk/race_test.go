package disk

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/journal/memfs"
)

// TestConcurrent reads and writes at once, while segments are dropped and the store is
// flushed. Each key has one writer, whose deletions every later Get must see.
func TestConcurrent(t *testing.T) {
	first := seed.Of(t)
	o := options(memfs.New(first))
	o.MaxBytes, o.BatchEntries = 128<<10, 20
	s := open(t, o)
	const writers, readers, keys = 3, 3, 20
	var oldest [writers * keys]atomic.Int64 // values below are deleted
	var writing, reading sync.WaitGroup
	var done atomic.Bool
	for w := range writers {
		writing.Go(func() {
			r := rand.New(rand.NewPCG(first, uint64(w)))
			for i := range 2000 {
				k := w*keys + r.IntN(keys)
				key := fmt.Sprint(k)
				switch n := r.IntN(100); {
				case n < 70:
					s.Put(key, fmt.Appendf(nil, "%d %s", i, strings.Repeat(key, r.IntN(200))))
				case n < 95:
					s.Delete(key)
					oldest[k].Store(int64(i))
				case n < 98:
					s.Mark(fmt.Sprint(w, i))
				default:
					s.Sync() // cannot fail here, and Stats tells
				}
				if w == 0 && i%500 == 0 {
					s.Flush()
				}
			}
		})
	}
	for q := range readers {
		reading.Go(func() {
			r := rand.New(rand.NewPCG(first, uint64(writers+q)))
			var buf []byte
			for !done.Load() {
				k := r.IntN(writers * keys)
				key := fmt.Sprint(k)
				least := oldest[k].Load()
				v, ok := s.Get(buf[:0], key)
				if !ok {
					continue
				}
				number, rest, _ := strings.Cut(string(v), " ")
				if n, err := strconv.ParseInt(number, 10, 64); err != nil || n < least || strings.ReplaceAll(rest, key, "") != "" {
					t.Errorf("%s is %.40q, but everything before %d was deleted", key, v, least)
					return
				}
				buf = v
			}
		})
	}
	writing.Wait()
	done.Store(true)
	reading.Wait()
	syncStore(t, s)
	if st := s.Stats(); st.Failed != nil || st.Corrupt != 0 || st.Bytes > o.MaxBytes {
		t.Errorf("%+v", st)
	}
}
