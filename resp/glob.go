package resp

// globMatch reports whether s matches pattern, in the syntax of KEYS and SCAN: ? matches
// one byte, * any bytes, [abc] [a-z] [^a] one byte of a class, \x that byte. An unclosed
// bracket ends with the pattern. The time is at most proportional to the product of the
// lengths, because only the last star is ever retried.
func globMatch(pattern, s []byte) bool {
	p, i := 0, 0
	star, from := -1, 0 // pattern index after the last star, and where its text ends
	for i < len(s) {
		if p < len(pattern) {
			if pattern[p] == '*' {
				star, from = p+1, i
				p++
				continue
			}
			if n, ok := globOne(pattern[p:], s[i]); ok {
				p, i = p+n, i+1
				continue
			}
		}
		if star < 0 {
			return false
		}
		from++
		p, i = star, from
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// globOne matches c against the first element of p, which is not a star, and
// returns the element's length.
func globOne(p []byte, c byte) (n int, ok bool) {
	switch p[0] {
	case '?':
		return 1, true
	case '[':
		return globClass(p, c)
	case '\\':
		if len(p) > 1 {
			return 2, p[1] == c
		}
	}
	return 1, p[0] == c
}

// globClass matches c against a bracket expression.
func globClass(p []byte, c byte) (n int, ok bool) {
	i := 1
	not := i < len(p) && p[i] == '^'
	if not {
		i++
	}
	found := false
	for ; ; i++ {
		switch {
		case i >= len(p):
			return len(p), found != not
		case p[i] == '\\' && i+1 < len(p):
			i++
			found = found || p[i] == c
		case p[i] == ']':
			return i + 1, found != not
		case i+2 < len(p) && p[i+1] == '-':
			lo, hi := min(p[i], p[i+2]), max(p[i], p[i+2])
			found = found || lo <= c && c <= hi
			i += 2
		default:
			found = found || p[i] == c
		}
	}
}

// globPrefix returns the prefix of all matches of pattern, and whether the pattern consists
// of only that prefix.
func globPrefix(pattern []byte) (prefix []byte, whole bool) {
	for i := 0; i < len(pattern); i++ {
		switch pattern[i] {
		case '*', '?', '[':
			return prefix, false
		case '\\':
			if i+1 < len(pattern) {
				i++
			}
		}
		prefix = append(prefix, pattern[i])
	}
	return prefix, true
}
