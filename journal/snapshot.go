package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// The format of a snapshot, as a file or as a stream. Do not change; a change
// is a new formatVersion.
const (
	snapBlockBytes = 256 << 10 // data of every block but the last
	snapHeadBytes  = 32        // preamble, length and checksum of the metadata
	snapBlockHead  = 8         // length, checksum
	snapFootBytes  = 24        // after the block of length 0: bytes, blocks, checksum
	// MaxMetaBytes is the maximum size of a snapshot's metadata.
	MaxMetaBytes = 1 << 20
)

// SnapshotWriter writes one snapshot to a stream.
type SnapshotWriter struct {
	w      io.Writer
	buf    []byte // a block: its header, and the data so far
	total  uint64
	blocks uint64
	err    error
}

// NewSnapshotWriter begins a snapshot on w with metadata of at most MaxMetaBytes.
// Close must be called to complete it.
func NewSnapshotWriter(w io.Writer, meta []byte) (*SnapshotWriter, error) {
	if len(meta) > MaxMetaBytes {
		return nil, &LimitError{"snapshot meta data", int64(len(meta)), MaxMetaBytes}
	}
	if _, err := w.Write(snapHead(meta)); err != nil {
		return nil, fmt.Errorf("write snapshot: %w", err)
	}
	return &SnapshotWriter{w: w, buf: make([]byte, snapBlockHead, snapBlockHead+snapBlockBytes)}, nil
}

// snapHead returns the beginning of a snapshot, up to the first block.
func snapHead(meta []byte) []byte {
	b := make([]byte, snapHeadBytes, snapHeadBytes+len(meta))
	putPreamble(b, snapMagic)
	le := binary.LittleEndian
	le.PutUint32(b[16:], uint32(len(meta)))
	le.PutUint32(b[20:], crc32.Checksum(meta, castagnoli))
	le.PutUint32(b[28:], crc32.Checksum(b[:28], castagnoli))
	return append(b, meta...)
}

// Write adds data. After an error the snapshot is not usable.
func (s *SnapshotWriter) Write(p []byte) (n int, err error) {
	for s.err == nil && len(p) > 0 {
		take := min(len(p), cap(s.buf)-len(s.buf))
		s.buf = append(s.buf, p[:take]...)
		p, n = p[take:], n+take
		if len(s.buf) == cap(s.buf) {
			s.flush()
		}
	}
	return n, s.err
}

// flush writes the buffered block, even an empty one.
func (s *SnapshotWriter) flush() {
	data := s.buf[snapBlockHead:]
	binary.LittleEndian.PutUint32(s.buf, uint32(len(data)))
	binary.LittleEndian.PutUint32(s.buf[4:], blockSum(s.blocks, data))
	if _, err := s.w.Write(s.buf); err != nil {
		s.err = fmt.Errorf("write snapshot: %w", err)
		return
	}
	s.total += uint64(len(data))
	s.blocks++
	s.buf = s.buf[:snapBlockHead]
}

// Close ends the snapshot. It does not close the stream.
func (s *SnapshotWriter) Close() error {
	if s.err == nil && len(s.buf) > snapBlockHead {
		s.flush()
	}
	if s.err == nil {
		s.flush() // of length 0: the end of the blocks
	}
	if s.err != nil {
		return s.err
	}
	b := make([]byte, snapFootBytes)
	binary.LittleEndian.PutUint64(b, s.total)
	binary.LittleEndian.PutUint64(b[8:], s.blocks)
	binary.LittleEndian.PutUint32(b[20:], crc32.Checksum(b[:20], castagnoli))
	if _, err := s.w.Write(b); err != nil {
		s.err = fmt.Errorf("write snapshot: %w", err)
		return s.err
	}
	s.err = ErrClosed
	return nil
}

// blockSum also covers the block's number and length, to detect swapped, duplicate or
// missing blocks.
func blockSum(number uint64, data []byte) uint32 {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], number)
	binary.LittleEndian.PutUint64(b[8:], uint64(len(data)))
	return crc32.Update(crc32.Checksum(b[:], castagnoli), castagnoli, data)
}

