//go:build race

package web_test

// raceEnabled reports whether the race detector makes everything slower.
const raceEnabled = true
