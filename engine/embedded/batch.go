package embedded

import (
	"encoding/binary"
	"errors"
	"iter"
	"slices"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/raft"
)

// A batch is the content of one log record: the effects of consecutive transactions,
// and the position that they were built on. Format 1 is on disk, do not change:
//
//	byte     format
//	uint64   base: position of the last transaction before the batch (little endian)
//	then for each transaction
//	  uvarint  microseconds since the Unix epoch, for the first; since the one before, for others
//	  uvarint  number of writes, at least 1
//	  then for each write
//	    uvarint  2 × length of the key, + 1 if the key was removed
//	    bytes    key
//	    uvarint  length of the value  (not if removed)
//	    bytes    value                (not if removed)
//
// Transactions have consecutive positions base+1, base+2, …
const batchFormat = 1

const batchHeader = 9

var errBatch = errors.New("malformed batch")

// batch collects transactions until it is sealed, committed and published.
type batch struct {
	buf      []byte
	undo     []byte          // see undo.go
	shared   []byte          // the same bytes where raft keeps them; nil: it does not
	base     engine.Position // of the transaction before
	last     engine.Position // of the last transaction in it
	first    int64           // time of the first transaction in it, in microseconds
	time     int64           // of the last transaction in it
	calls    []*call         // to be answered when it is durable
	called   atomic.Int32    // their number, for other goroutines than the runner
	snap     *snapshot       // the state after it, set when it is sealed; nil: not needed
	writes   int             // of all its transactions
	index    uint64          // of its log record; set before it is committed
	term     uint64          // in which it was built, in a cluster
	proposal *raft.Proposal  // of it, in a cluster
	began    time.Time       // when its commit began, if it was built here
	fence    fence           // of the state after it
}

func newBatch(base engine.Position, size int) *batch {
	return newBatchIn(spare{buf: make([]byte, 0, max(size, 512))}, base)
}

// newBatchIn is newBatch in the memory of an earlier batch.
func newBatchIn(s spare, base engine.Position) *batch {
	buf := append(s.buf[:0], batchFormat)
	buf = binary.LittleEndian.AppendUint64(buf, uint64(base))
	return &batch{buf: buf, undo: s.undo[:0], base: base, last: base}
}

// spare is memory of a batch, for another one.
type spare struct{ buf, undo []byte }

// keepBatch is the size of the largest batch whose memory is reused even if it was
// hardly used.
const keepBatch = 1 << 20

// reusable reports whether the memory of a published batch, or of its undo log, should be
// used for another one: it must not stay large after a burst.
func reusable(b []byte) bool {
	return cap(b) <= keepBatch || cap(b) <= 2*batchBytes && len(b) >= cap(b)/4
}

// spare returns what should be used of b's memory for another batch.
func (b *batch) spare() (s spare) {
	if reusable(b.buf) {
		s.buf = b.buf
	}
	if reusable(b.undo) {
		s.undo = b.undo
	}
	return s
}

// full reports whether b must be sealed before another transaction is added to it.
func (b *batch) full() bool { return len(b.buf) >= batchBytes || len(b.undo) >= batchBytes }

// empty reports whether there is nothing to make durable.
func (b *batch) empty() bool { return b.last == b.base }

// add appends one transaction of n writes, which put then appends one by one.
func (b *batch) add(micros int64, n int) {
	if !b.empty() {
		b.buf = binary.AppendUvarint(b.buf, uint64(micros-b.time))
	} else {
		b.first = micros
		b.buf = binary.AppendUvarint(b.buf, uint64(micros))
	}
	b.buf = binary.AppendUvarint(b.buf, uint64(n))
	b.last++
	b.writes += n
	b.time = micros
}

func (b *batch) put(key, val []byte) {
	b.buf = binary.AppendUvarint(b.buf, uint64(len(key))<<1)
	b.buf = append(b.buf, key...)
	b.buf = binary.AppendUvarint(b.buf, uint64(len(val)))
	b.buf = append(b.buf, val...)
}

