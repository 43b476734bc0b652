package wire

import (
	"bytes"
	"io"
	"strconv"

	"github.com/skerrydb/skerry/decimal"
)

// Bounds of a reply that Replies reads.
const (
	DefaultMaxReply = 256 << 20 // bytes of one reply
	MaxReplyDepth   = 16        // aggregates within each other
)

// Kinds of Value: its first byte on the wire.
const (
	KindSimple    = '+'
	KindError     = '-'
	KindInt       = ':'
	KindBulk      = '$'
	KindArray     = '*'
	KindNull      = '_'
	KindDouble    = ','
	KindBool      = '#'
	KindBlobError = '!'
	KindVerbatim  = '='
	KindBig       = '('
	KindMap       = '%'
	KindSet       = '~'
	KindPush      = '>'
	KindAttribute = '|'
)

// Value is one reply. Byte slices alias the buffer of the Replies that
// returned it, until its next Fill.
type Value struct {
	Kind byte
	Int  int64   // of KindInt; 1 or 0 for KindBool
	Str  []byte  // of strings, errors, doubles, big numbers and verbatim text (without "txt:")
	List []Value // elements; those of a map are key, value, key, value …
	// Attrs is the attribute that the server sent before the value, as a map.
	Attrs []Value
}

// IsNull reports whether the value is one of RESP's three nulls.
func (v Value) IsNull() bool { return v.Kind == KindNull }

// IsError reports whether the value is an error.
func (v Value) IsError() bool { return v.Kind == KindError || v.Kind == KindBlobError }

// Replies splits a stream into replies, for clients. It remembers how far it has scanned,
// so that a reply that arrives in small pieces is scanned only once. Replies is not safe
// for concurrent use.
type Replies struct {
	src  io.Reader
	bufs *Buffers
	max  int

	buf   []byte
	base  int // start of the reply that is being received
	pos   int // the next byte to scan
	seen  int // bytes from pos on without a newline
	end   int
	want  [MaxReplyDepth + 1]int  // values still to come, per level
	attr  [MaxReplyDepth + 1]bool // an attribute has arrived, but not its value
	depth int
	err   error
}

// NewReplies returns a Replies on src; maxBytes bounds one reply (0: DefaultMaxReply).
func NewReplies(src io.Reader, bufs *Buffers, maxBytes int) *Replies {
	if maxBytes <= 0 {
		maxBytes = DefaultMaxReply
	}
	r := &Replies{src: src, bufs: bufs, max: maxBytes, buf: bufs.Get(0)}
	r.want[0] = 1
	return r
}

// Release returns the buffer to the pool; see Reader.Release.
func (r *Replies) Release() {
	r.bufs.Put(r.buf)
	r.buf, r.base, r.pos, r.end, r.err = nil, 0, 0, 0, io.EOF
}

// Fill reads once from the source. It invalidates all values returned before.
func (r *Replies) Fill() error {
	if r.err != nil {
		return r.err
	}
	n := r.end - r.base
	size := len(r.buf)
	switch {
	case n == 0 && size > largeBuffer:
		size = largeBuffer
	case r.end == len(r.buf) && size < largeBuffer:
		size *= 4
	case n > size/2 && n+smallBuffer > size:
		size *= 2
	}
	if size != len(r.buf) {
		next := r.bufs.Get(size)
		copy(next, r.buf[r.base:r.end])
		r.bufs.Put(r.buf)
		r.buf = next
	} else if r.base > 0 {
		copy(r.buf, r.buf[r.base:r.end])
	}
	r.pos -= r.base
	r.base, r.end = 0, n
	got, err := r.src.Read(r.buf[r.end:])
	r.end += got
	if got > 0 {
		return nil
	}
	if err == nil {
		return io.ErrNoProgress
	}
	return err
}

// Next returns the next complete reply, or false if more bytes must be received first. An
// error is a *ProtocolError and final.
func (r *Replies) Next() (Value, bool, error) {
	done, err := r.whole()
	if !done || err != nil {
		return Value{}, false, err
	}
	d := decoder{r.buf[r.base:r.pos]}
	v := d.value()
	r.passed()
	return v, true, nil
}

// whole reports whether the reply from base to pos is complete.
func (r *Replies) whole() (bool, error) {
	if r.err != nil {
		return false, r.err
	}
	done, err := r.scan()
	if err == nil && (r.pos-r.base > r.max || !done && r.end-r.base > r.max) {
		err = protocolError("too big reply")
	}
	if err != nil {
		r.err = err
		return false, err
	}
	return done, nil
}

// passed moves past the complete reply.
func (r *Replies) passed() {
	r.base = r.pos
	r.depth, r.want[0] = 0, 1
}

