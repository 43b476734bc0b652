// Package optimistic has transactions that last over several calls, of clients that
// may think, or be gone, between them.
//
// It knows snapshots, writes that wait for the commit, and what was read. It must
// not know what keys mean, nor who the client is.
//
// A transaction has these stages:
//
//  1. Begin opens a view of the engine, whose function waits in a goroutine for what
//     is to be done. Other transactions go on meanwhile.
//  2. Do runs a function there. It reads the snapshot under the writes so far, and all
//     that it read of the snapshot is noted: keys and ranges, by the sums of their
//     contents. Its writes go to memory.
//  3. Commit ends the view and runs one Update. It reads everything again that was
//     noted; if a sum differs, the transaction has lost to another one, and
//     engine.ErrConflict is returned. Otherwise it applies the writes.
//
// So a transaction is serialisable: what it read holds at the time of its commit.
package optimistic

import (
	"context"

	"github.com/skerrydb/skerry/btree"
	"github.com/skerrydb/skerry/engine"
)

// Defaults and bounds of Options.
const (
	// DefaultMaxBytes is how much memory the writes and notes of a transaction take.
	DefaultMaxBytes = 64 << 20
	// noteBytes is what one note is counted as, besides its keys.
	noteBytes = 96
)

// Options of Begin. The zero value works.
type Options struct {
	// MaxBytes bounds what a transaction keeps in memory: engine.ErrTxTooLarge. 0 means
	// DefaultMaxBytes.
	MaxBytes int
}

// Tx is a transaction over several calls. Its methods are safe for concurrent use;
// calls wait for each other. Commit or Rollback must be the last one.
type Tx struct {
	eng  engine.Engine
	work chan func(engine.Tx) (last bool) // the last one ends the view
	over chan struct{}                    // closed once the view has ended
	turn chan struct{}                    // full while a call uses the fields below

	state  *state
	ended  bool
	viewed error // of the view, once over is closed
	at     engine.Position
}

// Begin begins a transaction on a snapshot that has all that was acknowledged
// before. It is rolled back when ctx ends.
func Begin(ctx context.Context, eng engine.Engine, o Options) (*Tx, error) {
	if o.MaxBytes == 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	t := &Tx{eng: eng, work: make(chan func(engine.Tx) bool), over: make(chan struct{}), turn: make(chan struct{}, 1), state: newState(o.MaxBytes)}
	began := make(chan struct{})
	go func() {
		defer close(t.over)
		ran := false
		t.at, t.viewed = eng.View(ctx, engine.Read{}, func(tx engine.Tx) error {
			if ran { // an engine may run it again, when the transaction is over
				return nil
			}
			ran = true
			close(began)
			return t.serve(ctx, tx)
		})
	}()
	select {
	case <-began:
		return t, nil
	case <-t.over:
		return nil, t.viewed
	}
}

func (t *Tx) serve(ctx context.Context, tx engine.Tx) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case f := <-t.work:
			if f(tx) {
				return nil
			}
		}
	}
}

// errOver: the transaction has ended.
func (t *Tx) errOver() error {
	if t.viewed != nil {
		return t.viewed
	}
	return engine.Errorf(engine.CodeInvalid, "the transaction has ended")
}

// take waits until no other call lasts.
func (t *Tx) take(ctx context.Context) error {
	select {
	case t.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *Tx) give() { <-t.turn }

// Do runs fn in the transaction, whose engine.Tx is valid until fn returns. An error
// of fn undoes what fn wrote, and is returned unchanged; the transaction goes on. So
// does a panic of fn, which Do repeats. fn runs once. If ctx ends before fn begins, its error is returned.
func (t *Tx) Do(ctx context.Context, fn func(engine.Tx) error) error {
	if err := t.take(ctx); err != nil {
		return err
	}
	defer t.give()
	if t.ended {
		return t.errOver()
	}
	out, panicked := error(errGone), any(nil) // if fn does not return
	done := make(chan struct{})
	select {
	case t.work <- func(tx engine.Tx) bool {
		defer close(done)
		panicked, out = t.state.run(tx, fn)
		return false
	}:
		<-done
		if panicked != nil {
			panic(panicked) // of fn, in the goroutine of whoever called it
		}
		return out
	case <-t.over:
		t.ended = true
		return t.errOver()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// end ends the view. It reports whether the transaction was still there.
func (t *Tx) end() bool {
	if t.ended {
		return false
	}
	t.ended = true
	select {
	case t.work <- func(engine.Tx) bool { return true }:
		<-t.over
		return true
	case <-t.over:
		return false
	}
}

// Commit makes the transaction's writes durable, if what it read has not changed
// since it began. engine.ErrConflict: it has, and nothing was written. If ctx ends
// while another call lasts, its error is returned and the transaction goes on.
func (t *Tx) Commit(ctx context.Context) (engine.Position, error) {
	if err := t.take(ctx); err != nil {
		return 0, err
	}
	defer t.give()
	if !t.end() {
		return 0, t.errOver()
	}
	if t.state.writes.Len() == 0 {
		return t.at, nil // it saw one snapshot
	}
	return t.eng.Update(ctx, func(tx engine.Tx) error {
		if err := t.state.verify(tx); err != nil {
			return err
		}
		return apply(tx, t.state.writes)
	})
}

// Rollback drops the transaction. One that has ended is left as it is.
func (t *Tx) Rollback() {
	_ = t.take(context.Background())
	defer t.give()
	t.end()
	t.state = newState(0)
}

func apply(tx engine.Tx, writes *btree.Pairs) error {
	for key, v := range writes.Ascend(nil, nil) {
		if v.Marked {
			if err := tx.Delete(key); err != nil {
				return err
			}
			continue
		}
		if err := tx.Put(key, v.Bytes); err != nil {
			return err
		}
	}
	return nil
}
