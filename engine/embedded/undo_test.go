package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"testing/synctest"

	"github.com/skerrydb/skerry/engine"
)

// TestRevert: whatever the batch that was being committed and the one that was gathering
// have written, when the first is lost the tree is as it was before both, and calls go on.
func TestRevert(t *testing.T) {
	seed := rand.Uint64()
	defer func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		r := &reverting{t: t, r: rand.New(rand.NewPCG(seed, 0)), model: map[string]string{}}
		r.x, r.g = gated(t, Options{})
		lost := 0
		for range 200 {
			before := maps.Clone(r.model)
			out := []<-chan error{r.start()}
			b := <-r.g.begun
			for range r.r.IntN(4) {
				out = append(out, r.start())
				synctest.Wait() // until its effects are in the open batch
			}
			if r.r.IntN(2) == 0 {
				lost++
				r.g.let <- engine.ErrDiskFull
				for _, o := range out {
					if err := <-o; !errors.Is(err, engine.ErrDiskFull) {
						t.Errorf("a lost transaction returned %v", err)
					}
				}
				r.model = before
			} else {
				r.pass(b, out)
			}
			synctest.Wait()
			r.check()
		}
		if lost == 0 {
			t.Error("no batch was lost")
		}
		r.x.close(engine.ErrClosed)
	})
}

// reverting is a test of an executor against a model.
type reverting struct {
	t     *testing.T
	r     *rand.Rand
	x     *executor
	g     *gate
	model map[string]string
}

// start runs a transaction of random writes. The model has them at once.
func (r *reverting) start() <-chan error {
	type write struct {
		key, val string
		remove   bool
	}
	var writes []write
	for range r.r.IntN(12) {
		w := write{key: fmt.Sprint("k", r.r.IntN(40)), remove: r.r.IntN(3) == 0}
		// Values over 1,024 bytes stand outside the leaf; those of the same length are overwritten in place.
		w.val = string(bytes.Repeat([]byte{byte('a' + r.r.IntN(26))}, []int{0, 1, 8, 8, 100, 3000}[r.r.IntN(6)]))
		writes = append(writes, w)
	}
	writes = append(writes, write{key: "always", val: fmt.Sprint(r.r.Uint64())})
	undone := r.r.IntN(len(writes)) // writes after a savepoint that the transaction takes back
	for _, w := range writes[undone:] {
		if delete(r.model, w.key); !w.remove {
			r.model[w.key] = w.val
		}
	}
	return start(r.t.Context(), r.x, func(tx engine.Tx) error {
		sp := tx.(engine.Savepointer)
		mark := sp.Savepoint()
		for i, w := range writes {
			if i == undone {
				if err := sp.RollbackTo(mark); err != nil {
					return err
				}
			}
			err := tx.Put([]byte(w.key), []byte(w.val))
			if w.remove {
				err = errors.Join(err, tx.Delete([]byte(w.key)))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// pass lets batches become durable until all calls are answered.
func (r *reverting) pass(b *batch, out []<-chan error) {
	for b != nil {
		r.g.let <- nil
		synctest.Wait()
		select {
		case b = <-r.g.begun:
		default:
			b = nil
		}
	}
	for _, o := range out {
		if err := <-o; err != nil {
			r.t.Error(err)
		}
	}
}

// check compares the tree with the model.
func (r *reverting) check() {
	r.x.mu.Lock()
	defer r.x.mu.Unlock()
	have, sum := map[string]string{}, int64(0)
	for key, val := range r.x.tree.Ascend(nil, nil) {
		have[string(key)] = string(val.Bytes)
		sum += size(key, len(val.Bytes))
	}
	if !maps.Equal(have, r.model) {
		r.t.Fatalf("the tree has %q, want %q", have, r.model)
	}
	if r.x.bytes != sum {
		r.t.Fatalf("%d bytes are counted, want %d", r.x.bytes, sum)
	}
	if err := r.x.tree.Check(); err != nil {
		r.t.Fatal(err)
	}
}
