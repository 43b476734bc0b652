package cli

import "strings"

// meant asks whether one of names was meant by word. It returns "" if there is none.
func meant(word string, names []string) string {
	if like := alike(word, names); like != "" {
		return "; did you mean " + like + "?"
	}
	return ""
}

// alike returns the one of names that was probably meant by word, whatever the case:
// the only one that is the beginning of it, or of which it is the beginning; else the
// only one that is nearest, by one mistake in typing, or two in a longer word. "" is
// none.
func alike(word string, names []string) string {
	low, most := strings.ToLower(word), 1
	if len(low) < 2 || len(low) > maxAlike {
		return ""
	}
	if len(low) > 5 {
		most = 2
	}
	var begins, near []string
	for _, n := range names {
		l := strings.ToLower(n)
		if strings.HasPrefix(l, low) || strings.HasPrefix(low, l) {
			begins = append(begins, n)
		}
		switch d := typos(low, l); {
		case d < most:
			near, most = []string{n}, d
		case d == most:
			near = append(near, n)
		}
	}
	for _, like := range [][]string{begins, near} {
		if len(like) == 1 {
			return like[0]
		}
	}
	return ""
}

// maxAlike is how many bytes a word has at most for which another one is looked for.
const maxAlike = 64

// typos is how many bytes have to be changed, added, removed or swapped with their
// neighbour to make b of a.
func typos(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			change := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			rows[i][j] = min(change, rows[i-1][j]+1, rows[i][j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
