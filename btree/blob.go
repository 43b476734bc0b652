package btree

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"
)

// The blob of a leaf begins with the number of bytes that are claimed, the only word of it
// that changes atomically. Records follow in the order in which they were written:
//
//	2 bytes  length of the key; the highest bit is the mark of the value
//	2 bytes  length of the value, or isOutside
//	the key
//	the value, or 2 bytes: its index in the leaf's outside values
//
// Copies of a leaf share its blob, and any of them may belong to a tree that another
// goroutine writes. These rules make that safe:
//
//  1. A record before the fence of a leaf never changes, because another leaf may have it.
//     Records from the fence on are in this leaf only, and are changed in place.
//  2. A leaf appends to a blob only in room that it has claimed: it moves the claim from
//     the end of its own records to the end of the new one by compare-and-swap. If that
//     fails, another copy has appended there, and the leaf copies its records to a blob of
//     its own. Nobody reads behind the end of its own records.
//  3. A copy of a leaf sets its fence to the end of the records. The leaf that was copied
//     belongs to no tree any more, because Clone dropped its token, and never changes.
const (
	blobHead   = 8         // bytes of a blob before the first record
	recordHead = 4         // bytes of a record before the key
	recordUnit = 2         // records begin at multiples of it
	maxBlob    = 1<<17 - 2 // bytes of a blob: offsets have 16 bits
	maxLive    = 68 << 10  // bytes of the records of one leaf: two with the longest keys
	maxInline  = 1 << 10   // bytes of the longest value in a blob
	isOutside  = 1<<16 - 1 // in place of the length of a value that is not in the blob
	markBit    = uint16(1) << 15
	roomPart   = 4 // a new blob has room for this part of its records
	staleRoom  = 256
)

// newBlob gives the leaf an empty blob for size bytes of records and up to room more.
func (lf *leaf) newBlob(size, room int) {
	lf.blob = makeBlob(blobHead+size, room)
	lf.used, lf.fence, lf.live = blobHead, blobHead, 0
	lf.setClaimed(blobHead)
}

func (lf *leaf) claimWord() *uint32 { return (*uint32)(unsafe.Pointer(unsafe.SliceData(lf.blob))) }

// setClaimed sets the end of the claimed bytes of a blob that no other leaf has.
func (lf *leaf) setClaimed(end uint32) { atomic.StoreUint32(lf.claimWord(), end) }

// key returns key i. Its capacity equals its length.
func (lf *leaf) key(i int) []byte {
	b := lf.blob[int(lf.offs[i])*recordUnit:]
	n := int(binary.LittleEndian.Uint16(b) &^ markBit)
	return b[recordHead : recordHead+n : recordHead+n]
}

// val returns the value of key i.
func (lf *leaf) val(i int) Value {
	b := lf.blob[int(lf.offs[i])*recordUnit:]
	x, n := binary.LittleEndian.Uint16(b), int(binary.LittleEndian.Uint16(b[2:]))
	marked := x&markBit != 0
	from := recordHead + int(x&^markBit)
	if n == isOutside {
		return Value{lf.out.val(b[from:]), marked}
	}
	return Value{b[from : from+n : from+n], marked}
}

// pair returns key i and its value.
func (lf *leaf) pair(i int) ([]byte, Value) {
	b := lf.blob[int(lf.offs[i])*recordUnit:]
	x, n := binary.LittleEndian.Uint16(b), int(binary.LittleEndian.Uint16(b[2:]))
	marked := x&markBit != 0
	from := recordHead + int(x&^markBit)
	key := b[recordHead:from:from]
	if n == isOutside {
		return key, Value{lf.out.val(b[from:]), marked}
	}
	return key, Value{b[from : from+n : from+n], marked}
}

// recordBytes returns the size of a record.
func recordBytes(key, val int, inline bool) int {
	if !inline {
		val = 2
	}
	return (recordHead + key + val + recordUnit - 1) &^ (recordUnit - 1)
}

