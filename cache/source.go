package cache

import (
	"context"

	"github.com/skerrydb/skerry/engine"
)

// A Source loads entries. Its methods are called by several goroutines at once.
type Source interface {
	// Load returns one Entry for each of keys, in order; at most Options.Gather keys are asked for at once. A
	// key that does not exist is an Entry with Missing. An error fails all keys. The cache keeps the entries:
	// the source must not change their bytes anymore.
	//
	// A load must see every change that the feed delivered before it began, or the feed must report the keys
	// of that change again later; see Sink.
	Load(ctx context.Context, keys []string) ([]Entry, error)
}

// Func is a Source that loads one key at a time.
type Func func(ctx context.Context, key string) (Entry, error)

// Load implements Source. An error that matches engine.ErrNotFound is an entry that is missing.
func (f Func) Load(ctx context.Context, keys []string) ([]Entry, error) {
	entries := make([]Entry, len(keys))
	for i, key := range keys {
		e, err := f(ctx, key)
		if engine.CodeOf(err) == engine.CodeNotFound {
			e, err = Entry{Missing: true}, nil
		}
		if err != nil {
			return nil, err
		}
		entries[i] = e
	}
	return entries, nil
}

// Batch is a Source that loads several keys at once, as Source.Load does.
type Batch func(ctx context.Context, keys []string) ([]Entry, error)

// Load implements Source.
func (f Batch) Load(ctx context.Context, keys []string) ([]Entry, error) { return f(ctx, keys) }

// atLeast is the key of AtLeast in a context.
type atLeast struct{}

// AtLeast returns the position that a load must include: the newest that its readers asked for. Only sources
// that read copies of the data, which can be behind, need it. It is 0 if ctx is not of a load.
func AtLeast(ctx context.Context) Position {
	pos, _ := ctx.Value(atLeast{}).(Position)
	return pos
}
