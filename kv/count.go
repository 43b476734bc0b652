package kv

import (
	"math"
	"strconv"

	"github.com/skerrydb/skerry/engine"
)

// Add adds delta to the decimal integer in key, where no key means 0, and
// returns the sum. It keeps the expiry. A value that is not an int64 in its
// shortest form (no sign but "-", no leading zeros, no spaces) is
// ErrNotInteger; a sum out of range is ErrOverflow. Both change nothing.
func (t *Tx) Add(key []byte, delta int64) (int64, error) {
	old, live, err := t.load(key)
	if err != nil {
		return 0, err
	}
	var n int64
	rec := record{}
	if live {
		var ok bool
		if n, ok = parseInt(old.data); !ok {
			return 0, engine.ErrNotInteger
		}
		rec.ms = old.ms
	}
	if delta > 0 && n > math.MaxInt64-delta || delta < 0 && n < math.MinInt64-delta {
		return 0, engine.ErrOverflow
	}
	n += delta
	rec.data = strconv.AppendInt(t.num[:0], n, 10)
	if err := t.put(old, rec, false); err != nil {
		return 0, err
	}
	return n, nil
}

// parseInt reads an int64 in its shortest decimal form, without allocating.
func parseInt(b []byte) (n int64, ok bool) {
	digits, neg := b, false
	if len(b) > 0 && b[0] == '-' {
		digits, neg = b[1:], true
	}
	if len(digits) == 0 || len(digits) > 19 || digits[0] == '0' && len(b) > 1 {
		return 0, false
	}
	var u uint64 // 19 digits cannot overflow it
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		u = u*10 + uint64(c-'0')
	}
	switch {
	case neg && u <= 1<<63:
		return -int64(u), true
	case !neg && u <= math.MaxInt64:
		return int64(u), true
	}
	return 0, false
}
