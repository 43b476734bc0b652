// Package wire implements the framing of the Redis serialization protocol, RESP2 and RESP3.
//
// It knows framing: commands in (Reader), replies out (Writer), and replies in (Replies),
// for clients. It must not know what a command means, nor sockets: it reads from an
// io.Reader and appends to byte slices. It imports no other package of this module.
//
// The formats are those of https://redis.io/docs/reference/protocol-spec. The limits and
// error texts are those of Redis 7.0.
package wire

import "sync"

// ProtocolError means that the input is not RESP or exceeds a limit. The input after it
// cannot be parsed, so the connection must be closed. Text begins with "Protocol error: "
// and can be sent to the peer.
type ProtocolError struct{ Text string }

// Error returns the text.
func (e *ProtocolError) Error() string { return e.Text }

func protocolError(text string) *ProtocolError {
	return &ProtocolError{"Protocol error: " + text}
}

// Sizes of the buffers in the pool. A connection starts with the smallest and gets the next
// larger one when a read fills its buffer.
const (
	smallBuffer  = 4 << 10
	middleBuffer = 16 << 10
	largeBuffer  = 64 << 10
)

// Buffers is a pool of buffers for Readers, Replies and Writers. The zero value is ready to
// use. It is safe for concurrent use and must not be copied.
type Buffers struct {
	small, middle, large sync.Pool
}

func (b *Buffers) pool(size int) *sync.Pool {
	switch size {
	case smallBuffer:
		return &b.small
	case middleBuffer:
		return &b.middle
	case largeBuffer:
		return &b.large
	}
	return nil
}

// Get returns a buffer of at least n bytes and at least the smallest size. Its contents are
// undefined.
func (b *Buffers) Get(n int) []byte {
	size := n
	for _, s := range [...]int{largeBuffer, middleBuffer, smallBuffer} {
		if n <= s {
			size = s
		}
	}
	if p := b.pool(size); p != nil {
		if v, ok := p.Get().(*[]byte); ok {
			return *v
		}
	}
	return make([]byte, size)
}

// Put returns a buffer to the pool. Buffers of other sizes are dropped. The caller must not
// use buf afterwards.
func (b *Buffers) Put(buf []byte) {
	buf = buf[:cap(buf)]
	if p := b.pool(len(buf)); p != nil {
		p.Put(&buf)
	}
}
