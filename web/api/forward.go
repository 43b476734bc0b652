package api

import (
	"context"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/forward"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/problem"
	"github.com/skerrydb/skerry/web/relay"
)

const (
	forwardBuffer        = 32 << 10
	nodeProtocol         = "http/1.1"
	transportRepeatsThis = "X-Idempotency-Key"
)

// forwarder forwards requests to the leader.
type forwarder struct {
	router                    forward.Router
	transport                 *http.Transport
	answered, refused, broken atomic.Uint64 // attempts by result
}

func newForwarder(o Options) *forwarder {
	return &forwarder{
		router:    forward.Router{Cluster: o.Cluster, Patience: o.ElectionWait, Limit: forward.MaxForwards},
		transport: relay.Transport(o.Cluster, nodeProtocol),
	}
}

// metrics yields the attempts by result.
func (f *forwarder) metrics(yield func(engine.Metric) bool) {
	for i, n := range []*atomic.Uint64{&f.answered, &f.refused, &f.broken} {
		result := [...]string{"answered", "refused", "broken"}[i]
		if !yield(engine.Metric{Name: "http_forwards_total", Counter: true, Value: float64(n.Load()), Labels: []engine.Label{{Name: "result", Value: result}},
			Help: "Attempts to forward a request to the leader, by result: answered, refused (it did not lead or could not be reached), broken (it may or may not have acted)."}) {
			return
		}
	}
}

// pass makes the leader serve r. It panics with http.ErrAbortHandler if the response breaks off.
func (f *forwarder) pass(x *operation, r *http.Request, leader uint64) (forward.Outcome, error) {
	t := relay.NewAttempt(f.router.Cluster, leader)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	resp, err := t.RoundTrip(ctx, cancel, f.transport, request(t, x, r, leader))
	defer func() { x.kept = x.kept || t.KeepsBody() }()
	if err != nil {
		return f.failed(x, r, t, err)
	}
	defer resp.Body.Close()
	var begun []byte
	if resp.StatusCode >= 500 && resp.Header.Get("Content-Type") == problem.Type {
		var code engine.Code
		var detail string
		if begun, code, detail, err = relay.Problem(resp); err != nil { // nothing was sent to the client yet
			return f.failed(x, r, t, err)
		}
		said := engine.Errorf(code, "%s", detail)
		switch {
		case code == engine.CodeNotLeader:
			f.refused.Add(1)
			return forward.NotRun, said
		case code == engine.CodeOutcomeUnknown && x.forwarded.MayRepeat():
			f.broken.Add(1)
			return forward.MayHaveRun, said
		case x.forwarded.Remains(code):
			f.refused.Add(1)
			return forward.Answered, said
		}
	}
	f.answered.Add(1)
	if resp.ContentLength < 0 || resp.ContentLength > forwardBuffer {
		// The head has its own time limit; so does a body that may still be arriving.
		defer time.AfterFunc(web.RequestTimeout, cancel).Stop()
	}
	x.answerWith(resp, begun)
	return forward.Answered, nil
}

// failed returns the outcome of an attempt that got no response.
func (f *forwarder) failed(x *operation, r *http.Request, t *relay.Attempt, err error) (forward.Outcome, error) {
	outcome, err := t.Failed(x.reads(r), err)
	if outcome == forward.NotRun {
		f.refused.Add(1)
	} else {
		f.broken.Add(1)
		x.forwarded.Break()
	}
	return outcome, err
}

// request returns the request to the leader. The password was checked here.
func request(t *relay.Attempt, x *operation, r *http.Request, leader uint64) *http.Request {
	out := relay.Request(r, leader)
	h := out.Header
	for _, name := range [...]string{"Authorization", transportRepeatsThis, procedureHeader, "X-Request-Id"} {
		delete(h, name)
	}
	if x.procedure != "" {
		h[procedureHeader] = []string{x.procedure}
	}
	if ids := x.Header()["X-Request-Id"]; ids != nil { // otherwise it was refused here
		h["X-Request-Id"] = ids
	}
	// The client's own values come first and cannot be trusted; the last one is what this node saw.
	from, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		from = "unknown" // RFC 7239 section 6.2: a socket without an address
	}
	h[relay.ForwardedFor] = []string{strings.Join(append(slices.Clone(r.Header[relay.ForwardedFor]), from), ", ")}
	if x.gathered {
		t.SetBody(out, x.val)
	}
	return out
}

// answerWith responds with resp, of whose body begun has been read. If resp breaks off, so does the response.
func (x *operation) answerWith(resp *http.Response, begun []byte) {
	h := x.Header()
	relay.DropHopByHop(resp.Header)
	maps.Copy(h, resp.Header)
	for name := range resp.Trailer {
		h.Add("Trailer", name)
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
		if cap(x.text) < size {
			x.text = make([]byte, 0, size)
		}
		if relay.Stream(x, resp.Body, x.text[:size], nil) != nil {
			panic(http.ErrAbortHandler)
		}
	}
	maps.Copy(h, resp.Trailer)
}

// reads reports whether r is read-only.
func (x *operation) reads(r *http.Request) bool {
	return x.reading || r.Method == http.MethodGet || r.Method == http.MethodHead
}
