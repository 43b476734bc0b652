package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web/problem"
	nodes "github.com/skerrydb/skerry/web/relay"
)

// Bounds of requests that are passed on to the node that leads.
const (
	// NodeProtocol is what nodes call the connections that carry them.
	NodeProtocol = "web/1"
	// ElectionWait is how long a request for the leader waits while there is none,
	// or the one that is known cannot be asked; then it is engine.CodeNotLeader.
	ElectionWait = 5 * time.Second
	// PositionWait is how long a read waits for what its browser wrote on another
	// node; then it is engine.CodePositionTimeout.
	PositionWait = 5 * time.Second
	// MaxKeptBody is the longest body that is kept for a second try, in bytes. A
	// longer one is passed on as it arrives, to one leader.
	MaxKeptBody = 64 << 10

	// positionLife is how long a browser remembers the position of its last write.
	// A node that is further behind does not serve local reads.
	positionLife = time.Minute
	// maxProblem is the longest problem of the leader that is looked into, in bytes.
	maxProblem = 64 << 10

	minPause, maxPause = 10 * time.Millisecond, 250 * time.Millisecond
)

// errRelayed says that another node has answered.
var errRelayed = errors.New("web: another node has answered")

// relay has requests that write answered by the node that leads.
type relay struct {
	cluster   engine.Cluster
	eng       engine.Engine
	transport *http.Transport
	inside    atomic.Int32
}

func newRelay(o Options) *relay {
	return &relay{cluster: o.Cluster, eng: o.Engine, transport: nodes.Transport(o.Cluster, NodeProtocol)}
}

func (l *relay) close() { l.transport.CloseIdleConnections() }

// reads reports whether r, by its method, changes nothing.
func reads(r *http.Request) bool {
	return r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions
}

func (l *relay) leads() bool {
	s := l.cluster.State()
	return s.Leader == s.Self
}

// before passes a request that writes on to the leader, and lets one that reads
// wait for what its browser wrote before.
func (l *relay) before(x *exchange, r *http.Request) error {
	switch {
	case reads(r):
		return l.await(x, r)
	case l.leads():
		return nil
	case x.fromNode:
		return engine.ErrNotLeader
	}
	return l.atLeader(x)
}

// await waits for the position in the request's cookie.
func (l *relay) await(x *exchange, r *http.Request) error {
	pos, err := strconv.ParseUint(cookieValue(r, x.positionCookie(r)), 10, 64)
	if err != nil {
		return nil //nolint:nilerr // none, or nothing that was ours
	}
	ctx, cancel := context.WithTimeout(r.Context(), PositionWait)
	defer cancel()
	_, err = l.eng.View(ctx, engine.Read{Level: engine.Local, AtLeast: engine.Position(pos)}, func(engine.Tx) error { return nil })
	if errors.Is(err, context.DeadlineExceeded) && r.Context().Err() == nil {
		return engine.Errorf(engine.CodePositionTimeout, "this node is behind what you wrote elsewhere by more than %v", PositionWait)
	}
	return err
}

func (x *exchange) positionCookie(r *http.Request) string {
	if x.plain(r) {
		return x.app.cookie.plainPosition
	}
	return x.app.cookie.position
}

// after tells the browser up to where this node has written, if the request may
// have.
func (l *relay) after(x *exchange) error {
	if reads(x.r) && !x.wrote {
		return nil
	}
	pos, err := l.eng.View(x.r.Context(), engine.Read{Level: engine.Local}, func(engine.Tx) error { return nil })
	if err != nil {
		return err
	}
	http.SetCookie(x.w, &http.Cookie{Name: x.positionCookie(x.r), Value: strconv.FormatUint(uint64(pos), 10), Path: "/",
		MaxAge: int(positionLife / time.Second), HttpOnly: true, Secure: !x.plain(x.r), SameSite: http.SameSiteLaxMode})
	return nil
}

// again has the leader answer a request that a handler here has failed, as it tried
// to write. It reports whether x is answered.
func (l *relay) again(x *exchange) bool {
	if x.fromNode || x.status != 0 || !reads(x.r) {
		return false
	}
	return errors.Is(l.atLeader(x), errRelayed)
}

// atLeader has x answered by whoever leads, and returns errRelayed once it is, nil
// if this node has come to lead, and otherwise why not.
func (l *relay) atLeader(x *exchange) error {
	if l.inside.Add(1) > nodes.MaxForwards {
		l.inside.Add(-1)
		return engine.Errorf(engine.CodeQueueFull, "%d requests for the leader are being answered already", nodes.MaxForwards)
	}
	defer l.inside.Add(-1)
	f := &forward{relay: l, x: x}
	if err := f.keepBody(); err != nil {
		return err
	}
	wait, cancel := context.WithTimeout(x.r.Context(), ElectionWait)
	defer cancel()
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		leader, err := l.cluster.AwaitLeader(wait)
		if err == nil {
			if leader.ID == l.cluster.State().Self {
				f.giveBack()
				return nil
			}
			err = f.pass(leader.ID)
		}
		if !errors.Is(err, engine.ErrNotLeader) || f.spent {
			return err
		}
		select {
		case <-time.After(pause):
		case <-wait.Done():
			if gone := x.r.Context().Err(); gone != nil {
				return gone
			}
			return engine.Errorf(engine.CodeNotLeader, "no node led for %v; nothing was written", ElectionWait)
		}
	}
}

// forward is one request that is passed on.
type forward struct {
	*relay
	x     *exchange
	body  []byte    // all of it, if it is kept
	rest  io.Reader // what follows body, if it is not
	spent bool      // of rest something was read: there is no second try
}

