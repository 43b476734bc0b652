package lineproto

import "bytes"

// NextLine cuts the first line off body, without its '\n'. Line breaks within strings do not end a
// line; a string without a closing quote takes everything up to the end of body. At the end rest is
// empty:
//
//	for len(body) > 0 {
//		line, body = NextLine(body)
//		if Blank(line) {
//			continue
//		}
func NextLine(body []byte) (line, rest []byte) {
	end := bytes.IndexByte(body, '\n')
	if end < 0 {
		return body, nil
	}
	if bytes.IndexByte(body[:end], '"') >= 0 {
		if end = quotedLineEnd(body); end == len(body) {
			return body, nil
		}
	}
	return body[:end:end], body[end+1:]
}

// Blank reports whether line has no point: it is a comment, or white space only.
func Blank(line []byte) bool {
	at := skipBlanks(line)
	return at == len(line) || line[at] == '#'
}

// skipBlanks returns the offset of the first byte that is not white space within a line.
func skipBlanks(b []byte) int {
	at := 0
	for at < len(b) && (b[at] == ' ' || b[at] == '\t' || b[at] == '\r') {
		at++
	}
	return at
}

// quotedLineEnd returns the offset of the line break that ends the first line of body, which contains a
// quote before its first '\n', or the length of body. A quote opens a string only as the first byte of a field's value: elsewhere it is an ordinary
// byte.
func quotedLineEnd(body []byte) int {
	at := skipBlanks(body)
	if at < len(body) && body[at] == '#' {
		return at + bytes.IndexByte(body[at:], '\n')
	}
	for inFields := false; at < len(body); at++ {
		switch body[at] {
		case '\n':
			return at
		case ' ':
			inFields = true
		case '\\':
			if at+1 < len(body) && body[at+1] != '\n' {
				at++
			}
		case '=':
			if inFields && at+1 < len(body) && body[at+1] == '"' {
				if at = quotedEnd(body, at+1); at < 0 {
					return len(body)
				}
				at-- // the loop goes on after the string
			}
		}
	}
	return len(body)
}