// NextRaw is like Next for callers that pass replies on: it returns the bytes of the reply.
func (r *Replies) NextRaw() ([]byte, bool, error) {
	done, err := r.whole()
	if !done || err != nil {
		return nil, false, err
	}
	raw := r.buf[r.base:r.pos:r.pos]
	r.passed()
	return raw, true, nil
}

// Read returns the next reply. It calls Fill as often as needed.
func (r *Replies) Read() (Value, error) {
	for {
		v, ok, err := r.Next()
		if ok || err != nil {
			return v, err
		}
		if err := r.Fill(); err != nil {
			return Value{}, err
		}
	}
}

// scan moves pos past complete values until the reply is complete. It checks everything
// that decoder relies on.
func (r *Replies) scan() (done bool, _ *ProtocolError) {
	for {
		for r.want[r.depth] == 0 {
			if r.depth == 0 {
				return true, nil
			}
			r.depth--
		}
		i := bytes.IndexByte(r.buf[r.pos+r.seen:r.end], '\n')
		if i < 0 {
			r.seen = r.end - r.pos
			return false, nil
		}
		n := r.seen + i // the line without LF
		line := r.buf[r.pos : r.pos+n]
		if n < 2 || line[n-1] != '\r' {
			return false, protocolError("bad line in reply")
		}
		body, children, attr, err := head(line[:n-1], r.max)
		if err != nil {
			return false, err
		}
		size := n + 1
		if body >= 0 {
			size += body + 2
			if r.end-r.pos < size {
				r.seen = n
				return false, nil
			}
			if t := r.buf[r.pos+size-2:]; t[0] != '\r' || t[1] != '\n' {
				return false, protocolError("expected CRLF after bulk")
			}
		}
		if attr && r.attr[r.depth] || children > 0 && r.depth == MaxReplyDepth {
			return false, protocolError("too deep reply")
		}
		r.pos += size
		r.seen = 0
		r.attr[r.depth] = attr
		if !attr {
			r.want[r.depth]--
		}
		if children > 0 {
			r.depth++
			r.want[r.depth], r.attr[r.depth] = children, false
		}
	}
}

// head parses the first line of a value. It returns the length of the value's body (-1:
// none) and the number of values in it. An attribute precedes its value.
func head(line []byte, limit int) (body, children int, attr bool, _ *ProtocolError) {
	rest := line[1:]
	switch line[0] {
	case KindSimple, KindError, KindNull, KindDouble, KindBool, KindBig:
		return -1, 0, false, nil
	case KindInt:
		if _, err := strconv.ParseInt(string(rest), 10, 64); err != nil {
			return 0, 0, false, protocolError("bad integer in reply")
		}
		return -1, 0, false, nil
	}
	n, ok := decimal.Parse(rest)
	if !ok || n < -1 || n > int64(limit) {
		return 0, 0, false, protocolError("bad length in reply")
	}
	switch line[0] {
	case KindBulk, KindBlobError:
		return int(n), 0, false, nil
	case KindVerbatim:
		if n < 4 {
			return 0, 0, false, protocolError("bad verbatim string in reply")
		}
		return int(n), 0, false, nil
	case KindArray, KindSet, KindPush:
		return -1, max(int(n), 0), false, nil
	case KindMap, KindAttribute:
		return -1, 2 * max(int(n), 0), line[0] == KindAttribute, nil
	}
	return 0, 0, false, protocolError("unknown kind of reply")
}

// decoder converts bytes that scan has accepted into Values.
type decoder struct{ b []byte }

func (d *decoder) value() Value {
	i := bytes.IndexByte(d.b, '\n')
	line := d.b[:i-1]
	d.b = d.b[i+1:]
	v := Value{Kind: line[0], Str: line[1:]}
	switch v.Kind {
	case KindSimple, KindError, KindDouble, KindBig:
	case KindNull:
		v.Str = nil
	case KindInt:
		v.Int, _ = strconv.ParseInt(string(v.Str), 10, 64)
		v.Str = nil
	case KindBool:
		if len(v.Str) == 1 && v.Str[0] == 't' {
			v.Int = 1
		}
		v.Str = nil
	default:
		return d.sized(v)
	}
	return v
}

func (d *decoder) sized(v Value) Value {
	n64, _ := decimal.Parse(v.Str)
	n := int(n64)
	v.Str = nil
	if n < 0 {
		v.Kind = KindNull
		return v
	}
	switch v.Kind {
	case KindBulk, KindBlobError, KindVerbatim:
		v.Str = d.b[:n:n]
		d.b = d.b[n+2:]
		if v.Kind == KindVerbatim {
			v.Str = v.Str[4:]
		}
		return v
	case KindMap, KindAttribute:
		n *= 2
	}
	list := make([]Value, n)
	for i := range list {
		list[i] = d.value()
	}
	if v.Kind == KindAttribute {
		v = d.value()
		v.Attrs = list
		return v
	}
	v.List = list
	return v
}
