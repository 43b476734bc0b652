package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/engine"
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
	// positionLookup is how long a position is looked up for after a write. It takes
	// longer only if this node has lost the others meanwhile.
	positionLookup = time.Second
	// maxProblem is the longest problem of the leader that is looked into, in bytes.
	maxProblem = 64 << 10

	minPause, maxPause = 10 * time.Millisecond, 250 * time.Millisecond
)

// errRelayed says that another node has answered.
var errRelayed = errors.New("web: another node has answered")

// errRefused is the answer to a node that takes this one for the leader: nothing was
// begun.
var errRefused = fmt.Errorf("web: a request for the leader: %w", engine.ErrNotLeader)

// relay has requests that write answered by the node that leads.
type relay struct {
	cluster   engine.Cluster
	eng       engine.Engine
	transport *http.Transport
	patience  time.Duration // ElectionWait
	behind    time.Duration // PositionWait
	inside    atomic.Int32
}

func newRelay(o Options) *relay {
	return &relay{cluster: o.Cluster, eng: o.Engine, patience: ElectionWait, behind: PositionWait, transport: nodes.Transport(o.Cluster, NodeProtocol)}
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
func (l *relay) await(x *exchange, r *http.Request) error {
	pos, err := strconv.ParseUint(cookieValue(r, x.positionCookie(r)), 10, 64)
	if err != nil {
		return nil // none, or nothing that was ours
	}
	ctx, cancel := context.WithTimeout(r.Context(), l.behind)
	defer cancel()
	_, err = l.eng.View(ctx, engine.Read{Level: engine.Local, AtLeast: engine.Position(pos)}, func(engine.Tx) error { return nil })
	if errors.Is(err, context.DeadlineExceeded) && r.Context().Err() == nil {
		// It is not asked for again: the position can be that of data which is no more.
		x.tellPosition("", -1)
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

// after tells the browser up to where this node has written, if the request may
// have.
func (l *relay) after(x *exchange) {
	if !x.wrote {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.r.Context()), positionLookup)
	defer cancel()
	// Linearizable: what a local read sees can be older than what was just written.
	pos, err := l.eng.View(ctx, engine.Read{}, func(engine.Tx) error { return nil })
	if err != nil { // what was written is written: that is the answer
		x.app.o.Logger.LogAttrs(x.r.Context(), slog.LevelWarn, "the position of a write is not known", append(x.attrs(x.r), slog.Any("err", err))...)
		return
	}
	x.tellPosition(strconv.FormatUint(uint64(pos), 10), int(positionLife/time.Second))
}

// tellPosition sets the cookie with the position for a number of seconds; -1 takes
// it away.
func (x *exchange) tellPosition(pos string, maxAge int) {
	http.SetCookie(x.w, &http.Cookie{Name: x.positionCookie(x.r), Value: pos, Path: "/",
		MaxAge: maxAge, HttpOnly: true, Secure: !x.plain(x.r), SameSite: http.SameSiteLaxMode})
}

// again has the leader answer a request that reads, by its method, and that a
// handler here has failed with err as it tried to write. It returns errRelayed once
// that is done, and otherwise what the answer is. A request with a body is not
// passed on: the handler may have read from it.
func (l *relay) again(x *exchange, r *http.Request, err error) error {
	if x.fromNode || x.status != 0 || !reads(x.r) || x.r.ContentLength != 0 { // over HTTP/2 there is always a Body
		return err
	}
	if other := l.atLeader(r.Context(), x); other != nil {
		return other
	}
	return err // this node has come to lead meanwhile; the client may try again
}

// untouched reports whether a node that has passed x on may ask another one: nothing
// was begun, or it can be begun again as its method only reads.
func (x *exchange) untouched(err error) bool {
	return x.fromNode && (errors.Is(err, errRefused) || reads(x.r) && errors.Is(err, engine.ErrNotLeader))
}

// atLeader has x answered by whoever leads, and returns errRelayed once it is, nil
// if this node has come to lead, and otherwise why not.
func (l *relay) atLeader(ctx context.Context, x *exchange) error {
	if l.inside.Add(1) > nodes.MaxForwards {
		l.inside.Add(-1)
		return engine.Errorf(engine.CodeQueueFull, "%d requests for the leader are being answered already", nodes.MaxForwards)
	}
	defer l.inside.Add(-1)
	f := &forward{relay: l, x: x, ctx: ctx}
	if err := f.keepBody(); err != nil {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, l.patience)
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
			if gone := ctx.Err(); gone != nil {
				return gone
			}
			return engine.Errorf(engine.CodeNotLeader, "no node led for %v; nothing was written", l.patience)
		}
	}
}
