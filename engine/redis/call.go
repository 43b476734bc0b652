package redis

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/skerrydb/skerry/engine"
)

// call is one Update, or one UpdateEach of n transactions.
type call struct {
	n    int
	each bool
	fn   func(engine.Tx, int) error
	keys [][]byte      // that it will probably use
	done chan struct{} // closed once pos and err are set

	// token is taken while fn runs. A caller whose ctx has ended takes it for good, so that
	// fn does not run any more. It guards the fields below.
	token chan struct{}
	runs  int
	fnErr error // what fn of an Update returned when it last ran

	pos engine.Position
	err error
}

// errLeft: the caller of the function has gone.
var errLeft = errors.New("the caller has gone")

// run runs fn once, in a separate goroutine because it may end it.
func (c *call) run(tx engine.Tx, i int) error {
	select {
	case <-c.token:
	default:
		return errLeft
	}
	defer func() { c.token <- struct{}{} }()
	c.runs++
	out := make(chan error, 1)
	go func() {
		var err error = &panicked{"it ended its goroutine"}
		defer func() {
			if v := recover(); v != nil {
				err = &panicked{v}
			}
			out <- err
		}()
		err = c.fn(tx, i)
	}()
	err := <-out
	if !c.each {
		c.fnErr = err
	}
	return err
}

// leave returns what the caller of a call gets whose ctx has ended, once fn does not run.
func (c *call) leave(cause error) error {
	<-c.token
	select {
	case <-c.done:
		return c.err
	default:
	}
	switch {
	case c.runs == 0:
		return cause
	case c.fnErr != nil:
		return c.fnErr
	}
	return engine.Errorf(engine.CodeOutcomeUnknown, "redis: the call was cut off: %w", cause)
}

// panicked is the error of a function that panicked or ended its goroutine.
type panicked struct{ v any }

func (p *panicked) Error() string {
	return fmt.Sprintf("the function of a transaction did not return: %v", p.v)
}

// Update implements engine.Engine.
func (d *db) Update(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
	return d.submit(ctx, &call{n: 1, fn: func(tx engine.Tx, _ int) error { return fn(tx) }})
}

// UpdateOf implements engine.Preparer.
func (d *db) UpdateOf(ctx context.Context, keys [][]byte, fn func(engine.Tx) error) (engine.Position, error) {
	c := &call{n: 1, fn: func(tx engine.Tx, _ int) error { return fn(tx) }}
	for _, key := range keys[:min(len(keys), maxMany)] {
		if len(key) > 0 && len(key) <= MaxKeyBytes {
			c.keys = append(c.keys, bytes.Clone(key))
		}
	}
	return d.submit(ctx, c)
}

// UpdateEach implements engine.Eacher.
func (d *db) UpdateEach(ctx context.Context, n int, fn func(engine.Tx, int) error) (engine.Position, error) {
	if n <= 0 {
		pos, _, err := d.current()
		return pos, err
	}
	return d.submit(ctx, &call{n: n, each: true, fn: fn})
}

// writable returns an error if no write can succeed.
func (d *db) writable() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return engine.ErrClosed
	}
	return d.unfit
}

// refusal returns why the server must take no writes, or nil.
func (d *db) refusal() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.unfit
}

func (d *db) submit(ctx context.Context, c *call) (engine.Position, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if err := d.writable(); err != nil {
		return 0, err
	}
	c.done, c.token = make(chan struct{}), make(chan struct{}, 1)
	c.token <- struct{}{}
	select {
	case d.queue <- c:
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-d.ended:
		return 0, engine.ErrClosed
	}
	select {
	case <-c.done:
		return c.pos, c.err
	case <-ctx.Done():
		err := c.leave(ctx.Err())
		if err != nil {
			return 0, err
		}
		return c.pos, nil
	case <-d.exec.over:
	}
	select {
	case <-c.done: // the executor finished it before it ended
		return c.pos, c.err
	default:
		return 0, engine.ErrClosed
	}
}