// recordLen returns the size of record i.
func (lf *leaf) recordLen(i int) int {
	b := lf.blob[int(lf.offs[i])*recordUnit:]
	k, n := int(binary.LittleEndian.Uint16(b)&^markBit), int(binary.LittleEndian.Uint16(b[2:]))
	return recordBytes(k, n, n != isOutside)
}

// bytesOf returns the size of the records from (included) to (not included).
func (lf *leaf) bytesOf(from, to int) (n int) {
	if from == 0 && to == int(lf.n) {
		return int(lf.live)
	}
	for i := from; i < to; i++ {
		n += lf.recordLen(i)
	}
	return n
}

// put appends a record for key, which has index i, or -1 if it is new, and returns its
// place. The old record of key i must have been dropped.
func (lf *leaf) put(key []byte, v Value, i int) uint16 {
	inline, size := lf.recordSize(len(key), len(v.Bytes))
	return lf.write(lf.claim(size, i), size, key, v, inline)
}

// recordSize returns the size of a new record, and whether its value is inline.
func (lf *leaf) recordSize(key, val int) (inline bool, size int) {
	inline = val <= 2 || val <= maxInline && int(lf.live)+recordBytes(key, val, true) <= maxLive
	return inline, recordBytes(key, val, inline)
}

// write writes a record after the last one and returns its place.
func (lf *leaf) write(at, size int, key []byte, v Value, inline bool) uint16 {
	b := lf.blob[at : at+size]
	copy(b[recordHead:], key)
	x, rest := uint16(len(key)), b[recordHead+len(key):]
	if v.Marked {
		x |= markBit
	}
	binary.LittleEndian.PutUint16(b, x)
	if inline {
		binary.LittleEndian.PutUint16(b[2:], uint16(len(v.Bytes)))
		copy(rest, v.Bytes)
	} else {
		binary.LittleEndian.PutUint16(b[2:], isOutside)
		binary.LittleEndian.PutUint16(rest, uint16(lf.addOutside(v.Bytes)))
	}
	lf.used += uint32(size)
	lf.live += uint32(size)
	return uint16(at / recordUnit)
}

// claim returns the place of size bytes after the last record that only this leaf writes.
// If there are none it copies the records to a new blob, but not that of key skip.
func (lf *leaf) claim(size, skip int) (at int) {
	from, to := lf.used, lf.used+uint32(size)
	if int(to) <= len(lf.blob) && atomic.CompareAndSwapUint32(lf.claimWord(), from, to) {
		return int(from)
	}
	lf.rebuild(size, int(lf.live)/roomPart, skip)
	lf.setClaimed(lf.used + uint32(size))
	return int(lf.used)
}

// rebuild copies the records to a blob of the leaf's own, in order and without that of key
// skip, with space for size bytes and up to room more.
func (lf *leaf) rebuild(size, room, skip int) {
	old, n := lf.blob, int(lf.n)
	lf.newBlob(int(lf.live)+size, room)
	if skip >= 0 {
		lf.copyRecords(old, lf.offs[:skip], lf.offs[:skip])
		lf.copyRecords(old, lf.offs[skip+1:n], lf.offs[skip+1:n])
	} else {
		lf.copyRecords(old, lf.offs[:n], lf.offs[:n])
	}
	lf.setClaimed(lf.used)
}

// copyRecords appends the records of a blob at from to the leaf's own blob, which has room
// for them, and stores their new places in to. Records that are neighbours are copied
// together.
func (lf *leaf) copyRecords(src []byte, from, to []uint16) {
	at := int(lf.used)
	for i := 0; i < len(from); {
		start := int(from[i]) * recordUnit
		end := start
		for ; i < len(from) && int(from[i])*recordUnit == end; i++ {
			to[i] = uint16((at + end - start) / recordUnit)
			b := src[end:]
			k, n := int(binary.LittleEndian.Uint16(b)&^markBit), int(binary.LittleEndian.Uint16(b[2:]))
			end += recordBytes(k, n, n != isOutside)
		}
		at += copy(lf.blob[at:], src[start:end])
	}
	lf.live += uint32(at) - lf.used
	lf.used = uint32(at)
}

