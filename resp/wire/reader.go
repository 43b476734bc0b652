package wire

import (
	"bytes"
	"errors"
	"io"

	"github.com/skerrydb/skerry/decimal"
)

// Defaults of Limits, and the bounds for clients that have not authenticated.
const (
	DefaultMaxBulk    = 16 << 20 // bytes of one argument
	DefaultMaxArgs    = 1 << 20  // arguments of one command
	DefaultMaxInline  = 64 << 10 // bytes of an inline command, or of a length line
	DefaultMaxCommand = 64 << 20 // bytes of one command in all, framing included

	GuestMaxArgs = 10       // arguments before authentication
	GuestMaxBulk = 16 << 10 // bytes of one argument before authentication

	GuestMaxCommand = 32 << 10 // bytes of one command in all before authentication
)

// ErrNoRoom is returned by Fill if the callback of SetRoom denies more memory.
var ErrNoRoom = errors.New("the memory limit for input is reached")

// Limits bounds what a Reader accepts. A zero field means its default.
type Limits struct {
	MaxBulk    int
	MaxArgs    int
	MaxInline  int
	MaxCommand int
}

func (l Limits) withDefaults() Limits {
	or := func(n *int, def int) {
		if *n <= 0 {
			*n = def
		}
	}
	or(&l.MaxBulk, DefaultMaxBulk)
	or(&l.MaxArgs, DefaultMaxArgs)
	or(&l.MaxInline, DefaultMaxInline)
	or(&l.MaxCommand, DefaultMaxCommand)
	return l
}

// span is one argument: bytes off to end, counted from the command's start.
type span struct{ off, end int }

// Reader splits a stream into commands in place: the arguments that Next returns alias its
// buffer. The buffer grows only as bytes arrive, never because of an announced length. A
// Reader is not safe for concurrent use.
type Reader struct {
	src    io.Reader
	bufs   *Buffers
	limits Limits
	guest  bool
	room   func(n int, guest bool) bool // nil: there always is

	buf  []byte
	base int // start of the command that is being parsed
	pos  int // the next byte to parse
	seen int // bytes from pos on without a newline
	end  int // end of the received bytes

	quiet int // consecutive reads that did not need a buffer as large as this

	left  int // arguments still to come; 0 between commands
	bulk  int // length of the argument being received, -1 before its length line
	spans []span
	err   error
}

// NewReader returns a Reader of src whose buffers come from bufs.
func NewReader(src io.Reader, bufs *Buffers, limits Limits) *Reader {
	return &Reader{src: src, bufs: bufs, limits: limits.withDefaults(), buf: bufs.Get(0), bulk: -1}
}

// SetGuest enables or disables the small limits for unauthenticated clients, starting with
// the next length line.
func (r *Reader) SetGuest(on bool) { r.guest = on }

// SetRoom makes the Reader call take with n before the buffer grows by n bytes, and with a
// negative n when the buffer shrinks or is released. If take returns false, the buffer does
// not grow. The smallest buffer is free.
func (r *Reader) SetRoom(take func(n int, guest bool) bool) { r.room = take }

// resize replaces the buffer by one of another size. It reports false if there is no room
// for it.
func (r *Reader) resize(size int) bool {
	if r.room != nil && !r.room(size-len(r.buf), r.guest) {
		return false
	}
	next := r.bufs.Get(size)
	copy(next, r.buf[r.base:r.end])
	r.bufs.Put(r.buf)
	r.buf = next
	return true
}

// Buffered returns the number of bytes received but not yet parsed, and of the free bytes
// after them.
func (r *Reader) Buffered() (used, free int) { return r.end - r.base, len(r.buf) - r.end }

// Release returns the buffer to the pool. Neither the Reader nor any argument that it
// returned may be used afterwards.
func (r *Reader) Release() {
	if r.room != nil && r.buf != nil {
		r.room(smallBuffer-len(r.buf), r.guest)
	}
	r.bufs.Put(r.buf)
	r.buf, r.base, r.pos, r.end, r.err = nil, 0, 0, 0, io.EOF
}

// Fill reads once from the source. It invalidates all arguments that Next returned. It
// returns errors of the source unchanged (io.EOF at the end, even in the middle of a
// command), and may be called again after an error such as a timeout. ErrNoRoom comes from
// the Reader itself.
func (r *Reader) Fill() error {
	if r.err != nil {
		return r.err
	}
	if r.makeRoom(); r.end == len(r.buf) {
		return ErrNoRoom
	}
	n, err := r.src.Read(r.buf[r.end:])
	r.end += n
	if n > 0 {
		return nil // the next read will return the error again
	}
	if err == nil {
		return io.ErrNoProgress
	}
	return err
}

// makeRoom moves the unparsed bytes to the front and ensures that there is room after them.
func (r *Reader) makeRoom() {
	full := r.end == len(r.buf)
	n := r.end - r.base
	size := len(r.buf)
	switch {
	case n == 0 && size > largeBuffer && r.calm(): // the large commands have ended
		size = middleBuffer
	case full && size < largeBuffer: // the peer sends faster than we read
		size *= 4
	case n > size/2 && n+smallBuffer > size:
		size *= 2
	}
	if size != len(r.buf) && r.resize(size) {
		// it begins with the unparsed bytes
	} else if r.base > 0 {
		copy(r.buf, r.buf[r.base:r.end])
	}
	r.pos -= r.base
	r.base, r.end = 0, n
	if cap(r.spans) > 1<<16 && r.left == 0 {
		r.spans = nil
	}
}

