package journal

import (
	"encoding/binary"
	"hash/crc32"
)

// The format on disk. Do not change any constant or offset in this file. A change of
// format needs a new formatVersion, and the old one must stay readable.
const (
	formatVersion = 1
	segMagic      = "SKERRYLG"
	snapMagic     = "SKERRYSN"
	headerBytes   = 4096 // of a segment's header; its own page, never rewritten
	preambleBytes = 16   // magic, version, checksum of both: the same in every version
	frameMagic    = 0x4d524653
	frameHead     = 32 // header of a frame; divides a disk sector, so it is never split
	frameAlign    = 32
	recordHead    = 4
	flagReset     = 1 // segment header: nothing before this segment counts
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// putPreamble writes the part of a header that every version shares.
func putPreamble(b []byte, magic string) {
	copy(b, magic)
	binary.LittleEndian.PutUint32(b[8:], formatVersion)
	binary.LittleEndian.PutUint32(b[12:], crc32.Checksum(b[:12], castagnoli))
}

// checkPreamble returns a *CorruptError or *NewerError for file if b does not
// begin with a preamble that this program reads.
func checkPreamble(b []byte, magic, file string) error {
	switch {
	case len(b) < preambleBytes:
		return &CorruptError{file, int64(len(b)), "the file ends within its header"}
	case string(b[:8]) != magic:
		return &CorruptError{file, 0, "it does not start with " + magic}
	case binary.LittleEndian.Uint32(b[12:]) != crc32.Checksum(b[:12], castagnoli):
		return &CorruptError{file, 8, "the format version fails its checksum"}
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != formatVersion {
		return &NewerError{file, v, formatVersion}
	}
	return nil
}

// segHead is the header of a segment.
type segHead struct {
	id    uint64 // greater than that of every older segment
	first uint64 // index of its first record; supersedes records from there on in older segments
	reset bool   // no older segment counts
	salt  uint64
	seed  uint32 // checksum of id and salt, where each frame's checksum begins
}

func (h *segHead) setSeed() {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], h.id)
	binary.LittleEndian.PutUint64(b[8:], h.salt)
	h.seed = crc32.Checksum(b[:], castagnoli)
}

func (h *segHead) encode() []byte {
	b := make([]byte, headerBytes)
	putPreamble(b, segMagic)
	binary.LittleEndian.PutUint64(b[16:], h.id)
	binary.LittleEndian.PutUint64(b[24:], h.first)
	if h.reset {
		binary.LittleEndian.PutUint32(b[32:], flagReset)
	}
	binary.LittleEndian.PutUint64(b[40:], h.salt)
	binary.LittleEndian.PutUint32(b[headerBytes-4:], crc32.Checksum(b[:headerBytes-4], castagnoli))
	return b
}

func decodeSegHead(b []byte, file string) (segHead, error) {
	if err := checkPreamble(b, segMagic, file); err != nil {
		return segHead{}, err
	}
	if len(b) < headerBytes {
		return segHead{}, &CorruptError{file, int64(len(b)), "the file ends within its header"}
	}
	if binary.LittleEndian.Uint32(b[headerBytes-4:]) != crc32.Checksum(b[:headerBytes-4], castagnoli) {
		return segHead{}, &CorruptError{file, 0, "the header fails its checksum"}
	}
	h := segHead{
		id:    binary.LittleEndian.Uint64(b[16:]),
		first: binary.LittleEndian.Uint64(b[24:]),
		reset: binary.LittleEndian.Uint32(b[32:])&flagReset != 0,
		salt:  binary.LittleEndian.Uint64(b[40:]),
	}
	h.setSeed()
	return h, nil
}

// frameSum returns the checksum of a frame's header. It covers the segment, the
// offset in it and, through the payload's checksum, everything else. scratch avoids
// an allocation.
func frameSum(seed uint32, off int64, head []byte, scratch *[frameHead]byte) uint32 {
	copy(scratch[:], head[:frameHead])
	binary.LittleEndian.PutUint64(scratch[:], uint64(off))
	return crc32.Update(seed, castagnoli, scratch[:])
}

// putFrameHead fills in the header of b, a whole frame that will be written at off.
// n is the length of its payload without the padding.
func putFrameHead(b []byte, seed uint32, off int64, n int, first uint64, count uint32, scratch *[frameHead]byte) {
	le := binary.LittleEndian
	le.PutUint32(b, frameMagic)
	le.PutUint32(b[8:], uint32(n))
	le.PutUint32(b[12:], count)
	le.PutUint64(b[16:], first)
	le.PutUint32(b[24:], crc32.Checksum(b[frameHead:], castagnoli))
	le.PutUint32(b[28:], 0)
	le.PutUint32(b[4:], frameSum(seed, off, b, scratch))
}

// frame is a frame with valid checksums. payload aliases the reader's buffer.
type frame struct {
	off, end int64 // in the file; end includes the padding
	first    uint64
	count    uint32
	payload  []byte
}

// next returns the index after the frame's last record.
func (f *frame) next() uint64 { return f.first + uint64(f.count) }

// wellFormed reports whether the records fill the payload exactly.
func (f *frame) wellFormed() bool {
	b := f.payload
	for range f.count {
		if len(b) < recordHead {
			return false
		}
		n := binary.LittleEndian.Uint32(b)
		if uint64(n) > uint64(len(b)-recordHead) {
			return false
		}
		b = b[recordHead+int(n):]
	}
	return len(b) == 0
}

// splitRecord returns the first record of b, which must be well formed, and the rest.
func splitRecord(b []byte) (data, rest []byte) {
	n := int(binary.LittleEndian.Uint32(b))
	return b[recordHead : recordHead+n : recordHead+n], b[recordHead+n:]
}
