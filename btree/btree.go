// Package btree implements ordered maps in memory, as B+-trees with copy-on-write
// clones.
//
// It knows keys, their order, nodes and who may change a node in place; it must
// not know engines, time or I/O, and it imports nothing of ours. Pairs maps byte strings to
// byte strings, which it keeps in memory that the garbage collector does not walk. Map maps
// fixed-size ordered keys to values of any type.
//
// A clone costs O(1): it shares every node with its source, and each side copies a
// node before it first changes it. DESIGN.md explains the layout of the nodes and the
// invariants that Check verifies.
//
// # Concurrency
//
// A tree may be used by one writer, or by any number of readers, at a time. Clones are
// separate trees even though they share nodes: one may be written while the other is
// read or written by another goroutine. Clone counts as a read.
package btree

import (
	"errors"
	"fmt"
)

// Limits.
const (
	// MaxKeyBytes is the length of the longest key in a Pairs. Set panics if a key
	// is longer, so callers have to refuse it first; Load returns ErrKeyTooLong.
	MaxKeyBytes = 32<<10 - 1

	// maxHeight bounds the inner levels of a tree. Inner nodes have twelve kids or
	// more on average, so memory runs out long before this is reached.
	maxHeight = 16
)

// ErrKeyTooLong is returned by Load for a key over MaxKeyBytes.
var ErrKeyTooLong = fmt.Errorf("btree: key is longer than %d bytes", MaxKeyBytes)

// ErrNotANumber is returned by Map.Load for a NaN, which has no place in the order.
var ErrNotANumber = errors.New("btree: NaN is no key")

// OrderError is returned by Load for input that is not strictly ascending.
type OrderError struct {
	Index int // of the first pair whose key is not above the one before it
}

// Error returns a message with the index of the pair.
func (e *OrderError) Error() string {
	return fmt.Sprintf("btree: load: key %d is not above the one before it", e.Index)
}

// token marks the nodes that only one tree can reach and may change in place. It is
// compared by address and must not have size zero, or different tokens could share an
// address.
type token struct{ _ byte }

// below returns 1 if a < b, otherwise 0. It compiles to a flag read, not to a jump.
func below(a, b uint64) int {
	if a < b {
		return 1
	}
	return 0
}
