package memory

import (
	"encoding/binary"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
)

// TestNeverOlder: a Get that begins after a Set, Delete or Flush has returned sees that one or a later one.
func TestNeverOlder(t *testing.T) {
	t.Parallel()
	c, err := New(Options{MaxBytes: 256 << 10, Shards: 2})
	if err != nil {
		t.Fatal(err)
	}
	const keys = 4
	var floors [keys]atomic.Uint64 // no version below may be seen
	var writers, readers sync.WaitGroup
	var done atomic.Bool
	for k := range keys {
		key := "key-" + strconv.Itoa(k)
		writers.Go(func() {
			for v := uint64(1); v <= 2000; v++ {
				c.Set(key, binary.LittleEndian.AppendUint64(make([]byte, 0, 3000), v))
				floors[k].Store(v)
				switch {
				case v%7 == 0:
					c.Delete(key)
					floors[k].Store(v + 1)
				case v%101 == 0:
					c.Flush()
					floors[k].Store(v + 1)
				}
				c.Set("filler-"+strconv.FormatUint(v, 10), make([]byte, 2000))
			}
		})
		readers.Go(func() {
			var buf []byte
			for !done.Load() {
				floor := floors[k].Load()
				v, ok := c.Get(buf[:0], key)
				if ok && binary.LittleEndian.Uint64(v) < floor {
					t.Errorf("%s is %d after %d", key, binary.LittleEndian.Uint64(v), floor)
					return
				}
				buf = v
			}
		})
	}
	writers.Wait()
	done.Store(true)
	readers.Wait()
	c.check(t)
}

// TestFlushUnderLoad: flushes while entries come and go leave the books right and free the memory.
func TestFlushUnderLoad(t *testing.T) {
	t.Parallel()
	c, err := New(Options{MaxBytes: 1 << 20, Shards: 4})
	if err != nil {
		t.Fatal(err)
	}
	var users sync.WaitGroup
	for u := range 4 {
		users.Go(func() {
			for i := range 3000 {
				key := strconv.Itoa((i * (u + 1)) % 500)
				c.Set(key, make([]byte, i))
				c.Get(nil, key)
				if s := c.Stats(); s.Bytes > s.Max {
					t.Errorf("%+v", s)
					return
				}
				if i%100 == 0 {
					c.Flush()
				}
			}
		})
	}
	users.Wait()
	c.check(t)
	c.Flush()
	if s := c.Stats(); s.Entries != 0 || s.Payload != 0 || s.Bytes > 4096 || c.Len() != 0 {
		t.Errorf("after a flush: %+v", s)
	}
}
