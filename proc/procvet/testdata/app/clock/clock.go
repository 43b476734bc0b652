// Package clock has procedures that read the clock.
package clock

import (
	"time"

	"github.com/skerrydb/skerry/proc"
)

type none = struct{}

var now = time.Now

// Direct reads it itself.
var Direct = proc.Define("direct", func(tx *proc.Tx, _ none) (int, error) {
	a := time.Now()      // want `^calls time.Now: .*use tx.Now\(\) \(procedure direct\)$`
	b := time.Since(a)   // want `calls time.Since`
	c := time.Until(a)   // want `calls time.Until`
	d := now()           // want `calls time.Now`
	e := tx.Now().Sub(a) // the transaction's
	f := clock(time.Now) // want `calls time.Now`
	return int(b+c+e) + d.Day() + f.Day(), nil
})

func clock(f func() time.Time) time.Time { return f() }

// Hinted reads it in its hint.
var Hinted = proc.Define("hinted", func(*proc.Tx, none) (int, error) { return 0, nil }).Hint(func(h *proc.Hints, _ none) {
	h.Key(0, []byte(time.Now().String())) // want `calls time.Now: .* \(procedure at clock/clock.go:\d+\)$`
})

// Indirect reads it in a function of the package.
var Indirect = proc.Define("indirect", func(tx *proc.Tx, _ none) (int, error) {
	return first(), nil // want `^calls clock.first → clock.second, which calls time.Now at clock/clock.go:\d+: .* \(procedure indirect\)$`
})

func first() int { return second() }

func second() int { return time.Now().Day() }
