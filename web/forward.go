package web

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"math"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/forward"
	"github.com/skerrydb/skerry/web/relay"
)

// passing is one request that is being forwarded.
type passing struct {
	*cluster
	x       *exchange
	ctx     context.Context // ends no later than the request's own
	body    []byte          // all of it, or its beginning if it streams
	streams bool            // the rest of the body is sent as it arrives
	limit   int64           // of the body, if this node serves the request after all
}

// keepBody reads a short body, or the beginning of a longer one. Only the leader, which chooses the route,
// knows how long it may be.
func (f *passing) keepBody() (err error) {
	b := &f.x.body
	if b.from == nil {
		return nil
	}
	if at, ok := f.ctx.Deadline(); ok {
		_ = http.NewResponseController(f.x.w).SetReadDeadline(at) // a server without it has none to be set
	}
	f.limit, b.limit = b.limit, math.MaxInt64
	if length := f.x.r.ContentLength; length >= 0 && length <= MaxKeptBody {
		f.body = make([]byte, length)
		_, err = io.ReadFull(b, f.body)
	} else {
		f.body, err = io.ReadAll(io.LimitReader(b, MaxKeptBody+1))
	}
	if err != nil {
		return BodyError(err)
	}
	if len(f.body) > MaxKeptBody {
		f.streams, f.x.kept = true, true // the transport may still read after an error
	}
	return nil
}

// giveBack restores the body as it came, so that the request can be served here.
func (f *passing) giveBack() {
	b := &f.x.body
	if b.from != nil {
		b.from = &readAgain{io.MultiReader(bytes.NewReader(f.body), b.from), b.from}
		b.read, b.limit = 0, f.limit
	}
}

// readAgain is a body whose beginning was read before.
type readAgain struct {
	io.Reader
	io.Closer
}

// pass makes one attempt to have a node serve the request.
func (f *passing) pass(leader uint64) (forward.Outcome, error) {
	t, d := relay.NewAttempt(f.router.Cluster, leader), f.x.deadlines()
	d.unlimitedWrite()
	defer d.endWrite()
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	out := f.request(leader)
	var rest *bodyRest
	if f.streams {
		rest = &bodyRest{from: &f.x.body, total: f.x.r.ContentLength}
		rest.got.Store(int64(len(f.body)))
		if _, timed := ctx.Deadline(); !timed { // which the body has to keep, too
			rest.pace(d)
			defer rest.endPace()
		}
		out.Body, out.ContentLength = io.NopCloser(io.MultiReader(bytes.NewReader(f.body), rest)), rest.total
	} else {
		t.SetBody(out, f.body)
	}
	resp, err := t.RoundTrip(ctx, cancel, f.transport, out)
	if err != nil {
		return f.failed(t, rest, err)
	}
	defer resp.Body.Close()
	begun, err := refused(resp)
	if err != nil {
		return f.notRun(rest, err)
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), eventType) {
		go f.x.app.streams.endWith(ctx, cancel) // they end here when this server stops
	}
	f.x.answerWith(resp, begun, d, func() { f.endUpload(rest) })
	return forward.Answered, errElsewhere
}

// failed returns what the lack of a response means.
func (f *passing) failed(t *relay.Attempt, rest *bodyRest, err error) (forward.Outcome, error) {
	outcome, err := t.Failed(reads(f.x.r), err) // nothing more is sent from here on
	broken := rest.failure()
	again, why := f.notRun(rest, err)
	switch gone := f.ctx.Err(); {
	case gone != nil:
		return forward.Answered, gone
	case broken != nil: // the client's fault, not the leader's
		return forward.Answered, BodyError(broken)
	case outcome == forward.NotRun:
		return again, why
	}
	return outcome, err
}

// notRun ends an attempt that has changed nothing, because of err. It is the last attempt if it has read a
// part of the body that cannot be read again.
func (f *passing) notRun(rest *bodyRest, err error) (forward.Outcome, error) {
	spent := !rest.revoke()
	f.endUpload(rest)
	if spent {
		return forward.Answered, err
	}
	return forward.NotRun, err
}

// endUpload closes the client's connection after the response, if that comes before the client has sent the
// whole body. net/http would otherwise wait for a goroutine that still reads the body, and take the rest for
// the next request.
func (f *passing) endUpload(rest *bodyRest) {
	if rest == nil || rest.state.Load() != restBegun || rest.over.Load() {
		return
	}
	f.x.w.Header()["Connection"] = []string{"close"}
	f.x.closeAfterwards()
}

// bodyRest is the rest of a body, after the kept beginning, for one attempt. The transport may read from it
// after the attempt has ended.
type bodyRest struct {
	from  io.Reader
	total int64 // length of the whole body; negative: unknown
	got   atomic.Int64
	state atomic.Int32
	over  atomic.Bool           // it was read to the end
	err   atomic.Pointer[error] // the error of the client's connection

	mu    sync.Mutex // guards what follows: when the attempt has ended, no deadline may be set
	limit *deadlines // nil: deadlines are not set
	since int        // bytes since the last deadline
}

