package client

// Sizes of the buffers for calls in flight.
const (
	minRing    = 64       // minimum number of slots
	chunkBytes = 32 << 10 // of requests; a larger one gets its own chunk
	spare      = 4        // unused chunks that are kept
)

// Flags of a slot.
const (
	readsOnly uint16 = 1 << iota // changes nothing, so it may be sent again
	once                         // has an idempotency key, so it may be sent again
	void                         // given up before it was sent: nothing is sent, no reply comes
	dropped                      // given up after it was sent: its reply is discarded
	twofold                      // preceded by CLIENT CACHING YES, which has its own reply
	halfway                      // that reply has arrived
	uncached                     // and was an error
	kept                         // its request was kept, to be sent again
	followed                     // its node was selected by Options.ReadFrom
	reader                       // calls a procedure, though it only reads
)

// slot is one call in flight. Besides the bytes of its request, it is all the memory that a
// call needs.
type slot struct {
	done     func(Result, error) // nil if w is set
	w        *waiter             // for blocking calls and those that can be cancelled
	proc     *procStats
	chunk    *chunk
	off, n   uint32 // the request is chunk.buf[off:off+n]
	start    int64  // nanoseconds of the client's clock
	deadline int64  // 0 if none
	tries    uint8
	broke    uint8 // connections that broke before its reply arrived; see MaxBrokenSends
	flags    uint16
}

func (s *slot) request() []byte { return s.chunk.buf[s.off : s.off+s.n] }

// again reports whether running the call twice is safe, so that it may be sent again.
func (s *slot) again() bool { return s.flags&(readsOnly|once) != 0 }

// breaks records that a connection broke before the reply to a call that may be sent again.
// It reports whether that has happened too often. Commands that only read are not suspects,
// because they run only the server's own code.
func (s *slot) breaks() bool {
	if s.flags&(once|reader) == 0 {
		return false
	}
	s.broke++
	return s.broke >= MaxBrokenSends
}

// chunk stores the bytes of adjacent requests. It is reused when all of them have their
// replies.
type chunk struct {
	buf  []byte
	refs int // slots, the queue that appends to it, writes in progress
}

// queue stores the calls of one connection in order: a ring of slots that grows to a power
// of two, and their requests. Slots have increasing numbers. Those from head to tail are in
// use; those below handed were passed to the socket. It has no lock.
type queue struct {
	ring               []slot
	head, handed, tail uint64
	cur                *chunk // for the next request
	free               []*chunk
}

func (q *queue) at(seq uint64) *slot { return &q.ring[seq&uint64(len(q.ring)-1)] }

// room returns the chunk for the next request of at most size bytes.
func (q *queue) room(size int) *chunk {
	if c := q.cur; c != nil {
		if c.refs == 1 {
			c.buf = c.buf[:0] // nothing in it is in use
		}
		tooLarge := cap(c.buf) > chunkBytes && size <= chunkBytes
		if cap(c.buf)-len(c.buf) >= size && !tooLarge {
			return c
		}
		q.unref(c)
	}
	var c *chunk
	if n := len(q.free); n > 0 && size <= chunkBytes {
		c = q.free[n-1]
		q.free = q.free[:n-1]
	} else {
		c = &chunk{buf: make([]byte, 0, max(size, chunkBytes))}
	}
	c.refs = 1
	q.cur = c
	return c
}

// add takes the next slot, for a request that was appended to c at off. The caller sets all
// fields but the request.
func (q *queue) add(c *chunk, off int) *slot {
	if q.tail-q.head == uint64(len(q.ring)) {
		q.grow()
	}
	s := q.at(q.tail)
	q.tail++
	c.refs++
	s.chunk, s.off, s.n = c, uint32(off), uint32(len(c.buf)-off)
	return s
}

func (q *queue) grow() {
	ring := make([]slot, max(minRing, 2*len(q.ring)))
	for seq := q.head; seq != q.tail; seq++ {
		ring[seq&uint64(len(ring)-1)] = *q.at(seq)
	}
	q.ring = ring
}

// shrink releases memory after a burst if nothing is in flight.
func (q *queue) shrink() {
	if q.head == q.tail && len(q.ring) > 64*minRing {
		q.ring = nil
		q.free = nil
	}
}

// pop removes the oldest slot. Its request may be overwritten from now on.
func (q *queue) pop(into *slot) {
	s := q.at(q.head)
	*into = *s
	*s = slot{}
	q.head++
	q.unref(into.chunk)
}

func (q *queue) unref(c *chunk) {
	c.refs--
	if c.refs > 0 {
		return
	}
	if cap(c.buf) == chunkBytes && len(q.free) < spare {
		c.buf = c.buf[:0]
		q.free = append(q.free, c)
	}
}

// segment is a range of bytes that are written together. They do not change while the chunk
// is retained, but the chunk's slice does as more is appended.
type segment struct {
	chunk *chunk
	bytes []byte
}

// gather appends the bytes of the calls that were not handed yet, and marks these calls as
// handed. It retains the chunks until release.
func (q *queue) gather(segs []segment) []segment {
	var c *chunk // not in segs yet: its bytes from off to end
	var off, end uint32
	add := func() {
		if c != nil {
			c.refs++
			segs = append(segs, segment{c, c.buf[off:end:end]})
		}
	}
	for ; q.handed != q.tail; q.handed++ {
		s := q.at(q.handed)
		if s.flags&void != 0 {
			continue
		}
		if s.chunk != c || s.off != end {
			add()
			c, off = s.chunk, s.off
		}
		end = s.off + s.n
	}
	add()
	return segs
}

// release releases the chunks that gather retained.
func (q *queue) release(segs []segment) {
	for i := range segs {
		q.unref(segs[i].chunk)
		segs[i] = segment{}
	}
}

// drain removes all slots, in order, with their requests, which stay valid.
func (q *queue) drain() []slot {
	list := make([]slot, 0, q.tail-q.head)
	for ; q.head != q.tail; q.head++ {
		s := q.at(q.head)
		list = append(list, *s)
		*s = slot{}
	}
	q.handed = q.tail
	q.cur, q.free = nil, nil
	return list
}
