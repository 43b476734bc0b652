//go:build race

package resp

// raced: the race detector makes pools forget at random, so that nothing can be
// said of allocations.
const raced = true
