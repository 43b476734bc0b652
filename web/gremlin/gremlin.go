// Package gremlin serves Gremlin drivers: over WebSocket as Gremlin Server 3.8
// does, and over plain HTTP as it and TinkerPop 4 do.
//
// It knows connections, requests, sessions, batches and status codes. It must not
// know what a traversal does, where graphs are stored, or how passwords are
// checked.
package gremlin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/forward"
	lang "github.com/skerrydb/skerry/graph/gremlin"
	"github.com/skerrydb/skerry/graph/value"
)

// Backend runs traversals.
type Backend interface {
	// Submit runs one traversal in a transaction of its own and calls yield for each
	// result, with how often it occurs, which is at least 1. It returns an error of
	// yield as it is, or wrapped, and does not commit then. The client sees the text
	// of an *Error only. Submit ends soon after ctx is done. An error that is
	// engine.ErrNotLeader says that the traversal writes, that this node does not lead,
	// and that nothing was done: the leader is asked then.
	Submit(ctx context.Context, r Request, yield func(val any, bulk int64) error) error
	// Begin opens a transaction that lasts over several requests. ctx is done when
	// the transaction must end.
	Begin(ctx context.Context, r Request) (Session, error)
}

// Session is a transaction of several requests. Calls follow each other. Commit
// or Rollback is the last one, whatever they return.
type Session interface {
	// Submit is as Backend's, in the session's transaction. After an error the
	// session decides whether it can go on.
	Submit(ctx context.Context, r Request, yield func(val any, bulk int64) error) error
	// Commit makes what the session did durable.
	Commit(ctx context.Context) error
	// Rollback drops what the session did.
	Rollback(ctx context.Context) error
}

// Request is what a Backend is asked for.
type Request struct {
	Source    string          // the name of the graph's source at the server, such as g
	Traversal *lang.Traversal // nil for Begin
	User      string          // as Authenticate named it; "" if nobody asked
	// End and N are what the end of a text asks for, as in lang.Query; bytecode has
	// no end: "" and -1.
	End string
	N   int64
	// References is whether elements are wanted without their properties.
	References bool
}

// Statuses of responses. Do not change them.
const (
	StatusOK            = 200
	StatusNoContent     = 204
	StatusPartial       = 206
	StatusUnauthorized  = 401
	StatusChallenge     = 407
	StatusTooMany       = 429
	StatusMalformed     = 498
	StatusInvalid       = 499
	StatusInternal      = 500
	StatusEvaluation    = 597
	StatusTimeout       = 598
	StatusSerialization = 599
)

