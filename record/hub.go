package record

import (
	"context"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/feed"
	"github.com/skerrydb/skerry/record/keys"
)

// hub passes the changes of records on this node to the streams that see them. A single goroutine does all the work, so
// the order of changes and subscriptions is well defined: a stream that is added while the hub is at a position
// receives exactly what comes after that position.
type hub struct {
	db    *DB
	calls chan func(*hub)
	ended chan struct{} // closed when the goroutine has ended

	// Only the goroutine uses what follows.
	pos   engine.Position // all changes up to it were matched
	m     *matcher
	known bool // pos and the collections are known
}

func newHub(db *DB) *hub {
	return &hub{db: db, calls: make(chan func(*hub)), ended: make(chan struct{})}
}

// do calls fn in the hub's goroutine.
func (h *hub) do(ctx context.Context, fn func(*hub)) error {
	done := make(chan struct{})
	select {
	case h.calls <- func(h *hub) { defer close(done); fn(h) }:
		<-done
		return nil
	case <-h.ended:
		return engine.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

const retryAfter = 50 * time.Millisecond // pause after an error that may pass

func (h *hub) run(ctx context.Context) error {
	h.m = newMatcher(h.db, nil)
	defer close(h.ended)
	defer func() { h.m.endAll(engine.ErrClosed) }()
	for {
		from := h.pos
		err := h.follow(ctx)
		switch code := engine.CodeOf(err); {
		case ctx.Err() != nil:
			return ctx.Err()
		case code == engine.CodeTruncated && h.pos > from:
			continue // it fell behind the feed, and continues from the history
		case code == engine.CodeTruncated:
			h.m.endAll(err)
			h.known = false
		case code == engine.CodeClosed || err != nil && !engine.Retryable(err):
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(retryAfter):
		}
	}
}

// follow matches changes until the feed ends the subscription.
func (h *hub) follow(ctx context.Context) error {
	if !h.known {
		pos, err := h.load(ctx, 0)
		if err != nil {
			return err
		}
		h.pos, h.known = pos, true
	}
	sub, err := h.db.o.Feed.Subscribe(feed.Filter{Prefixes: keys.Watched()}, h.pos)
	if err != nil {
		return err
	}
	defer sub.Close()
	for {
		select {
		case c, ok := <-sub.C:
			if !ok {
				return sub.Err()
			}
			if keys.EpochOf(c) {
				if _, err := h.load(ctx, c.Pos); err != nil {
					h.m.endAll(err)
				}
			}
			h.m.apply(ctx, c)
			h.pos = c.Pos
		case fn := <-h.calls:
			fn(h)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// load reads the collections on this node, as of a position or later, and ends the streams of those that changed.
func (h *hub) load(ctx context.Context, atLeast engine.Position) (engine.Position, error) {
	var now *catalog
	pos, err := h.db.eng.View(ctx, engine.Read{Level: engine.Local, AtLeast: atLeast}, func(tx engine.Tx) (err error) {
		now, err = h.db.load(tx)
		return err
	})
	if err == nil {
		h.m.use(now)
	}
	return pos, err
}

// current reports whether the hub uses the collections in c. If not, it first reads them again.
func (h *hub) current(ctx context.Context, c *catalog) bool {
	if h.m.catalog.epoch != c.epoch {
		if _, err := h.load(ctx, 0); err != nil {
			return false
		}
	}
	return h.m.catalog.epoch == c.epoch
}
