//go:build race

package resp

// raced is set because the race detector makes pools drop items at random, so that
// allocations cannot be checked.
const raced = true
