package web

import (
	"bufio"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"time"

	"github.com/skerrydb/skerry/session"
	"github.com/skerrydb/skerry/web/requestid"
)

// exchange is one request with its response. It is the ResponseWriter beneath all middleware of the
// application. observe takes it from a pool and returns it.
type exchange struct {
	app   *App
	w     http.ResponseWriter
	r     *http.Request // as received
	miss  missing
	route *route // nil: none was found, or not yet
	start time.Time
	id    string

	headers *headers   // those in force, nil: none
	nonce   string     // of the page; "" until one asks for it
	access  *accessLog // logs the request; nil: none does

	status   int   // 0: nothing was sent yet
	sent     int64 // bytes of body
	foreign  bool  // a page of another origin requests a change that CORS has not allowed yet
	ending   bool  // commit runs or has run
	answered bool  // an error was sent instead of the response of the handler
	fromNode bool  // another node forwarded the request
	wrote    bool  // the request may have written: the response has the position
	personal bool  // the response depends on the user: the session or the key was read

	unconfirmed bool // the session may have ended on another node: see Options.LocalSessions

	silent bool // a handler without a response was logged

	given http.Header // of the response, before the application added any
	kept  bool        // the exchange may still be in use: it must not be reused

	body    limitedBody
	held    int64  // bytes of the body in memory
	holder  Caller // who has those that count
	stream  bool   // ReserveStream has counted the stream of events
	form    formOnce
	temps   []*os.File       // removed after the response
	session *session.Session // nil: not loaded
	global  *session.Session // shared with other applications; nil: not loaded
	user    *User            // the logged-in user; nil: see known
	userOf  string           // the user id of the session when user was looked up; "": SetUser has set user
	key     *key             // the bearer token of the request; nil: none
	loaded  bool             // the request came with a session

	globalLoaded bool // the same for global
}

// errFailed is the error of writes after the request has failed.
var errFailed = errors.New("web: the request has failed already")

// of finds the exchange beneath whatever middleware has wrapped around it.
func of(w http.ResponseWriter) *exchange {
	for {
		switch v := w.(type) {
		case *exchange:
			return v
		case interface{ Unwrap() http.ResponseWriter }:
			w = v.Unwrap()
		default:
			panic(fmt.Sprintf("web: a handler was called outside an App, or middleware hides its ResponseWriter in a %T without an Unwrap method", w))
		}
	}
}

// observe is the outermost handler. It makes the exchange of a request, counts and logs the request, and turns
// a panic into a response.
func (a *App) observe(next http.Handler, fromNode bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := a.pool.Get().(*exchange)
		*x = exchange{app: a, w: w, r: r, start: time.Now(), fromNode: fromNode}
		a.metrics.inFlight.Add(1)
		clean := false
		defer func() {
			var p any
			if !clean {
				p = x.recovered(recover())
			}
			x.end(p != nil)
			x.dropTemps()
			x.release()
			if p != nil {
				panic(p) // closes the connection
			}
			if clean && !x.kept {
				a.pool.Put(x) // after a panic, something may still refer to it
			}
		}()
		if fromNode {
			arrived(r)
		}
		if h := w.Header(); a.cluster != nil && len(h) > 0 {
			x.given = h.Clone()
		}
		body := r.Body
		defer func() { r.Body = body }() // net/http checks whether it was read
		x.limitBody(r)
		a.headers.apply(x, r)
		if ids := r.Header["X-Request-Id"]; len(ids) == 1 && requestid.Good(ids[0]) {
			x.setRequestID(ids[0])
		} else if a.o.Logger.Enabled(r.Context(), slog.LevelDebug) {
			x.requestID() // the same in the response and the log
		}
		next.ServeHTTP(x, r)
		if x.status == 0 {
			x.WriteHeader(http.StatusOK) // commits
		} else if !x.answered {
			x.lostSession()
		}
		clean = true
	})
}

// recovered responds for a handler that panicked with p. It returns the value to panic with if the connection
// must be closed, or nil.
func (x *exchange) recovered(p any) (again any) {
	if p == http.ErrAbortHandler {
		return p
	}
	defer func() {
		if recover() != nil {
			again = http.ErrAbortHandler
		}
	}()
	if p == nil { // runtime.Goexit, as t.FailNow calls it
		p = "the handler's goroutine ended"
	}
	x.fail(x, x.r, newPanicError(p, debug.Stack()))
	return nil
}

