package wire

func isSpace(c byte) bool { return c == ' ' || c-'\t' <= '\r'-'\t' || c == 0 }

// splitWords splits a line into words at white space, as redis-cli does, and appends their
// positions to spans. "…" may contain \n \r \t \b \a \xHH and any escaped byte; '…' only
// \'. It unescapes in place, so line is overwritten.
func splitWords(spans []span, line []byte) (_ []span, ok bool) {
	for i := 0; ; {
		for i < len(line) && isSpace(line[i]) {
			i++
		}
		if i == len(line) {
			return spans, true
		}
		off, end := i, i // the word is written to line[off:end]; end <= i always
		for i < len(line) && !isSpace(line[i]) {
			c := line[i]
			if c != '"' && c != '\'' {
				line[end] = c
				end++
				i++
				continue
			}
			if i, end, ok = unquote(line, i+1, end, c); !ok {
				return spans, false
			}
			if i < len(line) && !isSpace(line[i]) {
				return spans, false // a closing quote must end the word
			}
		}
		spans = append(spans, span{off, end})
	}
}

// unquote copies quoted text from line[i:] to line[end:] up to its closing quote. It
// returns the index after the quote and the new end.
func unquote(line []byte, i, end int, quote byte) (int, int, bool) {
	for i < len(line) {
		c := line[i]
		switch {
		case c == quote:
			return i + 1, end, true
		case c == '\\' && quote == '\'' && i+1 < len(line) && line[i+1] == '\'':
			c, i = '\'', i+1
		case c == '\\' && quote == '"' && i+3 < len(line) && line[i+1] == 'x' && hex(line[i+2]) < 16 && hex(line[i+3]) < 16:
			c, i = hex(line[i+2])<<4|hex(line[i+3]), i+3
		case c == '\\' && quote == '"' && i+1 < len(line):
			c, i = escape(line[i+1]), i+1
		}
		line[end] = c
		end++
		i++
	}
	return i, end, false
}

func hex(c byte) byte {
	switch {
	case c-'0' <= 9:
		return c - '0'
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10
	}
	return 255
}

func escape(c byte) byte {
	switch c {
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	case 'b':
		return '\b'
	case 'a':
		return '\a'
	}
	return c
}
