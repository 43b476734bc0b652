package proc

import (
	"iter"
	"math/rand/v2"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
)

// Tx is the transaction that a procedure works in. It is valid until the
// procedure returns, and only in its goroutine. It is an engine.Tx, so that
// every capability can be used in it; those methods work on the engine's own
// keys, whose layout belongs to the capabilities: for plain keys use KV.
type Tx struct {
	tx    engine.Tx
	call  *Call
	def   *definition // the innermost procedure that runs
	depth int
	space [256]*kv.Tx // bound to this transaction if used holds it
	used  []uint8
	rng   *rand.Rand
}

// KV returns the plain keys of a space; clients know space n as database n, and
// HTTP shows space 0. It allocates nothing after the first calls.
func (t *Tx) KV(space uint8) *kv.Tx {
	k := t.space[space]
	if k == nil {
		k = new(kv.Tx)
		t.space[space] = k
	}
	for _, s := range t.used {
		if s == space {
			return k
		}
	}
	t.used = append(t.used, space)
	k.Bind(t, space)
	return k
}

// Now is the time of the transaction: the same at every read of it.
func (t *Tx) Now() time.Time { return t.tx.Now() }

// Rand is a source of random numbers that is the transaction's own. It is not
// for secrets: use crypto/rand for those.
func (t *Tx) Rand() *rand.Rand {
	if t.rng == nil {
		t.rng = t.call.set.random(t.tx.Now())
	}
	return t.rng
}

// Procedure returns the name of the innermost procedure that runs.
func (t *Tx) Procedure() string { return t.def.schema.Name }

// Get implements engine.Tx.
func (t *Tx) Get(key []byte) ([]byte, bool, error) { return t.tx.Get(key) }

// Put implements engine.Tx.
func (t *Tx) Put(key, val []byte) error { return t.tx.Put(key, val) }

// Delete implements engine.Tx.
func (t *Tx) Delete(key []byte) error { return t.tx.Delete(key) }

// Scan implements engine.Tx.
func (t *Tx) Scan(lo, hi []byte) iter.Seq2[engine.Pair, error] { return t.tx.Scan(lo, hi) }

// ScanBack implements engine.Tx.
func (t *Tx) ScanBack(lo, hi []byte) iter.Seq2[engine.Pair, error] { return t.tx.ScanBack(lo, hi) }

// nested runs fn as a call of def within t.
func (t *Tx) nested(def *definition, fn func() error) error {
	outer := t.def
	t.def = def
	t.depth++
	err := fn()
	t.depth--
	t.def = outer
	return err
}
