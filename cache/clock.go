package cache

import "time"

// clock is the time in nanoseconds of the Unix time. It never jumps while the program runs: it is the wall
// clock at its start and the monotonic clock since.
type clock struct {
	start time.Time
	wall  int64
}

func newClock() clock {
	now := time.Now()
	return clock{now, now.UnixNano()}
}

func (c clock) now() int64 { return c.wall + int64(time.Since(c.start)) }

// of returns the clock's time at t, which must have a monotonic reading to be exact.
func (c clock) of(t time.Time) int64 { return c.wall + int64(t.Sub(c.start)) }
