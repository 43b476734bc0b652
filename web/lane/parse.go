package lane

import (
	"bytes"
	"net/http"
)

// verdict is what parse says about bytes.
type verdict int

const (
	more   verdict = iota // they may be the beginning of a simple request
	simple                // they begin with the whole head of a simple request
	other                 // net/http must read them
)

// head is the head of a simple request. Its strings share one copy of the bytes.
type head struct {
	method, path, host string
	fields             [MaxHeadFields]field
	n                  int // fields used, Host excepted
	set                uint64
	route              *compiled
	length             int  // of the body
	hasLength          bool // Content-Length was given
	size               int  // of the head itself
}

type field struct {
	place uint8
	value string
}

// parse reads the head at the beginning of b. scanned is how much of b an earlier call has seen.
//
// It accepts less than HTTP allows and nothing that two readers could read in two ways: one spelling of
// everything, CR LF at the end of every line, one Host, one Content-Length and only with a body, and no
// header field that the routes do not know.
func (t *table) parse(h *head, b []byte, scanned int) verdict {
	if len(b) == 0 {
		return more
	}
	if b[0] < 'A' || b[0] > 'Z' {
		return other
	}
	from := max(scanned-3, 0)
	end := bytes.Index(b[from:], []byte("\r\n\r\n"))
	if end < 0 {
		if len(b) > MaxHeadBytes || bareLF(b[max(from-1, 0):]) {
			return other
		}
		return more
	}
	if end += from + 4; end > MaxHeadBytes {
		return other
	}
	*h = head{size: end}
	text := string(b[:end-2]) // each line with its CR LF
	rest, ok := t.requestLine(h, text)
	for ok && rest != "" {
		rest, ok = t.field(h, rest)
	}
	body := h.method == http.MethodPut || h.method == http.MethodPost || h.method == http.MethodPatch
	switch {
	case !ok, h.set&(1<<fieldHost) == 0, h.hasLength != body, h.length > MaxBodyBytes:
		return other
	}
	if h.route = t.find(h.method, h.path, h.set); h.route == nil {
		return other
	}
	return simple
}

// bareLF reports whether a line feed in b is not after a carriage return. The first byte is not judged.
func bareLF(b []byte) bool {
	for i := 0; ; {
		j := bytes.IndexByte(b[i:], '\n')
		if j < 0 {
			return false
		}
		if i += j; i > 0 && b[i-1] != '\r' {
			return true
		}
		i++
	}
}

// requestLine reads the first line of text and returns the others.
func (t *table) requestLine(h *head, text string) (rest string, ok bool) {
	i := 0
	for i < len(text) && text[i] >= 'A' && text[i] <= 'Z' {
		i++
	}
	if h.method, ok = t.methods[text[:i]]; !ok || text[i] != ' ' {
		return "", false
	}
	text = text[i+1:]
	if text == "" || text[0] != '/' {
		return "", false
	}
	for i = 0; i < len(text) && classes[text[i]]&inPath != 0; i++ {
	}
	const version = " HTTP/1.1\r\n"
	if len(text)-i < len(version) || text[i:i+len(version)] != version {
		return "", false
	}
	h.path = text[:i]
	return text[i+len(version):], true
}

// field reads the first line of text as a header field and returns the others.
func (t *table) field(h *head, text string) (rest string, ok bool) {
	var low [32]byte
	i := 0
	for ; i < len(text) && i < len(low) && classes[text[i]]&inName != 0; i++ {
		low[i] = text[i] | 0x20&(-(text[i] >> 6)) // letters have bit 6
	}
	place, known := t.places[string(low[:i])]
	if !known || i >= len(text) || text[i] != ':' || h.set&(1<<place) != 0 {
		return "", false
	}
	h.set |= 1 << place
	text = text[i+1:]
	for text[0] == ' ' {
		text = text[1:]
	}
	for i = 0; classes[text[i]]&inValue != 0; i++ { // the line ends with CR LF
	}
	if text[i] != '\r' || text[i+1] != '\n' {
		return "", false
	}
	value, rest := text[:i], text[i+2:]
	for value != "" && value[len(value)-1] == ' ' {
		value = value[:len(value)-1]
	}
	switch place {
	case fieldHost:
		h.host = value
		return rest, plainHost(value)
	case fieldLength:
		h.hasLength = true
		h.length, ok = digits(value)
	case fieldConnection:
		ok = value == "keep-alive" || value == "Keep-Alive"
	default:
		ok = true
	}
	if h.n == len(h.fields) {
		return "", false
	}
	h.fields[h.n] = field{place, value}
	h.n++
	return rest, ok
}

// digits reads a number of at most 6 digits that has no leading zero.
func digits(s string) (n int, ok bool) {
	if s == "" || len(s) > 6 || len(s) > 1 && s[0] == '0' {
		return 0, false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = 10*n + int(s[i]-'0')
	}
	return n, true
}

func plainHost(s string) bool {
	for i := range len(s) {
		if classes[s[i]]&inHost == 0 {
			return false
		}
	}
	return s != ""
}

// What a byte may be part of.
const (
	inPath uint8 = 1 << iota
	inName
	inValue
	inHost
)

var classes = classify()

func classify() (c [256]uint8) {
	for b := ' '; b <= '~'; b++ {
		c[b] |= inValue
	}
	for _, b := range "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" {
		c[b] |= inPath | inName | inHost
	}
	c['-'] |= inName
	for _, b := range "-._~/:@&=+$,;" {
		c[b] |= inPath
	}
	for _, b := range "-._:[]" {
		c[b] |= inHost
	}
	return c
}
