// Package relay is how an HTTP face passes a request on to another node.
//
// It knows connections between nodes, what of a request another node may have got,
// and when an answer need not be waited for any longer; it must not know routes or
// keys.
package relay

import (
	"bytes"
	"context"
	"fmt"
	"io"
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
)

// Bounds of requests that are passed on.
const (
	// MaxForwards is how many requests a face passes on, or lets wait for a leader,
	// at once; more get engine.CodeQueueFull.
	MaxForwards = 4096
	// LeaderTimeout is how long the leader may take to begin its answer; then a
	// write is engine.CodeOutcomeUnknown.
	LeaderTimeout = 30 * time.Second
	// NodeDialTimeout is how long a connection to another node may take to open.
	NodeDialTimeout = 3 * time.Second
	// NodeStall is how long another node may take nothing of a request.
	NodeStall = 10 * time.Second

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
		MaxIdleConnsPerHost:   MaxForwards,
		IdleConnTimeout:       nodeIdle,
		ResponseHeaderTimeout: LeaderTimeout,
		WriteBufferSize:       2 * inOneWrite,
	}
}

// URL is u as asked of a node, for a Transport.
func URL(node uint64, u *url.URL) *url.URL {
	return &url.URL{Scheme: "http", Host: strconv.FormatUint(node, 10), Path: u.Path, RawPath: u.RawPath, RawQuery: u.RawQuery, ForceQuery: u.ForceQuery}
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

// MayHaveArrived reports whether the node may have the whole request, after the
// attempt has failed. If not, it never will. A body that SetBody was not given counts
// as having arrived.
func (t *Attempt) MayHaveArrived() bool {
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