// Buffers that are too large for the pool are released at once if they are over keepBuffer,
// and otherwise after calmReads consecutive reads that did not need them.
const (
	keepBuffer = 1 << 20
	calmReads  = 8
)

// calm reports whether the buffer has become too large for the current traffic.
func (r *Reader) calm() bool {
	if r.end > largeBuffer {
		r.quiet = 0
	} else {
		r.quiet++
	}
	return len(r.buf) > keepBuffer || r.quiet >= calmReads
}

// Next appends the arguments of the next complete command to args. It returns false if more
// bytes must be received first (see Fill). It skips commands without arguments. An error is
// a *ProtocolError and final.
func (r *Reader) Next(args [][]byte) ([][]byte, bool, error) {
	if r.err != nil {
		return args, false, r.err
	}
	for r.pos < r.end {
		var done bool
		var err *ProtocolError
		if r.left == 0 && r.buf[r.pos] != '*' {
			done, err = r.inline()
		} else {
			done, err = r.multi()
		}
		if most := r.maxCommand(); err == nil && (r.pos-r.base > most || !done && r.end-r.base > most) {
			err = protocolError("too big command")
		}
		if err != nil {
			r.err = err
			return args, false, err
		}
		if !done {
			return args, false, nil
		}
		if len(r.spans) == 0 {
			r.base = r.pos
			continue
		}
		for _, s := range r.spans {
			args = append(args, r.buf[r.base+s.off:r.base+s.end:r.base+s.end])
		}
		r.spans = r.spans[:0]
		r.base = r.pos
		return args, true, nil
	}
	return args, false, nil
}

func (r *Reader) maxCommand() int {
	if r.guest {
		return min(r.limits.MaxCommand, GuestMaxCommand)
	}
	return r.limits.MaxCommand
}

// line returns the line that begins at pos, without its CRLF, and moves pos after it. ok is
// false if the line is not complete.
func (r *Reader) line(tooBig string) (line []byte, ok bool, err *ProtocolError) {
	i := bytes.IndexByte(r.buf[r.pos+r.seen:r.end], '\n')
	n := r.seen + i
	if i < 0 {
		n = r.end - r.pos
		r.seen = n
	}
	if n > r.limits.MaxInline {
		return nil, false, protocolError(tooBig)
	}
	if i < 0 {
		return nil, false, nil
	}
	r.seen = 0
	line = r.buf[r.pos : r.pos+n]
	r.pos += n + 1
	if n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line, true, nil
}

// multi continues to parse a command in the form *2 $3 GET $1 k.
func (r *Reader) multi() (done bool, err *ProtocolError) {
	if r.left == 0 {
		line, ok, err := r.line("too big mbulk count string")
		if !ok {
			return false, err
		}
		n, ok := decimal.Parse(line[1:])
		switch {
		case !ok || n > int64(r.limits.MaxArgs):
			return false, protocolError("invalid multibulk length")
		case r.guest && n > GuestMaxArgs:
			return false, protocolError("unauthenticated multibulk length")
		case n <= 0:
			return true, nil
		}
		r.left, r.bulk = int(n), -1
	}
	for r.left > 0 {
		if r.bulk < 0 {
			ok, err := r.bulkLength()
			if !ok {
				return false, err
			}
		}
		if r.end-r.pos < r.bulk+2 {
			return false, nil
		}
		tail := r.pos + r.bulk
		r.spans = append(r.spans, span{r.pos - r.base, tail - r.base})
		r.pos = tail + 2 // like Redis, ignore what these two bytes are
		r.bulk = -1
		r.left--
	}
	return true, nil
}

// bulkLength parses the line $n.
func (r *Reader) bulkLength() (ok bool, err *ProtocolError) {
	if r.pos == r.end {
		return false, nil
	}
	if c := r.buf[r.pos]; c != '$' {
		return false, protocolError("expected '$', got '" + string(rune(c)) + "'")
	}
	line, ok, err := r.line("too big bulk count string")
	if !ok {
		return false, err
	}
	n, ok := decimal.Parse(line[1:])
	switch {
	case !ok || n < 0 || n > int64(r.limits.MaxBulk):
		return false, protocolError("invalid bulk length")
	case r.guest && n > GuestMaxBulk:
		return false, protocolError("unauthenticated bulk length")
	}
	r.bulk = int(n)
	return true, nil
}

// inline parses a command that was typed as a line of words.
func (r *Reader) inline() (done bool, err *ProtocolError) {
	line, ok, err := r.line("too big inline request")
	if !ok {
		return false, err
	}
	r.spans, ok = splitWords(r.spans, line)
	if !ok {
		return false, protocolError("unbalanced quotes in request")
	}
	return true, nil
}
