package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/skerrydb/skerry/cache"
)

// MaxQueuedChanges is how many transactions, and MaxQueuedKeys how many of their keys, may wait until they are visible.
// With more, the connection is not read, and the server keeps the rest.
const (
	MaxQueuedChanges = 100_000
	MaxQueuedKeys    = 1_000_000
)

// stream is a connection in replication mode. One goroutine reads it; changes wait in a queue.
type stream struct {
	conn *pgconn.PgConn
	a    *assembler

	mu       sync.Mutex // guards the fields below
	queue    []*change
	keys     int            // in queue
	received cache.Position // the server has sent everything before it
	heard    time.Time      // when the server last said anything
	err      error          // why the stream has ended
	news     chan struct{}  // has a token when the fields above have changed
	room     chan struct{}  // has a token when the queue was emptied

	wmu sync.Mutex // one writer at a time
}

func newStream(conn *pgconn.PgConn, a *assembler) *stream {
	return &stream{conn: conn, a: a, heard: time.Now(), news: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// row sends a command of the replication protocol and returns the only row of its result.
func (s *stream) row(ctx context.Context, sql string) ([]string, error) {
	results, err := s.conn.Exec(ctx, sql).ReadAll()
	if err != nil {
		return nil, err
	}
	if len(results) != 1 || len(results[0].Rows) != 1 || len(results[0].Rows[0]) < 2 {
		return nil, fmt.Errorf("the server's answer to %.40s is not one row", sql)
	}
	var row []string
	for _, v := range results[0].Rows[0] {
		row = append(row, string(v))
	}
	return row, nil
}

// start sends START_REPLICATION.
func (s *stream) start(ctx context.Context, sql string, from cache.Position) error {
	s.conn.Frontend().Send(&pgproto3.Query{String: sql})
	if err := s.conn.Frontend().Flush(); err != nil {
		return err
	}
	for {
		m, err := s.conn.ReceiveMessage(ctx)
		if err != nil {
			return err
		}
		switch m := m.(type) {
		case *pgproto3.CopyBothResponse:
			s.received = from
			return nil
		case *pgproto3.ErrorResponse:
			return pgconn.ErrorResponseToPgError(m)
		case *pgproto3.NoticeResponse:
		default:
			return fmt.Errorf("the server answered START_REPLICATION with a %T", m)
		}
	}
}

// read reads the stream until it fails or ctx ends.
func (s *stream) read(ctx context.Context) {
	err := s.messages(ctx)
	s.mu.Lock()
	s.err = err
	s.mu.Unlock()
	s.signal(s.news)
}

func (s *stream) messages(ctx context.Context) error {
	// ReceiveMessage watches its context for each message, which would take a fifth of the time.
	stop := context.AfterFunc(ctx, func() { _ = s.conn.Conn().SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	for {
		m, err := s.conn.ReceiveMessage(context.Background())
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return err
		}
		switch m := m.(type) {
		case *pgproto3.CopyData:
			if err := s.data(ctx, m.Data); err != nil {
				return err
			}
		case *pgproto3.ErrorResponse:
			return pgconn.ErrorResponseToPgError(m)
		case *pgproto3.CopyDone:
			return errors.New("the server has ended the stream")
		}
	}
}

// data handles one message of the stream.
func (s *stream) data(ctx context.Context, b []byte) error {
	switch {
	case len(b) >= 18 && b[0] == 'k':
		s.hear(cache.Position(binary.BigEndian.Uint64(b[1:])), nil)
		if b[17] == 1 { // it wants an answer
			return s.status(0, false)
		}
		return nil
	case len(b) >= 25 && b[0] == 'w':
		m, err := decode(b[25:])
		if err != nil {
			return err
		}
		c, err := s.a.take(&m)
		if err != nil {
			return err
		}
		if c == nil {
			s.alive()
			return nil
		}
		c.compact()
		return s.add(ctx, c)
	}
	return errMessage
}

// hear notes that the server has sent everything before pos, and a change that ends there.
func (s *stream) hear(pos cache.Position, c *change) (queued int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.signal(s.news)
	s.received, s.heard = max(s.received, pos), time.Now()
	if c != nil {
		s.queue = append(s.queue, c)
		s.keys += len(c.keys)
	}
	if len(s.queue) > MaxQueuedChanges || s.keys > MaxQueuedKeys {
		return len(s.queue)
	}
	return 0
}

// alive notes that the server is sending a transaction, which may take long.
func (s *stream) alive() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = time.Now()
}

// add queues a change. If the queue is full, it waits until it was emptied.
func (s *stream) add(ctx context.Context, c *change) error {
	if s.hear(c.end, c) == 0 {
		return nil
	}
	for {
		select {
		case <-s.room:
		case <-ctx.Done():
			return ctx.Err()
		}
		s.mu.Lock()
		full := len(s.queue) > MaxQueuedChanges || s.keys > MaxQueuedKeys
		s.mu.Unlock()
		if !full {
			return nil
		}
	}
}

func (s *stream) signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// take empties the queue.
func (s *stream) take() (list []*change, received cache.Position, heard time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list, s.queue, s.keys = s.queue, nil, 0
	s.signal(s.room)
	return list, s.received, s.heard, s.err
}

// status tells the server up to where its slot need not keep changes anymore; 0 is as before. With answer, the server
// answers at once with how far it has sent.
func (s *stream) status(confirmed cache.Position, answer bool) error {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	b := make([]byte, 0, 34)
	b = append(b, 'r')
	for range 3 { // written, flushed, applied
		b = binary.BigEndian.AppendUint64(b, uint64(confirmed))
	}
	const epoch = 946_684_800_000_000 // PostgreSQL counts microseconds since 2000
	b = binary.BigEndian.AppendUint64(b, uint64(time.Now().UnixMicro()-epoch))
	if answer {
		b = append(b, 1)
	} else {
		b = append(b, 0)
	}
	msg, err := (&pgproto3.CopyData{Data: b}).Encode(nil)
	if err != nil {
		return err
	}
	conn := s.conn.Conn()
	_ = conn.SetWriteDeadline(time.Now().Add(answerWithin)) // a connection without deadlines is broken anyway
	_, err = conn.Write(msg)
	return err
}
