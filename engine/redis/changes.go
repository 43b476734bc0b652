package redis

import (
	"context"
	"encoding/binary"
	"iter"
	"strings"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// entryOf is one entry of the stream: a batch, or the beginning of an epoch, which has no
// writes. If Raise has begun that, its id is raisedID, and nothing continues from before.
type entryOf struct {
	pos, base engine.Position
	id        string
	wrote     string
}

// entries returns up to n entries after a position.
func (d *db) entries(ctx context.Context, after engine.Position, n int64) ([]entryOf, error) {
	q := d.c.B().Xrange().Key(d.n.change).Start("(" + formatPos(after) + "-0").End("+").Count(n).Build()
	got, err := d.c.Do(ctx, q).AsXRangeSlices()
	if err != nil {
		return nil, err
	}
	out := make([]entryOf, len(got))
	for i, g := range got {
		id, _, _ := strings.Cut(g.ID, "-")
		if out[i].pos, err = parsePos(id); err != nil {
			return nil, err
		}
		for _, f := range g.FieldValues {
			switch f.Field {
			case "p":
				if out[i].base, err = parsePos(f.Value); err != nil {
					return nil, err
				}
			case "i":
				out[i].id = f.Value
			case "w":
				out[i].wrote = f.Value
			}
		}
	}
	return out, nil
}

// changes yields the transactions of an entry.
func (e entryOf) changes() iter.Seq[engine.Change] {
	return func(yield func(engine.Change) bool) {
		b := []byte(e.wrote)
		num := func() uint32 {
			n := binary.BigEndian.Uint32(b)
			b = b[4:]
			return n
		}
		cut := func(n uint32) []byte {
			s := b[:n:n]
			b = b[n:]
			return s
		}
		for pos := e.base + 1; len(b) > 0; pos++ {
			c := engine.Change{Pos: pos, Time: time.UnixMicro(int64(binary.BigEndian.Uint64(b)))}
			b = b[8:]
			c.Writes = make([]engine.Write, num())
			for i := range c.Writes {
				w := &c.Writes[i]
				w.Key = cut(num())
				if n := num(); n == none {
					w.Deleted = true
				} else {
					w.Val = cut(n)
				}
			}
			if !yield(c) {
				return
			}
		}
	}
}

const changesAtOnce = 16 // entries that one read brings

// Changes implements engine.Engine.
func (d *db) Changes(ctx context.Context, after engine.Position) iter.Seq2[engine.Change, error] {
	return func(yield func(engine.Change, error) bool) {
		for {
			pos, moved, err := d.current()
			if err == nil && after >= pos {
				err = d.damage()
			}
			if err != nil {
				yield(engine.Change{}, err)
				return
			}
			for after < pos {
				var list []entryOf
				err := d.retry(ctx, func(ctx context.Context) (err error) {
					list, err = d.entries(ctx, after, changesAtOnce)
					return err
				})
				if ctx.Err() != nil {
					return
				}
				if err == nil && len(list) == 0 {
					err = truncated(after)
				}
				if err != nil {
					yield(engine.Change{}, err)
					return
				}
				for _, e := range list {
					if e.base > after || e.wrote == "" && e.base < after || e.id == raisedID {
						yield(engine.Change{}, truncated(after))
						return
					}
					for c := range e.changes() {
						if ctx.Err() != nil {
							return
						}
						if c.Pos > after && !yield(c, nil) {
							return
						}
					}
					if e.wrote == "" && !yield(engine.Change{Pos: e.pos, Time: time.UnixMicro(d.clock())}, nil) {
						return
					}
					after = e.pos
				}
			}
			select {
			case <-moved:
			case <-d.ended:
			case <-ctx.Done():
				return
			}
		}
	}
}

func truncated(after engine.Position) error {
	return engine.Errorf(engine.CodeTruncated, "redis: the changes after %d are no longer kept, or were lost with a server", after)
}
