package proc

import (
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
)

// Tx is the transaction of a procedure. It is valid only until the procedure returns, and
// only in its goroutine. If it is kept longer, it fails or, once its memory is reused, acts
// on another transaction. KV reads and writes data.
type Tx struct {
	set      *Set
	tx       engine.Tx   // nil: the procedure has ended
	def      *definition // the innermost running procedure
	depth    int         // nesting depth of procedures
	readOnly bool        // the innermost one, or one around it, is read-only
	wrote    bool        // the innermost one, or one that it called, wrote something
	half     error       // error of a write left half done since the innermost one began
	bad      error       // error that prevents the commit
	spaces   []space
	pcg      rand.PCG
	rng      *rand.Rand
	seeded   bool // rng is seeded for this transaction

	// For the watchdog; see watch.go.
	seq  uint64        // number of this run, odd
	run  atomic.Uint64 // seq while the procedure runs, seq+1 after it
	stop atomic.Uint64 // the run that has exceeded its time
	what atomic.Pointer[definition]
	seen seen // guarded by Set.mu

	// For the numbers of the procedure; see counts.go.
	shard    int
	counts   *counts
	began    time.Duration // untimed: this run is not timed
	verdict  bool          // it has failed, which is its answer and will be remembered
	replayed bool          // it has returned a remembered answer
}

// space provides the plain keys of one space.
type space struct {
	number uint8
	bound  bool // to this transaction
	keys   *kv.Tx
}

// keepSpaces is the number of spaces for which a Tx keeps buffers for its next use.
const keepSpaces = 4

// bind binds the keys to t. All users of the space share them.
func (s *space) bind(t *Tx) {
	s.keys.Bind(engineTx{t}, s.number)
	s.keys.Stay()
	s.bound = true
}

// KV returns the plain keys of a space. RESP clients know space n as database n, and HTTP
// exposes space 0. Each call with the same number returns the same kv.Tx, which stays bound
// to its space. To use another space, call KV again; a Select of another space fails the
// procedure with CodeInvalid. Space 255 (kv.OnceSpace) contains the answers of calls with a
// key and must not be used.
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

// Engine returns the engine's transaction. It is for capabilities, which own the layout of
// their keys and use it like any engine.Tx: kv.In(tx.Engine(), 0). Keys written directly
// are invisible to clients and can damage existing data; use KV for your own data. The
// value ends with t and rejects what t rejects. It is an engine.Ranker, an engine.Breaker
// and an engine.Expecter.
func (t *Tx) Engine() engine.Tx { return engineTx{t} }

// Value returns what the server has for its procedures under key, nil if there is nothing. Packages use it to find their
// part of the server; record.From, for example.
func (t *Tx) Value(key any) any {
	if value := t.set.o.Value; value != nil {
		return value(key)
	}
	return nil
}

// Now returns the time of the transaction. It is the same at every call.
func (t *Tx) Now() time.Time {
	if t.tx == nil {
		return time.Time{}
	}
	return t.tx.Now()
}

// Rand returns the transaction's own source of random numbers. It is not for secrets: use
// crypto/rand for those.
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

// Procedure returns the name of the innermost running procedure.
func (t *Tx) Procedure() string {
	if t.tx == nil {
		return ""
	}
	return t.def.schema.Name
}

// check returns the reason why t cannot be used, or nil. Every operation calls it, so it
// must be cheap.
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

// mayWrite is like check for writes.
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
