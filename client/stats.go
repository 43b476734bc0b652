package client

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// buckets of a histogram: four for each doubling from 1 µs on.
const buckets = 4 * 28

// procStats counts the calls of one procedure or command on one node. One
// goroutine at a time writes, others may read.
type procStats struct {
	name   string
	errors atomic.Uint64
	took   [buckets]atomic.Uint64
}

func (p *procStats) observe(nanos int64, bad bool) {
	p.took[bucket(nanos)].Add(1)
	if bad {
		p.errors.Add(1)
	}
}

// bucket returns where a time belongs: the two bits behind the highest one tell
// quarters of a doubling.
func bucket(nanos int64) int {
	us := uint64(max(nanos, 0)) / 1000
	if us < 4 {
		return int(us)
	}
	n := bits.Len64(us) // at least 3
	return min(4*(n-2)+int(us>>(n-3))&3, buckets-1)
}

// bucketEnd is the first time that is over a bucket.
func bucketEnd(i int) time.Duration {
	i++
	if i < 4 {
		return time.Duration(i) * time.Microsecond
	}
	return time.Duration(4+i%4) << (i/4 - 1) * time.Microsecond
}