// Error is a failure whose text is for the client.
type Error struct {
	Status     int // one of the statuses above
	Msg        string
	Attributes *value.Map // of the status, for drivers; may be nil
	Err        error      // the cause, which the client does not see; may be nil
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Error implements error.
func (e *Error) Error() string { return e.Msg }

func errorf(status int, format string, args ...any) *Error {
	return &Error{Status: status, Msg: fmt.Sprintf(format, args...)}
}

// Bounds of responses and logins. Clients cannot change them.
const (
	// DefaultBatch is how many results a response has if the request does not say it.
	DefaultBatch = 64
	// MaxBatch is how many results a response may have.
	MaxBatch = 10_000
	// MaxBatchBytes is the size of results at which a response is sent before it has
	// as many as the request says.
	MaxBatchBytes = 1 << 20
	// MaxLogins is how many wrong passwords close a connection.
	MaxLogins = 3
	// MaxSessionID is the longest name of a session in bytes.
	MaxSessionID = 256
	// MaxStrangerBytes is the size of a message, and of all that wait, before the
	// login.
	MaxStrangerBytes = 256 << 10
	// loginTimeout is how long a client has to log in.
	loginTimeout = 30 * time.Second
	// rollbackTimeout is how long the rollback of a session may take whose connection
	// has ended.
	rollbackTimeout = 10 * time.Second
	// beginTimeout is how long the leader may take to begin a transaction.
	beginTimeout = 30 * time.Second
	// authTimeout is how long checking a password may take.
	authTimeout = 30 * time.Second
)

// Login is who a client says that it is.
type Login struct {
	User, Password string
	From           string // the client's address, as of http.Request.RemoteAddr
}

// Options are what a Handler needs. Zero values mean the defaults in
// parentheses.
type Options struct {
	Backend Backend
	// Authenticate returns the name of the user with a password. Its context has the
	// values of the connection's first request. Any error refuses
	// them; its text is for the log. Nil lets everyone in.
	Authenticate func(ctx context.Context, l Login) (name string, err error)
	Log          *slog.Logger // (slog.Default())
	// Origins are patterns of the hosts whose web pages may connect, besides the
	// server's own host, as in websocket.AcceptOptions.OriginPatterns.
	Origins []string
	// Cluster, if not nil, is the cluster that this node is in. What writes goes to its
	// leader, where ServeNode serves it.
	Cluster engine.Cluster

	ElectionWait    time.Duration // for a leader (forward.ElectionWait)
	Upstreams       int           // requests at a time that are passed on to the leader, besides sessions; more wait (128)
	MaxConnections  int           // connections and HTTP requests at a time (1000)
	MaxMessageBytes int64         // the size of a request (10 MiB)
	MaxRunning      int           // requests of one connection that run at a time (16)
	MaxWaiting      int           // requests of one connection that run or wait (1024); their messages have at most twice MaxMessageBytes
	MaxSessions     int           // sessions in all (256)
	SessionsEach    int           // sessions of one connection (16); transactions over HTTP have no connection
	Timeout         time.Duration // of a request that has none (30 s)
	MaxTimeout      time.Duration // that a request may ask for; longer ones are cut (10 min)
	WriteTimeout    time.Duration // after which a client that does not read is disconnected (1 min)
	IdleTimeout     time.Duration // after which a connection without requests is closed (1 h)
	PingEvery       time.Duration // between pings, and the time for the answer (30 s)
	SessionIdle     time.Duration // after which a session without requests is rolled back (2 min)
	SessionLife     time.Duration // after which the transaction of a session is rolled back (10 min)
}

// complete returns the options with their defaults.
func (o Options) complete() (Options, error) {
	if o.Backend == nil {
		return o, errors.New("serve gremlin: Options.Backend is nil")
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	for _, n := range []struct {
		at        *int
		otherwise int
	}{{&o.MaxConnections, 1000}, {&o.MaxRunning, 16}, {&o.MaxWaiting, 1024}, {&o.MaxSessions, 256}, {&o.SessionsEach, 16}, {&o.Upstreams, 128}} {
		if *n.at < 0 {
			return o, fmt.Errorf("serve gremlin: a bound of %d is negative", *n.at)
		}
		if *n.at == 0 {
			*n.at = n.otherwise
		}
	}
	for _, d := range []struct {
		at        *time.Duration
		otherwise time.Duration
	}{
		{&o.Timeout, 30 * time.Second}, {&o.MaxTimeout, 10 * time.Minute}, {&o.WriteTimeout, time.Minute},
		{&o.IdleTimeout, time.Hour}, {&o.PingEvery, 30 * time.Second}, {&o.SessionIdle, 2 * time.Minute},
		{&o.SessionLife, 10 * time.Minute}, {&o.ElectionWait, forward.ElectionWait},
	} {
		if *d.at < 0 {
			return o, fmt.Errorf("serve gremlin: a time limit of %v is negative", *d.at)
		}
		if *d.at == 0 {
			*d.at = d.otherwise
		}
	}
	if o.MaxMessageBytes < 0 {
		return o, fmt.Errorf("serve gremlin: MaxMessageBytes of %d is negative", o.MaxMessageBytes)
	}
	if o.MaxMessageBytes == 0 {
		o.MaxMessageBytes = 10 << 20
	}
	o.Timeout = min(o.Timeout, o.MaxTimeout)
	return o, nil
}
