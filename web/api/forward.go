package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web/problem"
)

// Bounds of requests that are passed on to the leader.
const (
	// DefaultElectionWait is Options.ElectionWait if that is 0.
	DefaultElectionWait = 5 * time.Second
	// MaxForwards is how many requests are passed on, or wait for a leader, at
	// once; more get CodeQueueFull.
	MaxForwards = 4096
	// LeaderTimeout is how long the leader may take to begin its answer; then a
	// write is CodeOutcomeUnknown.
	LeaderTimeout = 30 * time.Second
	// NodeDialTimeout is how long a connection to another node may take to open.
	NodeDialTimeout = 3 * time.Second
	// NodeStall is how long another node may take nothing of a request.
	NodeStall = 10 * time.Second
	// MaxKeyBreaks is how many connections to leaders may break after a request
	// with a key was sent; then it is not sent again, as it may be what broke them.
	MaxKeyBreaks = 2
	// MaxProblemBytes is the longest problem of the leader that is looked into.
	MaxProblemBytes = 64 << 10

	// nodeIdle is shorter than IdleTimeout, so that it is not the leader that
	// closes a connection which is just about to be used.
	nodeIdle             = 30 * time.Second
	deposedCheck         = 500 * time.Millisecond
	minPause, maxPause   = 10 * time.Millisecond, 250 * time.Millisecond
	forwardBuffer        = 32 << 10
	inOneWrite           = 4 << 10 // a body up to this goes out together with its head
	nodeProtocol         = "http/1.1"
	forwardedFor         = "X-Forwarded-For"
	transportRepeatsThis = "X-Idempotency-Key"
)

// forwarder passes requests on to the node that leads.
type forwarder struct {
	cluster                   engine.Cluster
	transport                 *http.Transport
	wait                      time.Duration // Options.ElectionWait
	gate                      gate
	answered, refused, broken prometheus.Counter // attempts by result
}

func newForwarder(o Options, m *metrics) *forwarder {
	if o.Cluster == nil {
		return nil
	}
	f := &forwarder{cluster: o.Cluster, wait: o.ElectionWait, gate: gate{max: MaxForwards}}
	attempts := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: metricPrefix + "http_forwards_total",
		Help: "Attempts to have the leader answer a request, by result: answered, refused (it did not lead or could not be reached), broken (it may or may not have acted).",
	}, []string{"result"})
	m.registry.MustRegister(attempts)
	f.answered, f.refused, f.broken = attempts.WithLabelValues("answered"), attempts.WithLabelValues("refused"), attempts.WithLabelValues("broken")
	f.transport = &http.Transport{
		DialContext:           f.dial,
		DisableCompression:    true, // what was not asked for must not be added
		MaxIdleConnsPerHost:   MaxForwards,
		IdleConnTimeout:       nodeIdle,
		ResponseHeaderTimeout: LeaderTimeout,
		WriteBufferSize:       2 * inOneWrite,
	}
	return f
}

