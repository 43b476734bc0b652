package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
)

// verb is how a request begins on the wire.
type verb uint8

const (
	verbDo   verb = iota // the arguments are the whole command
	verbCall             // CALL name
	verbOnce             // CALLONCE key name
	verbRead             // FCALL_RO name 0
)

// request is one call on its way into a queue. It lives on its caller's stack.
type request struct {
	verb            verb
	flags           uint16
	name, key       string
	done            func(Result, error)
	w               *waiter
	texts           [][]byte // of arguments that are of no plain kind, nil for the others
	kept            *bool    // set if the server will tell when the result is stale
	size            int
	start, deadline int64 // 0 until it is queued; that of the context, or 0
}

// measure computes the size, and reports the first argument that cannot be sent.
func (r *request) measure(args []any) error {
	size := 128 + len(r.name) + len(r.key)
	for i, a := range args {
		n, plain := argSize(a)
		if !plain {
			text, err := encode(i, a)
			if err != nil {
				return err
			}
			if r.texts == nil {
				r.texts = make([][]byte, len(args))
			}
			r.texts[i], n = text, len(text)
		}
		if size += n + bulkHead; size > MaxRequestBytes {
			return errorf(CodeLimit, "the request has over %d bytes", MaxRequestBytes)
		}
	}
	r.size = size
	return nil
}

// append appends the command.
func (r *request) append(b []byte, args []any) []byte {
	if r.flags&twofold != 0 {
		b = append(b, "*3\r\n$6\r\nCLIENT\r\n$7\r\nCACHING\r\n$3\r\nYES\r\n"...)
	}
	switch r.verb {
	case verbDo:
		b = appendHead(b, '*', len(args))
	case verbCall:
		b = appendHead(b, '*', len(args)+2)
		b = append(b, "$4\r\nCALL\r\n"...)
		b = appendBulk(b, r.name)
	case verbOnce:
		b = appendHead(b, '*', len(args)+3)
		b = append(b, "$8\r\nCALLONCE\r\n"...)
		b = appendBulk(b, r.key)
		b = appendBulk(b, r.name)
	case verbRead:
		b = appendHead(b, '*', len(args)+3)
		b = append(b, "$8\r\nFCALL_RO\r\n"...)
		b = appendBulk(b, r.name)
		b = append(b, "$1\r\n0\r\n"...)
	}
	for i, a := range args {
		if r.texts != nil && r.texts[i] != nil {
			b = appendBulk(b, r.texts[i])
		} else {
			b = appendArg(b, a)
		}
	}
	return b
}

// Call calls a procedure and waits for its result. Arguments are positional:
// strings, bytes, numbers, booleans, times (RFC 3339), nil (for null), and pointers
// to those; structs, lists and maps are sent as JSON, types with a MarshalJSON or
// MarshalText of their own as JSON(v). A single struct or JSON object stands for
// all arguments, by name.
//
// Errors are *Error: those of the server and the procedure with their code, and
// the client's own. A call that was sent and has no reply is ErrOutcomeUnknown,
// also when ctx ends: then the reply is thrown away when it comes. CallOnce and
// CallRead are sent again instead when the connection breaks.
func (c *Client) Call(ctx context.Context, name string, args ...any) (Result, error) {
	r := request{verb: verbCall, name: name}
	return c.block(ctx, &r, args)
}

// CallRead is Call for procedures that only read: it may go to any node, as
// Options.ReadFrom says, and is sent again when the connection breaks, up to
// MaxBrokenSends times altogether. For others it is an error of code read_only.
func (c *Client) CallRead(ctx context.Context, name string, args ...any) (Result, error) {
	r := request{verb: verbRead, name: name, flags: readsOnly | followed | reader}
	return c.block(ctx, &r, args)
}

// CallOnce is Call under an idempotency key (see NewKey): the server carries it
// out once, however often it arrives, and so it is sent again when the connection
// breaks or the leader changes, until its time is over or it has broken
// MaxBrokenSends connections: then it is ErrOutcomeUnknown, as it may be the call
// that ends the servers. A key that was used with other arguments is an error of
// the server.
func (c *Client) CallOnce(ctx context.Context, key, name string, args ...any) (Result, error) {
	r := request{verb: verbOnce, key: key, name: name, flags: once}
	return c.block(ctx, &r, args)
}

// NewKey returns a key for CallOnce that nobody else has: 26 letters and digits.
func NewKey() string { return rand.Text() }