// SnapshotReader reads one snapshot. Read returns io.EOF only after it has verified
// the footer, and returns only bytes whose block's checksum is valid. Damage is
// *CorruptError, a newer format *NewerError.
type SnapshotReader struct {
	Meta []byte

	r      io.Reader
	file   string
	closer io.Closer // nil for a stream
	off    int64     // in the stream
	buf    []byte    // data of the current block
	rest   []byte    // unread part of buf
	total  uint64
	blocks uint64
	err    error
}

// NewSnapshotReader reads the header of a snapshot from r, which must end where
// the snapshot ends.
func NewSnapshotReader(r io.Reader) (*SnapshotReader, error) {
	return newSnapshotReader(r, "")
}

func newSnapshotReader(r io.Reader, file string) (*SnapshotReader, error) {
	s := &SnapshotReader{r: r, file: file}
	var b [snapHeadBytes]byte
	if err := s.fill(b[:preambleBytes]); err != nil {
		return nil, err
	}
	if err := checkPreamble(b[:preambleBytes], snapMagic, file); err != nil {
		return nil, err
	}
	if err := s.fill(b[preambleBytes:]); err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	n := le.Uint32(b[16:])
	if le.Uint32(b[28:]) != crc32.Checksum(b[:28], castagnoli) || n > MaxMetaBytes {
		return nil, &CorruptError{file, preambleBytes, "the header fails its checksum"}
	}
	s.Meta = make([]byte, n)
	if err := s.fill(s.Meta); err != nil {
		return nil, err
	}
	if le.Uint32(b[20:]) != crc32.Checksum(s.Meta, castagnoli) {
		return nil, &CorruptError{file, snapHeadBytes, "the meta data fails its checksum"}
	}
	return s, nil
}

// fill reads exactly len(b) bytes.
func (s *SnapshotReader) fill(b []byte) error {
	n, err := io.ReadFull(s.r, b)
	s.off += int64(n)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &CorruptError{s.file, s.off, "the snapshot ends too early"}
	}
	if err != nil {
		return fmt.Errorf("read snapshot: %w", err)
	}
	return nil
}

// Read returns data. See SnapshotReader.
func (s *SnapshotReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if len(s.rest) == 0 && s.err == nil {
		s.err = s.block()
	}
	if len(s.rest) == 0 {
		return 0, s.err
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// block reads the next block, or the footer and then returns io.EOF.
func (s *SnapshotReader) block() error {
	at := s.off
	var b [snapBlockHead]byte
	if err := s.fill(b[:]); err != nil {
		return err
	}
	n := binary.LittleEndian.Uint32(b[:])
	if n > snapBlockBytes {
		return &CorruptError{s.file, at, fmt.Sprintf("a block of %d bytes, the most is %d", n, snapBlockBytes)}
	}
	if s.buf == nil {
		s.buf = make([]byte, snapBlockBytes)
	}
	data := s.buf[:n]
	if err := s.fill(data); err != nil {
		if corrupt, ok := errors.AsType[*CorruptError](err); ok {
			corrupt.Offset = at // the length may be what is wrong
		}
		return err
	}
	if binary.LittleEndian.Uint32(b[4:]) != blockSum(s.blocks, data) {
		return &CorruptError{s.file, at, "a block fails its checksum"}
	}
	s.blocks++
	s.total += uint64(n)
	if s.rest = data; n == 0 {
		return s.footer()
	}
	return nil
}

func (s *SnapshotReader) footer() error {
	at := s.off
	var b [snapFootBytes]byte
	if err := s.fill(b[:]); err != nil {
		return err
	}
	le := binary.LittleEndian
	if le.Uint32(b[20:]) != crc32.Checksum(b[:20], castagnoli) {
		return &CorruptError{s.file, at, "the footer fails its checksum"}
	}
	if le.Uint64(b[:]) != s.total || le.Uint64(b[8:]) != s.blocks {
		return &CorruptError{s.file, at, "the footer does not match the blocks"}
	}
	var one [1]byte // nothing may follow
	if n, err := io.ReadFull(s.r, one[:]); n > 0 {
		return &CorruptError{s.file, s.off, "data follows the footer"}
	} else if !errors.Is(err, io.EOF) {
		return fmt.Errorf("read snapshot: %w", err)
	}
	return io.EOF
}

// Close releases the file. It does nothing for a stream.
func (s *SnapshotReader) Close() error {
	if s.closer == nil {
		return nil
	}
	return s.closer.Close()
}
