package graphson

import (
	"strconv"

	"github.com/skerrydb/skerry/graph/message"
	"github.com/skerrydb/skerry/graph/value"
)

// Decode reads one value, with or without types. Errors are *message.Error.
func Decode(b []byte) (any, error) {
	n, err := parse(b)
	if err != nil {
		return nil, err
	}
	r := &reader{}
	v := r.value(n)
	if r.err != nil {
		return nil, r.err
	}
	return v, nil
}

// Append appends a value. Besides values of package value it may be a
// message.Traverser or, if the format is Typed, an argument of a traversal or a
// *gremlin.Traversal.
func (f Format) Append(dst []byte, v any) ([]byte, error) {
	w := &writer{b: dst, format: f}
	w.value(v)
	return w.b, w.err
}

// DecodeRequest reads a request. It returns what it read even if there is an
// error, so that a response can have its id. Errors are *message.Error.
func DecodeRequest(b []byte) (*message.Request, error) {
	q := &message.Request{}
	n, err := parse(b)
	if err != nil {
		return q, err
	}
	r := &reader{}
	if !r.want(n, object, "a request") {
		return q, r.err
	}
	if id := n.field("requestId"); id != nil && id.kind == object {
		q.ID = r.uuid(id.field("@value"))
	} else {
		q.ID = r.uuid(id)
	}
	q.Op = r.string(n.field("op"), "an op")
	if p := n.field("processor"); p != nil {
		q.Processor = r.string(p, "a processor")
	}
	args := &value.Map{}
	if a := n.field("args"); a != nil {
		m, ok := r.value(a).(*value.Map)
		if !ok {
			r.failf(a, "expected args as a map")
		}
		args = m
	}
	if r.err != nil {
		return q, r.err
	}
	q.Args = args
	return q, nil
}

// AppendRequest appends a request with types.
func AppendRequest(dst []byte, q *message.Request) ([]byte, error) {
	w := &writer{b: dst}
	w.raw(`{"requestId":`)
	w.value(q.ID)
	w.raw(`,"op":`)
	w.string(q.Op)
	w.raw(`,"processor":`)
	w.string(q.Processor)
	w.raw(`,"args":`)
	w.fields(q.Args)
	w.raw("}")
	return w.b, w.err
}

// DecodeResponse reads a response. Errors are *message.Error.
func DecodeResponse(b []byte) (*message.Response, error) {
	n, err := parse(b)
	if err != nil {
		return nil, err
	}
	r, p := &reader{}, &message.Response{}
	if id := n.field("requestId"); id != nil {
		p.ID = r.uuid(id)
	}
	status, result := n.field("status"), n.field("result")
	p.Status = int(r.integer(status.field("code"), 32))
	p.Message = r.string(status.field("message"), "a message")
	p.Attributes, _ = r.value(status.field("attributes")).(*value.Map)
	p.Meta, _ = r.value(result.field("meta")).(*value.Map)
	p.Result = r.value(result.field("data"))
	return p, r.err
}

// AppendResponse appends a response with its result.
func (f Format) AppendResponse(dst []byte, p *message.Response) ([]byte, error) {
	w := &writer{b: dst, format: f}
	w.head(p)
	w.value(p.Result)
	w.tail(p)
	return w.b, w.err
}

// AppendItem appends one of the values of a result, of which there are n so far.
func (f Format) AppendItem(dst []byte, n int, v any) ([]byte, error) {
	if n > 0 {
		dst = append(dst, ',')
	}
	return f.Append(dst, v)
}

// AppendItems appends a response whose result is a list of values that AppendItem
// has encoded. It ignores p.Result.
func (f Format) AppendItems(dst []byte, p *message.Response, items []byte, _ int) ([]byte, error) {
	w := &writer{b: dst, format: f}
	w.head(p)
	w.open("g:List")
	w.raw("[")
	w.b = append(w.b, items...)
	w.raw("]")
	w.close()
	w.tail(p)
	return w.b, w.err
}

func (w *writer) head(p *message.Response) {
	w.raw(`{"requestId":`)
	w.string(p.ID.String())
	w.raw(`,"status":{"message":`)
	w.string(p.Message)
	w.raw(`,"code":`)
	w.b = strconv.AppendInt(w.b, int64(p.Status), 10)
	w.raw(`,"attributes":`)
	w.pairs(p.Attributes)
	w.raw(`},"result":{"data":`)
}

func (w *writer) tail(p *message.Response) {
	w.raw(`,"meta":`)
	w.pairs(p.Meta)
	w.raw("}}")
}
