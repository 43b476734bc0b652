// Package suggest finds the name that was probably meant where a name is unknown.
//
// It knows how people mistype; it must not know what is named.
package suggest

import "strings"

// maxBytes is the longest word for which Nearest looks for another, and how much of a
// word Distance compares.
const maxBytes = 100

// Nearest returns the one of names that was probably meant by word, whatever the case:
// the only one that begins with word or that word begins with; else the only one that is
// nearest, by at most one mistake in typing three letters, or two in a longer word. It
// returns "" if there is none.
func Nearest(word string, names []string) string {
	if len(word) < 2 || len(word) > maxBytes {
		return ""
	}
	low := strings.ToLower(word)
	most := min(len(low)-2, 2)
	var begins, near string
	var begin, alike int
	for _, n := range names {
		l := strings.ToLower(n)
		if strings.HasPrefix(l, low) || strings.HasPrefix(low, l) {
			begins, begin = n, begin+1
		}
		if len(l)-len(low) > most || len(low)-len(l) > most {
			continue
		}
		switch d := Distance(low, l); {
		case d < most || d == most && alike == 0:
			near, alike, most = n, 1, d
		case d == most:
			alike++
		}
	}
	switch {
	case begin == 1:
		return begins
	case alike == 1:
		return near
	}
	return ""
}

// Distance returns how many bytes must be changed, added, removed or swapped with their
// neighbour to turn a into b. Of longer words, it compares the first 100 bytes.
func Distance(a, b string) int {
	a, b = a[:min(len(a), maxBytes)], b[:min(len(b), maxBytes)]
	var rows [3][maxBytes + 1]int
	before, last, row := &rows[0], &rows[1], &rows[2]
	for j := range len(b) + 1 {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			change := last[j]
			if a[i] != b[j] {
				change++
			}
			row[j+1] = min(change, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
