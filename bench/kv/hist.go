package main

import (
	"math/bits"
	"time"
)

// subBuckets splits every power of two, so a bucket is at most 1.6 % wide.
const subBuckets = 64

// hist counts latencies by their size. It is not safe for concurrent use.
type hist struct {
	count  int64
	max    time.Duration
	bucket [64 * subBuckets]int64
}

func bucketOf(ns uint64) int {
	if ns < subBuckets {
		return int(ns)
	}
	shift := bits.Len64(ns) - 7 // leaves 64 ≤ ns>>shift < 128
	return (shift+1)*subBuckets + int(ns>>shift) - subBuckets
}

// lowest returns the smallest value of bucket i.
func lowest(i int) time.Duration {
	if i < 2*subBuckets {
		return time.Duration(i)
	}
	shift := i/subBuckets - 1
	return time.Duration(i%subBuckets+subBuckets) << shift
}

func (h *hist) add(d time.Duration) {
	h.count++
	h.max = max(h.max, d)
	h.bucket[bucketOf(uint64(max(d, 0)))]++
}

func (h *hist) merge(o *hist) {
	h.count += o.count
	h.max = max(h.max, o.max)
	for i, n := range o.bucket {
		h.bucket[i] += n
	}
}

// quantile returns the latency that a share q of all stay below or at.
func (h *hist) quantile(q float64) time.Duration {
	rest := int64(q * float64(h.count))
	for i, n := range h.bucket {
		if rest -= n; rest < 0 {
			return lowest(i)
		}
	}
	return h.max
}
