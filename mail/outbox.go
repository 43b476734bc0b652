package mail

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// Limits of an Outbox.
const (
	// DefaultMaxOutbox is how many messages an Outbox keeps if the argument is 0.
	DefaultMaxOutbox = 100
	// MaxOutbox is the maximum number of messages that an Outbox keeps.
	MaxOutbox = 10_000
	// MaxOutboxBytes is about how many bytes an Outbox keeps. The oldest messages
	// are dropped first; the newest is always kept.
	MaxOutboxBytes = 64 << 20
)

// outboxFrom is the sender of messages without one: nothing leaves the machine.
const outboxFrom = "app@localhost"

// Outbox is a Sender for development: it sends nothing, keeps the last messages in memory, and serves a page
// that shows them. See its ServeHTTP.
type Outbox struct {
	// Logger, if not nil, receives a line for each message with its recipients, subject and id. It must be set
	// before the first Send.
	Logger *slog.Logger

	limit int

	mu    sync.Mutex // guards what follows
	kept  []*Kept    // oldest first
	bytes int64
	last  int // id of the newest
}

// Kept is one message of an Outbox. It must not be modified.
type Kept struct {
	ID      int // from 1, in the order of Send
	Time    time.Time
	Message Message // From and Ref are filled in

	size int64
}

// NewOutbox returns an Outbox that keeps the last limit messages. 0 means DefaultMaxOutbox; other values are
// clamped to 1 and MaxOutbox.
func NewOutbox(limit int) *Outbox {
	if limit == 0 {
		limit = DefaultMaxOutbox
	}
	return &Outbox{limit: min(max(limit, 1), MaxOutbox)}
}

// Send checks m as SMTP does and keeps it.
func (b *Outbox) Send(ctx context.Context, m Message) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("send mail: %w", err)
	}
	l, err := check(m, outboxFrom)
	if err != nil {
		return fmt.Errorf("send mail: %w", err)
	}
	kept := &Kept{Time: time.Now(), Message: l.msg, size: l.size()}
	kept.Message.From, kept.Message.Ref = l.from.String(), l.ref
	kept.Message.To = append([]string(nil), m.To...)
	b.keep(kept)
	if b.Logger != nil {
		b.Logger.LogAttrs(ctx, slog.LevelInfo, "mail kept in the outbox", slog.Int("id", kept.ID),
			slog.Any("to", kept.Message.To), slog.String("subject", kept.Message.Subject))
	}
	return nil
}

// keep sets the id of kept and drops the oldest messages to make room.
func (b *Outbox) keep(kept *Kept) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last++
	kept.ID = b.last
	b.kept = append(b.kept, kept)
	b.bytes += kept.size
	for len(b.kept) > b.limit || len(b.kept) > 1 && b.bytes > MaxOutboxBytes {
		b.bytes -= b.kept[0].size
		b.kept[0] = nil
		b.kept = b.kept[1:]
	}
}

// List returns the kept messages, newest first.
func (b *Outbox) List() []*Kept {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make([]*Kept, 0, len(b.kept))
	for i := len(b.kept) - 1; i >= 0; i-- {
		all = append(all, b.kept[i])
	}
	return all
}

// Get returns the message with an id. CodeNotFound means that it never existed or was dropped for newer ones.
func (b *Outbox) Get(id int) (*Kept, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, k := range b.kept {
		if k.ID == id {
			return k, nil
		}
	}
	return nil, engine.Errorf(engine.CodeNotFound, "the outbox has no message %d: it keeps the last %d", id, b.limit)
}
