package kv

import (
	"math"
	"strconv"

	"github.com/skerrydb/skerry/decimal"
	"github.com/skerrydb/skerry/engine"
)

// Add adds delta to the decimal integer at key and returns the sum. A missing key counts as
// 0. The expiry is kept. If the value is not an int64 in its shortest form (no sign but
// "-", no leading zeros, no spaces), Add returns ErrNotInteger; if the sum is out of range,
// ErrOverflow. Neither error changes anything.
func (t *Tx) Add(key []byte, delta int64) (int64, error) {
	var old, rec record
	live, err := t.load(key, &old)
	if err != nil {
		return 0, err
	}
	var n int64
	if live {
		var ok bool
		if n, ok = decimal.Parse(old.data); !ok {
			return 0, engine.ErrNotInteger
		}
		rec.ms = old.ms
	}
	if delta > 0 && n > math.MaxInt64-delta || delta < 0 && n < math.MinInt64-delta {
		return 0, engine.ErrOverflow
	}
	n += delta
	rec.data = strconv.AppendInt(t.num[:0], n, 10)
	if err := t.put(&old, &rec, false); err != nil {
		return 0, err
	}
	return n, nil
}
