// Package workload holds loads and the truths that they must keep: bank
// (isolation), counter (lost updates), append (order) and set (durability). The
// same code drives benchmarks, the conformance suite and the fault tests.
//
// The keys all begin with "w/", with which no capability's layout begins.
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

// Workload is a load and its truth. Name, Needs and Step may be called by many
// goroutines at once; Setup and Check only while no Step runs.
type Workload interface {
	// Name is the word by which New finds the workload.
	Name() string

	// Needs is what the truth takes for granted of an engine.
	Needs() engine.Promises

	// Setup removes what an earlier run left under the workload's own keys, and
	// writes what Step starts from.
	Setup(ctx context.Context, eng engine.Engine) error

	// Step makes one call. It remembers by itself what the outcome means for
	// the truth, and returns the engine's error as it came, or a *Violation if
	// the engine showed something that cannot be.
	Step(ctx context.Context, eng engine.Engine, rng *rand.Rand) error

	// Check returns a *Violation if the engine's content contradicts what the
	// steps were told, and any other error if it could not find out.
	Check(ctx context.Context, eng engine.Engine) error
}

// Violation says which truth an engine broke.
type Violation struct {
	Workload string
	Text     string
}

// Error names the workload and what was seen.
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

// wipeKeys is how many keys one transaction of wipe removes; at most 40 bytes
// each, it stays far below the smallest MaxTxBytes.
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

// outcomeOf says what an error of Update means for its writes.
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
		return Maybe // a broken engine says nothing about the call that found out
	}
	return Failed
}
