package memory

import (
	"container/list"
	"encoding/binary"
	"math/rand/v2"
	"strconv"
	"testing"
)

// one returns a cache of one shard.
func one(t *testing.T, most int64) (*Cache, *shard) {
	t.Helper()
	c, err := New(Options{MaxBytes: most, Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.check(t) })
	return c, &c.shards[0]
}

// TestCollisions: entries whose hashes are all equal are told apart, also when those before them are gone.
func TestCollisions(t *testing.T) {
	t.Parallel()
	c, _ := one(t, 1<<20)
	c.mask = 0
	const n = 100
	for i := range n {
		c.Set(strconv.Itoa(i), []byte(strconv.Itoa(i)))
	}
	for i := 0; i < n; i += 2 {
		if !c.Delete(strconv.Itoa(i)) {
			t.Fatalf("%d was not there", i)
		}
	}
	for i := range n {
		v, ok := c.Get(nil, strconv.Itoa(i))
		if ok != (i%2 == 1) || ok && string(v) != strconv.Itoa(i) {
			t.Fatalf("%d is %q, %v", i, v, ok)
		}
	}
}

// TestUpdates: what fits stays, however often a part of it is replaced and whether or not it is read.
func TestUpdates(t *testing.T) {
	t.Parallel()
	c, s := one(t, 2<<20)
	v := make([]byte, 1000)
	const n = 1000
	for i := range n {
		c.Set(strconv.Itoa(i), v)
	}
	r := rand.New(rand.NewPCG(3, 5))
	for i := range 10 * n {
		binary.LittleEndian.PutUint64(v, uint64(i))
		c.Set(strconv.Itoa(r.IntN(n/3)*3), v)
	}
	if st := c.Stats(); st.Evicted != 0 || st.Entries != n {
		t.Errorf("%+v", st)
	}
	if got, most := len(s.index.slots), 4*n; got > most {
		t.Errorf("the index has %d slots, more than %d", got, most)
	}
	for i := range n {
		if _, ok := c.Get(nil, strconv.Itoa(i)); !ok {
			t.Fatalf("entry %d is gone", i)
		}
	}
}

// TestDeletedIsFree: memory whose entries are all deleted is free at once.
func TestDeletedIsFree(t *testing.T) {
	t.Parallel()
	c, s := one(t, 4<<20)
	for _, size := range []int{1000, 300_000} {
		n := 3 << 20 / size
		for i := range n {
			c.Set(strconv.Itoa(i), make([]byte, size))
		}
		for i := range n {
			c.Delete(strconv.Itoa(i))
		}
		if s.held > 3*s.size {
			t.Errorf("%d bytes are held after entries of %d bytes were deleted", s.held, size)
		}
	}
}

// TestMixed: large entries among small ones waste little.
func TestMixed(t *testing.T) {
	t.Parallel()
	c, _ := one(t, 8<<20)
	for i := range 600 {
		size := 100
		switch i % 4 {
		case 1:
			size = 70_000 // a little more than a quarter of a segment
		case 2:
			size = 200_000
		case 3:
			size = 60_000
		}
		if !c.Set(strconv.Itoa(i), make([]byte, size)) {
			t.Fatalf("entry %d is not kept", i)
		}
	}
	if s := c.Stats(); s.Payload < s.Max*3/4 {
		t.Errorf("%+v", s)
	}
}

// TestEvictingEnds: a Set copies a bounded number of bytes, though every entry was read often.
func TestEvictingEnds(t *testing.T) {
	t.Parallel()
	c, s := one(t, 2<<20)
	s.copied = 3 * s.size
	v := make([]byte, 1000)
	n := 0
	for ; s.bytes()+s.wanted(s.size) <= s.max; n++ {
		c.Set(strconv.Itoa(n), v)
	}
	for i := range n {
		for range maxReads {
			c.Get(nil, strconv.Itoa(i))
		}
	}
	for i := n; c.Stats().Evicted == 0; i++ {
		c.Set(strconv.Itoa(i), v)
	}
	// Three segments were copied, one was dropped, and the others are as they were.
	kept := 0
	for _, g := range s.small.list {
		if *g.reads(0) == maxReads {
			kept++
		}
	}
	if kept < segmentsPerShard/2 || c.Stats().Evicted > int64(s.size/1000) {
		t.Errorf("%d segments are untouched, %d entries were dropped", kept, c.Stats().Evicted)
	}
}

// trace returns keys of a zipf distribution, interrupted by scans of keys that never come back.
func trace(n int) []int {
	r := rand.New(rand.NewPCG(7, 11))
	z := rand.NewZipf(r, 1.01, 1, 200_000)
	keys := make([]int, 0, n)
	scanned := 1_000_000
	for len(keys) < n {
		for range 10_000 {
			keys = append(keys, int(z.Uint64()))
		}
		for range 3000 {
			keys = append(keys, scanned)
			scanned++
		}
	}
	return keys
}

// TestHitRatio: on a trace with scans the hit ratio is well above that of LRU with as many entries.
func TestHitRatio(t *testing.T) {
	t.Parallel()
	n := 120_000
	if testing.Short() {
		n = 60_000
	}
	const most = 2000
	c, _ := one(t, most*100*108/100)
	v := make([]byte, 84) // 100 bytes with the header and the key
	recent, in := list.New(), map[int]*list.Element{}
	hits, lru := 0, 0
	keys := trace(n)
	for _, k := range keys {
		key := "key-" + strconv.Itoa(k)
		if _, ok := c.Get(nil, key); ok {
			hits++
		} else {
			c.Set(key, v)
		}
		if e := in[k]; e != nil {
			recent.MoveToFront(e)
			lru++
			continue
		}
		in[k] = recent.PushFront(k)
		if recent.Len() > most {
			delete(in, recent.Remove(recent.Back()).(int))
		}
	}
	ours, its := float64(hits)/float64(len(keys)), float64(lru)/float64(len(keys))
	t.Logf("%.3f, LRU %.3f, %+v", ours, its, c.Stats())
	if ours < its+0.02 {
		t.Errorf("the hit ratio is %.3f; LRU has %.3f", ours, its)
	}
}