// keepBody reads a short body.
func (f *forward) keepBody() (err error) {
	r := f.x.r
	if r.Body == nil || r.ContentLength == 0 {
		return nil
	}
	f.x.body.limit = math.MaxInt64 // the leader knows that of the route
	f.body, err = io.ReadAll(io.LimitReader(r.Body, MaxKeptBody+1))
	if err != nil {
		return bodyError(err)
	}
	if len(f.body) > MaxKeptBody {
		f.rest, f.x.kept = r.Body, true // the transport may read on after an error
	}
	return nil
}

// giveBack lets the request be answered here.
func (f *forward) giveBack() {
	if f.body != nil {
		body := io.Reader(bytes.NewReader(f.body))
		if f.rest != nil {
			body = io.MultiReader(body, f.rest)
		}
		f.x.r.Body = struct {
			io.Reader
			io.Closer
		}{body, f.x.r.Body}
	}
}

// pass makes one try to have a node answer.
func (f *forward) pass(leader uint64) error {
	t := nodes.NewAttempt(f.cluster, leader)
	ctx, cancel := context.WithCancel(f.x.r.Context())
	defer cancel()
	out := f.request(leader)
	if f.rest == nil {
		t.SetBody(out, f.body)
	} else {
		f.spent = true
		out.Body, out.ContentLength = io.NopCloser(io.MultiReader(bytes.NewReader(f.body), f.rest)), f.x.r.ContentLength
	}
	resp, err := t.RoundTrip(ctx, cancel, f.transport, out)
	if err != nil {
		return f.failed(leader, t, err)
	}
	defer resp.Body.Close()
	begun, err := refused(resp)
	if err != nil {
		return err
	}
	f.x.relayed(resp, begun)
	return errRelayed
}

// failed says what it means that there is no answer.
func (f *forward) failed(leader uint64, t *nodes.Attempt, err error) error {
	if gone := f.x.r.Context().Err(); gone != nil {
		return gone
	}
	if reads(f.x.r) || !t.MayHaveArrived() {
		return engine.Errorf(engine.CodeNotLeader, "node %d, which leads, could not be asked: %w", leader, err)
	}
	return engine.Errorf(engine.CodeOutcomeUnknown, "the connection to node %d, which leads, broke after the request was sent: %w", leader, err)
}

// request is the request to the leader: as it came, but for what concerned the
// connection that it came on.
func (f *forward) request(leader uint64) *http.Request {
	r := f.x.r
	h := make(http.Header, len(r.Header)+3)
	maps.Copy(h, r.Header)
	nodes.DropHopByHop(h)
	delete(h, "Expect")
	if h["User-Agent"] == nil {
		h["User-Agent"] = []string{""} // or the transport names itself
	}
	if keys := h[repeatsThis]; keys != nil { // the transport would repeat it by itself
		delete(h, repeatsThis)
		h[carriesThat] = keys
	}
	h["X-Request-Id"] = []string{f.x.requestID()}
	h[nodes.ForwardedFor] = []string{f.x.client(r)}
	h[forwardedProto] = []string{map[bool]string{true: "https", false: "http"}[f.x.secure(r)]}
	return &http.Request{Method: r.Method, URL: nodes.URL(leader, r.URL), Host: r.Host, Header: h, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
}

const (
	repeatsThis = "Idempotency-Key"
	carriesThat = "Skerry-Idempotency-Key"
)

// arrived takes back what request did to the headers of a request.
func arrived(r *http.Request) {
	if keys := r.Header[carriesThat]; keys != nil {
		delete(r.Header, carriesThat)
		r.Header[repeatsThis] = keys
	}
}

// refused looks into an answer that can mean that another node should be asked: then
// err is engine.ErrNotLeader. What it has read of the body is in begun.
func refused(resp *http.Response) (begun []byte, err error) {
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get(refusedHeader) == "" {
		return nil, nil
	}
	begun, err = io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	if err != nil {
		return nil, engine.Errorf(engine.CodeNotLeader, "the node that led broke off: %w", err)
	}
	var p problem.Problem
	if json.Unmarshal(begun, &p) == nil && p.Code == engine.CodeNotLeader {
		return begun, engine.ErrNotLeader
	}
	return begun, nil
}

// refusedHeader is in the answer of a node to another one: it has done nothing.
const refusedHeader = "Skerry-Not-Leader"

// relayed answers with resp, of whose body begun has been read. The session is the
// leader's to save.
func (x *exchange) relayed(resp *http.Response, begun []byte) {
	x.session, x.ending = nil, true
	nodes.DropHopByHop(resp.Header)
	h := x.w.Header()
	for _, name := range []string{"Content-Encoding", "Content-Length", "Content-Type", "Etag", "Last-Modified"} {
		delete(h, name) // of the answer that did not come about here
	}
	for name, lines := range resp.Header {
		if strings.EqualFold(name, "Vary") {
			h[name] = append(h[name], lines...)
			continue
		}
		h[name] = lines
	}
	x.WriteHeader(resp.StatusCode)
	if _, err := x.Write(begun); err != nil {
		return
	}
	buf := make([]byte, 32<<10)
	rc := http.NewResponseController(x.w)
	streams := resp.ContentLength < 0
	for {
		n, err := resp.Body.Read(buf)
		if n > 0 {
			if _, gone := x.Write(buf[:n]); gone != nil {
				return
			}
			if streams {
				_ = rc.Flush() // events must not wait for more of them
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
