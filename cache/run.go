package cache

import (
	"context"
	"sync"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// The pause before a lost feed is run again doubles from the one to the other.
const (
	minPause = 50 * time.Millisecond
	maxPause = 5 * time.Second
)

// Run keeps the cache coherent until ctx ends, and then closes it: its loads are cancelled, its disk tier is
// written, and reads fail with CodeClosed. Run must be called only once. If the feed is lost, Run logs why and
// follows it again; meanwhile, reads go to the source.
func (c *Cache) Run(ctx context.Context) error {
	if c.started.Swap(true) {
		return engine.Errorf(engine.CodeInvalid, "cache %s: Run was called before", c.o.Name)
	}
	defer c.close()
	if c.o.Feed == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	pause := minPause
	for {
		s := &sink{c: c}
		err := c.o.Feed.Run(ctx, s)
		if s.end() {
			pause = minPause
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		c.count.lost.Add(1)
		c.o.Logger.Warn("the feed of changes is lost; reads go to the source until it is back", "err", err, "retry_in", pause)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		pause = min(2*pause, maxPause)
	}
}

// Close closes a cache that Run was never called for. After Run it does nothing.
func (c *Cache) Close() {
	if !c.started.Swap(true) {
		c.close()
	}
}

func (c *Cache) close() {
	c.once.Do(func() {
		c.state.ended.Store(true)
		close(c.closed)
		c.closeLoader()
		c.closeDisk()
	})
}

func (c *Cache) errClosed() error {
	return engine.Errorf(engine.CodeClosed, "cache %s is closed", c.o.Name)
}

// sink is the Sink of one run of the feed.
type sink struct {
	c *Cache

	mu     sync.Mutex // guards the fields below, and is held while a report is applied
	begun  bool
	ended  bool
	marked time.Time // when the position was last passed to the disk tier
}

// end makes later reports do nothing. It reports whether the feed had begun.
func (s *sink) end() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	return s.begun
}

// apply runs fn unless the run has ended or has not begun.
func (s *sink) apply(fn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begun && !s.ended {
		fn()
	}
}

// Resume implements Sink.
func (s *sink) Resume() (string, Position) { return s.c.state.position() }

// Begin implements Sink.
func (s *sink) Begin(history string, pos Position, resumed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.begun {
		return
	}
	s.begun = true
	c := s.c
	known, last := c.state.position()
	if resumed && known != "" && known == history && pos <= last {
		c.o.Logger.Info("the feed of changes goes on", "position", uint64(pos))
		return
	}
	if known != "" {
		c.o.Logger.Warn("the feed of changes has a gap: the cache is emptied")
	}
	c.state.proof.Store(0)
	c.count.gaps.Add(1)
	c.drop()
	c.state.begin(history, pos)
	c.mark(s, history, pos)
}

// Changed implements Sink.
func (s *sink) Changed(keys ...string) {
	s.apply(func() { s.c.changed(keys) })
}

// ChangedAll implements Sink.
func (s *sink) ChangedAll(why string) {
	s.apply(func() {
		s.c.o.Logger.Info("the cache is emptied", "because", why)
		s.c.count.flushes.Add(1)
		s.c.drop()
	})
}

// Reached implements Sink.
func (s *sink) Reached(pos Position, at time.Time) {
	s.apply(func() {
		c := s.c
		c.state.reach(pos)
		if !at.IsZero() {
			// A proof is never from the future, whatever the feed says.
			c.state.proof.Store(min(max(c.clock.of(at), c.state.proof.Load()), c.clock.now()))
		}
		if c.disk != nil && time.Since(s.marked) >= markEvery {
			history, last := c.state.position()
			c.mark(s, history, last)
		}
	})
}

// Lag implements Sink.
func (s *sink) Lag(bytes int64) {
	s.apply(func() { s.c.state.lag.Store(max(bytes, 0)) })
}

// mark tells the disk tier up to where its entries are true.
func (c *Cache) mark(s *sink, history string, pos Position) {
	if c.disk != nil {
		s.marked = time.Now()
		c.disk.Mark(markOf(history, pos))
	}
}
