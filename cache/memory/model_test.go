package memory

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"

	"github.com/skerrydb/skerry/ci/seed"
)

// check fails unless the shard's books are right.
func (s *shard) check(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	held, live, payload, places := len(s.spare), 0, 0, 0
	for _, q := range []*queue{&s.small, &s.main} {
		sum := 0
		for _, g := range q.list {
			sum += len(g.mem)
			live += g.live
			n, size := 0, 0
			for at := 0; at < g.used; at += len(g.entry(at)) {
				hash := s.cache.hashBytes(g.key(at))
				if _, ok := s.slotOf(hash, place(hash, g.number, at)); ok {
					n++
					size += len(g.entry(at))
					payload += len(g.key(at)) + len(g.value(at))
				}
			}
			if n != g.live || size != g.liveBytes || s.segments[g.number] != g || g.in != q {
				t.Errorf("segment %d has %d live entries of %d bytes and counts %d of %d", g.number, n, size, g.live, g.liveBytes)
			}
			if n == 0 && g != q.filling {
				t.Errorf("segment %d is empty and kept", g.number)
			}
		}
		if sum != q.bytes {
			t.Errorf("a queue has %d bytes and counts %d", sum, q.bytes)
		}
		held += sum
	}
	used := 0
	for _, p := range s.index.slots {
		if p != free {
			used++
		}
		if p != free && p != dead {
			places++
		}
	}
	if held != s.held || live != places || used != s.index.used || places != s.index.places() || int64(payload) != s.stats.payload.Load() {
		t.Errorf("held %d (counted %d), live %d, places %d (counted %d), used %d (counted %d), payload %d (counted %d)",
			held, s.held, live, places, s.index.places(), used, s.index.used, payload, s.stats.payload.Load())
	}
	if s.bytes() > s.max {
		t.Errorf("the shard holds %d bytes; the limit is %d", s.bytes(), s.max)
	}
}

func (c *Cache) check(t *testing.T) {
	t.Helper()
	for i := range c.shards {
		c.shards[i].check(t)
	}
}

// TestModel: whatever is done, a value is the last one set or absent, and the books are right.
func TestModel(t *testing.T) {
	t.Parallel()
	r := seed.Rand(t)
	rounds := 20
	if testing.Short() {
		rounds = 8
	}
	for range rounds {
		o := Options{MaxBytes: MinBytes << r.IntN(4), Shards: 1 << r.IntN(3)}
		c, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		if r.IntN(3) == 0 {
			c.mask = 3 << 37 // nearly all hashes are equal
		}
		keys, largest := 1+r.IntN(300), 1+r.IntN(3000)
		if c.mask != ^uint64(0) {
			keys = min(keys, 40)
		}
		model(t, rand.New(rand.NewPCG(r.Uint64(), 0)), c, keys, largest)
		if t.Failed() {
			t.Fatalf("with %+v, %d keys, values up to %d bytes", o, keys, largest)
		}
	}
}

func model(t *testing.T, r *rand.Rand, c *Cache, keys, largest int) {
	t.Helper()
	last := map[string][]byte{}
	hits := 0
	for i := range 3000 {
		key := "key-" + strconv.Itoa(r.IntN(keys))
		switch op := r.IntN(100); {
		case op < 40:
			v := bytes.Repeat([]byte{byte(r.Uint32())}, r.IntN(largest))
			if c.Set(key, v) {
				last[key] = v
			} else {
				delete(last, key)
			}
		case op < 50:
			c.Delete(key)
			delete(last, key)
		case op == 50 && r.IntN(20) == 0:
			c.Flush()
			clear(last)
		default:
			v, ok := c.Get([]byte("x"), key)
			if want, has := last[key]; ok && (!has || !bytes.Equal(v, append([]byte("x"), want...))) {
				t.Fatalf("step %d: %s is %.20q, want %.20q (%v)", i, key, v, want, has)
			}
			if ok {
				hits++
			}
		}
		if i%500 == 0 {
			c.check(t)
		}
	}
	c.check(t)
	if hits == 0 {
		t.Error("nothing was ever found")
	}
}

// TestNothingLost: what fits is never dropped.
func TestNothingLost(t *testing.T) {
	t.Parallel()
	c, err := New(Options{MaxBytes: 8 << 20, Shards: 4})
	if err != nil {
		t.Fatal(err)
	}
	v := make([]byte, 1000)
	for i := range 4000 {
		c.Set(strconv.Itoa(i), v)
	}
	for i := range 4000 {
		if got, ok := c.Get(nil, strconv.Itoa(i)); !ok || len(got) != len(v) {
			t.Fatalf("entry %d is gone", i)
		}
	}
	if s := c.Stats(); s.Entries != 4000 || s.Evicted != 0 || s.Payload < 4000*1000 || s.Bytes < s.Payload {
		t.Errorf("%+v", s)
	}
	c.check(t)
}

