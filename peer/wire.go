package peer

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"time"
)

const (
	rawReadBytes = 256 << 10 // read from a socket at once, after authentication
	recordBytes  = 16 << 10  // of plain text in one TLS record (RFC 8446, 5.1)
)

// wire is the socket under TLS. It lets many records leave in one write and arrive
// in one read, and sets timeouts for reads and writes.
type wire struct {
	net.Conn

	// Set before the connection is used by several goroutines.
	in                    *bufio.Reader // nil: reads are not buffered
	readStall, writeStall time.Duration // timeout of one read or write; 0: the deadlines set on the Conn

	mu     sync.Mutex // guards the fields below, and the order of writes to the socket
	corked bool
	out    []byte // buffered until uncork
}

// widen prepares for many bytes: it buffers reads, and sets the timeouts of reads and
// writes.
func (w *wire) widen(readStall, writeStall time.Duration) {
	w.readStall, w.writeStall = readStall, writeStall
	w.in = bufio.NewReaderSize(stalling{w}, rawReadBytes)
}

// stalling reads from the socket itself.
type stalling struct{ w *wire }

func (s stalling) Read(b []byte) (int, error) {
	if s.w.readStall > 0 {
		if err := s.w.SetReadDeadline(time.Now().Add(s.w.readStall)); err != nil {
			return 0, err
		}
	}
	return s.w.Conn.Read(b)
}

func (w *wire) Read(b []byte) (int, error) {
	if w.in == nil {
		return w.Conn.Read(b)
	}
	return w.in.Read(b)
}

// Write writes one record, or buffers it while the wire is corked.
func (w *wire) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.corked {
		w.out = append(w.out, b...)
		return len(b), nil
	}
	return w.send(b)
}

func (w *wire) send(b []byte) (int, error) {
	if w.writeStall > 0 {
		if err := w.SetWriteDeadline(time.Now().Add(w.writeStall)); err != nil {
			return 0, err
		}
	}
	return w.Conn.Write(b)
}

// cork buffers all writes until uncork.
func (w *wire) cork() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.corked = true
}

// uncork writes the buffered data.
func (w *wire) uncork() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.corked = false
	if len(w.out) == 0 {
		return nil
	}
	_, err := w.send(w.out)
	w.out = w.out[:0]
	return err
}

// Conn is a mutually authenticated connection to another node. It can be used like
// any net.Conn; a ConnContext function of net/http may look for this type.
type Conn struct {
	*tls.Conn
	hello   Hello // of the other side
	wire    *wire
	release func() // notifies the Port of the close; may be nil
	once    sync.Once
}

// Node returns the id of the node at the other end.
func (c *Conn) Node() uint64 { return c.hello.Node }

// Hello returns the greeting of the node at the other end.
func (c *Conn) Hello() Hello { return c.hello }

// Close sends TLS's closing alert and closes the connection.
func (c *Conn) Close() error {
	err := c.Conn.Close()
	c.freed()
	return err
}

// kill closes the connection at once, even during a blocked write.
func (c *Conn) kill() {
	c.wire.Conn.Close()
	c.freed()
}

func (c *Conn) freed() {
	c.once.Do(func() {
		if c.release != nil {
			c.release()
		}
	})
}

// writeAll writes b in as few writes to the socket as possible.
func (c *Conn) writeAll(b []byte) error {
	if len(b) <= recordBytes {
		_, err := c.Conn.Write(b)
		return err
	}
	c.wire.cork()
	_, err := c.Conn.Write(b)
	if flushed := c.wire.uncork(); err == nil {
		err = flushed
	}
	return err
}

// part closes the connection after a last response. For a while it discards what the
// other side still sends: closing at once would reset the connection, and the
// response could be lost.
func (c *Conn) part() {
	defer c.kill()
	c.wire.readStall, c.wire.writeStall = 0, 0
	if c.wire.SetDeadline(time.Now().Add(partTime)) == nil && c.Conn.CloseWrite() == nil {
		_, _ = io.Copy(io.Discard, c.Conn) // the deadline ends it
	}
}

const partTime = 2 * time.Second

// appendBlob appends a length and b. It is how greetings and calls are framed.
func appendBlob(to, b []byte) []byte {
	return append(binary.BigEndian.AppendUint32(to, uint32(len(b))), b...)
}

// readBlob reads the output of appendBlob. Memory grows with the data received, not
// with the announced length.
func readBlob(r io.Reader, what string, limit int) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := int64(binary.BigEndian.Uint32(head[:]))
	if n > int64(limit) {
		return nil, &LimitError{what, n, int64(limit)}
	}
	var b bytes.Buffer
	if _, err := io.CopyN(&b, r, n); err == io.EOF {
		return nil, io.ErrUnexpectedEOF
	} else if err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
