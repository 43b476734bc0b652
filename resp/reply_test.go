package resp_test

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// reply is one RESP value as received. The tests have their own decoder, so that a bug in
// resp/wire cannot hide itself.
type reply struct {
	kind  byte // the type byte of the wire: + - : $ * _ , # ( ! = % ~ > |
	text  string
	null  bool // $-1 and *-1
	elems []reply
	attrs []reply // the attribute before it, keys and values alternating
}

// maxReplyDepth bounds the nesting of a reply.
const maxReplyDepth = 32

// readReply decodes one value, including attributes.
func readReply(r *bufio.Reader, depth int) (reply, error) {
	if depth > maxReplyDepth {
		return reply{}, fmt.Errorf("reply nests deeper than %d", maxReplyDepth)
	}
	line, err := r.ReadString('\n')
	if err != nil {
		return reply{}, err
	}
	if len(line) < 3 || !strings.HasSuffix(line, "\r\n") {
		return reply{}, fmt.Errorf("line %q does not begin a reply", line)
	}
	v := reply{kind: line[0], text: line[1 : len(line)-2]}
	switch v.kind {
	case '+', '-', ':', '_', ',', '#', '(':
		return v, nil
	case '$', '!', '=':
		return v, v.readBulk(r)
	case '*', '~', '>', '%', '|':
		return v.readElems(r, depth)
	}
	return v, fmt.Errorf("reply has unknown type byte %q", v.kind)
}

func (v *reply) readBulk(r *bufio.Reader) error {
	n, err := strconv.Atoi(v.text)
	if err != nil || n < -1 {
		return fmt.Errorf("bulk length %q", v.text)
	}
	if v.text = ""; n == -1 {
		v.null = true
		return nil
	}
	b := make([]byte, n+2)
	if _, err := io.ReadFull(r, b); err != nil {
		return err
	}
	if string(b[n:]) != "\r\n" {
		return fmt.Errorf("bulk of %d bytes ends in %q", n, b[n:])
	}
	v.text = string(b[:n])
	return nil
}

func (v reply) readElems(r *bufio.Reader, depth int) (reply, error) {
	n, err := strconv.Atoi(v.text)
	if err != nil || n < -1 {
		return v, fmt.Errorf("aggregate length %q", v.text)
	}
	if v.text = ""; n == -1 {
		v.null = true
		return v, nil
	}
	if v.kind == '%' || v.kind == '|' {
		n *= 2
	}
	for range n {
		e, err := readReply(r, depth+1)
		if err != nil {
			return v, err
		}
		v.elems = append(v.elems, e)
	}
	if v.kind != '|' {
		return v, nil
	}
	next, err := readReply(r, depth)
	next.attrs = v.elems
	return next, err
}

// lines formats the value with its exact types, one scalar per line. Elements are indented
// by two more spaces than their aggregate.
func (v reply) lines() []string { return v.appendLines(nil, "") }

func (v reply) appendLines(out []string, indent string) []string {
	if v.attrs != nil {
		out = append(out, fmt.Sprintf("%s|%d", indent, len(v.attrs)/2))
		for _, e := range v.attrs {
			out = e.appendLines(out, indent+"  ")
		}
	}
	n := len(v.elems)
	switch v.kind {
	case '$':
		if v.null {
			return append(out, indent+"$-1")
		}
		return append(out, indent+quote(v.text))
	case '!', '=':
		return append(out, indent+string(v.kind)+quote(v.text))
	case '%':
		n /= 2
		fallthrough
	case '*', '~', '>':
		if v.null {
			n = -1
		}
		out = append(out, fmt.Sprintf("%s%c%d", indent, v.kind, n))
		for _, e := range v.elems {
			out = e.appendLines(out, indent+"  ")
		}
		return out
	}
	line := string(v.kind) + escape(v.text)
	if strings.HasSuffix(line, " ") { // make it visible, because editors strip it
		line = line[:len(line)-1] + `\x20`
	}
	return append(out, indent+line)
}

// sort sorts the elements of an array whose order Redis does not define.
func (v reply) sort() {
	slices.SortFunc(v.elems, func(a, b reply) int {
		return strings.Compare(strings.Join(a.lines(), "\n"), strings.Join(b.lines(), "\n"))
	})
}

// maxQuoted is the maximum number of bytes of a bulk string that are printed. For a longer
// one, its length and hash are printed.
const maxQuoted = 8 << 10

func quote(s string) string {
	if len(s) > maxQuoted {
		return fmt.Sprintf("$%d sha256:%x", len(s), sha256.Sum256([]byte(s)))
	}
	return `"` + strings.ReplaceAll(escape(s), `"`, `\"`) + `"`
}

// escape escapes every byte that is not printable ASCII.
func escape(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		switch {
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\\':
			b.WriteString(`\\`)
		case c < ' ' || c > '~':
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}
