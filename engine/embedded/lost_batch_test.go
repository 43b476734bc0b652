package embedded

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// TestFullBatchOnLostBatch: transactions that fill the open batch, and so wait
// in sealFull, while the batch before it is lost. None of them may be
// acknowledged: reset drops them from the tree.
func TestFullBatchOnLostBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		big := strings.Repeat("v", batchBytes)
		for _, n := range []int{0, 3} { // an Update; an UpdateEach of which the second fills the batch
			x, g := gated(t, Options{})
			first := start(t.Context(), x, putting("a", "1"))
			<-g.begun
			out := make(chan error, 1)
			go func() {
				c := x.take()
				c.one = putting("k0", big)
				if n > 0 {
					c.one, c.n = nil, n
					c.fn = func(tx engine.Tx, i int) error {
						return tx.Put(fmt.Append(nil, "k", i), []byte(big[:max(1, len(big)*(i%2))]))
					}
				}
				out <- x.do(t.Context(), c)
			}()
			synctest.Wait() // until it waits in sealFull
			g.let <- engine.ErrDiskFull
			<-first
			var err error
			for done := false; !done; {
				select {
				case b := <-g.begun:
					g.show(b.snap)
					g.let <- nil
				case err = <-out:
					done = true
				}
			}
			if n > 0 && err == nil {
				t.Error("an UpdateEach of which a part was lost was acknowledged")
			}
			for i := range max(1, n) {
				if _, ok := x.tree.Get(fmt.Append(nil, "k", i)); err == nil && !ok {
					t.Errorf("n %d: acknowledged transaction %d is lost", n, i)
				}
			}
			x.close(engine.ErrClosed)
		}
	})
}

// TestSplitEach: when an UpdateEach fills two batches and the second is lost, it
// must not return an error that means "nothing was written".
func TestSplitEach(t *testing.T) {
	db := open(t, t.TempDir(), Options{})
	big, batches := make([]byte, batchBytes), 0
	db.exec.log = commitFunc(func(b *batch) error {
		if batches++; batches == 2 {
			return engine.ErrDiskFull
		}
		return journalCommitter{db.log}.commit(b)
	})
	_, err := db.UpdateEach(t.Context(), 2, func(tx engine.Tx, i int) error {
		return tx.Put(fmt.Append(nil, "k", i), big)
	})
	if !errors.Is(err, engine.ErrOutcomeUnknown) || engine.Retryable(err) {
		t.Errorf("half of an UpdateEach was written: %v", err)
	}
	if _, ok := get(t, db, "k0"); !ok || batches != 2 {
		t.Errorf("after %d batches the first is visible: %v", batches, ok)
	}
}

// commitFunc is a committer.
type commitFunc func(*batch) error

func (f commitFunc) commit(b *batch) error { return f(b) }
func (f commitFunc) admit() error          { return nil }
func (commitFunc) gathers(*batch) bool     { return false }
func (f commitFunc) seal(*batch)           {}
func (f commitFunc) waits() bool           { return true }

// TestReaderOfLostBatch: a reader that waits for the clone which a lost batch
// would have brought sees what is durable at once.
func TestReaderOfLostBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the machine may be slow
		db := open(t, t.TempDir(), Options{PositionWait: time.Minute})
		last := unread(t, db)
		begun, let := make(chan struct{}), make(chan struct{})
		db.exec.log = commitFunc(func(*batch) error {
			close(begun)
			<-let
			return engine.ErrDiskFull
		})
		db.exec.wanted.Store(true)
		lost := start(t.Context(), db.exec, putting("k", "lost"))
		<-begun
		time.AfterFunc(tidyEvery/50, func() { close(let) })
		begin := time.Now()
		want(t, db, "k", last)
		if took := time.Since(begin); took > tidyEvery/2 {
			t.Errorf("it waited %v", took)
		}
		if err := <-lost; !errors.Is(err, engine.ErrDiskFull) {
			t.Error(err)
		}
		if have, last := db.snap.Load().index, db.log.Last(); have != last {
			t.Errorf("a snapshot of it would be named after record %d, the log ends at %d", have, last)
		}
	})
}

// TestLostBatchIsDroppedFirst: no call learns that a batch was lost before what was built on it
// is dropped. Otherwise a caller's next transaction could run on the lost batch, and be lost too.
func TestLostBatchIsDroppedFirst(t *testing.T) {
	x, g := gated(t, Options{})
	out := start(t.Context(), x, putting("a", strings.Repeat("v", batchBytes))) // full, so it is committed in the background
	<-g.begun
	x.mu.Lock() // which dropping needs
	g.let <- engine.ErrDiskFull
	select {
	case err := <-out:
		x.mu.Unlock()
		t.Fatalf("the call was answered too early: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	x.mu.Unlock()
	if err := <-out; !errors.Is(err, engine.ErrDiskFull) {
		t.Errorf("the lost batch: %v", err)
	}
	next := start(t.Context(), x, func(tx engine.Tx) error {
		if _, ok, _ := tx.Get([]byte("a")); ok {
			t.Error("the next transaction sees what was lost")
		}
		return tx.Put([]byte("b"), nil)
	})
	g.show((<-g.begun).snap)
	g.let <- nil
	if err := <-next; err != nil {
		t.Errorf("the next transaction: %v", err)
	}
	x.close(engine.ErrClosed)
}
