package memory

// open returns the number of a segment of q with room for n bytes, making room as needed. It fails if there is none
// even when the shard is empty.
func (s *shard) open(q *queue, n int) (number int, ok bool) {
	if k := len(q.list); k > 0 {
		if number = q.list[k-1]; s.segments[number].room() >= n {
			return number, true
		}
	}
	size := max(s.size, n)
	for s.bytes()+s.wanted(size) > s.max || len(s.segments)-len(s.numbers) >= maxSegments {
		if !s.evict() {
			return 0, false
		}
	}
	return s.begin(q, size), true
}

// wanted returns by how much the shard grows for a segment and for the spare that evicting needs.
func (s *shard) wanted(size int) int {
	if s.spare == nil {
		size += s.size
	}
	return size + 2*segmentOverhead
}

// begin adds an empty segment of a size to q.
func (s *shard) begin(q *queue, size int) (number int) {
	g := &segment{}
	if size == s.size && s.spare != nil {
		g.mem, s.spare = s.spare, nil
	} else {
		g.mem = make([]byte, size)
		s.held += size
	}
	if k := len(s.numbers); k > 0 {
		number, s.numbers = s.numbers[k-1], s.numbers[:k-1]
		s.segments[number] = g
	} else {
		number = len(s.segments)
		s.segments = append(s.segments, g)
	}
	q.list = append(q.list, number)
	q.bytes += size
	return number
}

// evict drops the oldest segment of one queue. What was read there since it came goes to the end of the main queue.
// It reports whether there was a segment.
func (s *shard) evict() bool {
	q := &s.main
	if s.small.bytes > s.smallMax && len(s.small.list) > 0 || len(s.main.list) == 0 {
		q = &s.small
	}
	if len(q.list) == 0 {
		return false
	}
	number := q.list[0]
	q.list = q.list[1:]
	g := s.segments[number]
	q.bytes -= len(g.mem)
	fromMain := q == &s.main
	if len(g.mem) != s.size && g.live == 1 && *g.reads(0) > 0 {
		// One large entry: its segment moves as it is.
		if fromMain {
			*g.reads(0)--
		} else {
			*g.reads(0) = 0
		}
		s.main.list = append(s.main.list, number)
		s.main.bytes += len(g.mem)
		return true
	}
	for at := 0; at < g.used && g.live > 0; at += len(g.entry(at)) {
		s.move(g, number, at, fromMain)
	}
	s.end(number)
	return true
}

// move keeps the entry at a place of an evicted segment in the main queue, if it was read, or drops it.
func (s *shard) move(g *segment, number, at int, fromMain bool) {
	hash := s.cache.hashBytes(g.key(at))
	slot, ok := s.slotOf(hash, place(hash, number, at))
	if !ok {
		return // it was replaced or removed
	}
	entry, reads := g.entry(at), g.reads(at)
	if *reads > 0 {
		if to, ok := s.openForCopy(len(entry)); ok {
			if fromMain {
				*reads--
			} else {
				*reads = 0
			}
			s.index.slots[slot] = place(hash, to, s.segments[to].addCopy(entry))
			g.live--
			return
		}
	}
	if !fromMain {
		s.ghosts.add(hash)
	}
	s.forget(slot, place(hash, number, at))
	s.stats.evicted.Add(1)
}

// slotOf returns the slot that has a place.
func (s *shard) slotOf(hash, p uint64) (slot uint64, ok bool) {
	mask := uint64(len(s.index.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		switch s.index.slots[i] {
		case p:
			return i, true
		case free:
			return 0, false
		}
	}
}

// openForCopy returns a segment of the main queue with room for n bytes. It takes the spare, but no more memory.
func (s *shard) openForCopy(n int) (number int, ok bool) {
	if k := len(s.main.list); k > 0 {
		if number = s.main.list[k-1]; s.segments[number].room() >= n {
			return number, true
		}
	}
	if n > s.size || s.spare == nil && s.bytes()+s.size > s.max {
		return 0, false
	}
	return s.begin(&s.main, s.size), true
}

// end frees a segment that is in no queue anymore.
func (s *shard) end(number int) {
	g := s.segments[number]
	s.segments[number] = nil
	s.numbers = append(s.numbers, number)
	if len(g.mem) == s.size && s.spare == nil {
		s.spare = g.mem
		return
	}
	s.held -= len(g.mem)
}

// makeSlot makes the index ready for one more place. If it must grow, it makes room for that.
func (s *shard) makeSlot() bool {
	if !s.index.full() {
		return true
	}
	slots := len(s.index.slots)
	if s.index.places()*2 >= slots {
		slots *= 2
	}
	grown := newIndex(slots)
	for s.bytes()-s.index.bytes()-s.ghosts.bytes()+grown.bytes()+slots/2*4+segmentOverhead > s.max {
		if !s.evict() {
			return false
		}
	}
	for _, number := range append(append([]int(nil), s.small.list...), s.main.list...) {
		g := s.segments[number]
		for at := 0; at < g.used; at += len(g.entry(at)) {
			hash := s.cache.hashBytes(g.key(at))
			if p := place(hash, number, at); s.has(hash, p) {
				grown.put(hash, p)
			}
		}
	}
	if slots != len(s.index.slots) {
		s.ghosts = make(ghosts, slots/2)
	}
	s.index = grown
	return true
}

func (s *shard) has(hash, p uint64) bool {
	_, ok := s.slotOf(hash, p)
	return ok
}
