package cache

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// MaxWaiters bounds the reads of one cache that wait for a position; one more is CodeLimit.
const MaxWaiters = 100_000

// state is how far the cache has followed its source.
type state struct {
	pos   atomic.Uint64 // every change up to it has been applied; moves under mu
	proof atomic.Int64  // when the source had nothing newer than what was applied; 0: never
	lag   atomic.Int64  // bytes
	ended atomic.Bool   // the cache is closed

	mu      sync.Mutex // guards the fields below
	history string     // of pos; "" if nothing is known
	wake    chan struct{}
	waiting int
}

func (s *state) init() { s.wake = make(chan struct{}) }

// position returns the history and the position in it.
func (s *state) position() (string, Position) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.history, Position(s.pos.Load())
}

// begin sets the history and the position in it.
func (s *state) begin(history string, pos Position) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.history = history
	s.move(pos)
}

// reach moves the position forward.
func (s *state) reach(pos Position) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if pos > Position(s.pos.Load()) {
		s.move(pos)
	}
}

// move sets the position and wakes those who wait for one. The caller holds s.mu.
func (s *state) move(pos Position) {
	s.pos.Store(uint64(pos))
	if s.waiting > 0 {
		close(s.wake)
		s.wake = make(chan struct{})
	}
}

// fresh reports whether the tiers are as new as the cache promises.
func (c *Cache) fresh() bool {
	if c.o.Feed == nil || c.state.ended.Load() {
		return !c.state.ended.Load()
	}
	proof := c.state.proof.Load()
	return proof != 0 && c.clock.now()-proof <= int64(c.o.Staleness)
}

// mayAnswer reports whether the tiers may answer a read that wants at least pos. A caller that looks into a
// tier must have asked before it looks.
func (c *Cache) mayAnswer(pos Position) bool {
	if pos > 0 && (c.o.Feed == nil || Position(c.state.pos.Load()) < pos) {
		return false
	}
	return c.fresh()
}

// await waits until the cache has reached pos. It reports whether the tiers may answer; otherwise the source
// must, by a load that has not begun yet.
func (c *Cache) await(ctx context.Context, pos Position) (current bool, err error) {
	if current = c.mayAnswer(pos); current || pos == 0 || c.o.Feed == nil {
		return current, nil
	}
	s := &c.state
	timeout := time.NewTimer(c.o.Wait)
	defer timeout.Stop()
	stale := time.NewTicker(c.o.Staleness) // what ends freshness is that nothing happens
	defer stale.Stop()
	c.count.waits.Add(1)
	for c.fresh() {
		s.mu.Lock()
		if Position(s.pos.Load()) >= pos {
			s.mu.Unlock()
			return c.mayAnswer(pos), nil
		}
		if s.waiting >= MaxWaiters {
			s.mu.Unlock()
			return false, engine.Errorf(engine.CodeLimit, "cache %s: more than %d reads wait for a position", c.o.Name, MaxWaiters)
		}
		s.waiting++
		wake := s.wake
		s.mu.Unlock()

		select {
		case <-wake:
		case <-stale.C:
		case <-timeout.C:
			err = engine.Errorf(engine.CodePositionTimeout, "cache %s: position %d was not reached within %v", c.o.Name, pos, c.o.Wait)
		case <-ctx.Done():
			err = ctx.Err()
		case <-c.closed:
			err = c.errClosed()
		}
		s.mu.Lock()
		s.waiting--
		s.mu.Unlock()
		if err != nil {
			return false, err
		}
	}
	return false, nil
}
