package resp

import (
	"slices"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// barrierWait bounds how long a reply waits for the invalidations of changes that were
// committed before it. After that, all its keys are invalidated instead, and its
// further replies do not wait for those changes again.
const barrierWait = time.Second

// barrier adds the invalidations of everything committed so far to the output, so that the
// client receives them before any further reply. It applies only to connections that
// receive invalidations. The replies so far are already in the output.
func (c *conn) barrier() {
	if !c.receives.Load() {
		return
	}
	tr := &c.srv.tracker
	if pos := tr.newest(); pos > c.gaveUp && !tr.settle(pos, c.done) {
		c.gaveUp = pos
		tr.dropAll(c)
	}
	c.pushes.take(&c.out)
}

// settled is a call of settle that waits for the tracker to reach a position.
type settled struct {
	pos  engine.Position
	done chan struct{} // closed when it has
}

// newest returns the position up to which changes have been committed on this node, or
// acknowledged to it by others.
func (tr *tracker) newest() engine.Position {
	pos, err := tr.srv.feed.Committed()
	if err != nil {
		pos = ^engine.Position(0) // there is no way to know what was committed
	}
	return max(pos, engine.Position(tr.srv.acked.Load()))
}

// settle waits until the tracker has reported all changes up to pos. It returns false if
// that takes too long or stop is closed.
func (tr *tracker) settle(pos engine.Position, stop <-chan struct{}) bool {
	if engine.Position(tr.at.Load()) >= pos {
		return true
	}
	tr.mu.Lock()
	if tr.stop == nil || engine.Position(tr.at.Load()) >= pos {
		tr.mu.Unlock()
		return true
	}
	w := settled{pos, make(chan struct{})}
	tr.settling = append(tr.settling, w)
	tr.mu.Unlock()
	late := time.NewTimer(barrierWait)
	defer late.Stop()
	select {
	case <-w.done:
		return true
	case <-late.C:
	case <-stop:
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.settling = slices.DeleteFunc(tr.settling, func(o settled) bool { return o == w })
	return false
}

// reached records that all changes up to pos have been reported to clients.
func (tr *tracker) reached(pos engine.Position) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if pos > engine.Position(tr.at.Load()) { // otherwise an earlier run is ending
		tr.at.Store(uint64(pos))
		tr.release(pos)
	}
}

// release ends the calls of settle that wait for pos or less. The caller holds mu.
func (tr *tracker) release(pos engine.Position) {
	tr.settling = slices.DeleteFunc(tr.settling, func(w settled) bool {
		if w.pos <= pos {
			close(w.done)
		}
		return w.pos <= pos
	})
}

// dropAll makes the sessions whose invalidations go to c drop all keys.
func (tr *tracker) dropAll(c *conn) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for s := range tr.on {
		if s.target == c.id || s.target == 0 && s.c == c {
			tr.invalidate(s, nil)
		}
	}
}

// markReceiver records that invalidations of s are pushed to its connection or to the one that it
// redirects to.
func (tr *tracker) markReceiver(s *session) {
	to := s.c
	if s.target != 0 {
		to = tr.srv.client(s.target)
	}
	if to != nil {
		to.receives.Store(true)
	}
}

// acknowledged records a position up to which other nodes have acknowledged writes that
// this node forwarded to them.
func (s *Server) acknowledged(pos engine.Position) {
	for {
		old := s.acked.Load()
		if uint64(pos) <= old || s.acked.CompareAndSwap(old, uint64(pos)) {
			return
		}
	}
}
