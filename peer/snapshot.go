package peer

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"
	"time"
)

// A snapshot on the wire is the metadata as a blob, then chunks. A chunk is the
// length (4 bytes, little endian), the checksum (4 bytes) and the data. The checksum
// is the CRC-32C of the metadata and all data so far, which detects reordered chunks.
// A chunk without data ends the snapshot. The receiver sends snapBeat bytes while it
// is alive, then snapAnswer and a response. Do not change.
const (
	chunkHead  = 8
	chunkBytes = 256 << 10 // of data in one chunk at most

	snapBeat   = 1
	snapAnswer = 2
)

// SendSnapshot sends all of r to a node of SetPeers over a separate connection, as
// fast as the node reads it. It returns nil once the node's Snapshot has returned
// nil; an error of Snapshot is returned as *RemoteError. It gives up when there is no
// progress for Options.StallTimeout, the node is silent for Options.IdleTimeout, or
// ctx ends. It cannot interrupt a Read of r.
func (p *Port) SendSnapshot(ctx context.Context, to uint64, meta []byte, r io.Reader) error {
	if len(meta) > MaxMetaBytes {
		return fmt.Errorf("peer: send snapshot: %w", &LimitError{"the meta data", int64(len(meta)), MaxMetaBytes})
	}
	c, err := p.dial(ctx, to, ProtocolSnap)
	if err != nil {
		return err
	}
	c.wire.widen(p.o.IdleTimeout, p.o.StallTimeout)
	defer context.AfterFunc(ctx, c.kill)()
	verdict := make(chan error, 1)
	go func() {
		verdict <- readVerdict(c.Conn)
		c.kill() // ends a write that is blocked or useless
	}()
	if err := sendChunks(c, meta, &patient{ctx, r}); err != nil {
		var own *sourceError
		if errors.As(err, &own) {
			c.kill()
			<-verdict //nolint:errcheck // that it has ended is all
			return fmt.Errorf("peer: read the snapshot to send: %w", own.err)
		}
		// The receiver may have sent the reason. Read it before giving up the
		// connection.
		giveUp := time.AfterFunc(partTime, c.kill)
		defer giveUp.Stop()
		if why := <-verdict; why != nil && (isRemote(why) || !lost(why)) {
			err = why
		}
		return sendError(ctx, to, err)
	}
	return sendError(ctx, to, <-verdict)
}

func sendError(ctx context.Context, to uint64, err error) error {
	switch {
	case err == nil, isRemote(err):
		return err
	case ctx.Err() != nil:
		err = ctx.Err()
	case err == io.EOF:
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("peer: send snapshot to node %d: %w", to, err)
}

func isRemote(err error) bool {
	_, ok := errors.AsType[*RemoteError](err)
	return ok
}

// patient reads until its context ends, even from a slow source.
type patient struct {
	ctx context.Context
	r   io.Reader
}

func (p *patient) Read(b []byte) (int, error) {
	if err := p.ctx.Err(); err != nil {
		return 0, err
	}
	return p.r.Read(b)
}

// sourceError is an error of the reader that SendSnapshot sends.
type sourceError struct{ err error }

func (e *sourceError) Error() string { return e.err.Error() }

// sendChunks sends a whole snapshot.
func sendChunks(c *Conn, meta []byte, r io.Reader) error {
	table := crc32.MakeTable(crc32.Castagnoli)
	sum := crc32.Checksum(meta, table)
	if err := c.writeAll(appendBlob(nil, meta)); err != nil {
		return err
	}
	buf := make([]byte, chunkHead+chunkBytes)
	for {
		n, err := io.ReadFull(r, buf[chunkHead:])
		if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
			return &sourceError{err}
		}
		last := err != nil
		if n > 0 {
			sum = crc32.Update(sum, table, buf[chunkHead:chunkHead+n])
			putChunkHead(buf, n, sum)
			if err := c.writeAll(buf[:chunkHead+n]); err != nil {
				return err
			}
		}
		if last {
			putChunkHead(buf, 0, sum)
			return c.writeAll(buf[:chunkHead])
		}
	}
}

func putChunkHead(b []byte, n int, sum uint32) {
	binary.LittleEndian.PutUint32(b, uint32(n))
	binary.LittleEndian.PutUint32(b[4:], sum)
}

// readVerdict waits for the receiver's response.
func readVerdict(r io.Reader) error {
	for {
		var b [1]byte
		if _, err := io.ReadFull(r, b[:]); err != nil {
			return err
		}
		switch b[0] {
		case snapBeat:
		case snapAnswer:
			text, err := readBlob(r, "the answer", MaxHelloBytes)
			if err != nil {
				return err
			}
			var a response
			if err := json.Unmarshal(text, &a); err != nil {
				return &CorruptError{"invalid reply to a snapshot"}
			}
			if a.Error != nil {
				return a.Error
			}
			return nil
		default:
			return &CorruptError{"invalid reply to a snapshot"}
		}
	}
}

