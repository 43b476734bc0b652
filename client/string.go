package client

import (
	"strconv"
	"unicode/utf8"

	"github.com/skerrydb/skerry/resp/wire"
)

// MaxStringBytes is the approximate maximum length of the text of Result.String. The rest
// is replaced by an ellipsis.
const MaxStringBytes = 1 << 10

// String returns a human-readable form of the value, much like JSON:
// {"text":"hello","times":3}. It is for messages and logs: text that is not UTF-8 is
// escaped as in Go, an error within a list is shown as its text, and output beyond
// MaxStringBytes is cut off.
func (r Result) String() string {
	p := printer{rest: r.raw}
	p.value()
	if p.full {
		p.out = append(p.out, "…"...)
	}
	return string(p.out)
}

// printer writes the values of a reply one after another.
type printer struct {
	out  []byte
	rest []byte
	full bool // nothing more is written
}

func (p *printer) value() {
	it, rest := Result{p.rest}.item()
	p.rest = rest
	switch it.Kind {
	case wire.KindArray, wire.KindSet, wire.KindPush:
		p.parts(it.Len, '[', ']', false)
	case wire.KindMap:
		p.parts(it.Len, '{', '}', true)
	case wire.KindNull:
		p.write("null")
	case wire.KindInt:
		p.write(strconv.FormatInt(it.Int, 10))
	case wire.KindBool:
		p.write(strconv.FormatBool(it.Int == 1))
	case wire.KindDouble, wire.KindBig:
		p.text(it.Str, false)
	case wire.KindError, wire.KindBlobError:
		p.text([]byte(replyError(it.Str, "").Error()), true)
	default:
		p.text(it.Str, true)
	}
}

// parts writes n values in brackets. If pairs is set, colons separate keys from values.
func (p *printer) parts(n int, begin, end byte, pairs bool) {
	p.write(string(begin))
	for i := 0; i < n && !p.full; i++ {
		switch {
		case i == 0:
		case pairs && i%2 == 1:
			p.write(":")
		default:
			p.write(",")
		}
		p.value()
	}
	p.write(string(end))
}

// text writes s, reading only as much of it as there is room for.
func (p *printer) text(s []byte, quoted bool) {
	cut := len(s) > MaxStringBytes
	if cut {
		n := MaxStringBytes
		for n > MaxStringBytes-utf8.UTFMax && !utf8.RuneStart(s[n]) {
			n--
		}
		s = s[:n]
	}
	switch {
	case !quoted:
		p.write(string(s))
	case utf8.Valid(s):
		p.write(string(appendJSONString(nil, string(s))))
	default:
		p.write(strconv.Quote(string(s)))
	}
	p.full = p.full || cut
}

// write appends as many whole characters of s as there is room for.
func (p *printer) write(s string) {
	if p.full {
		return
	}
	room := MaxStringBytes - len(p.out)
	if len(s) <= room {
		p.out = append(p.out, s...)
		return
	}
	for room > 0 && !utf8.RuneStart(s[room]) {
		room--
	}
	p.out = append(p.out, s[:room]...)
	p.full = true
}
