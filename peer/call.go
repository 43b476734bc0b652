package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// request and response are the wire format of a call.
type request struct {
	Method  string          `json:"method"`
	Timeout int64           `json:"timeout_ms"` // how long the caller waits
	In      json.RawMessage `json:"in,omitempty"`
}

type response struct {
	Out   json.RawMessage `json:"out,omitempty"`
	Error *RemoteError    `json:"error,omitempty"`
}

// callFrameBytes bounds a request or response without its argument.
const callFrameBytes = 4 << 10

// maxMethodBytes bounds the name of a method.
const maxMethodBytes = 256

// Client calls nodes but cannot be called. It is for programs that have a data
// folder's identity but no port. It is safe for concurrent use.
type Client struct{ node node }

// NewClient returns a client that authenticates with the certificate of id. version
// is that of the program, as in Options.
func NewClient(id *Identity, version string) *Client {
	return &Client{node{id: id, o: Options{Version: version}.filled()}}
}

// Call is like Port.Call.
func (c *Client) Call(ctx context.Context, addr string, node uint64, method string, in, out any) error {
	return c.node.call(ctx, addr, node, method, in, out, nil)
}

// Call calls a method of another node and unmarshals its response into out, unless
// out is nil. node is the id that the node at addr must have; 0 means any. addr need
// not be known to SetPeers. If ctx has no deadline, DefaultCallTimeout applies. An
// error of the other node's Handle is returned as *RemoteError, a refusal as
// *RefusedError. After any other error it is unknown whether the method has run.
func (p *Port) Call(ctx context.Context, addr string, node uint64, method string, in, out any) error {
	if p.ctx.Err() != nil {
		return ErrClosed
	}
	return p.call(ctx, addr, node, method, in, out, func(c *Conn) error { return p.keep(c, false) })
}

func (n *node) call(ctx context.Context, addr string, want uint64, method string, in, out any, keep func(*Conn) error) error {
	ctx, cancel := withDeadline(ctx, DefaultCallTimeout)
	defer cancel()
	deadline, _ := ctx.Deadline()
	text, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("peer: call %s: %w", method, err)
	}
	if len(text) > MaxCallBytes || len(method) > maxMethodBytes {
		return fmt.Errorf("peer: call %.100s: %w", method, &LimitError{"the argument", int64(len(text) + len(method)), MaxCallBytes})
	}
	if text, err = json.Marshal(request{method, max(1, time.Until(deadline).Milliseconds()), text}); err != nil {
		return fmt.Errorf("peer: call %s: %w", method, err)
	}
	c, _, err := n.connect(ctx, addr, want, ProtocolCall)
	if err != nil {
		return err
	}
	defer c.kill()
	if keep != nil {
		if err := keep(c); err != nil {
			return err
		}
	}
	stop := context.AfterFunc(ctx, c.kill)
	defer stop()
	var r response
	if _, err = c.Conn.Write(appendBlob(nil, text)); err == nil {
		if text, err = readBlob(c.Conn, "the answer", MaxCallBytes+callFrameBytes); err == nil {
			err = json.Unmarshal(text, &r)
		}
	}
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return fmt.Errorf("peer: call %s at %s: %w", method, addr, err)
	}
	if r.Error != nil {
		return r.Error
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(r.Out, out); err != nil {
		return fmt.Errorf("peer: answer to %s: %w", method, err)
	}
	return nil
}

// withDeadline gives ctx a deadline if it has none.
func withDeadline(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, d)
}

// answerCall handles the one call of a connection.
func (p *Port) answerCall(c *Conn) {
	defer c.kill()
	c.SetDeadline(time.Now().Add(DefaultCallTimeout))
	text, err := readBlob(c.Conn, "the argument", MaxCallBytes+callFrameBytes)
	if limit, over := errors.AsType[*LimitError](err); over {
		p.respond(c, response{Error: &RemoteError{CodeLimit, limit.Error()}})
		return
	} else if err != nil {
		return
	}
	var q request
	if err := json.Unmarshal(text, &q); err != nil || q.Timeout <= 0 {
		p.respond(c, response{Error: &RemoteError{CodeProtocol, "the call is malformed"}})
		return
	}
	select {
	case p.calls <- struct{}{}:
		defer func() { <-p.calls }()
	default:
		p.respond(c, response{Error: &RemoteError{CodeBusy, fmt.Sprintf("node %d is already serving %d calls", p.id.Node, MaxCalls)}})
		return
	}
	patience := time.Duration(min(q.Timeout, time.Hour.Milliseconds())) * time.Millisecond
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	c.SetDeadline(time.Time{})
	gone := make(chan struct{})
	go func() { // nothing follows but the end of the connection
		defer close(gone)
		var b [1]byte
		_, _ = c.Conn.Read(b[:]) // any outcome is the end
		cancel()
	}()
	defer func() {
		c.kill()
		<-gone
	}()
	p.respond(c, p.handle(ctx, c.Node(), &q))
}

// handle runs Options.Handle.
func (p *Port) handle(ctx context.Context, from uint64, q *request) response {
	out, err := p.o.Handle(ctx, from, q.Method, q.In)
	if err != nil {
		code, text := p.o.Explain(err)
		return response{Error: &RemoteError{code, shorten(text)}}
	}
	text, err := json.Marshal(out)
	if err != nil {
		return response{Error: &RemoteError{CodeInternal, fmt.Sprintf("the answer to %s: %v", q.Method, err)}}
	}
	if len(text) > MaxCallBytes {
		limit := &LimitError{"the answer", int64(len(text)), MaxCallBytes}
		return response{Error: &RemoteError{CodeLimit, limit.Error()}}
	}
	return response{Out: text}
}

// respond sends the response to a call.
func (p *Port) respond(c *Conn, r response) {
	text, err := json.Marshal(r)
	if err != nil {
		p.log.Error("marshal the answer to a call", "err", err)
		return
	}
	c.SetWriteDeadline(time.Now().Add(DefaultCallTimeout))
	if _, err := c.Conn.Write(appendBlob(nil, text)); err != nil {
		return // the caller is gone
	}
	if r.Error != nil && (r.Error.Code == CodeLimit || r.Error.Code == CodeBusy || r.Error.Code == CodeProtocol) {
		c.SetReadDeadline(time.Now().Add(partTime))
		_, _ = io.CopyN(io.Discard, c.Conn, 2*MaxCallBytes) // unread data would reset the connection
	}
}