// end counts and logs the request.
func (x *exchange) end(cut bool) {
	took := time.Since(x.start)
	x.app.metrics.end(x, took, cut)
	if x.access != nil {
		x.access.log(x, took, cut)
		return
	}
	if log := x.app.o.Logger; log.Enabled(x.r.Context(), slog.LevelDebug) {
		log.LogAttrs(x.r.Context(), slog.LevelDebug, "request", append(x.attrs(x.r),
			slog.Int("status", x.status), slog.Int64("bytes", x.sent), slog.Duration("took", took),
			slog.String("from", x.client(x.r)), slog.Bool("cut", cut))...)
	}
}

// attrs identify a request in the log. They have no headers and no query, which can contain secrets.
func (x *exchange) attrs(r *http.Request) []slog.Attr {
	return []slog.Attr{
		slog.String("request_id", x.requestID()),
		slog.String("method", r.Method),
		slog.String("path", x.loggedPath(r)),
	}
}

// Header implements http.ResponseWriter.
func (x *exchange) Header() http.Header { return x.w.Header() }

// WriteHeader implements http.ResponseWriter. Before the first byte of a response, it makes the request's
// changes to its session durable. If that fails, the error becomes the response, and what the handler writes is
// discarded.
func (x *exchange) WriteHeader(status int) {
	switch {
	case x.answered && !x.ending:
		return
	case status < 200:
		x.w.WriteHeader(status)
		return
	case x.status != 0:
		x.twice(status)
		return // net/http would only complain
	}
	if !x.ending {
		x.ending = true
		if err := x.commit(); err != nil {
			x.fail(x, x.r, err)
			x.ending, x.answered = false, true
			return
		}
	}
	x.status = status
	x.w.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (x *exchange) Write(p []byte) (int, error) {
	if x.status == 0 {
		x.WriteHeader(http.StatusOK)
	}
	if x.answered {
		return 0, errFailed
	}
	n, err := x.w.Write(p)
	x.sent += int64(n)
	return n, err
}

// FlushError is what http.ResponseController calls.
func (x *exchange) FlushError() error {
	if x.status == 0 {
		x.WriteHeader(http.StatusOK)
	}
	if x.answered {
		return errFailed
	}
	return http.NewResponseController(x.w).Flush()
}

// Flush implements http.Flusher, which older handlers look for.
func (x *exchange) Flush() { _ = x.FlushError() }

// Hijack implements http.Hijacker, also for http.ResponseController. It commits first. The response, which the
// caller then writes, counts as 101.
func (x *exchange) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if x.answered {
		return nil, nil, errFailed
	}
	if x.status == 0 {
		if err := x.commit(); err != nil {
			return nil, nil, err
		}
	}
	conn, rw, err := http.NewResponseController(x.w).Hijack()
	if err == nil && x.status == 0 {
		x.status = http.StatusSwitchingProtocols
	}
	return conn, rw, err
}

// Unwrap lets http.ResponseController find the connection.
func (x *exchange) Unwrap() http.ResponseWriter { return x.w }

// requestID returns the request's id, and creates it if there is none yet. The response then has it, too.
func (x *exchange) requestID() string {
	if x.id == "" {
		x.setRequestID(x.app.ids.Next())
	}
	return x.id
}

func (x *exchange) setRequestID(id string) {
	x.id = id
	if x.status == 0 {
		x.w.Header().Set("X-Request-Id", id)
	}
}

// before prepares a request for the handler of its route. It forwards requests that write to the leader, waits
// for what the browser wrote on other nodes, and loads the session.
func (x *exchange) before(r *http.Request) error {
	may := x.app.o.LocalSessions
	x.unconfirmed = may != nil && reads(r) && may(r)
	if x.app.cluster != nil && !x.route.local && !x.unconfirmed {
		if err := x.app.cluster.before(x, r); err != nil {
			return err
		}
	}
	if x.route.session && x.app.o.Sessions != nil {
		return x.loadSession(r)
	}
	return nil
}

// commit makes the request's changes to its sessions durable and sets the cookies for them.
func (x *exchange) commit() error {
	x.markPersonal()
	if x.key != nil {
		x.dropSession()
		return nil // no session to save, and no cookies; whoever checked the token has read as new a state as there is
	}
	if x.session != nil {
		if err := x.saveSession(); err != nil {
			return err
		}
	}
	if err := x.saveGlobal(); err != nil {
		return err
	}
	if x.app.cluster != nil {
		x.app.cluster.after(x)
	}
	return nil
}
