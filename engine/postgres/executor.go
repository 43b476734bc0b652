package postgres

import (
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skerrydb/skerry/engine"
)

// The executor commits batches, one after the other. In each
//
//  1. it begins a transaction and takes the lock on the row of table pos, so that it is the
//     only writer of all processes, in one round trip;
//  2. it runs the functions of the batch one after the other. They read through an overlay of
//     what the batch has written; an error undoes only that function's writes;
//  3. it sends all writes, their changes, the new position and COMMIT in one round trip;
//  4. it answers the calls, also those that failed or wrote nothing, because they saw what the
//     batch wrote.
//
// If the session is lost before 3, the batch is known not to be committed and is tried again.
// If it is lost in 3, the executor asks a new session whether the batch is in table change.

// executor is the state of the goroutine that runs execute.
type executor struct {
	d       *DB
	conn    *pgx.Conn // nil: not connected
	session server
	pending []*call
	known   known
}

func (d *DB) execute() {
	x := &executor{d: d}
	defer x.disconnect()
	for x.gather() {
		x.serve()
	}
	for _, c := range x.pending {
		c.fail(engine.ErrClosed)
	}
	for {
		select {
		case c := <-d.queue:
			c.fail(engine.ErrClosed)
		default:
			return
		}
	}
}

// gather waits for calls. It returns false when the engine is closing.
func (x *executor) gather() bool {
	select {
	case <-x.d.closing:
		return false
	default:
	}
	if len(x.pending) == 0 {
		select {
		case <-x.d.closing:
			return false
		case c := <-x.d.queue:
			x.pending = append(x.pending, c)
		}
	}
	for len(x.pending) < maxBatchCalls {
		select {
		case c := <-x.d.queue:
			x.pending = append(x.pending, c)
		default:
			return true
		}
	}
	return true
}

// serve commits one batch of the pending calls, or fails them.
func (x *executor) serve() {
	giveUp := x.pending[0].since.Add(x.d.o.Patience)
	for try := 1; len(x.pending) > 0; try++ {
		err := x.connect()
		if err == nil {
			err = x.batch()
		}
		if err == nil {
			return
		}
		x.disconnect()
		for _, c := range x.pending {
			if c.err != nil { // it alone is to blame
				c.fail(c.err)
			} else {
				c.rewind()
			}
		}
		x.forget(func(c *call) bool { return c.err != nil })
		if errors.Is(err, errBlamed) {
			continue
		}
		if !passing(err) || final(err) || try >= maxTries || time.Now().After(giveUp) || !x.pause(try) {
			x.failAll(err)
			return
		}
		x.d.retries.Add(1)
	}
}

// final reports whether err is the engine's own and does not pass with a failover.
func final(err error) bool {
	return errors.As(err, new(*engine.Error)) && engine.CodeOf(err) != engine.CodeUnavailable
}

// forget removes calls from the pending ones.
func (x *executor) forget(gone func(*call) bool) {
	kept := x.pending[:0]
	for _, c := range x.pending {
		if !gone(c) {
			kept = append(kept, c)
		}
	}
	clear(x.pending[len(kept):])
	x.pending = kept
}

func (x *executor) failAll(err error) {
	err = x.d.explain(x.d.ctx, err)
	for _, c := range x.pending {
		c.fail(err)
	}
	x.pending = x.pending[:0]
}

// pause waits before the next try. It returns false when the engine is closing.
func (x *executor) pause(try int) bool {
	if try == 1 {
		return true // most often it was only this session
	}
	select {
	case <-x.d.closing:
		return false
	case <-time.After(min(10*time.Millisecond<<try, time.Second)):
		return true
	}
}

// connect makes sure that there is a session, on a server that may be written to.
func (x *executor) connect() error {
	if x.conn != nil && !x.conn.IsClosed() {
		return nil
	}
	ctx, cancel := x.d.within()
	defer cancel()
	conn, err := x.d.connect(ctx)
	if err != nil {
		return err
	}
	x.conn = conn
	if x.session, err = readServer(ctx, conn); err != nil {
		return err
	}
	switch weak := x.session.weak(); {
	case x.session.standby:
		return engine.Errorf(engine.CodeUnavailable, "postgres: the server has become a standby: no writes until there is a primary")
	case weak != "" && x.d.server.weak() == "":
		return engine.Errorf(engine.CodeUnavailable, "postgres: %s: commits are no longer durable, but that was promised when the engine was opened", weak)
	}
	if err := x.session.refuseWrites(); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "SELECT set_config('skerry.executor', $1, false)", x.d.schema); err != nil {
		return err
	}
	return x.d.beginEpoch(ctx, conn)
}

func (x *executor) disconnect() {
	x.known = known{}
	if x.conn != nil {
		closeConn(x.conn)
		x.conn = nil
	}
}
