package memory

import "slices"

// maxCopied bounds how many bytes one Set copies, and so how long others wait: when so many were moved, entries are
// dropped though they were read.
const maxCopied = 16 << 20

// open returns a segment of q with room for an entry of n bytes, making room as needed. It returns nil if there is
// none even when the shard is empty.
func (s *shard) open(q *queue, n int) *segment {
	own, size := n > s.size/ownShare, s.size
	if own {
		size = pages(n)
	}
	for round := 0; ; round++ {
		if !own && q.filling != nil && q.filling.room() >= n {
			return q.filling
		}
		if s.bytes()+s.wanted(size) <= s.max && len(s.segments)-len(s.numbers) < maxSegments {
			return s.begin(q, size, own)
		}
		if !s.evict(round) {
			return nil
		}
	}
}

// wanted returns by how much the shard grows for a segment and for the spare that evicting needs.
func (s *shard) wanted(size int) int {
	if s.spare == nil {
		size += s.size
	}
	return size + 2*segmentOverhead
}

// begin adds an empty segment to q. Unless it is for an entry of its own, it is the one to be filled.
func (s *shard) begin(q *queue, size int, own bool) *segment {
	g := &segment{own: own, number: len(s.segments)}
	if !own && s.spare != nil {
		g.mem, s.spare = s.spare, nil
	} else {
		g.mem = make([]byte, size)
		s.held += size
	}
	if k := len(s.numbers); k > 0 {
		g.number, s.numbers = s.numbers[k-1], s.numbers[:k-1]
		s.segments[g.number] = g
	} else {
		s.segments = append(s.segments, g)
	}
	q.push(g)
	if !own {
		q.filling = g
	}
	return g
}

// evict makes room. If a third of a segment was replaced or deleted, that is reclaimed. Otherwise the oldest segment of
// one queue is dropped, and what was read there goes to the end of the main queue. It is the given round for one Set,
// from 0. It reports whether there was a segment.
func (s *shard) evict(round int) bool {
	if g := s.sparsest(); g != nil {
		s.drain(g, g.in, keepAll)
		return true
	}
	q, keep := &s.main, keepAgain
	if s.small.bytes > s.smallMax && len(s.small.list) > 0 || len(s.main.list) == 0 {
		q, keep = &s.small, keepRead
	}
	if len(q.list) == 0 {
		return false
	}
	if round*s.size >= s.copied {
		keep = keepNone
	}
	s.drain(q.list[0], &s.main, keep)
	return true
}

// sparsest returns the segment with the most dead bytes, if these are at least a third of it.
func (s *shard) sparsest() (found *segment) {
	most := s.size/3 - 1
	for _, g := range s.segments {
		if g != nil && g.dead() > most && g.in.filling != g {
			found, most = g, g.dead()
		}
	}
	return found
}

// A policy decides by the count of reads whether an entry stays, and with which count.
type policy func(reads byte) (now byte, stays bool)

func keepAll(reads byte) (byte, bool)   { return reads, true }
func keepRead(reads byte) (byte, bool)  { return 0, reads > 0 }
func keepAgain(reads byte) (byte, bool) { return reads - 1, reads > 0 }
func keepNone(byte) (byte, bool)        { return 0, false }

// drain frees a segment. The entries that stay go to the end of a queue.
func (s *shard) drain(g *segment, to *queue, keep policy) {
	ghosts := g.in == &s.small
	g.in.remove(g)
	if now, stays := keep(*g.reads(0)); g.own && stays {
		*g.reads(0) = now
		to.push(g)
		return
	}
	for at := 0; at < g.used && g.live > 0; at += len(g.entry(at)) {
		s.move(g, at, to, keep, ghosts)
	}
	s.end(g)
}

// move copies the entry at a place of a segment to the end of a queue, if it stays, or drops it.
func (s *shard) move(g *segment, at int, to *queue, keep policy, ghosts bool) {
	hash := s.cache.hashBytes(g.key(at))
	p := place(hash, g.number, at)
	slot, ok := s.slotOf(hash, p)
	if !ok {
		return // it was replaced or removed
	}
	entry := g.entry(at)
	if now, stays := keep(*g.reads(at)); stays {
		if t := s.openForCopy(to, len(entry)); t != nil {
			*g.reads(at) = now
			s.index.slots[slot] = place(hash, t.number, t.addCopy(entry))
			g.lost(len(entry))
			return
		}
	}
	if ghosts {
		s.ghosts.add(hash)
	}
	s.forget(slot, p)
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

// openForCopy returns a segment of q with room for n bytes. It takes the spare, but evicts nothing.
func (s *shard) openForCopy(q *queue, n int) *segment {
	if g := q.filling; g != nil && g.room() >= n {
		return g
	}
	if s.spare == nil && s.bytes()+s.size+segmentOverhead > s.max {
		return nil
	}
	return s.begin(q, s.size, false)
}

// end frees a segment that is in no queue.
func (s *shard) end(g *segment) {
	s.segments[g.number] = nil
	s.numbers = append(s.numbers, g.number)
	if !g.own && s.spare == nil {
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
	for round := 0; s.bytes()-s.index.bytes()-s.ghosts.bytes()+grown.bytes()+slots/2*4+s.wanted(0) > s.max; round++ {
		if !s.evict(round) {
			return false
		}
	}
	for _, g := range slices.Concat(s.small.list, s.main.list) {
		for at := 0; at < g.used; at += len(g.entry(at)) {
			hash := s.cache.hashBytes(g.key(at))
			p := place(hash, g.number, at)
			if _, ok := s.slotOf(hash, p); ok {
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
