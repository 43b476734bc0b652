// Package workload implements loads with invariants: bank (isolation), counter (lost
// updates), append (order) and set (durability). The same code drives benchmarks, the
// conformance suite and the fault tests.
//
// All keys begin with "w/", which no capability's layout uses.
//
// It knows what must be true after any mix of successes, refusals and unknown
// outcomes; it must not know which engine runs, nor any capability's layout.
package workload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/skerrydb/skerry/engine"
)

// Workload is a load with an invariant. Name, Needs and Step are safe for concurrent use.
// Setup and Check may only be called while no Step runs.
type Workload interface {
	// Name returns the name by which New finds the workload.
	Name() string

	// Needs returns the promises that the invariant requires of an engine.
	Needs() engine.Promises

	// Setup removes data of an earlier run under the workload's own keys, and writes
	// the initial data.
	Setup(ctx context.Context, eng engine.Engine) error

	// Step makes one call and records its outcome. It returns the engine's error
	// unchanged, or a *Violation if a result breaks the invariant.
	Step(ctx context.Context, eng engine.Engine, rng *rand.Rand) error

	// Check returns a *Violation if the engine's data contradicts the outcomes of the
	// steps, or another error if the check failed to run.
	Check(ctx context.Context, eng engine.Engine) error
}

// Violation reports an invariant that an engine broke.
type Violation struct {
	Workload string
	Text     string
}

// Error returns the name of the workload and the violation.
func (v *Violation) Error() string { return "workload " + v.Workload + ": " + v.Text }

func violation(name, format string, args ...any) error {
	return &Violation{Workload: name, Text: fmt.Sprintf(format, args...)}
}

// All returns a new value of every workload with its default sizes.
func All() []Workload {
	return []Workload{&Bank{}, &Counter{}, &Append{}, &Set{}}
}

// New returns the workload of that name, or an error matching engine.ErrNotFound.
func New(name string) (Workload, error) {
	var names []string
	for _, w := range All() {
		if w.Name() == name {
			return w, nil
		}
		names = append(names, w.Name())
	}
	return nil, engine.Errorf(engine.CodeNotFound, "unknown workload %q; there are %v", name, names)
}

// wipeKeys is how many keys one transaction of wipe removes. With at most 40 bytes each
// it stays far below the smallest MaxTxBytes.
const wipeKeys = 500

// wipe deletes every key that begins with prefix, in bounded transactions, and
// returns the position after the last.
func wipe(ctx context.Context, eng engine.Engine, prefix []byte) (engine.Position, error) {
	for {
		var n int
		pos, err := eng.Update(ctx, func(tx engine.Tx) error {
			var keys [][]byte
			for p, err := range tx.Scan(prefix, engine.PrefixEnd(prefix)) {
				if err != nil {
					return err
				}
				if keys = append(keys, bytes.Clone(p.Key)); len(keys) == wipeKeys {
					break
				}
			}
			n = len(keys)
			for _, k := range keys {
				if err := tx.Delete(k); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return 0, fmt.Errorf("wipe %q: %w", prefix, err)
		}
		if n < wipeKeys {
			return pos, nil
		}
	}
}

// outcomeOf returns what an error of Update means for its writes.
func outcomeOf(err error) Outcome {
	switch {
	case err == nil:
		return Acked
	case errors.Is(err, engine.ErrOutcomeUnknown):
		return Maybe
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return Failed // the contract: ctx's own error means that nothing was written
	}
	switch engine.CodeOf(err) {
	case engine.CodeInternal, engine.CodeStopped, engine.CodeCorrupt:
		return Maybe // a broken engine leaves the outcome of the failed call open
	}
	return Failed
}
