package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/skerrydb/skerry/resp/wire"
)

// firstPause is the shortest pause between attempts to connect or to send again.
const firstPause = 10 * time.Millisecond

// run connects and serves repeatedly until the link is closed.
func (l *link) run() {
	l.calls.start()
	failures := 0
	for {
		began := l.c.now()
		nc, replies, g, err := l.connect()
		if err == nil {
			err = l.serve(nc, replies, g)
			replies.Release()
		} else {
			l.node.dialErrors.Add(1)
		}
		l.c.disconnected(l, err)
		if l.unreadable != nil {
			l.unreadable()
			l.unreadable = nil
		}
		if l.c.now()-began > int64(time.Second) {
			failures = 0
		}
		pause := time.NewTimer(backoff(failures, l.c.o.MaxBackoff))
		failures++
		select {
		case <-pause.C:
		case <-l.done:
		}
		pause.Stop()
		select {
		case <-l.done:
			l.c.disconnected(l, ErrClosed)
			return
		default:
		}
	}
}

// backoff returns a random pause for the given number of consecutive failures.
func backoff(failures int, most time.Duration) time.Duration {
	d := min(firstPause<<min(failures, 20), max(most, 1))
	return d/2 + rand.N(d/2+1)
}

func (c *Client) retryPause(tries uint8) time.Duration {
	return backoff(min(int(tries), 4), c.o.MaxBackoff)
}

// serve uses a connection until it fails, and returns the reason.
func (l *link) serve(nc net.Conn, replies *wire.Replies, g *greeting) error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		nc.Close()
		return ErrClosed
	}
	l.nc = nc
	l.heard.Store(l.c.now())
	l.tracks = g.tracks
	l.up.Store(true)
	l.mu.Unlock()
	l.node.connects.Add(1)
	l.c.connected(l, g)

	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		l.write(nc, stop)
	}()
	err := l.read(replies)
	l.mu.Lock()
	l.up.Store(false)
	l.nc = nil
	l.mu.Unlock()
	nc.Close()
	close(stop)
	<-ended
	if g.tracks {
		l.c.cache.flush()
	}
	return errorf(CodeUnavailable, "the connection to %s broke: %w", l.node.addr, err)
}

// close closes the link, so that no more calls are added. It returns the connection, if
// there is one. The caller must close it without holding a lock, because TLS sends a
// closing message.
func (l *link) close() net.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.closed = true
		close(l.done)
	}
	return l.nc
}

// closeIdle closes the link if it has no calls. It reports whether the link is closed.
func (l *link) closeIdle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed && l.q.head == l.q.tail {
		l.closed = true
		close(l.done)
	}
	return l.closed
}

// greeting is what a server reported when the connection was made.
type greeting struct {
	tracks bool   // CLIENT TRACKING is on
	nodes  []byte // reply to CLUSTER NODES; nil for a single server
}

// connect makes a connection and exchanges greetings.
func (l *link) connect() (nc net.Conn, r *wire.Replies, g *greeting, err error) {
	ctx, cancel := context.WithTimeout(l.c.ctx, l.c.o.DialTimeout)
	defer cancel()
	fail := func(err error) (net.Conn, *wire.Replies, *greeting, error) {
		if nc != nil {
			nc.Close()
		}
		if e, ok := errors.AsType[*Error](err); ok {
			return nil, nil, nil, e
		}
		if _, ok := errors.AsType[*wire.ProtocolError](err); ok {
			return nil, nil, nil, errorf(CodeUnavailable, "%s does not speak the Redis protocol; is this its HTTP address?", l.node.addr)
		}
		return nil, nil, nil, errorf(CodeUnavailable, "connect to %s: %w", l.node.addr, err)
	}
	if dial := l.c.o.Dial; dial != nil {
		nc, err = dial(ctx, l.node.addr)
	} else {
		nc, err = (&net.Dialer{}).DialContext(ctx, "tcp", l.node.addr)
	}
	if err != nil {
		return fail(err)
	}
	if l.c.o.TLS != nil {
		conf := l.c.o.TLS.Clone()
		if conf.ServerName == "" {
			conf.ServerName, _, _ = net.SplitHostPort(l.node.addr)
		}
		secure := tls.Client(nc, conf)
		if err := secure.HandshakeContext(ctx); err != nil {
			return fail(err)
		}
		nc = secure
	}
	made := nc
	late := context.AfterFunc(ctx, func() { made.Close() }) // timed out, or the client was closed
	r = wire.NewReplies(nc, &l.c.bufs, l.c.o.MaxReplyBytes)
	g, err = l.greet(nc, r)
	if !late() {
		err = ctx.Err()
	}
	if err != nil {
		r.Release()
		return fail(err)
	}
	return nc, r, g, nil
}

// greet authenticates, sets up the connection and reads what the server reports.
func (l *link) greet(nc net.Conn, r *wire.Replies) (*greeting, error) {
	o := &l.c.o
	hello := []string{"HELLO", "3"}
	if o.Password != "" {
		user := o.User
		if user == "" {
			user = "default"
		}
		hello = append(hello, "AUTH", user, o.Password)
	}
	if o.Name != "" {
		hello = append(hello, "SETNAME", o.Name)
	}
	b := wire.AppendCommandStrings(nil, hello...)
	must := 1
	if o.Database > 0 {
		b = wire.AppendCommandStrings(b, "SELECT", strconv.Itoa(o.Database))
		must++
	}
	if o.ReadLevel != "" {
		b = wire.AppendCommandStrings(b, "CLIENT", "READ", o.ReadLevel)
		must++
	}
	b = wire.AppendCommandStrings(b, "CLUSTER", "LEADER", "PUSH")
	b = wire.AppendCommandStrings(b, "CLUSTER", "NODES")
	if o.CacheBytes > 0 {
		b = wire.AppendCommandStrings(b, "CLIENT", "TRACKING", "ON", "OPTIN")
	}
	if _, err := nc.Write(b); err != nil {
		return nil, err
	}
	for range must {
		v, err := next(r)
		if err != nil {
			return nil, err
		}
		if v.IsError() {
			return nil, o.refusal(replyError(v.Str, l.node.addr))
		}
	}
	if _, err := next(r); err != nil { // CLUSTER NODES names the leader too
		return nil, err
	}
	g := &greeting{}
	v, err := next(r)
	if err != nil {
		return nil, err
	}
	if !v.IsError() {
		g.nodes = append(g.nodes, v.Str...)
	}
	if o.CacheBytes > 0 {
		if v, err = next(r); err != nil {
			return nil, err
		}
		g.tracks = !v.IsError()
	}
	return g, nil
}

// refusal makes the reason why a server rejects the client into a helpful error.
func (o *Options) refusal(e *Error) *Error {
	if e.Kind == "NOAUTH" && o.Password == "" {
		scheme := "skerry"
		if o.TLS != nil {
			scheme = "skerrys"
		}
		e.Kind, e.Msg = "", fmt.Sprintf("the server requires a password: %s://:PASSWORD@%s", scheme, e.Node)
		return e
	}
	return o.withoutPassword(e)
}

// withoutPassword removes the password from a server's error. A server that does not know
// HELLO repeats its arguments.
func (o *Options) withoutPassword(e *Error) *Error {
	if o.Password != "" {
		e.Msg = strings.ReplaceAll(e.Msg, o.Password, "(the password)")
	}
	return e
}

// next reads the next reply that is not a push.
func next(r *wire.Replies) (wire.Value, error) {
	for {
		v, err := r.Read()
		if err != nil || v.Kind != wire.KindPush {
			return v, err
		}
	}
}
