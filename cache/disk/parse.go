package disk

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
)

// readBytes is how much of a segment is read at a time.
const readBytes = 1 << 20

// op is a record as replay needs it.
type op struct {
	kind     byte
	hash     uint64
	at       location
	position string
}

// parser reads the frames of a segment.
type parser struct {
	c       codec
	segment uint32
	r       io.ReaderAt
	size    int64

	at     int64  // end of the last valid frame
	next   chain  // at that place
	oldest uint32 // newest oldest segment of the frames

	buf []byte
	ops []op
}

// run calls apply for every frame until the end of the segment, or until something that is
// not a complete valid frame: at tells. ops are valid during the call. The error is one of
// reading.
func (p *parser) run(apply func(ops []op)) error {
	r := bufio.NewReaderSize(io.NewSectionReader(p.r, p.at, p.size-p.at), int(min(p.size, readBytes)))
	for {
		ok, err := p.frame(r)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil || !ok {
			return err
		}
		apply(p.ops)
	}
}

// frame reads one frame into ops. It moves on only if all of it is valid.
func (p *parser) frame(r io.Reader) (ok bool, err error) {
	var b [frameBytes]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return false, err
	}
	f, ok := p.c.parseFrame(b[:])
	if !ok || f.start != p.next || f.bytes == 0 || f.bytes > p.size-p.at-frameBytes {
		return false, nil
	}
	p.ops = p.ops[:0]
	next, at := p.next, p.at+frameBytes
	end := at + f.bytes
	for at < end {
		rec, err := p.record(r, end-at)
		if rec == nil || err != nil {
			return false, err
		}
		d, ok := p.c.parse(rec, uint32(next.number))
		if !ok {
			return false, nil
		}
		o := op{kind: d.kind}
		switch d.kind {
		case kindPut:
			o.hash = p.c.hash(string(d.key))
			o.at = location{segment: p.segment, offset: uint32(at), size: uint32(len(rec)), number: uint32(next.number)}
		case kindDelete:
			o.hash = binary.LittleEndian.Uint64(d.key)
		case kindMark:
			o.position = string(d.value)
		}
		p.ops = append(p.ops, o)
		next, at = next.after(rec), at+int64(len(rec))
	}
	p.next, p.at, p.oldest = next, at, max(p.oldest, f.oldest)
	return true, nil
}

// record reads one record, which must not be longer than limit; otherwise it returns nil.
// The result is valid until the next call.
func (p *parser) record(r io.Reader, limit int64) ([]byte, error) {
	if limit < recordBytes {
		return nil, nil
	}
	p.buf = append(p.buf[:0], make([]byte, recordBytes)...)
	if _, err := io.ReadFull(r, p.buf); err != nil {
		return nil, err
	}
	n, ok := recordSize(p.buf)
	if !ok || int64(n) > limit {
		return nil, nil
	}
	p.buf = append(p.buf, make([]byte, n-recordBytes)...)
	_, err := io.ReadFull(r, p.buf[recordBytes:])
	return p.buf, err
}

// laterFrame reports whether a part of a segment has the header of a frame whose records
// come after number.
func laterFrame(c codec, r io.ReaderAt, from, to int64, number uint64) (bool, error) {
	magic := binary.LittleEndian.AppendUint32(nil, frameMagic)
	window := make([]byte, min(to, readBytes))
	for from+frameBytes <= to {
		b := window[:min(int64(len(window)), to-from)]
		if _, err := r.ReadAt(b, from); err != nil {
			return false, err
		}
		for i := 0; ; i++ {
			j := bytes.Index(b[i:], magic)
			if j < 0 {
				break
			}
			i += j
			if f, ok := c.parseFrame(b[i:]); ok && f.start.number > number {
				return true, nil
			}
		}
		from += int64(len(b)) - frameBytes + 1
	}
	return false, nil
}
