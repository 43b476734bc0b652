package peer

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
)

// A frame of a raft connection is the length of the payload (4 bytes, little
// endian), the kind (1 byte) and the payload. This is on the wire: do not change.
const (
	frameMessage = 1 // a whole message
	frameFirst   = 2 // the start of a long message: its length (8 bytes), its first bytes
	frameMore    = 3 // the next bytes of a long message; whole messages may come between
	framePing    = 4 // from the dialling side: its stamp (8 bytes)
	frameBeat    = 5 // back: the last ping's stamp, how long ago it arrived, the clock (8 bytes each)

	frameHead  = 5
	pieceBytes = 256 << 10 // of a message in one frame
	beatBytes  = 24
)

// appendFrame appends a frame.
func appendFrame(to []byte, kind byte, payload []byte) []byte {
	to = binary.LittleEndian.AppendUint32(to, uint32(len(payload)))
	to = append(to, kind)
	return append(to, payload...)
}

// appendFirst appends the first frame of a long message, with n bytes of it.
func appendFirst(to, msg []byte, n int) []byte {
	to = binary.LittleEndian.AppendUint32(to, uint32(8+n))
	to = append(to, frameFirst)
	to = binary.LittleEndian.AppendUint64(to, uint64(len(msg)))
	return append(to, msg[:n]...)
}

// frames reads frames and assembles long messages.
type frames struct {
	r     *bufio.Reader
	limit int                // of one message
	ping  func(stamp uint64) // nil: pings are refused
	beat  func(b [3]uint64)  // nil: beats are refused

	buf   []byte // of the last short message, reused
	long  []byte // the received part of a long message
	total int    // the length of that message; 0: there is none
}

// next returns the next message, which is valid until the next call. It passes pings
// and beats to f.ping and f.beat.
func (f *frames) next() ([]byte, error) {
	for {
		head, err := f.r.Peek(frameHead)
		if err != nil {
			if err == io.EOF && len(head) > 0 {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		n, kind := int(binary.LittleEndian.Uint32(head)), head[4]
		if _, err := f.r.Discard(frameHead); err != nil {
			return nil, err
		}
		if n > pieceBytes+8 {
			return nil, &CorruptError{fmt.Sprintf("invalid frame length %d", n)}
		}
		switch kind {
		case frameMessage:
			if n > f.limit {
				return nil, &LimitError{"a message", int64(n), int64(f.limit)}
			}
			if cap(f.buf) < n {
				f.buf = make([]byte, n, max(n, min(2*n, pieceBytes+8)))
			}
			return f.buf[:n], f.fill(f.buf[:n])
		case frameFirst:
			err = f.first(n)
		case frameMore:
			err = f.more(n)
		case framePing, frameBeat:
			err = f.signal(kind, n)
		default:
			err = &CorruptError{fmt.Sprintf("unknown frame kind %d", kind)}
		}
		if err != nil {
			return nil, err
		}
		if f.total > 0 && len(f.long) == f.total {
			msg := f.long
			f.long, f.total = nil, 0
			return msg, nil
		}
	}
}

// first begins a long message.
func (f *frames) first(n int) error {
	if n < 8 || f.total != 0 {
		return &CorruptError{"a long message begins within another"}
	}
	var b [8]byte
	if err := f.fill(b[:]); err != nil {
		return err
	}
	total := binary.LittleEndian.Uint64(b[:])
	if total > uint64(f.limit) {
		return &LimitError{"a message", int64(min(total, 1<<62)), int64(f.limit)}
	}
	if total == 0 {
		return &CorruptError{"an empty part of a long message"}
	}
	f.total = int(total)
	return f.more(n - 8)
}

// more reads the next n bytes of a long message. The buffer at most doubles as data
// arrives, and ends up as large as the message.
func (f *frames) more(n int) error {
	have := len(f.long)
	if n > f.total-have {
		return &CorruptError{"a long message exceeds its announced length"}
	}
	if have+n > cap(f.long) {
		grown := make([]byte, have, min(f.total, max(2*cap(f.long), have+n)))
		copy(grown, f.long)
		f.long = grown
	}
	f.long = f.long[:have+n]
	return f.fill(f.long[have:])
}

// signal reads a ping or a beat.
func (f *frames) signal(kind byte, n int) error {
	var b [beatBytes]byte
	switch {
	case kind == framePing && f.ping != nil && n == 8:
		if err := f.fill(b[:8]); err != nil {
			return err
		}
		f.ping(binary.LittleEndian.Uint64(b[:]))
		return nil
	case kind == frameBeat && f.beat != nil && n == beatBytes:
		if err := f.fill(b[:]); err != nil {
			return err
		}
		f.beat([3]uint64{
			binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:]),
		})
		return nil
	}
	return &CorruptError{fmt.Sprintf("invalid frame of kind %d with %d bytes", kind, n)}
}

// fill reads all of b.
func (f *frames) fill(b []byte) error {
	_, err := io.ReadFull(f.r, b)
	if err == io.EOF && len(b) > 0 {
		err = io.ErrUnexpectedEOF
	}
	return err
}
