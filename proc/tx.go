package proc

import (
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
)

// Tx is the transaction that a procedure works in. It is valid until the
// procedure returns, and only in its goroutine: kept longer, it works on nothing
// or, once its memory is used again, on somebody else's transaction. Data is read
// and written by KV.
type Tx struct {
	set      *Set
	tx       engine.Tx   // nil: the procedure has ended
	def      *definition // the innermost procedure that runs
	depth    int         // how many run within each other
	readOnly bool        // the innermost one, or one around it, only reads
	wrote    bool        // the innermost one, or one that it called
	half     error       // what was left half written since the innermost one began
	bad      error       // why the transaction must not be committed
	spaces   []space
	pcg      rand.PCG
	rng      *rand.Rand
	seeded   bool // rng, in this transaction

	// The watchdog's; see watch.go.
	seq  uint64        // of this run, odd
	run  atomic.Uint64 // seq while the procedure runs, seq+1 after it
	stop atomic.Uint64 // the run that has taken too long
	what atomic.Pointer[definition]
	seen seen // guarded by Set.mu

	counts *counters
}

// space is the plain keys of one space.
type space struct {
	number uint8
	bound  bool // to this transaction
	keys   *kv.Tx
}

// keepSpaces is for how many spaces a Tx keeps buffers for its next use.
const keepSpaces = 4

// bind makes the keys work on t. They are shared by all who ask for the space.
func (s *space) bind(t *Tx) {
	s.keys.Bind(engineTx{t}, s.number)
	s.keys.Stay()
	s.bound = true
}

// KV returns the plain keys of a space; clients know space n as database n, and
// HTTP shows space 0. The same space is the same kv.Tx each time, so it stays
// there: to work on another one call KV again, since a Select that moves it fails
// the procedure with CodeInvalid. Space 255 (kv.OnceSpace) holds the answers of
// calls with a key: leave it alone.
func (t *Tx) KV(number uint8) *kv.Tx {
	for i := range t.spaces {
		if s := &t.spaces[i]; s.number == number {
			if !s.bound {
				s.bind(t)
			}
			return s.keys
		}
	}
	s := space{number: number, keys: new(kv.Tx)}
	s.bind(t)
	t.spaces = append(t.spaces, s)
	return s.keys
}

// Engine is for capabilities: the engine's own keys, whose layout belongs to them.
// A capability works on them as on those of any engine.Tx: kv.In(tx.Engine(), 0).
// What is written there by hand is seen by no client and can damage what is: for
// data of your own use KV. It ends with t, and refuses what t refuses; it is an
// engine.Ranker and an engine.Breaker.
func (t *Tx) Engine() engine.Tx { return engineTx{t} }

// Now is the time of the transaction: the same at every read of it.
func (t *Tx) Now() time.Time {
	if t.tx == nil {
		return time.Time{}
	}
	return t.tx.Now()
}

// Rand is a source of random numbers that is the transaction's own. It is not
// for secrets: use crypto/rand for those.
func (t *Tx) Rand() *rand.Rand {
	if t.rng == nil {
		t.rng = rand.New(&t.pcg)
	}
	if !t.seeded {
		t.seeded = true
		if seed := t.set.o.Seed; seed != 0 {
			t.pcg.Seed(seed, uint64(t.Now().UnixMicro()))
		} else {
			t.pcg.Seed(rand.Uint64(), rand.Uint64())
		}
	}
	return t.rng
}

// Procedure returns the name of the innermost procedure that runs.
func (t *Tx) Procedure() string {
	if t.tx == nil {
		return ""
	}
	return t.def.schema.Name
}

// check reports why t cannot be used, if it cannot. It is part of every
// operation, so it must cost nothing.
func (t *Tx) check() error {
	if t.tx != nil && t.bad == nil && t.stop.Load() != t.seq {
		return nil
	}
	return t.refusal()
}

func (t *Tx) refusal() error {
	switch {
	case t.tx == nil:
		return engine.Errorf(engine.CodeInvalid, "the transaction has ended")
	case t.bad != nil:
		return t.bad
	}
	return engine.Errorf(engine.CodeLimit, "the procedure %s has run for longer than the limit of %v; nothing was written", t.what.Load().schema.Name, t.set.o.MaxRun)
}

// mayWrite is check for a write.
func (t *Tx) mayWrite() error {
	if t.readOnly && t.tx != nil {
		return engine.Errorf(engine.CodeReadOnly, "the procedure %s only reads: it cannot write", t.def.schema.Name)
	}
	if err := t.check(); err != nil {
		return err
	}
	t.wrote = true
	return nil
}
