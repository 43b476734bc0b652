package embedded

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// TestFullBatchOnLostBatch: transactions that fill the open batch, and so wait
// in sealFull, while the batch before it is lost. None of them may be
// acknowledged: reset drops them from the tree.
func TestFullBatchOnLostBatch(t *testing.T) {
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
		time.Sleep(30 * time.Millisecond) // until it waits in sealFull; the batch is the leader's, so nobody can look
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
}
