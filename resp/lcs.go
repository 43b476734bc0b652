package resp

import "slices"

// lcs finds a longest common subsequence of two strings by dynamic programming. If there
// are several, it finds the same one as Redis.
type lcs struct {
	a, b []byte
	rows []uint32 // rows[i*(len(b)+1)+j]: the length for a[:i] and b[:j]
}

func newLCS(a, b []byte) *lcs {
	w := len(b) + 1
	t := &lcs{a, b, make([]uint32, (len(a)+1)*w)}
	for i := range a {
		above, row := t.rows[i*w:(i+1)*w], t.rows[(i+1)*w:(i+2)*w]
		for j := range b {
			if a[i] == b[j] {
				row[j+1] = above[j] + 1
			} else {
				row[j+1] = max(above[j+1], row[j])
			}
		}
	}
	return t
}

func (t *lcs) len() int { return int(t.rows[len(t.rows)-1]) }

// match is a common run of n bytes at a[a:] and b[b:].
type match struct{ a, b, n int }

// matches returns the runs of the subsequence with at least minLen bytes, last one first.
func (t *lcs) matches(minLen int) []match {
	var all []match
	var m match
	end := func() {
		if m.n > 0 && m.n >= minLen {
			all = append(all, m)
		}
		m.n = 0
	}
	w := len(t.b) + 1
	for i, j := len(t.a), len(t.b); i > 0 && j > 0; {
		if t.a[i-1] == t.b[j-1] {
			i, j = i-1, j-1
			m = match{i, j, m.n + 1}
			continue
		}
		end()
		if t.rows[(i-1)*w+j] > t.rows[i*w+j-1] {
			i--
		} else {
			j--
		}
	}
	end()
	return all
}

// text returns the subsequence.
func (t *lcs) text() []byte {
	out := make([]byte, 0, t.len())
	for _, m := range slices.Backward(t.matches(0)) {
		out = append(out, t.a[m.a:m.a+m.n]...)
	}
	return out
}
