// Package eventually waits in tests for conditions that other goroutines and
// processes bring about.
//
// It knows how often to look and when to give up. It must not know what is tested.
package eventually

import (
	"testing"
	"time"
)

// Limit is how long True waits. It is generous: a condition that never holds is
// the only reason to reach it, however slow the machine.
const Limit = time.Minute

const pause = 2 * time.Millisecond

// True waits until ok returns true. After Limit it fails the test, with what was
// awaited in the message. It calls ok in the test's goroutine.
func True(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	if !Within(Limit, ok) {
		tb.Fatalf("waited %v in vain: %s", Limit, what)
	}
}

// Within waits until ok returns true, at most for limit, and reports whether it
// did. Callers that add more to their message than True does use it.
func Within(limit time.Duration, ok func() bool) bool {
	for end := time.Now().Add(limit); !ok(); time.Sleep(pause) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}
