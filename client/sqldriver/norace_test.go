//go:build !race

package sqldriver_test

const raceEnabled = false
