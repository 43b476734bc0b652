package proc

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// checkName refuses what is no name of a procedure: [A-Za-z][A-Za-z0-9_.-]*, so
// that it needs no quotes in a command, a path or a program.
func checkName(name string) error {
	if name == "" {
		return fmt.Errorf("its name is empty")
	}
	if len(name) > MaxNameBytes {
		return fmt.Errorf("its name has %d bytes, over the limit of %d", len(name), MaxNameBytes)
	}
	for i, c := range name {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || !(c >= '0' && c <= '9' || c == '_' || c == '.' || c == '-')) {
			return fmt.Errorf("its name has %q; a name is a letter, then letters, digits and _ . -", c)
		}
	}
	return nil
}

// nearest returns the one of names that was probably meant by name: at most two
// letters differ, or one is the beginning of the other. "" is none.
func nearest(name string, names []string) string {
	if len(name) > MaxNameBytes || len(name) < 2 || !utf8.ValidString(name) {
		return ""
	}
	best, near := "", 3
	for _, n := range names {
		d := distance(strings.ToLower(name), strings.ToLower(n), 2)
		if d >= len(n) {
			continue // nothing of it is left
		}
		if d > 2 && (strings.HasPrefix(n, name) || strings.HasPrefix(name, n)) {
			d = 2
		}
		if d < near {
			best, near = n, d
		}
	}
	return best
}

// distance is how many bytes have to be changed, added, removed or swapped with
// their neighbour to make b of a; more than most is most+1.
func distance(a, b string, most int) int {
	if len(a) < len(b) {
		a, b = b, a
	}
	if len(a)-len(b) > most || len(b) > MaxNameBytes {
		return most + 1
	}
	var rows [3][MaxNameBytes + 1]int
	before, last, row := &rows[0], &rows[1], &rows[2]
	for j := range len(b) + 1 {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		least := row[0]
		for j := range len(b) {
			change := last[j]
			if a[i] != b[j] {
				change++
			}
			row[j+1] = min(change, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
			least = min(least, row[j+1])
		}
		if least > most {
			return most + 1
		}
		before, last, row = last, row, before
	}
	return min(last[len(b)], most+1)
}