// appendFrom appends keys from (included) to (not included) of src, which must be above
// those of lf. The leaf must have a new blob with room for them. The caller calls
// setPrefix afterwards.
func (lf *leaf) appendFrom(src *leaf, from, to int) {
	n := int(lf.n)
	offs := lf.offs[n : n+to-from]
	lf.copyRecords(src.blob, src.offs[from:to], offs)
	lf.setClaimed(lf.used)
	lf.n += uint16(to - from)
	if src.out == nil {
		return
	}
	for _, o := range offs {
		b := lf.blob[int(o)*recordUnit:]
		if binary.LittleEndian.Uint16(b[2:]) == isOutside {
			index := b[recordHead+int(binary.LittleEndian.Uint16(b)&^markBit):]
			val := src.out.vals[binary.LittleEndian.Uint16(index)]
			binary.LittleEndian.PutUint16(index, uint16(lf.holdOutside(val)))
		}
	}
}

// overwrite gives key i another value in place, if only this leaf has the record and its
// size stays. It reports whether it did, and returns the length of the old value.
func (lf *leaf) overwrite(i int, v Value) (old int, ok bool) {
	at := int(lf.offs[i]) * recordUnit
	r := lf.blob[at:]
	x, n := binary.LittleEndian.Uint16(r), int(binary.LittleEndian.Uint16(r[2:]))
	k := int(x &^ markBit)
	size := recordBytes(k, n, true)
	if at < int(lf.fence) || n == isOutside || len(v.Bytes) > maxInline || recordBytes(k, len(v.Bytes), true) != size {
		return 0, false
	}
	setRecord(r[:size], x, v)
	return n, true
}

// setRecord replaces the value in record r, which is long enough and begins with x.
func setRecord(r []byte, x uint16, v Value) {
	k := int(x &^ markBit)
	if x &^= markBit; v.Marked {
		x |= markBit
	}
	binary.LittleEndian.PutUint16(r, x)
	binary.LittleEndian.PutUint16(r[2:], uint16(len(v.Bytes)))
	n := copy(r[recordHead+k:], v.Bytes)
	scribble(r[recordHead+k+n:])
}

// replace gives key i another value and returns the length of the old one. The leaf must be
// owned.
func (lf *leaf) replace(i int, v Value) (old int) {
	at := int(lf.offs[i]) * recordUnit
	was := lf.recordLen(i)
	r := lf.blob[at : at+was]
	x, n := binary.LittleEndian.Uint16(r), int(binary.LittleEndian.Uint16(r[2:]))
	k := int(x &^ markBit)
	size, own := recordBytes(k, len(v.Bytes), true), at >= int(lf.fence)
	if own && n != isOutside && size <= was && len(v.Bytes) <= maxInline {
		setRecord(r, x, v)
		lf.live -= uint32(was - size)
		lf.shed()
		return n
	}
	old = len(lf.val(i).Bytes)
	lf.drop(i)
	lf.offs[i] = lf.put(r[recordHead:recordHead+k], v, i)
	if own {
		scribble(r)
	}
	lf.shed()
	return old
}

// drop takes record i out of the count of live bytes and releases its outside value.
func (lf *leaf) drop(i int) {
	b := lf.blob[int(lf.offs[i])*recordUnit:]
	k, n := int(binary.LittleEndian.Uint16(b)&^markBit), int(binary.LittleEndian.Uint16(b[2:]))
	if n == isOutside {
		lf.dropOutside(int(binary.LittleEndian.Uint16(b[recordHead+k:])))
	}
	lf.live -= uint32(recordBytes(k, n, n != isOutside))
}

// shed copies the records to a smaller blob if too much of this one is dead.
func (lf *leaf) shed() {
	if len(lf.blob) > maxBlobFor(lf.live) {
		lf.rebuild(0, 0, -1)
	}
}

// maxBlobFor returns the size of the largest blob for so many bytes of records.
func maxBlobFor(live uint32) int { return 2*int(live) + staleRoom }