// dial opens a connection to the node whose id is the host in addr.
func (f *forwarder) dial(ctx context.Context, _, addr string) (net.Conn, error) {
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
	conn, err := f.cluster.Dial(ctx, id, nodeProtocol)
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

// attempt is one try to have the leader answer.
type attempt struct {
	conn   *nodeConn
	before int64 // what was written to conn before
	body   *gatheredBody
	trace  httptrace.ClientTrace
}

func (t *attempt) got(i httptrace.GotConnInfo) {
	if c, ok := i.Conn.(*nodeConn); ok {
		t.conn, t.before = c, c.sent()
	}
}

// mayHaveArrived reports whether the leader may have the whole request, after
// the attempt has failed. If not, it never will.
func (t *attempt) mayHaveArrived() bool {
	if t.conn == nil || t.conn.shut() == t.before {
		return false
	}
	return t.body == nil || t.body.all.Load()
}

// pass has the leader answer r. It returns nil once x is answered,
// ErrNotLeader if the leader has certainly not acted on it, ErrOutcomeUnknown
// if it may have, and panics with http.ErrAbortHandler if the answer broke off.
func (f *forwarder) pass(x *exchange, r *http.Request, leader uint64) error {
	t := new(attempt)
	out := t.request(x, r, leader)
	t.trace.GotConn = t.got
	ctx, cancel := context.WithCancel(httptrace.WithClientTrace(r.Context(), &t.trace))
	defer cancel()
	w := f.watch(leader, cancel)
	resp, err := f.transport.RoundTrip(out.WithContext(ctx))
	w.end()
	defer func() { x.kept = x.kept || t.body != nil && !t.body.closed.Load() }()
	if err != nil {
		return f.failed(x, r, leader, t, err)
	}
	defer resp.Body.Close()
	begun, err := refusedBy(resp)
	switch {
	case begun == nil && err != nil: // the answer broke off, of which the client has nothing yet
		return f.failed(x, r, leader, t, err)
	case errors.Is(err, engine.ErrNotLeader):
		f.refused.Inc()
		return err
	case errors.Is(err, engine.ErrOutcomeUnknown) && x.repeatable(r):
		f.broken.Inc()
		return err
	case err != nil && x.maybe && didNotLook(engine.CodeOf(err)):
		f.refused.Inc()
		return err // orUnknown knows what it comes to
	}
	f.answered.Inc()
	if resp.ContentLength < 0 || resp.ContentLength > forwardBuffer {
		// The head has had its time limit; so has what may not be here yet.
		defer time.AfterFunc(RequestTimeout, cancel).Stop()
	}
	x.relay(resp, begun)
	return nil
}

// watch gives an attempt up when another node has led for a while and the one
// that was asked has not answered: it is frozen or cut off, or it would have.
type watch struct {
	f       *forwarder
	leader  uint64 // the node that was asked
	cancel  func()
	timer   *time.Timer
	deposed int // how many checks found another leader; check's alone
	over    atomic.Bool
}

func (f *forwarder) watch(leader uint64, cancel func()) *watch {
	w := &watch{f: f, leader: leader, cancel: cancel}
	w.timer = time.AfterFunc(time.Hour, w.check)
	w.timer.Reset(deposedCheck) // only now: check needs timer
	return w
}

func (w *watch) check() {
	if w.over.Load() {
		return
	}
	if s := w.f.cluster.State(); s.Leader != w.leader && s.Leader != 0 {
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

// failed says what it means that there is no answer.
func (f *forwarder) failed(x *exchange, r *http.Request, leader uint64, t *attempt, err error) error {
	if !t.mayHaveArrived() || x.reads(r) {
		f.refused.Inc()
		if r.Context().Err() != nil {
			return r.Context().Err()
		}
		return engine.Errorf(engine.CodeNotLeader, "node %d, which leads, could not be asked: %w", leader, err)
	}
	f.broken.Inc()
	x.broke++
	return engine.Errorf(engine.CodeOutcomeUnknown, "the connection to node %d, which leads, broke after the request was sent: %w", leader, err)
}

// request makes the request to the leader: as it came, but for what concerned
// the connection that it came on, and the password, which was checked here.
func (t *attempt) request(x *exchange, r *http.Request, leader uint64) *http.Request {
	h := make(http.Header, len(r.Header)+2)
	maps.Copy(h, r.Header)
	dropHopByHop(h)
	for _, name := range [...]string{"Authorization", "Expect", transportRepeatsThis} {
		delete(h, name)
	}
	if delete(h, procedureHeader); x.procedure != "" {
		h[procedureHeader] = []string{x.procedure}
	}
	if h["User-Agent"] == nil {
		h["User-Agent"] = []string{""} // or the transport names itself
	}
	if x.id != "" {
		h["X-Request-Id"] = []string{x.id}
	} else {
		delete(h, "X-Request-Id") // it was refused here
	}
	// What the client said of itself comes first and cannot be relied on; the
	// last one is what this node saw.
	from, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		from = "unknown" // RFC 7239 section 6.2: a socket without an address
	}
	h[forwardedFor] = []string{strings.Join(append(slices.Clone(r.Header[forwardedFor]), from), ", ")}
	out := &http.Request{
		Method: r.Method,
		URL: &url.URL{Scheme: "http", Host: strconv.FormatUint(leader, 10), Path: r.URL.Path,
			RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery, ForceQuery: r.URL.ForceQuery},
		Host:   r.Host,
		Header: h,
		Proto:  "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	switch {
	case !x.gathered || len(x.val) == 0:
	case len(x.val) <= inOneWrite:
		// Of a type that the transport knows not to be slow, so that it does not
		// send the head alone. The copy is the transport's for as long as it likes.
		out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(bytes.Clone(x.val))), int64(len(x.val))
	default:
		t.body = &gatheredBody{rest: x.val}
		out.Body, out.ContentLength = t.body, int64(len(x.val))
	}
	return out
}

// dropHopByHop removes the headers that are about one connection, RFC 9110
// section 7.6.1.
func dropHopByHop(h http.Header) {
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

// refusedBy looks into the answers that can mean that another node should be
// asked, or that this one has done nothing: then err has the code. What it has read
// of the body is in begun, which is nil if err is that of reading it.
func refusedBy(resp *http.Response) (begun []byte, err error) {
	if resp.StatusCode < 500 || resp.Header.Get("Content-Type") != problem.Type {
		return nil, nil
	}
	begun, err = io.ReadAll(io.LimitReader(resp.Body, MaxProblemBytes))
	if err != nil {
		return nil, err
	}
	var p problem.Problem
	if json.Unmarshal(begun, &p) != nil {
		return begun, nil //nolint:nilerr // it is passed on as it is
	}
	if p.Code == engine.CodeNotLeader || p.Code == engine.CodeOutcomeUnknown || didNotLook(p.Code) {
		return begun, engine.Errorf(p.Code, "%s", p.Detail)
	}
	return begun, nil
}

// relay answers with resp, of whose body begun has been read.
func (x *exchange) relay(resp *http.Response, begun []byte) {
	h := x.Header()
	trailers := resp.Trailer
	dropHopByHop(resp.Header)
	maps.Copy(h, resp.Header)
	for name := range trailers {
		h.Add("Trailer", name)
	}
	if ids := resp.Header["X-Request-Id"]; len(ids) == 1 {
		x.id = ids[0] // for our log
	}
	x.WriteHeader(resp.StatusCode)
	if len(begun) > 0 {
		if _, err := x.Write(begun); err != nil {
			return
		}
	}
	if resp.ContentLength != int64(len(begun)) {
		size := forwardBuffer
		if n := resp.ContentLength; n > 0 && n < int64(size) {
			size = int(n)
		}
		x.stream(resp.Body, size)
	}
	maps.Copy(h, resp.Trailer)
}

// stream copies body to the client. If body breaks off, so does the answer.
func (x *exchange) stream(body io.Reader, size int) {
	if cap(x.text) < size {
		x.text = make([]byte, 0, size)
	}
	buf := x.text[:size]
	for {
		n, err := body.Read(buf)
		if n > 0 {
			if _, gone := x.Write(buf[:n]); gone != nil {
				return
			}
		}
		if err == io.EOF {
			return
		}
		if err != nil {
			panic(http.ErrAbortHandler)
		}
	}
}

// reads reports whether r changes nothing.
func (x *exchange) reads(r *http.Request) bool {
	return x.reading || r.Method == http.MethodGet || r.Method == http.MethodHead
}

// repeatable reports whether r may be carried out although it may have been before.
// One that has broken too many connections may be what ends each leader.
func (x *exchange) repeatable(r *http.Request) bool {
	return x.once.key != nil && x.broke < MaxKeyBreaks || x.reads(r)
}
