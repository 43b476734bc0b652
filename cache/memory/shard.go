package memory

import "sync"

// shard is a part of the cache with a lock of its own.
type shard struct {
	stats stats
	cache *Cache

	max      int // bytes
	size     int // of a segment
	smallMax int // bytes of segments in the small queue, before it is the one to be evicted from
	copied   int // bytes that one Set copies at most

	mu       sync.Mutex // guards the fields below
	segments []*segment // by number; nil: the number is free
	numbers  []int      // that are free
	spare    []byte     // memory of a segment that is free
	small    queue      // entries that are new
	main     queue      // entries that were read since, or came back
	held     int        // bytes of segments and the spare
	index    index
	ghosts   ghosts
	_        [64]byte // shards do not share a cache line
}

// A shard has about segmentsPerShard segments: with more, less is evicted at a time; with fewer, less room is wasted
// at their ends. A tenth of the bytes are for new entries, as in S3-FIFO (Yang et al., SOSP 2023).
const (
	segmentsPerShard = 64
	maxSegmentBytes  = 1 << 20
	smallShare       = 10
	segmentOverhead  = 128 // the segment itself, and pointers to it
	largestShare     = 8   // the largest entry takes that part of a shard
	ownShare         = 4   // an entry larger than that part of a segment gets one of its own
)

func (s *shard) init(c *Cache, most int) {
	s.cache, s.max = c, most
	s.size = min(most/segmentsPerShard, maxSegmentBytes)
	if size := pages(s.size); size > s.size {
		s.size = size - 8<<10
	}
	s.smallMax, s.copied = most/smallShare, maxCopied
	s.index = newIndex(minSlots)
	s.count()
}

// find returns the slot and the place of key.
func (s *shard) find(key string, hash uint64) (slot, place uint64, ok bool) {
	mask, tag := uint64(len(s.index.slots)-1), tagOf(hash)
	for i := hash & mask; ; i = (i + 1) & mask {
		p := s.index.slots[i]
		if p == free {
			return 0, 0, false
		}
		if isPlace(p, tag) && string(s.segments[numberOf(p)].key(offsetOf(p))) == key {
			return i, p, true
		}
	}
}

func (s *shard) get(dst []byte, key string, hash uint64) ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, p, ok := s.find(key, hash)
	if !ok {
		return dst, false
	}
	g, at := s.segments[numberOf(p)], offsetOf(p)
	if n := g.reads(at); *n < maxReads {
		*n++
	}
	return append(dst, g.value(at)...), true
}

func (s *shard) set(key string, value []byte, hash uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.count()
	kept := s.drop(key, hash)
	n := entryBytes(key, value)
	if len(key) > MaxKey || len(value) > MaxValue || n > s.max/largestShare {
		return false
	}
	q := &s.small
	if kept || s.ghosts.take(hash) {
		q = &s.main
	}
	if !s.makeSlot() {
		return false
	}
	g := s.open(q, n)
	if g == nil {
		return false
	}
	s.index.put(hash, place(hash, g.number, g.add(key, value)))
	s.stats.payload.Add(int64(len(key) + len(value)))
	return true
}

// drop removes key. It reports whether the entry that is gone was in the main queue or read: a newer value is
// likely to be read too.
func (s *shard) drop(key string, hash uint64) (valued bool) {
	slot, p, ok := s.find(key, hash)
	if !ok {
		return false
	}
	g, at := s.segments[numberOf(p)], offsetOf(p)
	valued = *g.reads(at) > 0
	s.forget(slot, p)
	return valued
}

// forget removes the place p in a slot. A segment without entries is free at once.
func (s *shard) forget(slot, p uint64) {
	g, at := s.segments[numberOf(p)], offsetOf(p)
	s.stats.payload.Add(-int64(len(g.key(at)) + len(g.value(at))))
	s.index.clear(slot)
	g.lost(len(g.entry(at)))
	switch {
	case g.live > 0 || g.in == nil:
	case g.in.filling == g:
		g.used = 0
	default:
		g.in.remove(g)
		s.end(g)
	}
}

func (s *shard) remove(key string, hash uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	slot, p, ok := s.find(key, hash)
	if ok {
		s.forget(slot, p)
		s.count()
	}
	return ok
}

func (s *shard) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.segments, s.numbers, s.spare, s.small, s.main, s.held = nil, nil, nil, queue{}, queue{}, 0
	s.index, s.ghosts = newIndex(minSlots), nil
	s.stats.payload.Store(0)
	s.count()
}

// bytes returns the memory that the shard holds.
func (s *shard) bytes() int {
	return s.held + len(s.segments)*segmentOverhead + s.index.bytes() + s.ghosts.bytes()
}

// count updates the statistics. The caller holds s.mu, except in init.
func (s *shard) count() {
	s.stats.entries.Store(int64(s.index.places()))
	s.stats.bytes.Store(int64(s.bytes()))
}
