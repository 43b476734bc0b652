package cache

import (
	"context"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// Position is a point in the history of a source: the position of an engine, or an LSN of PostgreSQL.
type Position = engine.Position

// A Feed tells a cache which keys change.
type Feed interface {
	// Run reports changes to sink until ctx ends, or until the feed is lost, and returns why. The cache calls
	// it again after a pause. Calls to sink after Run has returned do nothing.
	Run(ctx context.Context, sink Sink) error
}

// A Sink receives the reports of one run of a Feed, from one goroutine at a time. In this order:
//
//   - Begin, once.
//   - For each change, Changed with its keys, at the latest before Reached with the position of the change. If a
//     load that began after Changed may still not see the change, the feed calls Changed again once every new
//     load sees it, and Reached only after that.
//   - Reached, as often as the feed can say so.
type Sink interface {
	// Resume returns up to where the cache has applied all changes. history is "" if it has applied none.
	Resume() (history string, pos Position)

	// Begin says that every change after pos of this history will be reported. If resumed is false, or if
	// this is not what Resume returned or earlier in the same history, the cache drops everything first.
	Begin(history string, pos Position, resumed bool)

	// Changed says that the values of keys have changed.
	Changed(keys ...string)

	// ChangedAll says that any value may have changed, and why, for the log.
	ChangedAll(why string)

	// Reached says that every change up to pos was reported. If at is not zero, it also says that no change
	// after pos had been committed at that time: the feed took it before it asked the source for its newest
	// position.
	Reached(pos Position, at time.Time)

	// Lag says by how many bytes of its history the feed is behind the source. It is for metrics.
	Lag(bytes int64)
}
