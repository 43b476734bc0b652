package record

import (
	"context"
	"sync"

	"github.com/skerrydb/skerry/engine"
)

// Stream delivers the messages of one subscription. It must be closed.
type Stream struct {
	db      *DB
	actor   Actor
	catalog *catalog
	parts   []*part
	shape   string
	read    engine.Read

	receiver *receiver       // in the hub
	first    []Message       // to be delivered before the queue
	after    engine.Position // what the queue has up to it is in first, or was delivered earlier

	mu    sync.Mutex // guards queue, bytes and err
	queue []batch
	bytes int
	err   error         // why the stream has ended
	ready chan struct{} // has an element when queue or err was set
}

// batch are the events of one change.
type batch struct {
	pos    engine.Position
	events []Event
	bytes  int
}

func (s *Stream) message(b batch) Message {
	return Message{ID: s.id(b.pos), Position: b.pos, Events: b.events}
}

// errSlow ends a stream whose subscriber does not read.
var errSlow = engine.Errorf(engine.CodeTruncated, "the subscriber has not read what was queued for it: subscribe again")

// offer adds the events of a change to the queue.
func (s *Stream) offer(b batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.queue); n >= MaxQueuedChanges || n > 0 && s.bytes+b.bytes > MaxQueuedBytes {
		return errSlow
	}
	s.queue = append(s.queue, b)
	s.bytes += b.bytes
	s.wake()
	return nil
}

// end ends the stream, after what is queued.
func (s *Stream) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
	s.wake()
}

func (s *Stream) wake() {
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// Next waits for the next message and returns it. Only one goroutine may call it at a time. After an error there are no
// more messages.
func (s *Stream) Next(ctx context.Context) (Message, error) {
	if len(s.first) > 0 {
		m := s.first[0]
		s.first = s.first[1:]
		return m, nil
	}
	for {
		b, ok, err := s.take()
		switch {
		case err != nil:
			return Message{}, err
		case ok && b.pos > s.after:
			return s.message(b), nil
		case ok:
			continue
		}
		select {
		case <-s.ready:
		case <-ctx.Done():
			return Message{}, ctx.Err()
		}
	}
}

func (s *Stream) take() (b batch, ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		return b, false, s.err
	}
	b = s.queue[0]
	s.queue[0] = batch{}
	s.queue = s.queue[1:]
	s.bytes -= b.bytes
	return b, true, nil
}

// Close ends the subscription. It may be called more than once.
func (s *Stream) Close() {
	_ = s.db.hub.do(context.Background(), func(h *hub) { h.m.remove(s.receiver) }) // an error means that the hub has ended
}
