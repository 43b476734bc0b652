package web

import (
	"cmp"
	"log/slog"
	"net/http"
	"time"
)

// Bounds of one connection, in force where NewServer made the server.
const (
	// MaxHeaderBytes bounds the request line and headers, and so the percent-encoded
	// key as well. net/http responds with 431 slightly above it.
	MaxHeaderBytes = 64 << 10
	// HeaderTimeout is how long the headers of a request may take to arrive.
	HeaderTimeout = 10 * time.Second
	// RequestTimeout is how long a whole request, and then its response, may take. It stops bodies that are sent
	// or read too slowly. Streams, files and backups have no limit as long as the client reads: see StreamStall.
	RequestTimeout = 2 * time.Minute
	// IdleTimeout is how long a connection may wait for its next request.
	IdleTimeout = 2 * time.Minute
	// MaxHTTP2Requests is how many concurrent requests one HTTP/2 connection may
	// have; the client delays any others.
	MaxHTTP2Requests = 100
)

// NewServer returns an http.Server for h with every bound set that net/http leaves open. net/http's errors of
// single connections go to log at debug level; nil discards them. The caller sets TLSConfig if it needs one.
func NewServer(h http.Handler, log *slog.Logger) *http.Server {
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: HeaderTimeout,
		ReadTimeout:       RequestTimeout,
		WriteTimeout:      RequestTimeout,
		IdleTimeout:       IdleTimeout,
		MaxHeaderBytes:    MaxHeaderBytes,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: MaxHTTP2Requests},
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// nodeSlack is the room for the headers that a node adds to a request that it forwards.
const nodeSlack = 4 << 10

// NewNodeServer is NewServer for a NodeHandler: headers of the longest length that a client may send also fit
// when another node forwards them.
func NewNodeServer(h http.Handler, log *slog.Logger) *http.Server {
	srv := NewServer(h, log)
	srv.MaxHeaderBytes += nodeSlack
	return srv
}
