package rig

import (
	"math"
	"testing"
	"time"
)

func TestHistQuantiles(t *testing.T) {
	var a, b Hist
	for i := 1; i <= 100_000; i++ {
		h := &a
		if i%2 == 0 {
			h = &b
		}
		h.Add(time.Duration(i) * time.Microsecond)
	}
	a.Merge(&b)
	if a.Count != 100_000 || a.Max != 100*time.Millisecond {
		t.Fatalf("count %d, max %v", a.Count, a.Max)
	}
	for _, q := range []float64{0.01, 0.5, 0.99, 0.999} {
		want := q * 100_000 * 1000
		if got := float64(a.Quantile(q)); math.Abs(got-want) > want*0.02 {
			t.Errorf("quantile %g = %v, want %v", q, time.Duration(got), time.Duration(want))
		}
	}
}

// Every bucket's lowest value falls into that bucket, and the one before does not.
func TestHistBucketsAreGapless(t *testing.T) {
	for i := 1; i < 40*subBuckets; i++ {
		at := uint64(lowest(i))
		if bucketOf(at) != i || bucketOf(at-1) != i-1 {
			t.Fatalf("bucket %d begins at %d, which is in %d; %d is in %d", i, at, bucketOf(at), at-1, bucketOf(at-1))
		}
	}
}