// CallAsync is Call that does not wait. If it returns nil, done is called exactly
// once: by the goroutine that reads replies, or if there is no reply, by another
// one of the client. done must not take long, as it holds up the calls behind it,
// and must not make blocking calls, which are ErrInCallback there; further
// CallAsyncs are welcome. It must not panic, which ends the program as in any
// goroutine, nor end its goroutine, as runtime.Goexit and testing.T.FailNow do.
//
// The deadline of ctx ends the call, within some 10 ms. A ctx without one that is
// cancelled ends it at once; it costs a watch, so pass one that cannot be
// cancelled if you do not need that. A ctx with a deadline that is cancelled
// before it ends the call at the deadline.
func (c *Client) CallAsync(ctx context.Context, done func(Result, error), name string, args ...any) error {
	r := request{verb: verbCall, name: name, done: done}
	return c.async(ctx, &r, args)
}

// CallOnceAsync is CallOnce as CallAsync is Call.
func (c *Client) CallOnceAsync(ctx context.Context, done func(Result, error), key, name string, args ...any) error {
	r := request{verb: verbOnce, key: key, name: name, flags: once, done: done}
	return c.async(ctx, &r, args)
}

// CallReadAsync is CallRead as CallAsync is Call.
func (c *Client) CallReadAsync(ctx context.Context, done func(Result, error), name string, args ...any) error {
	r := request{verb: verbRead, name: name, flags: readsOnly | followed | reader, done: done}
	return c.async(ctx, &r, args)
}

// Do runs any command, given as its words, where writes go, and waits for its
// result. Commands that change the shared connection or wait on it are refused:
// MULTI, SUBSCRIBE, SELECT and their like. Well-known commands that only read are
// sent again when the connection breaks.
func (c *Client) Do(ctx context.Context, args ...any) (Result, error) {
	r := request{verb: verbDo}
	if err := r.command(args); err != nil {
		return Result{}, err
	}
	return c.block(ctx, &r, args)
}

// DoAsync is Do as CallAsync is Call.
func (c *Client) DoAsync(ctx context.Context, done func(Result, error), args ...any) error {
	r := request{verb: verbDo, done: done}
	if err := r.command(args); err != nil {
		return err
	}
	return c.async(ctx, &r, args)
}

// Ping asks the node that writes go to for a sign of life.
func (c *Client) Ping(ctx context.Context) error {
	_, err := c.Do(ctx, "PING")
	return err
}

// Schema returns what the server says of a procedure, as a JSON object; of all of
// them, as a JSON array, if name is "".
func (c *Client) Schema(ctx context.Context, name string) (json.RawMessage, error) {
	args := []any{"PROC", "SCHEMA"}
	if name != "" {
		args = append(args, name)
	}
	r := request{verb: verbDo, flags: readsOnly, name: "PROC"}
	res, err := c.block(ctx, &r, args)
	if err != nil {
		return nil, err
	}
	text, err := res.Bytes()
	if err != nil || name == "" {
		return text, err
	}
	var list []json.RawMessage
	if err := json.Unmarshal(text, &list); err != nil || len(list) != 1 {
		return nil, errorf(CodeWrongType, "the server's answer to PROC SCHEMA %s is not a list of one", name)
	}
	return list[0], nil
}

// Future is a call under way.
type Future struct {
	c     *Client
	ended chan struct{}
	res   Result
	err   error
}

// Go is Call that does not wait. What CallAsync returns as an error the Future has.
func (c *Client) Go(ctx context.Context, name string, args ...any) *Future {
	f := &Future{c: c, ended: make(chan struct{})}
	r := request{verb: verbCall, name: name, done: f.end}
	if err := c.async(ctx, &r, args); err != nil {
		f.end(Result{}, err)
	}
	return f
}

func (f *Future) end(res Result, err error) {
	f.res, f.err = res.Clone(), err
	close(f.ended)
}

// Done is closed when the call has ended.
func (f *Future) Done() <-chan struct{} { return f.ended }

// Wait waits for the end of the call, or of ctx, which does not end the call. The
// result is the caller's. It may be called again, by anybody. In a callback it is
// ErrInCallback, unless the call has ended.
func (f *Future) Wait(ctx context.Context) (Result, error) {
	select {
	case <-f.ended:
		return f.res, f.err
	default:
	}
	if f.c.inCallback() {
		return Result{}, ErrInCallback
	}
	select {
	case <-f.ended:
		return f.res, f.err
	case <-ctx.Done():
		return Result{}, contextError(ctx.Err())
	}
}

// contextError is how a call ends that its context ended, and that did nothing.
func contextError(err error) error {
	if err == context.DeadlineExceeded {
		return &Error{Code: CodeTimeout, Msg: "the deadline of the context is over", Err: err}
	}
	return &Error{Code: CodeCancelled, Msg: fmt.Sprintf("the context has ended: %v", err), Err: err}
}
