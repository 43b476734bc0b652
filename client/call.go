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
	texts           [][]byte // encoded arguments that are not of a plain kind, nil for the others
	kept            *bool    // set if the server will report when the result becomes stale
	size            int
	start, deadline int64 // start is 0 until the request is queued; deadline is the context's, or 0
}

// measure computes the size. It returns an error for the first argument that cannot be
// sent.
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
			return errorf(CodeLimit, "the request is over the limit of %d bytes", MaxRequestBytes)
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

// Call calls a procedure and waits for its result.
//
// Arguments are positional: strings, bytes, numbers, booleans, times (RFC 3339), nil (for
// null), and pointers to those. Structs, slices and maps are sent as JSON. Pass a type with
// its own MarshalJSON or MarshalText as JSON(v). A single struct or JSON object provides
// all arguments by name.
//
// Errors are of type *Error: those of the server and the procedure with their code, and the
// client's own. A call that was sent but got no reply returns ErrOutcomeUnknown, even if
// ctx ended it; a reply that arrives later is discarded. CallOnce and CallRead are sent
// again when the connection breaks.
func (c *Client) Call(ctx context.Context, name string, args ...any) (Result, error) {
	r := request{verb: verbCall, name: name}
	return c.block(ctx, &r, args)
}

// CallRead is like Call for procedures that only read. It may go to any node, as set by
// Options.ReadFrom. It is sent again when the connection breaks, up to MaxBrokenSends times
// in total. For a procedure that may write, it returns an error with code read_only.
func (c *Client) CallRead(ctx context.Context, name string, args ...any) (Result, error) {
	r := request{verb: verbRead, name: name, flags: readsOnly | followed | reader}
	return c.block(ctx, &r, args)
}

// CallOnce is like Call with an idempotency key (see NewKey). The server runs it once,
// however often it arrives, so the client sends it again when the connection breaks or the
// leader changes. It returns ErrOutcomeUnknown when its timeout expires, or when it has
// broken MaxBrokenSends connections, since the call itself may then be what crashes the
// servers. If the key was used before with other arguments, the server returns an error.
func (c *Client) CallOnce(ctx context.Context, key, name string, args ...any) (Result, error) {
	r := request{verb: verbOnce, key: key, name: name, flags: once}
	return c.block(ctx, &r, args)
}

// NewKey returns a random, unique key for CallOnce: 26 letters and digits.
func NewKey() string { return rand.Text() }

// CallAsync is like Call but does not wait. If it returns nil, done is called exactly once:
// by the goroutine that reads replies or, if there is no reply, by another goroutine of the
// client. done must return quickly, because it delays the calls behind it. It must not make
// blocking calls, which return ErrInCallback there, but may call CallAsync. It must not
// panic, which ends the program, and must not end its goroutine, as runtime.Goexit and
// testing.T.FailNow do.
//
// The deadline of ctx ends the call to within about 10 ms. If ctx has no deadline,
// cancelling it ends the call at once. Watching such a ctx has a cost, so pass one that
// cannot be cancelled if you do not need that. If ctx has a deadline and is cancelled
// earlier, the call still ends at the deadline.
func (c *Client) CallAsync(ctx context.Context, done func(Result, error), name string, args ...any) error {
	r := request{verb: verbCall, name: name, done: done}
	return c.async(ctx, &r, args)
}

// CallOnceAsync is to CallOnce what CallAsync is to Call.
func (c *Client) CallOnceAsync(ctx context.Context, done func(Result, error), key, name string, args ...any) error {
	r := request{verb: verbOnce, key: key, name: name, flags: once, done: done}
	return c.async(ctx, &r, args)
}

// CallReadAsync is to CallRead what CallAsync is to Call.
func (c *Client) CallReadAsync(ctx context.Context, done func(Result, error), name string, args ...any) error {
	r := request{verb: verbRead, name: name, flags: readsOnly | followed | reader, done: done}
	return c.async(ctx, &r, args)
}

// Do runs any command, given as its words, on the node that receives writes and waits for
// its result. Commands that change the state of the shared connection or block it, such as
// MULTI, SUBSCRIBE and SELECT, are rejected. Well-known commands that only read are sent
// again when the connection breaks.
func (c *Client) Do(ctx context.Context, args ...any) (Result, error) {
	r := request{verb: verbDo}
	if err := r.command(args); err != nil {
		return Result{}, err
	}
	return c.block(ctx, &r, args)
}

// DoAsync is to Do what CallAsync is to Call.
func (c *Client) DoAsync(ctx context.Context, done func(Result, error), args ...any) error {
	r := request{verb: verbDo, done: done}
	if err := r.command(args); err != nil {
		return err
	}
	return c.async(ctx, &r, args)
}

// Ping checks that the node that receives writes responds.
func (c *Client) Ping(ctx context.Context) error {
	_, err := c.Do(ctx, "PING")
	return err
}

// Schema returns the server's description of a procedure as a JSON object. If name is "",
// it returns those of all procedures as a JSON array.
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
		return nil, errorf(CodeWrongType, "the server's reply to PROC SCHEMA %s is not a list with one element", name)
	}
	return list[0], nil
}

// Future is a call in progress.
type Future struct {
	c     *Client
	ended chan struct{}
	res   Result
	err   error
}

// Go is like Call but does not wait. An error that CallAsync would return is the result of
// the Future.
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

// Done returns a channel that is closed when the call has ended.
func (f *Future) Done() <-chan struct{} { return f.ended }

// Wait waits until the call or ctx ends. The end of ctx does not end the call. The caller
// owns the result. Wait may be called several times and concurrently. In a callback it
// returns ErrInCallback unless the call has ended.
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

// contextError returns the error of a call that changed nothing before its context ended.
func contextError(err error) error {
	if err == context.DeadlineExceeded {
		return &Error{Code: CodeTimeout, Msg: "the context's deadline has passed", Err: err}
	}
	return &Error{Code: CodeCancelled, Msg: fmt.Sprintf("the context has ended: %v", err), Err: err}
}
