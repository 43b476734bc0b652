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
	"strings"
	"sync"
	"sync/atomic"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web/problem"
	nodes "github.com/skerrydb/skerry/web/relay"
)

// forward is one request that is passed on.
type forward struct {
	*relay
	x       *exchange
	ctx     context.Context // ends no later than the request's own
	body    []byte          // all of it, or if it streams its begin
	streams bool            // what follows body is sent as it arrives
	spent   bool            // some of that was: there is no second try
	limit   int64           // of the body, if this node answers after all
}

// keepBody reads a short body, and the begin of a longer one. How long it may be
// is known to the leader alone, which chooses the route.
func (f *forward) keepBody() (err error) {
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
func (f *forward) giveBack() {
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

// pass makes one try to have a node answer.
func (f *forward) pass(leader uint64) error {
	t, d := nodes.NewAttempt(f.cluster, leader), f.x.deadlines()
	d.unlimitedWrite()
	defer d.endWrite()
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	out := f.request(leader)
	var rest *passing
	if f.streams {
		rest = &passing{from: &f.x.body, total: f.x.r.ContentLength}
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
		return f.failed(leader, t, rest, err)
	}
	defer resp.Body.Close()
	begun, err := refused(resp)
	if err != nil {
		f.spent = !rest.revoke()
		f.endUpload(rest)
		return err
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), eventType) {
		go f.x.app.streams.endWith(ctx, cancel) // these end here when this server stops
	}
	f.x.relayed(resp, begun, d, func() { f.endUpload(rest) })
	return errRelayed
}

// failed says what it means that there is no answer.
func (f *forward) failed(leader uint64, t *nodes.Attempt, rest *passing, err error) error {
	sent, broken := t.MayHaveArrived(), rest.failure() // nothing more is sent from now on
	f.spent = !rest.revoke()
	f.endUpload(rest)
	if gone := f.ctx.Err(); gone != nil {
		return gone
	}
	switch {
	case broken != nil: // the client's fault, not the leader's
		return BodyError(broken)
	case reads(f.x.r) || !sent:
		return engine.Errorf(engine.CodeNotLeader, "node %d, which leads, could not be asked: %w", leader, err)
	}
	return engine.Errorf(engine.CodeOutcomeUnknown, "the connection to node %d, which leads, broke after the request was sent: %w", leader, err)
}

// endUpload makes the client's connection end with the answer, if that comes before
// the client has sent all. net/http then ends what still reads from it; otherwise it
// would wait for that, and take the rest for the next request.
func (f *forward) endUpload(rest *passing) {
	if rest == nil || rest.state.Load() != passingBegun || rest.over.Load() {
		return
	}
	f.x.w.Header()["Connection"] = []string{"close"}
	// A reader that is over its limit makes net/http wait a little before it closes
	// the connection: a client that is still sending would otherwise miss the answer.
	_, _ = http.MaxBytesReader(f.x.w, io.NopCloser(strings.NewReader("x")), 0).Read(make([]byte, 1))
}

// passing is what follows the kept begin of a body, for one attempt. Its transport may
// read from it after the attempt has ended.
type passing struct {
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

// States of a passing.
const (
	passingFresh   = iota // nothing was read
	passingBegun          // something was, or is about to be
	passingRevoked        // nothing will be: another attempt can read it
)

var errRevoked = errors.New("web: the attempt is over")

// Read implements io.Reader.
func (p *passing) Read(to []byte) (int, error) {
	if !p.state.CompareAndSwap(passingFresh, passingBegun) && p.state.Load() == passingRevoked {
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
func (p *passing) pace(d deadlines) {
	p.limit = &d
	d.read(UploadStall)
}

func (p *passing) paced(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.since += n; p.since >= UploadPace && p.limit != nil {
		p.since = 0
		p.limit.read(UploadStall)
	}
}

// endPace leaves the deadlines alone from now on.
func (p *passing) endPace() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit = nil
}

// revoke takes it back if nothing of it was read. Nil is none: it can.
func (p *passing) revoke() bool {
	return p == nil || p.state.CompareAndSwap(passingFresh, passingRevoked)
}

// failure is what reading from the client failed with.
func (p *passing) failure() error {
	if p == nil || p.err.Load() == nil {
		return nil
	}
	return *p.err.Load()
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
	for name, carrier := range repeats {
		delete(h, carrier) // only nodes say that
		if keys := h[name]; keys != nil {
			delete(h, name)
			h[carrier] = keys
		}
	}
	h["X-Request-Id"] = []string{f.x.requestID()}
	h[nodes.ForwardedFor] = []string{f.x.client(r)}
	h[forwardedProto] = []string{map[bool]string{true: "https", false: "http"}[f.x.secure(r)]}
	return &http.Request{Method: r.Method, URL: nodes.URL(leader, r.URL), Host: r.Host, Header: h, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
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
// leader's to save, and the headers are those of its middleware: what has been set
// here belongs to an answer that did not come about. ready is called before anything
// is sent. How long it may all take is the leader's to bound: here d is for each write.
func (x *exchange) relayed(resp *http.Response, begun []byte, d deadlines, ready func()) {
	x.session, x.global, x.ending = nil, nil, true
	nodes.DropHopByHop(resp.Header)
	h := x.w.Header()
	clear(h)
	maps.Copy(h, x.given)
	maps.Copy(h, resp.Header)
	ready()
	x.WriteHeader(resp.StatusCode)
	w := &pacedWriter{x, d}
	if _, err := w.Write(begun); err != nil {
		return
	}
	buf := make([]byte, 32<<10)
	streams := resp.ContentLength < 0
	for {
		n, err := resp.Body.Read(buf)
		if n > 0 {
			if _, gone := w.Write(buf[:n]); gone != nil {
				return
			}
			if streams {
				_ = w.FlushError() // events must not wait for more of them
			}
		}
		if err == io.EOF {
			for name, lines := range resp.Trailer {
				h[http.TrailerPrefix+name] = lines
			}
			return
		}
		if err != nil && x.app.streams.stopped() && strings.HasPrefix(h.Get("Content-Type"), eventType) {
			return
		}
		if err != nil {
			panic(http.ErrAbortHandler)
		}
	}
}
