package resp

import (
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/feed"
	"github.com/skerrydb/skerry/resp/wire"
)

// invalidateChannel is where RESP2 clients subscribe to invalidations.
const invalidateChannel = "__redis__:invalidate"

// subscribe begins to follow the feed from its present position, which it returns.
func (tr *tracker) subscribe() (*feed.Sub, engine.Position, error) {
	f := tr.srv.feed
	if f == nil {
		return nil, 0, engine.Errorf(engine.CodeUnsupported, "CLIENT TRACKING needs a change feed, which this engine does not provide")
	}
	from := f.Position()
	sub, err := f.Subscribe(feed.Filter{Prefixes: [][]byte{{}}}, from)
	return sub, from, err
}

// run processes the feed's changes until stop is closed. If changes were missed, all
// all keys are invalidated for all clients.
func (tr *tracker) run(sub *feed.Sub, stop chan struct{}) {
	for {
		err := tr.follow(sub, stop)
		sub.Close()
		if err == nil {
			return
		}
		tr.srv.opts.Logger.Warn("changes for CLIENT TRACKING were missed; all keys are invalidated", "err", err)
		var from engine.Position
		for {
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond):
			}
			if sub, from, err = tr.subscribe(); err == nil {
				break
			}
			if engine.CodeOf(err) == engine.CodeClosed {
				return
			}
		}
		tr.flushed()
		tr.reached(from)
	}
}

// follow returns nil when stop is closed, or the reason why the subscription ended.
func (tr *tracker) follow(sub *feed.Sub, stop chan struct{}) error {
	for {
		select {
		case <-stop:
			return nil
		case c, ok := <-sub.C:
			if !ok {
				return sub.Err()
			}
			tr.change(c)
			tr.reached(c.Pos)
		}
	}
}

// invalidate pushes an invalidation of keys, or of all keys if keys is nil, to the session's
// target. The caller holds tr.mu.
func (tr *tracker) invalidate(s *session, keys [][]byte) {
	tr.srv.stats.invalidations.Add(1)
	to := s.c
	if s.target != 0 {
		if to = tr.srv.client(s.target); to == nil || to.killed.Load() {
			s.breakRedirect()
			return
		}
	}
	to.mu.Lock()
	resp3, subscribed := to.shown.resp == 3, to.shown.subs > 0
	to.mu.Unlock()
	switch {
	case resp3:
		to.pushes.add(to, true, func(w *wire.Writer) {
			w.Push(2)
			w.BulkString("invalidate")
			writeKeys(w, keys)
		})
	case subscribed && s.target != 0:
		to.pushes.add(to, false, func(w *wire.Writer) {
			w.Array(3)
			w.BulkString("message")
			w.BulkString(invalidateChannel)
			writeKeys(w, keys)
		})
	}
}

func writeKeys(w *wire.Writer, keys [][]byte) {
	if keys == nil {
		w.Null()
		return
	}
	w.Array(len(keys))
	for _, k := range keys {
		w.Bulk(k)
	}
}

// breakRedirect notifies a RESP3 client that the target of its redirection is gone.
func (s *session) breakRedirect() {
	s.mu.Lock()
	was := s.broken
	s.broken = true
	s.mu.Unlock()
	s.c.mu.Lock()
	s.c.shown.broken = true
	resp3 := s.c.shown.resp == 3
	s.c.mu.Unlock()
	if was || !resp3 {
		return
	}
	s.c.pushes.add(s.c, true, func(w *wire.Writer) {
		w.Push(2)
		w.BulkString("tracking-redir-broken")
		w.Int(s.target)
	})
}

func (s *session) isBroken() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken
}
