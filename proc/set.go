package proc

import (
	"cmp"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/suggest"
)

// Limits. Going over one is CodeLimit unless it says otherwise.
const (
	// MaxProcedures is the maximum number of procedures in a Set.
	MaxProcedures = 4096
	// MaxNameBytes is the longest name of a procedure.
	MaxNameBytes = 64
	// MaxArgBytes is the maximum bytes of all arguments of one call.
	MaxArgBytes = 8 << 20
	// MaxArgMemory is the maximum bytes of memory that lists, maps and pointers in one
	// call's arguments use, without the text in them.
	MaxArgMemory = 64 << 20
	// MaxDepth is how deep calls between procedures may be nested.
	MaxDepth = 32
	// MaxTypeDepth is how deep the types of an argument or result may be nested. More is an
	// error of New.
	MaxTypeDepth = 32
	// MaxFields is how many fields the objects of all arguments, or of the result, may
	// have. More is an error of New.
	MaxFields = 1024
	// DefaultMaxResult is Options.MaxResult if that is 0.
	DefaultMaxResult = 16 << 20
	// DefaultSlowAfter is Options.SlowAfter if that is 0.
	DefaultSlowAfter = 100 * time.Millisecond
	// DefaultMaxRun is Options.MaxRun if that is 0.
	DefaultMaxRun = 5 * time.Second
	// DefaultRememberFor is Options.RememberFor if that is 0.
	DefaultRememberFor = 24 * time.Hour
)

// Options configures a Set. The zero value works.
type Options struct {
	// SlowAfter is the duration after which a running procedure is logged by name at level
	// warn. It is logged again each time its duration has doubled.
	SlowAfter time.Duration

	// MaxRun is how long a procedure may run. After that, its transaction rejects all
	// operations, so that it fails with CodeLimit and writes nothing. A loop that never
	// uses its transaction cannot be stopped, only reported.
	MaxRun time.Duration

	// MaxResult is the maximum size of one result in bytes: that of its JSON or, over RESP,
	// of the texts in it plus 16 for every value.
	MaxResult int

	// RememberFor is how long the answer to a call with a key is remembered.
	RememberFor time.Duration

	// Seed, if not 0, makes Tx.Rand deterministic, for tests. Transactions with the same
	// time get the same numbers.
	Seed uint64

	// Value returns what Tx.Value returns. It is called by several goroutines at once. Nil returns nothing.
	Value func(key any) any

	// Logger logs panics of procedures and slow procedures; nil discards them.
	Logger *slog.Logger
}

// Set contains the procedures of one program on one engine. It is safe for concurrent use.
// It does not own the engine.
type Set struct {
	eng   engine.Engine
	o     Options
	procs map[string]*procedure
	names []string // sorted
	txs   sync.Pool

	mu      sync.Mutex // guards the fields below and Tx.seen
	live    []weak.Pointer[Tx]
	made    int
	pruneAt int

	since         time.Time // of run times
	shards        int       // of the counts of each procedure
	slow, stopped atomic.Uint64
}

// procedure is a procedure of a Set, with a pool of Calls and its numbers.
type procedure struct {
	*definition
	calls   sync.Pool
	badHint atomic.Bool              // its hint has panicked
	counts  []atomic.Pointer[counts] // by shard; nil: nothing is counted there yet
}

// New returns a Set. The error names what is invalid about a procedure, or what eng does
// not promise. A Set without procedures works on every engine.
func New(eng engine.Engine, o Options, procedures ...Procedure) (*Set, error) {
	if err := eng.Promises().Meets("proc", kv.Needs()); err != nil && len(procedures) > 0 {
		return nil, err
	}
	if err := o.complete(); err != nil {
		return nil, err
	}
	if len(procedures) > MaxProcedures {
		return nil, engine.Errorf(engine.CodeLimit, "%d procedures are over the limit of %d", len(procedures), MaxProcedures)
	}
	s := &Set{eng: eng, o: o, procs: make(map[string]*procedure, len(procedures)), since: time.Now(), shards: shards()}
	s.txs.New = s.newTx
	for i, p := range procedures {
		d := definitionOf(p)
		if d == nil {
			return nil, engine.Errorf(engine.CodeInvalid, "procedure %d of %d is nil, or not made by Define", i+1, len(procedures))
		}
		name := d.schema.Name
		switch {
		case d.err != nil:
			return nil, engine.Errorf(engine.CodeInvalid, "procedure %.*q: %w", MaxNameBytes, name, d.err)
		case s.procs[name] != nil:
			return nil, engine.Errorf(engine.CodeInvalid, "two procedures are named %s", name)
		}
		q := &procedure{definition: d, counts: make([]atomic.Pointer[counts], s.shards)}
		q.calls.New = func() any { return &Call{set: s, proc: q, frame: d.frame()} }
		s.procs[name] = q
		s.names = append(s.names, name)
	}
	slices.Sort(s.names)
	return s, nil
}

// definitionOf returns nil if p was not made by Define.
func definitionOf(p Procedure) *definition {
	if p == nil {
		return nil
	}
	return p.definition()
}

// complete checks o and fills in the defaults.
func (o *Options) complete() error {
	for _, n := range []struct {
		name  string
		value int64
	}{
		{"SlowAfter", int64(o.SlowAfter)},
		{"MaxRun", int64(o.MaxRun)},
		{"MaxResult", int64(o.MaxResult)},
		{"RememberFor", int64(o.RememberFor)},
	} {
		if n.value < 0 {
			return engine.Errorf(engine.CodeInvalid, "proc: option %s is negative: %d", n.name, n.value)
		}
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.SlowAfter = cmp.Or(o.SlowAfter, DefaultSlowAfter)
	o.MaxRun = cmp.Or(o.MaxRun, DefaultMaxRun)
	o.MaxResult = cmp.Or(o.MaxResult, DefaultMaxResult)
	o.RememberFor = cmp.Or(o.RememberFor, DefaultRememberFor)
	return nil
}

// Schemas returns the schemas of all procedures, sorted by name.
func (s *Set) Schemas() []Schema {
	list := make([]Schema, 0, len(s.names))
	for _, name := range s.names {
		list = append(list, s.procs[name].schema.clone())
	}
	return list
}

// Schema returns the schema of one procedure. If there is none, the error is
// CodeUnknownProcedure and suggests a similar name.
func (s *Set) Schema(name string) (Schema, error) {
	p, err := s.find([]byte(name))
	if err != nil {
		return Schema{}, err
	}
	return p.schema.clone(), nil
}

// ReadOnly reports whether there is a read-only procedure with that name.
func (s *Set) ReadOnly(name []byte) bool {
	p := s.procs[string(name)]
	return p != nil && p.schema.ReadOnly
}

func (s *Set) find(name []byte) (*procedure, error) {
	if p := s.procs[string(name)]; p != nil {
		return p, nil
	}
	text := "there is no procedure " + strings.ToValidUTF8(string(name[:min(len(name), MaxNameBytes)]), "?")
	if near := suggest.Nearest(string(name), s.names); near != "" {
		text += "; did you mean " + near + "?"
	}
	return nil, engine.Errorf(engine.CodeUnknownProcedure, "%s", text)
}
