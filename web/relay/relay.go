// Package relay passes an HTTP request on to another node and its answer back.
//
// It knows connections between nodes, what concerns one connection only, what of a
// request another node may have got, and when an answer need not be waited for any
// longer; it must not know routes or keys, nor which node to ask: see package forward.
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
	// LeaderTimeout is how long the leader may take to begin its answer; then a
	// write is engine.CodeOutcomeUnknown.
	LeaderTimeout = 30 * time.Second
	// NodeDialTimeout is how long a connection to another node may take to open.
	NodeDialTimeout = 3 * time.Second
	// NodeStall is how long another node may take nothing of a request.
	NodeStall = 10 * time.Second
	// MaxProblemBytes is the longest problem of the leader that is looked into.
	MaxProblemBytes = 64 << 10

	// nodeIdle is shorter than the idle timeout of servers, so that it is not the
	// leader that closes a connection which is just about to be used.
	nodeIdle     = 30 * time.Second
	deposedCheck = 500 * time.Millisecond
	inOneWrite   = 4 << 10 // a body up to this goes out together with its head
)

// ForwardedFor is the header that says on whose behalf a request is passed on.
const ForwardedFor = "X-Forwarded-For"

// Transport returns a transport whose hosts are the ids of nodes, reached by one of
// the protocols that faces serve to nodes. Its owner closes idle connections.
func Transport(cluster engine.Cluster, protocol string) *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
			return dial(ctx, cluster, protocol, addr)
		},
		DisableCompression:    true, // what was not asked for must not be added
		MaxIdleConnsPerHost:   forward.MaxForwards,
		IdleConnTimeout:       nodeIdle,
		ResponseHeaderTimeout: LeaderTimeout,
		WriteBufferSize:       2 * inOneWrite,
	}
}

// Request returns r as asked of a node, for a Transport: as it came, but for its body
// and what concerned the connection that it came on. The caller owns its headers, but
// not their values.
func Request(r *http.Request, node uint64) *http.Request {
	h := make(http.Header, len(r.Header)+3)
	maps.Copy(h, r.Header)
	DropHopByHop(h)
	delete(h, "Expect")
	if h["User-Agent"] == nil {
		h["User-Agent"] = []string{""} // or the transport names itself
	}
	u := &url.URL{Scheme: "http", Host: strconv.FormatUint(node, 10), Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery, ForceQuery: r.URL.ForceQuery}
	return &http.Request{Method: r.Method, URL: u, Host: r.Host, Header: h, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
}

// Problem reads the begin of an answer that is a problem, and returns it with the
// problem's code and detail; the code is "" if it is none. An error is that of
// reading.
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

// Stream copies the body of an answer to w by way of buf, and calls sent, if it is not
// nil, after each write. It ends when the client is gone; an error is that of body.
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

// nodeConn is a connection to another node that can tell how much was written to
// it, and make sure that nothing is from then on.
type nodeConn struct {
	net.Conn
	mu      sync.Mutex // guards what follows; held across a write, of NodeStall at most
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
	if len(p) > 2*inOneWrite { // less always fits: the request before was taken
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

// shut lets nothing more be written and returns how many bytes were.
func (c *nodeConn) shut() int64 {
	c.Close() // ends a write that stands still; the connection is broken anyway
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	return c.written
}

// gatheredBody is a request's body that is in memory. The transport may read it
// after its RoundTrip has returned, until it closes it.
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

// Attempt is one try to have a node answer.
type Attempt struct {
	cluster engine.Cluster
	node    uint64
	conn    *nodeConn
	before  int64 // what was written to conn before
	body    *gatheredBody
	trace   httptrace.ClientTrace
}

// NewAttempt returns an attempt to have a node answer that leads.
func NewAttempt(cluster engine.Cluster, node uint64) *Attempt {
	return &Attempt{cluster: cluster, node: node}
}

// SetBody gives the request a body that is in memory. The transport may read a long
// one after RoundTrip has returned, as long as KeepsBody says so.
func (t *Attempt) SetBody(out *http.Request, body []byte) {
	switch {
	case len(body) == 0:
	case len(body) <= inOneWrite:
		// Of a type that the transport knows not to be slow, so that it does not
		// send the head alone. The copy is the transport's for as long as it likes.
		out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(bytes.Clone(body))), int64(len(body))
	default:
		t.body = &gatheredBody{rest: body}
		out.Body, out.ContentLength = t.body, int64(len(body))
	}
}

// KeepsBody reports whether the transport may still read what SetBody was given.
func (t *Attempt) KeepsBody() bool { return t.body != nil && !t.body.closed.Load() }

// RoundTrip makes the request out, in ctx, which cancel ends. It gives up when
// another node has led for a while and the one that was asked has not answered: it
// is frozen or cut off, or it would have.
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

// Failed returns what it means that RoundTrip has failed with err, or the answer broke
// off: a request that only reads has not run. Nothing more is sent from then on.
func (t *Attempt) Failed(reads bool, err error) (forward.Outcome, error) {
	if t.mayHaveArrived() && !reads {
		return forward.MayHaveRun, engine.Errorf(engine.CodeOutcomeUnknown, "the connection to node %d, which leads, broke after the request was sent: %w", t.node, err)
	}
	return forward.NotRun, engine.Errorf(engine.CodeNotLeader, "node %d, which leads, could not be asked: %w", t.node, err)
}

// mayHaveArrived reports whether the node may have the whole request, after the
// attempt has failed. If not, it never will. A body that SetBody was not given counts
// as having arrived.
func (t *Attempt) mayHaveArrived() bool {
	if t.conn == nil || t.conn.shut() == t.before {
		return false
	}
	return t.body == nil || t.body.all.Load()
}

// watch gives an attempt up when another node has led for a while and the one
// that was asked has not answered: it is frozen or cut off, or it would have.
type watch struct {
	cluster engine.Cluster
	leader  uint64 // the node that was asked
	cancel  func()
	timer   *time.Timer
	deposed int // how many checks found another leader; check's alone
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

// DropHopByHop removes the headers that are about one connection, RFC 9110
// section 7.6.1.
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
