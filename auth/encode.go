package auth

import (
	"encoding/binary"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// recordFormat begins every stored record; do not change. A record of another format comes from a newer
// version and is refused.
const recordFormat = 1

// encoder writes a record: its format, then one field after another.
type encoder struct{ b []byte }

func newEncoder() *encoder { return &encoder{b: []byte{recordFormat}} }

func (e *encoder) num(n uint64) { e.b = binary.AppendUvarint(e.b, n) }
func (e *encoder) str(s string) { e.num(uint64(len(s))); e.b = append(e.b, s...) }

// time is in microseconds since 1970; 0 is the zero time.
func (e *encoder) time(t time.Time) {
	if t.IsZero() {
		e.num(0)
		return
	}
	e.num(uint64(max(t.UnixMicro(), 1)))
}

func (e *encoder) strs(s []string) {
	e.num(uint64(len(s)))
	for _, v := range s {
		e.str(v)
	}
}

// decoder reads what encoder wrote. After the first error it returns only zero values.
type decoder struct {
	what string
	b    []byte
	err  error
}

func newDecoder(what string, b []byte) *decoder {
	d := &decoder{what: what, b: b}
	switch {
	case len(b) == 0:
		d.fail("it is empty")
	case b[0] != recordFormat:
		d.err = engine.Errorf(engine.CodeFormatNewer, "read %s: unknown format %d", what, b[0])
	default:
		d.b = b[1:]
	}
	return d
}

func (d *decoder) fail(why string) {
	if d.err == nil {
		d.err = engine.Errorf(engine.CodeCorrupt, "read %s: %s", d.what, why)
	}
	d.b = nil
}

func (d *decoder) num() uint64 {
	if d.err != nil {
		return 0
	}
	n, size := binary.Uvarint(d.b)
	if size <= 0 || size > 1 && d.b[size-1] == 0 { // the second: not the shortest form
		d.fail("a number is truncated or too long")
		return 0
	}
	d.b = d.b[size:]
	return n
}

func (d *decoder) str() string {
	n := d.num()
	if n > uint64(len(d.b)) {
		d.fail("a text is truncated")
		return ""
	}
	s := string(d.b[:n])
	d.b = d.b[n:]
	return s
}

func (d *decoder) time() time.Time {
	n := d.num()
	switch {
	case n == 0:
		return time.Time{}
	case n > 1<<62:
		d.fail("a time is out of range")
		return time.Time{}
	}
	return time.UnixMicro(int64(n)).UTC()
}

func (d *decoder) strs() []string {
	n := d.num()
	if n > uint64(len(d.b)) { // each takes at least a byte
		d.fail("a list is truncated")
		return nil
	}
	var s []string
	for range n {
		s = append(s, d.str())
	}
	return s
}

// end returns the decoder's error; trailing bytes are an error too.
func (d *decoder) end() error {
	if d.err == nil && len(d.b) > 0 {
		d.fail("bytes follow its end")
	}
	return d.err
}
