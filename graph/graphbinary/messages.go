package graphbinary

import (
	"github.com/skerrydb/skerry/graph/message"
)

// Decode reads one value with its type, which fills b. Errors are
// *message.Error.
func Decode(b []byte) (any, error) {
	r := &reader{b: b, ver: version1}
	v := r.value()
	r.end()
	if r.err != nil {
		return nil, r.err
	}
	return v, nil
}

// Append appends a value with its type. Besides values of package value it may be
// an argument of a traversal, a *gremlin.Traversal or a message.Traverser.
func Append(dst []byte, v any) ([]byte, error) {
	w := &writer{b: dst, ver: version1}
	w.value(v)
	return w.b, w.err
}

// DecodeRequest reads a request, without the name of its encoding. It returns
// what it read even if there is an error, so that a response can have its id.
// Errors are *message.Error.
func DecodeRequest(b []byte) (*message.Request, error) {
	r := &reader{b: b, ver: version1}
	q := &message.Request{}
	r.version()
	q.ID = r.uuid()
	q.Op, q.Processor = r.string("an op"), r.string("a processor")
	args := r.pairs()
	r.end()
	if r.err == nil {
		q.Args = args
	}
	return q, r.err
}

// AppendRequest appends a request, without the name of its encoding.
func AppendRequest(dst []byte, q *message.Request) ([]byte, error) {
	w := &writer{b: append(dst, byte(version1)), ver: version1}
	w.b = append(w.b, q.ID[:]...)
	w.text(q.Op)
	w.text(q.Processor)
	w.pairs(q.Args)
	return w.b, w.err
}

// DecodeResponse reads a response. Errors are *message.Error.
func DecodeResponse(b []byte) (*message.Response, error) {
	r := &reader{b: b, ver: version1}
	p := &message.Response{}
	r.version()
	if r.flag() {
		p.ID = r.uuid()
	}
	p.Status = int(r.int32("a status"))
	if r.flag() {
		p.Message = r.string("a message")
	}
	p.Attributes, p.Meta = r.pairs(), r.pairs()
	p.Result = r.value()
	r.end()
	return p, r.err
}

// AppendResponse appends a response with its result.
func AppendResponse(dst []byte, p *message.Response) ([]byte, error) {
	w := responseHead(dst, p)
	w.value(p.Result)
	return w.b, w.err
}

// AppendItem appends one of the values of a result, of which there are n so far.
func AppendItem(dst []byte, n int, v any) ([]byte, error) { return Append(dst, v) }

// AppendItems appends a response whose result is a list of n values that
// AppendItem has encoded. It ignores p.Result.
func AppendItems(dst []byte, p *message.Response, items []byte, n int) ([]byte, error) {
	w := responseHead(dst, p)
	w.head(typeList)
	w.length(n)
	w.b = append(w.b, items...)
	return w.b, w.err
}

func responseHead(dst []byte, p *message.Response) *writer {
	w := &writer{b: append(dst, byte(version1), flagValue), ver: version1}
	w.b = append(w.b, p.ID[:]...)
	w.int32(int32(p.Status))
	w.b = append(w.b, flagValue)
	w.text(p.Message)
	w.pairs(p.Attributes)
	w.pairs(p.Meta)
	return w
}

func (r *reader) version() {
	if v := r.byte("a version"); v != byte(r.ver) {
		r.failf(0, "expected version %#x, found %#x", byte(r.ver), v)
	}
}

func (r *reader) end() {
	if r.at < len(r.b) {
		r.failf(r.at, "expected the end, %d bytes are left", len(r.b)-r.at)
	}
}
