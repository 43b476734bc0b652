package postgres

import (
	"context"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skerrydb/skerry/engine"
)

// Changes implements engine.Engine.
func (d *DB) Changes(ctx context.Context, after engine.Position) iter.Seq2[engine.Change, error] {
	return func(yield func(engine.Change, error) bool) {
		f := follower{d: d, ctx: ctx, at: after, yield: yield}
		if err := f.run(); err != nil && ctx.Err() == nil {
			yield(engine.Change{}, d.explain(ctx, err))
		}
	}
}

// follower is one reader of Changes.
type follower struct {
	d     *DB
	ctx   context.Context
	at    engine.Position // everything up to it was yielded
	yield func(engine.Change, error) bool
}

// run returns nil when the reader stops.
func (f *follower) run() error {
	if err := f.begin(); err != nil {
		return err
	}
	for {
		pos, moved, err := f.d.now()
		if err != nil {
			return err
		}
		if f.at < pos {
			if more, err := f.page(pos); err != nil || !more {
				return err
			}
			continue
		}
		select {
		case <-moved:
		case <-f.d.closing:
		case <-f.ctx.Done():
			return nil
		}
	}
}

// begin refuses a position that was lost or never reached.
func (f *follower) begin() error {
	pos, _, err := f.d.now()
	if err != nil || f.at <= pos {
		return err
	}
	if err := f.retry(func() error { return f.d.refresh(f.ctx) }); err != nil {
		return err
	}
	if pos := f.d.Position(); f.at > pos {
		return engine.Errorf(engine.CodeTruncated, "position %d has not been reached: the database is at %d", f.at, pos)
	}
	return nil
}

// retry runs a read until it succeeds or the server has been away for too long.
func (f *follower) retry(read func() error) error {
	giveUp := time.Now().Add(f.d.o.Patience)
	for try := 1; ; try++ {
		err := read()
		if err == nil || !passing(err) || f.ctx.Err() != nil || f.d.isClosed() {
			return err
		}
		f.d.work.distrust(err)
		if time.Now().After(giveUp) {
			return err
		}
		if err := f.d.backoff(f.ctx, try); err != nil {
			return err
		}
	}
}

// page yields some changes up to pos or later. It returns false when the reader stops.
func (f *follower) page(pos engine.Position) (more bool, err error) {
	var list []engine.Change
	var epochs []epoch
	err = f.retry(func() (err error) {
		if list, err = f.d.readChanges(f.ctx, f.at); err == nil {
			epochs, err = f.d.loadEpochs(f.ctx)
		}
		return err
	})
	if err != nil {
		return false, err
	}
	next := following(epochs, f.at)
	switch {
	case isLost(epochs, f.at):
		return false, engine.Errorf(engine.CodeTruncated, "position %d was lost in a failover or a restore", f.at)
	case isRaised(epochs, f.at):
		return false, engine.Errorf(engine.CodeTruncated, "the changes after position %d are from before the positions were raised", f.at)
	case len(list) == 0 && next-1 == pos: // an epoch has begun
		f.at = pos
		return f.yield(engine.Change{Pos: pos}, nil), nil
	case len(list) == 0 || list[0].Pos != next:
		return false, engine.Errorf(engine.CodeTruncated, "the changes after position %d are no longer kept", f.at)
	}
	return f.pass(list, epochs), nil
}

// pass yields the changes that follow without a gap. It returns false when the reader stops.
func (f *follower) pass(list []engine.Change, epochs []epoch) (more bool) {
	for _, c := range list {
		if f.ctx.Err() != nil {
			return false
		}
		if c.Pos != following(epochs, f.at) {
			return true // an epoch begins between them, or changes were deleted: look again
		}
		if f.at = c.Pos; !f.yield(c, nil) {
			return false
		}
	}
	return true
}

// readChanges reads some of the changes after a position.
func (d *DB) readChanges(ctx context.Context, after engine.Position) ([]engine.Change, error) {
	c, err := d.work.get(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := d.bounded(ctx)
	defer cancel()
	var out []engine.Change
	var pos engine.Position
	var at int64
	var writes []byte
	rows, err := c.Query(ctx, d.sql.changes, int64(min(after, 1<<63-1)))
	if err == nil {
		_, err = pgx.ForEachRow(rows, []any{&pos, &at, &writes}, func() error {
			w, ok := decodeWrites(writes)
			if !ok {
				return engine.Errorf(engine.CodeCorrupt, "postgres: the row of position %d in table %s.change is damaged", pos, d.schema)
			}
			out = append(out, engine.Change{Pos: pos, Time: time.UnixMicro(at), Writes: w})
			return nil
		})
	}
	if err != nil {
		d.work.drop(c)
		return nil, err
	}
	d.work.put(c)
	return out, nil
}

// refresh asks the server for its position.
func (d *DB) refresh(ctx context.Context) error {
	c, err := d.views.get(ctx)
	if err != nil {
		return err
	}
	if err := d.probe(ctx, c.Conn); err != nil {
		d.views.drop(c)
		return err
	}
	d.views.put(c)
	return nil
}

// await waits until the database has reached a position.
func (d *DB) await(ctx context.Context, at engine.Position) error {
	if at == 0 {
		if d.isClosed() {
			return engine.ErrClosed
		}
		return nil
	}
	for asked := false; ; {
		pos, moved, err := d.now()
		if err != nil {
			return err
		}
		if at <= pos {
			return d.kept(ctx, at)
		}
		if !asked || d.server.standby {
			asked = true
			if d.refresh(ctx) == nil && at <= d.Position() {
				continue
			}
		}
		var poll <-chan time.Time
		if d.server.standby {
			poll = time.After(standbyPoll)
		}
		select {
		case <-moved:
		case <-poll:
		case <-d.closing:
			return engine.ErrClosed
		case <-ctx.Done():
			return engine.Errorf(engine.CodePositionTimeout, "the database is at position %d, not yet at %d: %w", pos, at, ctx.Err())
		}
	}
}

// kept returns ErrTruncated if at is the position of a commit that was lost.
func (d *DB) kept(ctx context.Context, at engine.Position) error {
	epochs, err := d.loadEpochs(ctx)
	if err != nil {
		return d.fault(err)
	}
	if isLost(epochs, at) {
		return engine.Errorf(engine.CodeTruncated, "position %d was lost in a failover or a restore: read everything again", at)
	}
	return nil
}
