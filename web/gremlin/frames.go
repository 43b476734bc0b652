package gremlin

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/graph/graphson"
	"github.com/skerrydb/skerry/graph/value"
)

// NodeProtocol is the name of the connections to ServeNode, which nodes open with
// engine.Cluster's Dial. Do not change.
//
// A connection carries one request at a time. A frame is a length of four bytes, its
// kind, and a body that begins with numbers and texts as in encoding/binary's varints.
// A request is one frame; its answer is any number of frameItems and one frameEnd. A
// node that stops sends a frameEnd with engine.CodeNotLeader without a request, and
// reads none from then on. Closing the connection stops the request, and rolls the
// session back.
const NodeProtocol = "skerry-gremlin/1"

// Kinds of frames. Do not change them.
const (
	framePing     = 'p'
	frameSubmit   = 's' // run a traversal in a transaction of its own
	frameBegin    = 'b' // begin the transaction of a session
	frameSession  = 't' // run a traversal in it
	frameCommit   = 'c'
	frameRollback = 'r'
	frameItems    = 'i' // a batch of results, after which others come
	frameEnd      = 'e'
)

// Forms of requests: how the body is encoded, and the results. Do not change them.
const (
	formBinary   = 1 // a driver's request, in GraphBinary
	formTyped    = 2 // likewise, in GraphSON
	formUntyped  = 3
	formUntyped4 = 4
	formBinary4  = 5    // only with formHTTP
	formHTTP     = 0x10 // added to a form: the arguments of a POST, in GraphSON
)

// maxFrameBytes bounds a frame. Longer results are an error of the request.
const maxFrameBytes = 1 << 30

// ask is a request of another node.
type ask struct {
	kind       byte
	form       byte
	references bool
	limit      time.Duration // for the answer; 0: that of the request itself
	user       string
	source     string // of frameBegin
	body       []byte // of frameSubmit and frameSession: a request as its client sent it
}

// answer is a frame of the answer to it.
type answer struct {
	kind       byte
	status     int
	n          int         // values in items
	code       engine.Code // of an error, or ""
	msg        string
	attributes string // in GraphSON; "": none
	items      []byte
}

// appendFrame appends a frame; body appends what is in it.
func appendFrame(dst []byte, kind byte, body func([]byte) []byte) []byte {
	at := len(dst)
	dst = body(append(dst, 0, 0, 0, 0, kind))
	binary.BigEndian.PutUint32(dst[at:], uint32(len(dst)-at-4))
	return dst
}

func appendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func (a *ask) append(dst []byte) []byte {
	return appendFrame(dst, a.kind, func(b []byte) []byte {
		refs := uint64(0)
		if a.references {
			refs = 1
		}
		b = binary.AppendUvarint(b, uint64(a.form))
		b = binary.AppendUvarint(b, refs)
		b = binary.AppendUvarint(b, uint64(a.limit.Milliseconds()))
		b = appendText(appendText(b, a.user), a.source)
		return append(b, a.body...)
	})
}

func (a *answer) append(dst []byte) []byte {
	return appendFrame(dst, a.kind, func(b []byte) []byte {
		b = binary.AppendUvarint(b, uint64(a.status))
		b = binary.AppendUvarint(b, uint64(a.n))
		b = appendText(appendText(appendText(b, string(a.code)), a.msg), a.attributes)
		return append(b, a.items...)
	})
}

// readFrame reads a frame. Beyond a usual batch, memory grows with what has arrived.
func readFrame(r *bufio.Reader, limit int64) (kind byte, body []byte, err error) {
	var head [5]byte
	if _, err = io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := int64(binary.BigEndian.Uint32(head[:])) - 1
	if n < 0 || n > limit {
		return 0, nil, fmt.Errorf("a frame of %d bytes, expected at most %d", n, limit)
	}
	var b bytes.Buffer
	b.Grow(int(min(n, 2*MaxBatchBytes)))
	if _, err = io.CopyN(&b, r, n); err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return head[4], b.Bytes(), err
}

// fields reads numbers and texts from the beginning of a body.
type fields struct {
	b   []byte
	bad bool
}

func (f *fields) number(most uint64) uint64 {
	n, size := binary.Uvarint(f.b)
	if size <= 0 || n > most {
		f.b, f.bad = nil, true
		return 0
	}
	f.b = f.b[size:]
	return n
}

func (f *fields) text() string {
	n := f.number(uint64(len(f.b)))
	if n > uint64(len(f.b)) {
		f.b, f.bad = nil, true
		return ""
	}
	s := string(f.b[:n])
	f.b = f.b[n:]
	return s
}

var errFrame = errors.New("a malformed frame")

func readAsk(r *bufio.Reader, limit int64) (*ask, error) {
	kind, body, err := readFrame(r, limit)
	if err != nil {
		return nil, err
	}
	f := fields{b: body}
	a := &ask{kind: kind, form: byte(f.number(math.MaxUint8)), references: f.number(1) == 1}
	a.limit = time.Duration(f.number(math.MaxInt64/uint64(time.Millisecond))) * time.Millisecond
	a.user, a.source = f.text(), f.text()
	a.body = f.b
	if f.bad {
		return nil, errFrame
	}
	return a, nil
}

func readAnswer(r *bufio.Reader) (*answer, error) {
	kind, body, err := readFrame(r, maxFrameBytes)
	if err != nil {
		return nil, err
	}
	f := fields{b: body}
	a := &answer{kind: kind, status: int(f.number(math.MaxUint16)), n: int(f.number(math.MaxInt32))}
	a.code, a.msg, a.attributes = engine.Code(f.text()), f.text(), f.text()
	a.items = f.b
	if f.bad || kind != frameItems && kind != frameEnd {
		return nil, errFrame
	}
	return a, nil
}

// answerOf returns the end of a request that failed.
func answerOf(e *Error) *answer {
	a := &answer{kind: frameEnd, status: e.Status, msg: e.Msg}
	if e.Err != nil {
		a.code = engine.CodeOf(e.Err)
	}
	if e.Attributes != nil {
		if b, err := graphson.Typed.Append(nil, e.Attributes); err == nil {
			a.attributes = string(b)
		}
	}
	return a
}

// err returns the error of a request that failed.
func (a *answer) err() error {
	switch a.status {
	case StatusOK, StatusNoContent:
		return nil
	}
	e := &Error{Status: a.status, Msg: a.msg}
	if a.code != "" {
		e.Err = &engine.Error{Code: a.code, Msg: a.msg}
	}
	if v, err := graphson.Decode([]byte(a.attributes)); err == nil {
		e.Attributes, _ = v.(*value.Map)
	}
	return e
}
