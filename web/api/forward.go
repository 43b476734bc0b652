package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/problem"
	"github.com/skerrydb/skerry/web/relay"
)

// Bounds of requests that are passed on to the leader.
const (
	// DefaultElectionWait is Options.ElectionWait if that is 0.
	DefaultElectionWait = 5 * time.Second
	// MaxKeyBreaks is how many connections to leaders may break after a request
	// with a key was sent; then it is not sent again, as it may be what broke them.
	MaxKeyBreaks = 2
	// MaxProblemBytes is the longest problem of the leader that is looked into.
	MaxProblemBytes = 64 << 10

	minPause, maxPause   = 10 * time.Millisecond, 250 * time.Millisecond
	forwardBuffer        = 32 << 10
	nodeProtocol         = "http/1.1"
	transportRepeatsThis = "X-Idempotency-Key"
)

// forwarder passes requests on to the node that leads.
type forwarder struct {
	cluster                   engine.Cluster
	transport                 *http.Transport
	wait                      time.Duration // Options.ElectionWait
	gate                      semaphore
	answered, refused, broken prometheus.Counter // attempts by result
}

func newForwarder(o Options, registry *prometheus.Registry) *forwarder {
	f := &forwarder{cluster: o.Cluster, wait: o.ElectionWait, gate: semaphore{max: relay.MaxForwards}}
	attempts := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: metricPrefix + "http_forwards_total",
		Help: "Attempts to have the leader answer a request, by result: answered, refused (it did not lead or could not be reached), broken (it may or may not have acted).",
	}, []string{"result"})
	registry.MustRegister(attempts)
	f.answered, f.refused, f.broken = attempts.WithLabelValues("answered"), attempts.WithLabelValues("refused"), attempts.WithLabelValues("broken")
	f.transport = relay.Transport(o.Cluster, nodeProtocol)
	return f
}

// pass has the leader answer r. It returns nil once x is answered,
// ErrNotLeader if the leader has certainly not acted on it, ErrOutcomeUnknown
// if it may have, and panics with http.ErrAbortHandler if the answer broke off.
func (f *forwarder) pass(x *exchange, r *http.Request, leader uint64) error {
	t := relay.NewAttempt(f.cluster, leader)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	resp, err := t.RoundTrip(ctx, cancel, f.transport, request(t, x, r, leader))
	defer func() { x.kept = x.kept || t.KeepsBody() }()
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
		defer time.AfterFunc(web.RequestTimeout, cancel).Stop()
	}
	x.relay(resp, begun)
	return nil
}

// failed says what it means that there is no answer.
func (f *forwarder) failed(x *exchange, r *http.Request, leader uint64, t *relay.Attempt, err error) error {
	if !t.MayHaveArrived() || x.reads(r) {
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
func request(t *relay.Attempt, x *exchange, r *http.Request, leader uint64) *http.Request {
	h := make(http.Header, len(r.Header)+2)
	maps.Copy(h, r.Header)
	relay.DropHopByHop(h)
	for _, name := range [...]string{"Authorization", "Expect", transportRepeatsThis} {
		delete(h, name)
	}
	if delete(h, procedureHeader); x.procedure != "" {
		h[procedureHeader] = []string{x.procedure}
	}
	if h["User-Agent"] == nil {
		h["User-Agent"] = []string{""} // or the transport names itself
	}
	if ids := x.Header()["X-Request-Id"]; ids != nil {
		h["X-Request-Id"] = ids
	} else {
		delete(h, "X-Request-Id") // it was refused here
	}
	// What the client said of itself comes first and cannot be relied on; the
	// last one is what this node saw.
	from, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		from = "unknown" // RFC 7239 section 6.2: a socket without an address
	}
	h[relay.ForwardedFor] = []string{strings.Join(append(slices.Clone(r.Header[relay.ForwardedFor]), from), ", ")}
	out := &http.Request{
		Method: r.Method,
		URL:    relay.URL(leader, r.URL),
		Host:   r.Host,
		Header: h,
		Proto:  "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	if x.gathered {
		t.SetBody(out, x.val)
	}
	return out
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
	relay.DropHopByHop(resp.Header)
	maps.Copy(h, resp.Header)
	for name := range trailers {
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
