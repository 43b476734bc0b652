package disk

import "sort"

// chunkBytes is how much memory a batch takes at a time.
const chunkBytes = 256 << 10

// batch is a frame in the making: records in the order of the calls. What is in it never
// changes, so readers may keep slices of it.
type batch struct {
	c       codec
	gen     uint64 // flushes before it
	segment *segment
	base    int64 // offset of its frame in the segment
	start   chain // before its first record
	next    chain // after its last record
	size    int64 // of the frame
	records int   // without the mark
	mark    string
	fresh   bool // the mark is newer than those in earlier frames
	chunks  []chunk
}

// chunk is a piece of a frame.
type chunk struct {
	offset int64 // in the segment
	b      []byte
}

// newBatch returns an empty batch that begins at offset base of seg. A mark that is not
// "" becomes its first record.
func newBatch(c codec, gen uint64, seg *segment, base int64, start chain, mark string, fresh bool) *batch {
	b := &batch{c: c, gen: gen, segment: seg, base: base, start: start, next: start, size: frameBytes, mark: mark, fresh: fresh}
	if mark != "" {
		b.add(kindMark, "", []byte(mark))
		b.records = 0
	}
	return b
}

// pending reports whether there is anything to write.
func (b *batch) pending() bool { return b.records > 0 || b.fresh }

// queued returns the bytes of its records.
func (b *batch) queued() int64 { return b.size - frameBytes }

// add appends a record and returns where it is.
func (b *batch) add(kind byte, key string, value []byte) location {
	n := recordBytes + len(key) + len(value)
	if len(b.chunks) == 0 {
		first := make([]byte, frameBytes, max(chunkBytes, frameBytes+n))
		if b.records == 0 && kind == kindMark { // most often alone
			first = make([]byte, frameBytes, frameBytes+n)
		}
		b.chunks = append(b.chunks, chunk{offset: b.base, b: first})
	}
	last := &b.chunks[len(b.chunks)-1]
	if cap(last.b)-len(last.b) < n {
		b.chunks = append(b.chunks, chunk{offset: b.base + b.size, b: make([]byte, 0, max(chunkBytes, n))})
		last = &b.chunks[len(b.chunks)-1]
	}
	at := len(last.b)
	last.b = b.c.appendRecord(last.b, b.next.number, kind, key, value)
	l := location{segment: b.segment.number, offset: uint32(b.base + b.size), size: uint32(n), number: uint32(b.next.number)}
	b.next = b.next.after(last.b[at:])
	b.size += int64(n)
	b.records++
	return l
}

// find returns the encoded record at l, or nil if it is not in this batch.
func (b *batch) find(l location) []byte {
	offset := int64(l.offset)
	if b == nil || l.segment != b.segment.number || offset < b.base || offset >= b.base+b.size {
		return nil
	}
	i := sort.Search(len(b.chunks), func(i int) bool { return b.chunks[i].offset > offset }) - 1
	from := offset - b.chunks[i].offset
	return b.chunks[i].b[from : from+l.bytes()]
}

// finish completes the frame. Nothing may be added afterwards.
func (b *batch) finish(oldest uint32) {
	b.c.putFrame(b.chunks[0].b, frame{start: b.start, bytes: b.queued(), oldest: oldest})
}