func (b *batch) remove(key []byte) {
	b.buf = binary.AppendUvarint(b.buf, uint64(len(key))<<1|1)
	b.buf = append(b.buf, key...)
}

// batchBase returns the position that an encoded batch was built on.
func batchBase(data []byte) (engine.Position, error) {
	if len(data) < batchHeader {
		return 0, errBatch
	}
	if data[0] > batchFormat {
		return 0, engine.Errorf(engine.CodeFormatNewer, "log record has batch format %d; this program knows up to %d", data[0], batchFormat)
	}
	if data[0] != batchFormat {
		return 0, errBatch
	}
	return engine.Position(binary.LittleEndian.Uint64(data[1:])), nil
}

// maxChunk is how many writes are allocated ahead at most.
const maxChunk = 128

// changes decodes a batch. The writes alias data. An error is the last value.
func changes(data []byte) iter.Seq2[engine.Change, error] { return changesIn(data, nil) }

// changesIn is changes with the memory of the writes of one change, if it is not nil, for
// those of each.
func changesIn(data []byte, memory *[]engine.Write) iter.Seq2[engine.Change, error] {
	return func(yield func(engine.Change, error) bool) {
		pos, err := batchBase(data)
		if err != nil {
			yield(engine.Change{}, err)
			return
		}
		d := decoder{rest: data[batchHeader:]}
		var micros int64
		var room []engine.Write
		chunk := uint64(1)
		for len(d.rest) > 0 {
			pos++
			micros += int64(d.uvarint())
			n := d.uvarint()
			if d.bad || n == 0 || n > uint64(len(d.rest)) {
				yield(engine.Change{}, errBatch)
				return
			}
			if memory != nil {
				*memory = slices.Grow((*memory)[:0], int(n))
				room = (*memory)[:n]
			} else if uint64(len(room)) < n { // one allocation for the writes of many small transactions
				chunk = min(2*chunk, maxChunk)
				room = make([]engine.Write, max(n, chunk))
			}
			c := engine.Change{Pos: pos, Time: time.UnixMicro(micros), Writes: room[:n:n]}
			room = room[n:]
			for i := range c.Writes {
				c.Writes[i] = d.write()
			}
			if d.bad {
				yield(engine.Change{}, errBatch)
				return
			}
			if !yield(c, nil) {
				return
			}
		}
	}
}

// decodeWrites appends the writes of all transactions of an encoded batch to w. They
// alias data. It also returns how many transactions there are, and the time of the last.
func decodeWrites(w []engine.Write, data []byte) (all []engine.Write, n engine.Position, last int64, err error) {
	if _, err := batchBase(data); err != nil {
		return nil, 0, 0, err
	}
	d := decoder{rest: data[batchHeader:]}
	for len(d.rest) > 0 {
		last += int64(d.uvarint())
		count := d.uvarint()
		if d.bad || count == 0 || count > uint64(len(d.rest)) {
			return nil, 0, 0, errBatch
		}
		for range count {
			w = append(w, d.write())
		}
		if d.bad {
			return nil, 0, 0, errBatch
		}
		n++
	}
	return w, n, last, nil
}

// decoder reads from the front of rest. bad is set once the data is malformed.
type decoder struct {
	rest []byte
	bad  bool
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 {
		d.bad, d.rest = true, nil
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) bytes(n uint64) []byte {
	if n > uint64(len(d.rest)) {
		d.bad, d.rest = true, nil
		return nil
	}
	b := d.rest[:n:n]
	d.rest = d.rest[n:]
	return b
}

func (d *decoder) write() engine.Write {
	head := d.uvarint()
	w := engine.Write{Key: d.bytes(head >> 1), Deleted: head&1 == 1}
	if !w.Deleted {
		w.Val = d.bytes(d.uvarint())
	}
	return w
}
