// Package decimal reads integers in their only decimal form.
//
// It knows that form; it must not know what the numbers count.
package decimal

// Parse reads an int64 in its shortest decimal form: an optional minus sign, no plus
// sign, no leading zeros, no spaces. It does not allocate.
func Parse(b []byte) (n int64, ok bool) {
	if len(b) == 1 && b[0]-'0' <= 9 {
		return int64(b[0] - '0'), true
	}
	neg := len(b) > 0 && b[0] == '-'
	if neg {
		b = b[1:]
	}
	if len(b) == 0 || len(b) > 19 || b[0] < '1' || b[0] > '9' {
		return 0, false
	}
	var u uint64 // 19 digits cannot overflow it
	for _, c := range b {
		d := c - '0'
		if d > 9 {
			return 0, false
		}
		u = u*10 + uint64(d)
	}
	switch {
	case neg && u <= 1<<63:
		return int64(-u), true
	case !neg && u < 1<<63:
		return int64(u), true
	}
	return 0, false
}
