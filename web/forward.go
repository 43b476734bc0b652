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

// passing is one request that is passed on.
type passing struct {
	*cluster
	x       *exchange
	ctx     context.Context // ends no later than the request's own
	body    []byte          // all of it, or if it streams its begin
	streams bool            // what follows body is sent as it arrives
	limit   int64           // of the body, if this node answers after all
}

// keepBody reads a short body, and the begin of a longer one. How long it may be
// is known to the leader alone, which chooses the route.
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
		f.streams, f.x.kept = true, true // the transport may read on after an error
	}
	return nil
}

// giveBack lets the request be answered here, with its body as it came.
func (f *passing) giveBack() {
	b := &f.x.body
	if b.from != nil {
		b.from = &readAgain{io.MultiReader(bytes.NewReader(f.body), b.from), b.from}
		b.read, b.limit = 0, f.limit
	}
}

// readAgain is a body of which the begin was read before.
type readAgain struct {
	io.Reader
	io.Closer
}

// pass makes one attempt to have a node answer.
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
		go f.x.app.streams.endWith(ctx, cancel) // these end here when this server stops
	}
	f.x.answerWith(resp, begun, d, func() { f.endUpload(rest) })
	return forward.Answered, errElsewhere
}

// failed says what it means that there is no answer.
func (f *passing) failed(t *relay.Attempt, rest *bodyRest, err error) (forward.Outcome, error) {
	outcome, err := t.Failed(reads(f.x.r), err) // nothing more is sent from now on
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

// notRun ends an attempt that has changed nothing, because of err. It is the last one
// if a part of the body was taken for it that nobody can read again.
func (f *passing) notRun(rest *bodyRest, err error) (forward.Outcome, error) {
	spent := !rest.revoke()
	f.endUpload(rest)
	if spent {
		return forward.Answered, err
	}
	return forward.NotRun, err
}

// endUpload makes the client's connection end with the answer, if that comes before
// the client has sent all. net/http then ends what still reads from it; otherwise it
// would wait for that, and take the rest for the next request.
func (f *passing) endUpload(rest *bodyRest) {
	if rest == nil || rest.state.Load() != restBegun || rest.over.Load() {
		return
	}
	f.x.w.Header()["Connection"] = []string{"close"}
	f.x.closeAfterwards()
}

// bodyRest is what follows the kept begin of a body, for one attempt. Its transport may
// read from it after the attempt has ended.
type bodyRest struct {
	from  io.Reader
	total int64 // the length of the whole body; negative: not known
	got   atomic.Int64
	state atomic.Int32
	over  atomic.Bool           // it was read to its end
	err   atomic.Pointer[error] // what the client's connection failed with

	mu    sync.Mutex // guards what follows: when the attempt has ended, no deadline may be set
	limit *deadlines // nil: they are left alone
	since int        // bytes since the last deadline
}

// States of a bodyRest.
const (
	restFresh   = iota // nothing was read
	restBegun          // something was, or is about to be
	restRevoked        // nothing will be: another attempt can read it
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

// pace lets the body arrive for as long as it takes, as paceBody does: the time of
// the whole is the leader's to bound.
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

// endPace leaves the deadlines alone from now on.
func (p *bodyRest) endPace() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit = nil
}

// revoke takes it back if nothing of it was read. Nil is none: it can.
func (p *bodyRest) revoke() bool {
	return p == nil || p.state.CompareAndSwap(restFresh, restRevoked)
}

// failure is what reading from the client failed with.
func (p *bodyRest) failure() error {
	if p == nil || p.err.Load() == nil {
		return nil
	}
	return *p.err.Load()
}

// request is the request to the leader.
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

// repeats are headers that make a transport repeat a request by itself, with those
// that carry them between nodes instead.
var repeats = map[string]string{
	"Idempotency-Key":   "Skerry-Idempotency-Key",
	"X-Idempotency-Key": "Skerry-X-Idempotency-Key",
}

// arrived takes back what request did to the headers of a request.
func arrived(r *http.Request) {
	for name, carrier := range repeats {
		if keys := r.Header[carrier]; keys != nil {
			delete(r.Header, carrier)
			r.Header[name] = keys
		}
	}
}

// refused looks into an answer that can mean that another node should be asked: then
// err is engine.ErrNotLeader. What it has read of the body is in begun.
func refused(resp *http.Response) (begun []byte, err error) {
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get(refusedHeader) == "" {
		return nil, nil
	}
	begun, code, _, err := relay.Problem(resp)
	if err != nil {
		return nil, engine.Errorf(engine.CodeNotLeader, "the node that led broke off: %w", err)
	}
	if code == engine.CodeNotLeader {
		return begun, engine.ErrNotLeader
	}
	return begun, nil
}

// refusedHeader is in the answer of a node to another one: it has done nothing.
const refusedHeader = "Skerry-Not-Leader"

// answerWith answers with resp, of whose body begun has been read. The session is the
// leader's to save, and the headers are those of its middleware: what has been set
// here belongs to an answer that did not come about. ready is called before anything
// is sent. How long it may all take is the leader's to bound: here d is for each write.
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
		sent = func() { _ = w.FlushError() } // events must not wait for more of them
	}
	err := relay.Stream(w, io.MultiReader(bytes.NewReader(begun), resp.Body), make([]byte, 32<<10), sent)
	if err != nil && !(x.app.streams.stopped() && strings.HasPrefix(h.Get("Content-Type"), eventType)) {
		panic(http.ErrAbortHandler)
	}
	for name, lines := range resp.Trailer {
		h[http.TrailerPrefix+name] = lines
	}
}
