package graphbinary

import (
	"github.com/skerrydb/skerry/graph/message"
)

// A response of version 4.0 is the version, a flag that says whether results have
// bulks, the results, a marker, and how the request ended.
const (
	responsePlain  = 0x00
	responseBulked = 0x01
	markerEnd      = 0x00
)

// Decode4 is Decode of version 4.0.
func Decode4(b []byte) (any, error) {
	r := &reader{b: b, ver: version4}
	v := r.value()
	r.end()
	if r.err != nil {
		return nil, r.err
	}
	return v, nil
}

// Append4 is Append of version 4.0, which has only values of package value.
// Constants of enumerations without a type are written as their names, and metrics as
// maps.
func Append4(dst []byte, v any) ([]byte, error) {
	w := &writer{b: dst, ver: version4}
	w.value(v)
	return w.b, w.err
}

// DecodeRequest4 reads a request of version 4.0, which is a map and the text of a
// traversal. The text is the argument gremlin. Errors are *message.Error.
func DecodeRequest4(b []byte) (*message.Request, error) {
	r := &reader{b: b, ver: version4}
	q := &message.Request{Op: "eval"}
	r.version()
	args := r.pairs()
	text := r.string("a traversal")
	r.end()
	if r.err == nil {
		args.Set("gremlin", text)
		q.Args = args
	}
	return q, r.err
}

// AppendRequest4 appends a request of version 4.0, of which there are only Args.
func AppendRequest4(dst []byte, q *message.Request) ([]byte, error) {
	w := &writer{b: append(dst, byte(version4)), ver: version4}
	text, _ := q.Args.Get("gremlin")
	s, ok := text.(string)
	if !ok {
		w.failf("a request without text cannot be sent")
	}
	w.pairs(q.Args.Without(func(key any) bool { return key == "gremlin" }))
	w.text(s)
	return w.b, w.err
}

// AppendHead4 appends what comes before the results of a response of version 4.0.
func AppendHead4(dst []byte, bulked bool) []byte {
	if bulked {
		return append(dst, byte(version4), responseBulked)
	}
	return append(dst, byte(version4), responsePlain)
}

// AppendItem4 appends one of the results of a response. A message.Traverser is one
// with its bulk.
func AppendItem4(dst []byte, _ int, v any) ([]byte, error) {
	t, bulked := v.(message.Traverser)
	if !bulked {
		return Append4(dst, v)
	}
	w := &writer{b: dst, ver: version4}
	w.value(t.Val)
	w.value(t.Bulk)
	return w.b, w.err
}

// AppendEnd4 appends what comes after the results. The message and the name of the
// exception may be empty.
func AppendEnd4(dst []byte, status int, msg, exception string) []byte {
	w := &writer{b: append(dst, typeMarker, flagValue, markerEnd), ver: version4}
	w.int32(int32(status))
	for _, s := range []string{msg, exception} {
		if s == "" {
			w.b = append(w.b, flagNull)
			continue
		}
		w.b = append(w.b, flagValue)
		w.text(s)
	}
	return w.b
}

// Response4 is a response of version 4.0.
type Response4 struct {
	Results   []any // message.Traverser if Bulked
	Bulked    bool
	Status    int
	Message   string
	Exception string
}

// DecodeResponse4 reads a response of version 4.0. Errors are *message.Error.
func DecodeResponse4(b []byte) (*Response4, error) {
	r := &reader{b: b, ver: version4}
	p := &Response4{}
	r.version()
	at := r.at
	switch f := r.byte("a flag"); f {
	case responsePlain, responseBulked:
		p.Bulked = f == responseBulked
	default:
		r.failf(at, "expected a flag of 0 or 1, found %#x", f)
	}
	for r.err == nil && !r.marker() {
		v := r.value()
		if p.Bulked {
			v = message.Traverser{Bulk: r.bulk(), Val: v}
		}
		p.Results = append(p.Results, v)
	}
	p.Status = int(r.int32("a status"))
	for _, at := range []*string{&p.Message, &p.Exception} {
		if r.flag() {
			*at = r.string("a text")
		}
	}
	r.end()
	return p, r.err
}

// marker reads the marker after the results, if it is next.
func (r *reader) marker() bool {
	if r.at >= len(r.b) || r.b[r.at] != typeMarker {
		return false
	}
	at := r.at
	r.at++
	if !r.flag() || r.byte("a marker") != markerEnd {
		r.failf(at, "expected the marker of the end")
	}
	return true
}

// bulk reads how often a result occurs.
func (r *reader) bulk() int64 {
	at := r.at
	n, ok := r.value().(int64)
	if !ok || n < 1 {
		r.failf(at, "expected a bulk of at least 1")
	}
	return n
}
