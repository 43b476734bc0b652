// Package relay forwards an HTTP request to another node and returns its response.
//
// It knows connections between nodes, which headers concern one connection only, how much of a request another
// node may have received, and when to stop waiting for a response; it must not know routes or keys, nor which
// node to ask: see package forward.
package relay

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/forward"
	"github.com/skerrydb/skerry/web/problem"
)

// Bounds of requests that are passed on.
const (
	// LeaderTimeout is how long the leader may take to begin its response; then a write is
	// engine.CodeOutcomeUnknown.
	LeaderTimeout = 30 * time.Second
	// NodeDialTimeout is how long a connection to another node may take to open.
	NodeDialTimeout = 3 * time.Second
	// NodeStall is how long another node may accept nothing of a request.
	NodeStall = 10 * time.Second
	// MaxProblemBytes is the longest problem document of the leader that is
	// parsed.
	MaxProblemBytes = 64 << 10

	// nodeIdle is shorter than the idle timeout of servers, so that the leader does not close a connection that
	// is just about to be used.
	nodeIdle     = 30 * time.Second
	deposedCheck = 500 * time.Millisecond
	inOneWrite   = 4 << 10 // a body up to this is sent together with its head
)

// ForwardedFor is the header with the client of a forwarded request.
const ForwardedFor = "X-Forwarded-For"

// Transport returns a transport whose hosts are node ids, which it reaches by one of the protocols that faces
// serve to nodes. The caller closes idle connections.
func Transport(cluster engine.Cluster, protocol string) *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
			return dial(ctx, cluster, protocol, addr)
		},
		DisableCompression:    true, // add nothing that was not requested
		MaxIdleConnsPerHost:   forward.MaxForwards,
		IdleConnTimeout:       nodeIdle,
		ResponseHeaderTimeout: LeaderTimeout,
		WriteBufferSize:       2 * inOneWrite,
	}
}

