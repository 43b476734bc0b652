package rig

import (
	"math/bits"
	"time"
)

// subBuckets is the number of buckets per power of two; a bucket is at most 1.6 % wide.
const subBuckets = 64

// Hist is a histogram of latencies. It is not safe for concurrent use.
type Hist struct {
	Count  int64
	Max    time.Duration
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

func (h *Hist) Add(d time.Duration) {
	h.Count++
	h.Max = max(h.Max, d)
	h.bucket[bucketOf(uint64(max(d, 0)))]++
}

func (h *Hist) Merge(o *Hist) {
	h.Count += o.Count
	h.Max = max(h.Max, o.Max)
	for i, n := range o.bucket {
		h.bucket[i] += n
	}
}

// Quantile returns the latency that a share q of all latencies do not exceed.
func (h *Hist) Quantile(q float64) time.Duration {
	rest := int64(q * float64(h.Count))
	for i, n := range h.bucket {
		if rest -= n; rest < 0 {
			return lowest(i)
		}
	}
	return h.Max
}