// chunks reads a snapshot's data.
type chunks struct {
	r     *bufio.Reader
	table *crc32.Table
	sum   uint32
	left  []byte // unread rest of the chunk
	buf   []byte
	err   error // once set, Read returns it after left
}

// newChunks reads the metadata.
func newChunks(r io.Reader) (*chunks, []byte, error) {
	c := &chunks{r: bufio.NewReaderSize(r, 64<<10), table: crc32.MakeTable(crc32.Castagnoli)}
	meta, err := readBlob(c.r, "the meta data", MaxMetaBytes)
	if err != nil {
		return nil, nil, err
	}
	c.sum = crc32.Checksum(meta, c.table)
	return c, meta, nil
}

// Read returns io.EOF only after the chunk that ends the snapshot.
func (c *chunks) Read(b []byte) (int, error) {
	for len(c.left) == 0 && c.err == nil {
		if c.err = c.next(); c.err == nil && len(c.left) == 0 {
			c.err = io.EOF
		}
	}
	if len(c.left) == 0 {
		return 0, c.err
	}
	n := copy(b, c.left)
	c.left = c.left[n:]
	return n, nil
}

// next reads one chunk and checks it.
func (c *chunks) next() error {
	var head [chunkHead]byte
	if _, err := io.ReadFull(c.r, head[:]); err == io.EOF {
		return io.ErrUnexpectedEOF
	} else if err != nil {
		return err
	}
	n := int(binary.LittleEndian.Uint32(head[:]))
	if n > chunkBytes {
		return &CorruptError{fmt.Sprintf("invalid chunk length %d", n)}
	}
	if cap(c.buf) < n {
		c.buf = make([]byte, n)
	}
	c.buf = c.buf[:n]
	if _, err := io.ReadFull(c.r, c.buf); err == io.EOF && n > 0 {
		return io.ErrUnexpectedEOF
	} else if err != nil && n > 0 {
		return err
	}
	c.sum = crc32.Update(c.sum, c.table, c.buf)
	if c.sum != binary.LittleEndian.Uint32(head[4:]) {
		return &CorruptError{"chunk checksum mismatch"}
	}
	c.left = c.buf
	return nil
}

// takeSnapshot receives the one snapshot of a connection.
func (p *Port) takeSnapshot(c *Conn) {
	select {
	case p.snaps <- struct{}{}:
		defer func() { <-p.snaps }()
	default:
		p.conclude(c, &RemoteError{CodeBusy, fmt.Sprintf("node %d is already receiving %d snapshots", p.id.Node, MaxSnapshots)})
		return
	}
	c.wire.widen(p.o.StallTimeout, p.o.IdleTimeout)
	in, meta, err := newChunks(c.Conn)
	if limit, over := errors.AsType[*LimitError](err); over {
		p.conclude(c, &RemoteError{CodeLimit, limit.Error()})
		return
	} else if err != nil {
		c.kill()
		return
	}
	ctx, cancel := context.WithCancel(p.ctx)
	var beats sync.WaitGroup
	beats.Go(func() { p.beatSnapshot(ctx, cancel, c) })
	err = p.o.Snapshot(ctx, c.Node(), meta, in)
	if err == nil { // the part that Snapshot did not read must have arrived too
		if _, err = io.Copy(io.Discard, in); err != nil {
			err = fmt.Errorf("the rest of the snapshot: %w", err)
		}
	}
	cancel()
	beats.Wait()
	if err == nil {
		p.conclude(c, nil)
		return
	}
	p.log.Warn("a snapshot was rejected", "from", c.Node(), "err", err)
	var a RemoteError
	if _, corrupt := errors.AsType[*CorruptError](err); corrupt {
		a = RemoteError{CodeCorrupt, err.Error()}
	} else {
		a.Code, a.Text = p.o.Explain(err)
	}
	p.conclude(c, &a)
}

// beatSnapshot confirms to the sender that the receiver is alive.
func (p *Port) beatSnapshot(ctx context.Context, cancel func(), c *Conn) {
	tick := time.NewTicker(p.o.IdleTimeout / 6)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if _, err := c.Conn.Write([]byte{snapBeat}); err != nil {
				cancel()
				return
			}
		}
	}
}

// conclude sends the response to a snapshot and ends the connection.
func (p *Port) conclude(c *Conn, e *RemoteError) {
	if e != nil {
		e.Text = shorten(e.Text)
	}
	text, err := json.Marshal(response{Error: e})
	if err == nil {
		c.SetWriteDeadline(time.Now().Add(partTime))
		_, err = c.Conn.Write(appendBlob([]byte{snapAnswer}, text))
	}
	if err != nil {
		c.kill()
		return
	}
	c.part()
}