// Request returns r as a request to a node, for a Transport: without the body and without headers that concern
// the client's connection. The caller owns its headers, but not their values.
func Request(r *http.Request, node uint64) *http.Request {
	h := make(http.Header, len(r.Header)+3)
	maps.Copy(h, r.Header)
	DropHopByHop(h)
	delete(h, "Expect")
	if h["User-Agent"] == nil {
		h["User-Agent"] = []string{""} // otherwise the transport adds its own
	}
	u := &url.URL{Scheme: "http", Host: strconv.FormatUint(node, 10), Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery, ForceQuery: r.URL.ForceQuery}
	return &http.Request{Method: r.Method, URL: u, Host: r.Host, Header: h, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
}

// Problem reads the beginning of a response. If the response is a problem, it also returns the problem's code
// and detail; otherwise code is "". err is an error of reading.
func Problem(resp *http.Response) (begun []byte, code engine.Code, detail string, err error) {
	begun, err = io.ReadAll(io.LimitReader(resp.Body, MaxProblemBytes))
	if err != nil {
		return nil, "", "", err
	}
	var p problem.Problem
	if json.Unmarshal(begun, &p) != nil {
		return begun, "", "", nil //nolint:nilerr // it is passed on as it is
	}
	return begun, p.Code, p.Detail, nil
}

// Stream copies the body of a response to w through buf, and calls sent, if it is not nil, after each write.
// It ends when the client is gone; the error is that of body.
func Stream(w io.Writer, body io.Reader, buf []byte, sent func()) error {
	for {
		n, err := body.Read(buf)
		if n > 0 {
			if _, gone := w.Write(buf[:n]); gone != nil {
				return nil //nolint:nilerr // nobody waits for the rest
			}
			if sent != nil {
				sent()
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// dial opens a connection to the node whose id is the host in addr.
func dial(ctx context.Context, cluster engine.Cluster, protocol, addr string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	id, err := strconv.ParseUint(host, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("dial node %q: %w", host, err)
	}
	ctx, cancel := context.WithTimeout(ctx, NodeDialTimeout)
	defer cancel()
	conn, err := cluster.Dial(ctx, id, protocol)
	if err != nil {
		return nil, err
	}
	return &nodeConn{Conn: conn}, nil
}

// nodeConn is a connection to another node that counts the bytes written to it, and can prevent further
// writes.
type nodeConn struct {
	net.Conn
	mu      sync.Mutex // guards what follows; locked during a write, for at most NodeStall
	written int64
	over    bool
}

// Write implements net.Conn.
func (c *nodeConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return 0, net.ErrClosed
	}
	if len(p) > 2*inOneWrite { // less always fits: the previous request was accepted
		if err := c.SetWriteDeadline(time.Now().Add(NodeStall)); err != nil {
			return 0, err
		}
		defer c.SetWriteDeadline(time.Time{})
	}
	n, err := c.Conn.Write(p)
	c.written += int64(n)
	return n, err
}

// sent returns how many bytes were written.
func (c *nodeConn) sent() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.written
}

// shut prevents further writes and returns how many bytes were written.
func (c *nodeConn) shut() int64 {
	c.Close() // ends a stalled write; the connection is broken anyway
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	return c.written
}

// gatheredBody is a request's body in memory. The transport may read it after its RoundTrip has returned,
// until it closes it.
type gatheredBody struct {
	rest   []byte
	all    atomic.Bool // the last byte was read
	closed atomic.Bool
}

func (b *gatheredBody) Read(p []byte) (int, error) {
	n := copy(p, b.rest)
	if b.rest = b.rest[n:]; len(b.rest) == 0 {
		b.all.Store(true)
		return n, io.EOF
	}
	return n, nil
}

func (b *gatheredBody) Close() error {
	b.closed.Store(true)
	return nil
}

// Attempt is one try to have a node serve a request.
type Attempt struct {
	cluster engine.Cluster
	node    uint64
	conn    *nodeConn
	before  int64 // bytes written to conn before
	body    *gatheredBody
	trace   httptrace.ClientTrace
}

// NewAttempt returns an attempt to have node, which should be the leader, serve a request.
func NewAttempt(cluster engine.Cluster, node uint64) *Attempt {
	return &Attempt{cluster: cluster, node: node}
}

// SetBody gives the request a body in memory. The transport may read a long one after RoundTrip has returned,
// as long as KeepsBody is true.
func (t *Attempt) SetBody(out *http.Request, body []byte) {
	switch {
	case len(body) == 0:
	case len(body) <= inOneWrite:
		// A type that the transport knows to be fast, so that it does not send the head alone. The transport may
		// use the copy for as long as it likes.
		out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(bytes.Clone(body))), int64(len(body))
	default:
		t.body = &gatheredBody{rest: body}
		out.Body, out.ContentLength = t.body, int64(len(body))
	}
}

// KeepsBody reports whether the transport may still read the body of SetBody.
func (t *Attempt) KeepsBody() bool { return t.body != nil && !t.body.closed.Load() }

// RoundTrip sends the request out, in ctx, which cancel ends. It gives up once another node has led for a
// while and this one has not responded: a healthy node would have.
func (t *Attempt) RoundTrip(ctx context.Context, cancel func(), transport *http.Transport, out *http.Request) (*http.Response, error) {
	t.trace.GotConn = t.got
	w := newWatch(t.cluster, t.node, cancel)
	defer w.end()
	return transport.RoundTrip(out.WithContext(httptrace.WithClientTrace(ctx, &t.trace)))
}

func (t *Attempt) got(i httptrace.GotConnInfo) {
	if c, ok := i.Conn.(*nodeConn); ok {
		t.conn, t.before = c, c.sent()
	}
}

// Failed returns the outcome after RoundTrip failed with err, or after the response broke off. A request that
// only reads counts as not run. Nothing more is sent after Failed.
func (t *Attempt) Failed(reads bool, err error) (forward.Outcome, error) {
	if t.mayHaveArrived() && !reads {
		return forward.MayHaveRun, engine.Errorf(engine.CodeOutcomeUnknown, "the connection to the leader, node %d, broke after the request was sent: %w", t.node, err)
	}
	return forward.NotRun, engine.Errorf(engine.CodeNotLeader, "the leader, node %d, could not be reached: %w", t.node, err)
}

// mayHaveArrived reports whether the node may have the whole request, after the attempt has failed. If it
// returns false, the request never will arrive. A body that was not set with SetBody counts as arrived.
func (t *Attempt) mayHaveArrived() bool {
	if t.conn == nil || t.conn.shut() == t.before {
		return false
	}
	return t.body == nil || t.body.all.Load()
}

// watch abandons an attempt once another node has led for a while and the one that was asked has not
// responded: a healthy node would have.
type watch struct {
	cluster engine.Cluster
	leader  uint64 // the node that was asked
	cancel  func()
	timer   *time.Timer
	deposed int // how many checks found another leader; only check uses it
	over    atomic.Bool
}

func newWatch(cluster engine.Cluster, leader uint64, cancel func()) *watch {
	w := &watch{cluster: cluster, leader: leader, cancel: cancel}
	w.timer = time.AfterFunc(time.Hour, w.check)
	w.timer.Reset(deposedCheck) // only now: check needs timer
	return w
}

func (w *watch) check() {
	if w.over.Load() {
		return
	}
	if s := w.cluster.State(); s.Leader != w.leader && s.Leader != 0 {
		w.deposed++
	}
	if w.deposed > 1 {
		w.cancel()
		return
	}
	w.timer.Reset(deposedCheck)
}

func (w *watch) end() {
	w.over.Store(true)
	w.timer.Stop()
}

// DropHopByHop removes the headers that concern one connection, RFC 9110 section 7.6.1.
func DropHopByHop(h http.Header) {
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			h.Del(strings.Trim(name, " \t"))
		}
	}
	for _, name := range [...]string{"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
		"Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade"} {
		delete(h, name)
	}
}
