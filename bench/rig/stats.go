package rig

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// PerOp divides µs by operations; it returns NaN for no operations.
func PerOp(d time.Duration, n int64) float64 {
	if n == 0 {
		return math.NaN()
	}
	return float64(d) / 1000 / float64(n)
}

// Micros returns d in µs.
func Micros(d time.Duration) float64 { return float64(d) / 1000 }

// Median returns the median, NaN for no values.
func Median(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(v))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// Known formats v, or a dash if it is NaN.
func Known(v float64, format string) string {
	if math.IsNaN(v) {
		return "–"
	}
	return fmt.Sprintf(format, v)
}

// Target is one performance goal of the project, checked by this run.
type Target struct {
	what string
	got  float64
	aim  float64
	most bool // got must be at most aim; otherwise at least
	unit string
}

// AtLeast returns a target that is met if got is at least aim.
func AtLeast(what string, got, aim float64, unit string) Target {
	return Target{what, got, aim, false, unit}
}

// AtMost returns a target that is met if got is at most aim.
func AtMost(what string, got, aim float64, unit string) Target {
	return Target{what, got, aim, true, unit}
}

func (t Target) String() string {
	verdict, sign := "MISSED ", "≥"
	if t.most {
		sign = "≤"
	}
	switch {
	case math.IsNaN(t.got):
		verdict = "unknown"
	case t.most && t.got <= t.aim, !t.most && t.got >= t.aim:
		verdict = "reached"
	}
	return fmt.Sprintf("%s  %-78s %8s   (aim %s %g%s)", verdict, t.what, Known(t.got, "%.2f")+t.unit, sign, t.aim, t.unit)
}
