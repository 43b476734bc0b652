//go:build race

package web_test

// raceEnabled reports whether the race detector is on, which slows everything down.
const raceEnabled = true
