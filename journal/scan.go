package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// windowBytes is how much of a segment a scanner reads at a time.
const windowBytes = 256 << 10

// scanner reads the frames of one segment. It never writes.
type scanner struct {
	r       io.ReaderAt
	file    string
	size    int64 // of the file when the scanner was made
	h       segHead
	buf     []byte // the window
	off     int64  // its offset in the file
	scratch [frameHead]byte
}

// openScanner reads the header of the segment in r.
func openScanner(r io.ReaderAt, file string, size int64) (*scanner, error) {
	b := make([]byte, min(headerBytes, size))
	if _, err := r.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	h, err := decodeSegHead(b, file)
	if err != nil {
		return nil, err
	}
	return &scanner{r: r, file: file, size: size, h: h}, nil
}

// bytes returns n bytes at off, or fewer at the end of the file. They are valid until
// the next call.
func (s *scanner) bytes(off int64, n int) ([]byte, error) {
	n = int(max(0, min(int64(n), s.size-off)))
	if off >= s.off && off+int64(n) <= s.off+int64(len(s.buf)) {
		return s.buf[off-s.off:][:n], nil
	}
	want := int(min(max(int64(n), windowBytes), s.size-off))
	if cap(s.buf) < want {
		s.buf = make([]byte, want)
	}
	s.buf, s.off = s.buf[:want], off
	got, err := s.r.ReadAt(s.buf, off)
	if got < want {
		s.buf = s.buf[:0]
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("read %s: %w", s.file, err)
	}
	return s.buf[:n], nil
}

// head reads a frame's header at off. If it is valid, why is "" and n is the length of
// the payload.
func (s *scanner) head(off int64) (f frame, n int, sum uint32, why string, err error) {
	b, err := s.bytes(off, frameHead)
	if err != nil {
		return f, 0, 0, "", err
	}
	le := binary.LittleEndian
	switch {
	case len(b) < frameHead:
		return f, 0, 0, "the file ends within a frame's header", nil
	case le.Uint32(b) != frameMagic:
		return f, 0, 0, "there is no frame", nil
	case le.Uint32(b[4:]) != frameSum(s.h.seed, off, b, &s.scratch):
		return f, 0, 0, "a frame's header fails its checksum", nil
	}
	n = int(le.Uint32(b[8:]))
	f = frame{off: off, end: off + frameHead + roundUp(int64(n), frameAlign), first: le.Uint64(b[16:]), count: le.Uint32(b[12:])}
	return f, n, le.Uint32(b[24:]), "", nil
}

// frame reads the frame at off. If it is whole, why is "". Otherwise why is what is
// wrong, and f.end is set if at least the header is valid. err is a read error.
func (s *scanner) frame(off int64) (f frame, why string, err error) {
	f, n, sum, why, err := s.head(off)
	if err != nil || why != "" {
		return f, why, err
	}
	if f.end > s.size {
		return f, "the file ends within a frame", nil
	}
	b, err := s.bytes(off, int(f.end-off))
	if err != nil {
		return f, "", err
	}
	if crc32.Checksum(b[frameHead:], castagnoli) != sum {
		return f, "a frame fails its checksum", nil
	}
	f.payload = b[frameHead : frameHead+n]
	if !f.wellFormed() {
		return f, "a frame's records do not fill it", nil
	}
	return f, "", nil
}

// walk calls visit for the frames from m on, until it returns false or a frame reaches
// index limit. A damaged or unexpected frame is *CorruptError.
func (s *scanner) walk(m mark, limit uint64, visit func(*frame) bool) error {
	for m.first < limit {
		f, why, err := s.frame(m.off)
		if err != nil {
			return err
		}
		if why == "" && f.first != m.first {
			why = fmt.Sprintf("record %d is in the place of record %d", f.first, m.first)
		}
		if why != "" {
			return &CorruptError{s.file, m.off, why}
		}
		if !visit(&f) {
			return nil
		}
		m = mark{f.next(), f.end}
	}
	return nil
}

// tail classifies the data at off, where frame found no whole frame. used is the end
// of the last byte that is not zero. torn reports whether a crash may leave this in
// the last segment: at most one incomplete frame. Otherwise later is the offset of
// data that was written only after the frame at off was durable.
func (s *scanner) tail(off int64) (used int64, torn bool, later int64, err error) {
	f, _, _, why, err := s.head(off)
	if err != nil {
		return off, false, 0, err
	}
	known := why == "" // the header is valid, so the frame's end is known
	used = off
	for at := off; at < s.size; {
		b, err := s.bytes(at, windowBytes)
		if err != nil {
			return off, false, 0, err
		}
		// A multiple of the alignment, except at the file's end, so headers are whole.
		b = b[:min(len(b), windowBytes)]
		for i := 0; i < len(b); i += frameAlign {
			p := b[i:min(i+frameAlign, len(b))]
			if allZero(p) {
				continue
			}
			here := at + int64(i)
			used = here + int64(len(p))
			if here > off && (known && here >= f.end || s.validHead(p, here)) {
				return used, false, here, nil
			}
		}
		at += int64(len(b))
	}
	return used, true, 0, nil
}

// validHead reports whether p is the header of a frame that was written at off.
func (s *scanner) validHead(p []byte, off int64) bool {
	return len(p) == frameHead && binary.LittleEndian.Uint32(p) == frameMagic &&
		binary.LittleEndian.Uint32(p[4:]) == frameSum(s.h.seed, off, p, &s.scratch)
}

func allZero(b []byte) bool {
	for len(b) >= 8 {
		if binary.LittleEndian.Uint64(b) != 0 {
			return false
		}
		b = b[8:]
	}
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