// TestBudget: a flood of distinct keys stays within the budget, whatever their size, and a flush frees it.
func TestBudget(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, 100, 1900, 100_000} {
		t.Run(strconv.Itoa(size), func(t *testing.T) {
			t.Parallel()
			c, err := New(Options{MaxBytes: 4 << 20, Shards: 2})
			if err != nil {
				t.Fatal(err)
			}
			n, v := 100_000, make([]byte, size) // more than fit
			if size > 100 {
				n = 4 * 4 << 20 / size
			}
			for i := range n {
				if !c.Set("key-"+strconv.Itoa(i), v) {
					t.Fatalf("entry %d of %d bytes was not kept", i, size)
				}
				if s := c.Stats(); i%100 == 0 && s.Bytes > s.Max {
					t.Fatalf("after %d entries: %+v", i, s)
				}
			}
			c.check(t)
			s := c.Stats()
			if s.Bytes > s.Max || s.Payload*2 < s.Max && size >= 100 || s.Entries == 0 || s.Evicted == 0 {
				t.Errorf("%+v", s)
			}
			c.Flush()
			c.check(t)
			if s := c.Stats(); s.Bytes > 1024 || s.Entries != 0 || s.Payload != 0 {
				t.Errorf("after a flush: %+v", s)
			}
		})
	}
}

// TestPerEntry: entries of 1.9 kB take at most 1.15 times their bytes.
func TestPerEntry(t *testing.T) {
	t.Parallel()
	c, err := New(Options{MaxBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	v := make([]byte, 1900)
	for i := range 60_000 {
		c.Set("department-"+strconv.Itoa(i), v)
	}
	s := c.Stats()
	if ratio := float64(s.Max) / float64(s.Payload); ratio > 1.15 || s.Bytes > s.Max {
		t.Errorf("%d bytes of entries in a budget of %d: %.3f times", s.Payload, s.Max, ratio)
	}
}

// TestTooLarge: what is too large is not kept, and the older value is gone.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	c, err := New(Options{MaxBytes: 1 << 20, Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, large := range []int{1<<20/8 + 1, MaxValue + 1} {
		c.Set("k", []byte("old"))
		if c.Set("k", make([]byte, large)) {
			t.Errorf("%d bytes are kept", large)
		}
		if _, ok := c.Get(nil, "k"); ok {
			t.Error("the older value is still there")
		}
	}
	if c.Set(string(make([]byte, MaxKey+1)), nil) {
		t.Error("a long key is kept")
	}
	if !c.Set("k", make([]byte, 1<<20/8-100)) {
		t.Error("the largest entry is not kept")
	}
	c.check(t)
}

// TestScan: entries that are read again survive any number that are read once.
func TestScan(t *testing.T) {
	t.Parallel()
	c, err := New(Options{MaxBytes: 2 << 20, Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	v := make([]byte, 1000)
	hot := func(i int) string { return fmt.Sprintf("hot-%d", i) }
	for i := range 800 {
		c.Set(hot(i), v)
	}
	scanned := 0
	for range 20 {
		for i := range 800 {
			if _, ok := c.Get(nil, hot(i)); !ok {
				t.Fatalf("a hot entry is gone after %d others", scanned)
			}
		}
		for range 1500 {
			c.Set(fmt.Sprintf("scan-%d", scanned), v)
			scanned++
		}
	}
	c.check(t)
}

// TestGhosts: an entry that was dropped unread goes to the main queue when it comes back.
func TestGhosts(t *testing.T) {
	t.Parallel()
	c, err := New(Options{MaxBytes: 1 << 20, Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	v := make([]byte, 1000)
	n := 0
	for ; n < 5000; n++ {
		c.Set(strconv.Itoa(n), v)
	}
	last := n - 1
	for c.Delete(strconv.Itoa(last)) { // the newest that is gone
		last--
	}
	c.Set(strconv.Itoa(last), v)
	s := &c.shards[0]
	_, p, ok := s.find(strconv.Itoa(last), c.hash(strconv.Itoa(last)))
	if !ok {
		t.Fatal("it is not kept")
	}
	if s.segments[numberOf(p)].in == &s.main {
		return
	}
	t.Error("it is not in the main queue")
}

// TestTorn: readers and writers at once never see a value that nobody wrote.
func TestTorn(t *testing.T) {
	t.Parallel()
	c, err := New(Options{MaxBytes: 256 << 10, Shards: 2})
	if err != nil {
		t.Fatal(err)
	}
	var users sync.WaitGroup
	for u := range 6 {
		r := rand.New(rand.NewPCG(uint64(u), 1))
		users.Go(func() {
			var buf []byte
			for range 2000 {
				k := byte(r.IntN(200))
				key := "key-" + strconv.Itoa(int(k))
				switch r.IntN(10) {
				case 0, 1, 2:
					c.Set(key, bytes.Repeat([]byte{k}, 1+r.IntN(3000)))
				case 3:
					c.Delete(key)
				default:
					v, ok := c.Get(buf[:0], key)
					if ok && bytes.Count(v, []byte{k}) != len(v) {
						t.Errorf("key %d has a torn value", k)
						return
					}
					buf = v
				}
				if u == 0 && r.IntN(500) == 0 {
					c.Flush()
				}
			}
		})
	}
	users.Wait()
	c.check(t)
}

// TestBadOptions: options that make no sense are refused.
func TestBadOptions(t *testing.T) {
	t.Parallel()
	for _, o := range []Options{{}, {MaxBytes: -1}, {MaxBytes: MinBytes - 1}, {MaxBytes: 1 << 20, Shards: 3}, {MaxBytes: 1 << 20, Shards: 128}, {MaxBytes: 1 << 20, Shards: -1}} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}
