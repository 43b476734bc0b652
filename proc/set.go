package proc

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
)

// Limits. Going over one is CodeLimit unless it says otherwise.
const (
	// MaxProcedures is how many a Set has.
	MaxProcedures = 4096
	// MaxNameBytes is the longest name of a procedure.
	MaxNameBytes = 64
	// MaxArgBytes is the most bytes of all arguments of one call.
	MaxArgBytes = 8 << 20
	// MaxDepth is how deep procedures call one another.
	MaxDepth = 32
	// DefaultMaxResult is Options.MaxResult if that is 0.
	DefaultMaxResult = 16 << 20
	// DefaultSlowAfter is Options.SlowAfter if that is 0.
	DefaultSlowAfter = 100 * time.Millisecond
	// DefaultMaxRun is Options.MaxRun if that is 0.
	DefaultMaxRun = 5 * time.Second
	// DefaultRememberFor is Options.RememberFor if that is 0.
	DefaultRememberFor = 24 * time.Hour
)

// Options of a Set. The zero value works.
type Options struct {
	// SlowAfter is after what time a running procedure is reported by name, at
	// level warn, and again whenever that time has doubled.
	SlowAfter time.Duration

	// MaxRun is how long a procedure may take: after that its transaction refuses
	// everything, so that it fails with CodeLimit and writes nothing. A loop
	// that never touches its transaction cannot be ended, only reported.
	MaxRun time.Duration

	// MaxResult is the most bytes of one result.
	MaxResult int

	// RememberFor is how long the answer to a call with a key is remembered.
	RememberFor time.Duration

	// Seed, if not 0, makes what Tx.Rand gives the same from run to run, for tests.
	Seed uint64

	// Logger gets panics of procedures and those that are slow; nil discards it.
	Logger *slog.Logger
}

// Set is the procedures of one program on one engine. It is safe for concurrent
// use; the engine stays its owner's.
type Set struct {
	eng   engine.Engine
	store *kv.Store
	o     Options
	defs  map[string]*definition
	names []string // sorted
	calls sync.Pool
}

// New returns a Set. The error names what is wrong with a procedure, or what eng
// does not promise.
func New(eng engine.Engine, o Options, procedures ...Procedure) (*Set, error) {
	store, err := kv.New(eng, kv.Options{})
	if err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.SlowAfter == 0 {
		o.SlowAfter = DefaultSlowAfter
	}
	if o.MaxRun == 0 {
		o.MaxRun = DefaultMaxRun
	}
	if o.MaxResult == 0 {
		o.MaxResult = DefaultMaxResult
	}
	if o.RememberFor == 0 {
		o.RememberFor = DefaultRememberFor
	}
	s := &Set{eng: eng, store: store, o: o, defs: map[string]*definition{}}
	s.calls.New = func() any { return &Call{set: s, frames: map[*definition]frame{}} }
	for _, p := range procedures {
		d := p.definition()
		if d.err != nil {
			return nil, engine.Errorf(engine.CodeInvalid, "procedure %s: %w", d.schema.Name, d.err)
		}
		if s.defs[d.schema.Name] != nil {
			return nil, engine.Errorf(engine.CodeInvalid, "there are two procedures named %s", d.schema.Name)
		}
		s.defs[d.schema.Name] = d
		s.names = append(s.names, d.schema.Name)
	}
	slices.Sort(s.names)
	return s, nil
}

// Run watches over running procedures until ctx ends; see Options.SlowAfter.
func (s *Set) Run(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// Schemas lists the procedures by name.
func (s *Set) Schemas() []Schema {
	list := make([]Schema, 0, len(s.names))
	for _, name := range s.names {
		list = append(list, s.defs[name].schema.clone())
	}
	return list
}

// Schema describes one procedure, or is CodeUnknownProcedure with the name that
// was probably meant.
func (s *Set) Schema(name string) (Schema, error) {
	d, err := s.find([]byte(name))
	if err != nil {
		return Schema{}, err
	}
	return d.schema.clone(), nil
}

// ReadOnly reports whether there is a procedure of that name that only reads.
func (s *Set) ReadOnly(name []byte) bool {
	d := s.defs[string(name)]
	return d != nil && d.schema.ReadOnly
}

func (s *Set) find(name []byte) (*definition, error) {
	if d := s.defs[string(name)]; d != nil {
		return d, nil
	}
	text := "there is no procedure " + strings.ToValidUTF8(string(name[:min(len(name), MaxNameBytes)]), "?")
	return nil, engine.Errorf(engine.CodeUnknownProcedure, "%s", text)
}

func (s *Set) random(now time.Time) *rand.Rand {
	return rand.New(rand.NewPCG(s.o.Seed, uint64(now.UnixMicro())))
}
