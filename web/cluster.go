package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/forward"
	"github.com/skerrydb/skerry/web/relay"
)

// Bounds of requests that are passed on to the node that leads.
const (
	// NodeProtocol is the name of the protocol between nodes that carries them.
	NodeProtocol = "web/1"
	// PositionWait is how long a read waits for what its browser wrote on another
	// node; then it is engine.CodePositionTimeout.
	PositionWait = 5 * time.Second
	// MaxKeptBody is the longest body, in bytes, that is kept for a second
	// attempt. A longer one is streamed to one leader.
	MaxKeptBody = 64 << 10

	// positionLife is how long a browser keeps the position of its last write. A node that is further behind
	// does not serve local reads.
	positionLife = time.Minute
	// positionLookup bounds the lookup of the position after a write. It takes that long only if this node has
	// lost contact with the others meanwhile.
	positionLookup = time.Second
)

// errElsewhere means that another node has responded.
var errElsewhere = errors.New("web: another node has responded")

// errRefused is the response to a node that mistakes this one for the leader: nothing was begun.
var errRefused = fmt.Errorf("web: a request for the leader: %w", engine.ErrNotLeader)

// cluster is the part of an application that deals with other nodes. The leader serves requests that write.
// Requests that read see what their browser wrote there.
type cluster struct {
	router    forward.Router
	eng       engine.Engine
	transport *http.Transport
	behind    time.Duration // PositionWait
}

func newCluster(o Options) *cluster {
	return &cluster{
		router: forward.Router{Cluster: o.Cluster, Patience: forward.ElectionWait, Limit: forward.MaxForwards},
		eng:    o.Engine, behind: PositionWait, transport: relay.Transport(o.Cluster, cmp.Or(o.NodeProtocol, NodeProtocol)),
	}
}

func (l *cluster) close() { l.transport.CloseIdleConnections() }

// reads reports whether r is read-only, by its method.
func reads(r *http.Request) bool {
	return r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions
}

// before forwards a request that writes to the leader. A request that reads waits for what its browser wrote
// before.
func (l *cluster) before(x *exchange, r *http.Request) error {
	switch {
	case reads(r):
		return l.await(x, r)
	case l.router.Leads():
		x.wrote = true
		return nil
	case x.fromNode:
		return errRefused
	}
	err := l.atLeader(r.Context(), x)
	x.wrote = err == nil
	return err
}

// await waits for the position in the request's cookie.
func (l *cluster) await(x *exchange, r *http.Request) error {
	pos, err := strconv.ParseUint(cookieValue(r, x.positionCookie(r)), 10, 64)
	if err != nil {
		return nil // no position, or not one of ours
	}
	ctx, cancel := context.WithTimeout(r.Context(), l.behind)
	defer cancel()
	_, err = l.eng.View(ctx, engine.Read{Level: engine.Local, AtLeast: engine.Position(pos)}, func(engine.Tx) error { return nil })
	if errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, engine.ErrNotLeader) && r.Context().Err() == nil {
		// Clear the cookie: the position may belong to data that no longer exists.
		x.setPosition("", -1)
		return engine.Errorf(engine.CodePositionTimeout, "this node is behind what you wrote elsewhere by more than %v", l.behind)
	}
	return err
}

func (x *exchange) positionCookie(r *http.Request) string {
	if x.plain(r) {
		return x.app.cookie.plainPosition
	}
	return x.app.cookie.position
}

// after sends the browser the position of its last write, if the request may have written.
func (l *cluster) after(x *exchange) {
	if !x.wrote {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.r.Context()), positionLookup)
	defer cancel()
	// Linearizable: a local read can be older than what was just written.
	pos, err := l.eng.View(ctx, engine.Read{}, func(engine.Tx) error { return nil })
	if err != nil { // the write has succeeded: respond with that
		x.app.o.Logger.LogAttrs(x.r.Context(), slog.LevelWarn, "the position of a write is unknown", append(x.attrs(x.r), slog.Any("err", err))...)
		return
	}
	x.setPosition(strconv.FormatUint(uint64(pos), 10), int(positionLife/time.Second))
}

// setPosition sets the cookie with the position for maxAge seconds; -1 deletes it.
func (x *exchange) setPosition(pos string, maxAge int) {
	http.SetCookie(x.w, &http.Cookie{Name: x.positionCookie(x.r), Value: pos, Path: "/",
		MaxAge: maxAge, HttpOnly: true, Secure: !x.plain(x.r), SameSite: http.SameSiteLaxMode})
}

// again forwards a request to the leader that reads, by its method, but whose handler here failed with err
// because it tried to write. It returns errElsewhere once the leader has responded, and otherwise the error to
// respond with. It does not forward a request with a body, because the handler may have read from it.
func (l *cluster) again(x *exchange, r *http.Request, err error) error {
	if x.fromNode || x.status != 0 || !reads(x.r) || x.r.ContentLength != 0 { // over HTTP/2 there is always a Body
		return err
	}
	if other := l.atLeader(r.Context(), x); other != nil {
		return other
	}
	return err // this node has become the leader meanwhile; the client may retry
}

// untouched reports whether a node that has forwarded x may ask another one: nothing was begun, or it can be
// repeated because the method only reads.
func (x *exchange) untouched(err error) bool {
	return x.fromNode && (errors.Is(err, errRefused) || reads(x.r) && errors.Is(err, engine.ErrNotLeader))
}

// atLeader forwards x to the leader. It returns errElsewhere once the leader has responded, nil if this node
// has become the leader, and otherwise why it failed.
func (l *cluster) atLeader(ctx context.Context, x *exchange) error {
	p := &passing{cluster: l, x: x, ctx: ctx}
	return l.router.Do(ctx, &forward.Call{Begin: p.keepBody, Try: func(leader uint64, here bool) (forward.Outcome, error) {
		if here {
			p.giveBack()
			return forward.Answered, nil
		}
		return p.pass(leader)
	}})
}