// States of a bodyRest.
const (
	restFresh   = iota // nothing was read
	restBegun          // something was or is about to be read
	restRevoked        // nothing will be read: another attempt can use it
)

var errRevoked = errors.New("web: the attempt is over")

// Read implements io.Reader.
func (p *bodyRest) Read(to []byte) (int, error) {
	if !p.state.CompareAndSwap(restFresh, restBegun) && p.state.Load() == restRevoked {
		return 0, errRevoked
	}
	n, err := p.from.Read(to)
	if err == nil {
		p.paced(n)
	}
	if got := p.got.Add(int64(n)); err == io.EOF || p.total >= 0 && got >= p.total {
		p.over.Store(true)
	} else if err != nil {
		p.err.CompareAndSwap(nil, &err)
	}
	return n, err
}

// pace lets the body arrive for as long as it takes, as paceBody does. The leader bounds the total time.
func (p *bodyRest) pace(d deadlines) {
	p.limit = &d
	d.read(UploadStall)
}

func (p *bodyRest) paced(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.since += n; p.since >= UploadPace && p.limit != nil {
		p.since = 0
		p.limit.read(UploadStall)
	}
}

// endPace stops setting deadlines.
func (p *bodyRest) endPace() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit = nil
}

// revoke takes the rest back for another attempt, and reports whether nothing of it was read. A nil bodyRest
// can be revoked.
func (p *bodyRest) revoke() bool {
	return p == nil || p.state.CompareAndSwap(restFresh, restRevoked)
}

// failure returns the error of reading from the client.
func (p *bodyRest) failure() error {
	if p == nil || p.err.Load() == nil {
		return nil
	}
	return *p.err.Load()
}

// request returns the request to the leader.
func (f *passing) request(leader uint64) *http.Request {
	r := f.x.r
	out := relay.Request(r, leader)
	h := out.Header
	for name, carrier := range repeats {
		delete(h, carrier) // only nodes say that
		if keys := h[name]; keys != nil {
			delete(h, name)
			h[carrier] = keys
		}
	}
	h["X-Request-Id"] = []string{f.x.requestID()}
	h[forwardedFor] = []string{f.x.client(r)}
	h[forwardedProto] = []string{map[bool]string{true: "https", false: "http"}[f.x.secure(r)]}
	return out
}

// repeats are headers that make a transport repeat a request by itself, with the names under which nodes
// forward them instead.
var repeats = map[string]string{
	"Idempotency-Key":   "Skerry-Idempotency-Key",
	"X-Idempotency-Key": "Skerry-X-Idempotency-Key",
}

// arrived restores the headers of a request that request has renamed.
func arrived(r *http.Request) {
	for name, carrier := range repeats {
		if keys := r.Header[carrier]; keys != nil {
			delete(r.Header, carrier)
			r.Header[name] = keys
		}
	}
}

// refused reads the beginning of a response that may ask for another node; err is then engine.ErrNotLeader.
// begun is what it has read of the body.
func refused(resp *http.Response) (begun []byte, err error) {
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get(refusedHeader) == "" {
		return nil, nil
	}
	begun, code, _, err := relay.Problem(resp)
	if err != nil {
		return nil, engine.Errorf(engine.CodeNotLeader, "the response of the leader broke off: %w", err)
	}
	if code == engine.CodeNotLeader {
		return begun, engine.ErrNotLeader
	}
	return begun, nil
}

// refusedHeader marks a node's response to another node: nothing was done.
const refusedHeader = "Skerry-Not-Leader"

// answerWith responds with resp, of whose body begun has been read. The leader saves the session, and its
// middleware sets the headers, so those set here are dropped. ready is called before anything is sent. The
// leader bounds the total time; d only bounds each write.
func (x *exchange) answerWith(resp *http.Response, begun []byte, d deadlines, ready func()) {
	x.session, x.global, x.ending = nil, nil, true
	relay.DropHopByHop(resp.Header)
	h := x.w.Header()
	clear(h)
	maps.Copy(h, x.given)
	maps.Copy(h, resp.Header)
	ready()
	x.WriteHeader(resp.StatusCode)
	w := &pacedWriter{x, d}
	var sent func()
	if resp.ContentLength < 0 {
		sent = func() { _ = w.FlushError() } // send events at once
	}
	err := relay.Stream(w, io.MultiReader(bytes.NewReader(begun), resp.Body), make([]byte, 32<<10), sent)
	if err != nil && !(x.app.streams.stopped() && strings.HasPrefix(h.Get("Content-Type"), eventType)) {
		panic(http.ErrAbortHandler)
	}
	for name, lines := range resp.Trailer {
		h[http.TrailerPrefix+name] = lines
	}
}
