package embedded

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// pass lets every batch be committed.
func (g *gate) pass() {
	for range g.begun {
		g.let <- nil
	}
}

// TestGoexit: a function that ends its goroutine leaves the executor at work
// and nothing written.
func TestGoexit(t *testing.T) {
	db := open(t, t.TempDir(), Options{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = db.Update(context.Background(), func(tx engine.Tx) error {
			_ = tx.Put([]byte("half"), nil)
			runtime.Goexit()
			return nil
		})
	}()
	<-ended
	put(t, db, "k", "v")
	if _, ok := get(t, db, "half"); ok {
		t.Error("half a transaction was committed")
	}
}

// TestGoexitInBackground: so does one that the background leader runs.
func TestGoexitInBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, g := gated(t, Options{})
		go g.pass()
		inside, goOn := make(chan struct{}), make(chan struct{})
		var ok, ends []<-chan error
		ok = append(ok, start(t.Context(), x, func(engine.Tx) error { close(inside); <-goOn; return nil }))
		<-inside
		for i := range runBudget {
			ok = append(ok, start(t.Context(), x, putting(fmt.Sprint(i), "")))
		}
		settled(t, x, func() bool { return len(x.queue) == runBudget })
		inside2, goOn2 := make(chan struct{}), make(chan struct{})
		x.mu.Lock()
		last := x.take() // it spends the caller's budget while two more wait
		last.one = func(engine.Tx) error { close(inside2); <-goOn2; return nil }
		x.queue = append(x.queue, last)
		x.mu.Unlock()
		close(goOn)
		<-inside2
		ends = append(ends, start(t.Context(), x, func(engine.Tx) error { runtime.Goexit(); return nil }))
		settled(t, x, func() bool { return len(x.queue) == 1 })
		ok = append(ok, start(t.Context(), x, putting("after", "")))
		settled(t, x, func() bool { return len(x.queue) == 2 })
		close(goOn2)
		late := time.After(10 * time.Second)
		for i, c := range append(ok, ends...) {
			select {
			case err := <-c:
				if (err != nil) != (i == len(ok)) {
					t.Errorf("call %d: %v", i, err)
				}
			case <-late:
				t.Fatalf("call %d of %d is never answered", i, len(ok)+len(ends))
			}
		}
		x.close(engine.ErrClosed)
	})
}

// TestGoexitInEach: the transactions before the one that ended its goroutine are
// written, so the answer must not say that nothing was.
func TestGoexitInEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, g := gated(t, Options{})
		go g.pass()
		inside, goOn := make(chan struct{}), make(chan struct{})
		start(t.Context(), x, func(engine.Tx) error { close(inside); <-goOn; return nil }) // its goroutine ends
		<-inside
		out := make(chan error, 1)
		go func() {
			c := x.take()
			c.n, c.fn = 2, func(tx engine.Tx, i int) error {
				if i == 1 {
					runtime.Goexit()
				}
				return tx.Put([]byte("k"), nil)
			}
			out <- x.do(t.Context(), c)
		}()
		settled(t, x, func() bool { return len(x.queue) == 1 })
		close(goOn)
		if err := <-out; !errors.Is(err, engine.ErrOutcomeUnknown) {
			t.Errorf("half of an UpdateEach was written: %v", err)
		}
		x.close(engine.ErrClosed)
	})
}
