package workload

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// Each power of two of nanoseconds is divided into 1<<subBits equal buckets, so a
// percentile is too high by at most 1/16.
const (
	subBits    = 4
	subBuckets = 1 << subBits
	numBuckets = (64 - subBits + 1) * subBuckets
)

// histogram counts durations. The zero value is ready for use. It is safe for concurrent
// use.
type histogram struct {
	counts [numBuckets]atomic.Int64
	max    atomic.Int64
}

func (h *histogram) add(d time.Duration) {
	d = max(d, 0)
	h.counts[bucket(uint64(d))].Add(1)
	for {
		old := h.max.Load()
		if int64(d) <= old || h.max.CompareAndSwap(old, int64(d)) {
			return
		}
	}
}

// percentile returns a duration that a fraction p (0 to 1) of the added ones do not
// exceed, or 0 if there are none.
func (h *histogram) percentile(p float64) time.Duration {
	var total int64
	for i := range h.counts {
		total += h.counts[i].Load()
	}
	if total == 0 {
		return 0
	}
	want := max(1, int64(p*float64(total)+0.5))
	var sum int64
	for i := range h.counts {
		if sum += h.counts[i].Load(); sum >= want {
			return min(time.Duration(bucketEnd(i)), time.Duration(h.max.Load()))
		}
	}
	return time.Duration(h.max.Load())
}

func bucket(ns uint64) int {
	if ns < subBuckets {
		return int(ns)
	}
	shift := bits.Len64(ns) - 1 - subBits
	return (shift+1)*subBuckets + int(ns>>shift) - subBuckets
}

// bucketEnd returns the largest number of nanoseconds in bucket i.
func bucketEnd(i int) uint64 {
	if i < subBuckets {
		return uint64(i)
	}
	shift := i/subBuckets - 1
	return (uint64(i%subBuckets+subBuckets+1) << shift) - 1
}
