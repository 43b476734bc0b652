package skerry

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/feed"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/resp"
	"github.com/skerrydb/skerry/web"
)

// Where the faces listen if Options says nothing.
const (
	DefaultHTTP = "127.0.0.1:7001"
	DefaultRESP = "127.0.0.1:6380"
)

// Off as an address means that the face is not wanted.
const Off = "off"

// DefaultGrace is how long requests in flight have to end at a clean stop.
const DefaultGrace = 10 * time.Second

// Options of a Server. The zero value serves both faces on loopback without a
// password.
type Options struct {
	// HTTP and RESP are the addresses of the faces, HOST:PORT; port 0 takes a
	// free one. "" is DefaultHTTP and DefaultRESP, Off leaves the face out.
	HTTP, RESP string

	// HTTPListener and RESPListener, if set, are used instead of making
	// listeners. The Server closes them, also when Open fails.
	HTTPListener, RESPListener net.Listener

	// Password, if not empty, is asked of every client on both faces.
	Password string

	// Hosts are further names under which HTTP may be asked while there is no
	// password; see web.Options.Hosts.
	Hosts []string

	// TLS, if set, is used on both faces.
	TLS *tls.Config

	// Grace is how long requests in flight have to end when Run stops; what
	// still runs is then cut off. 0 is DefaultGrace.
	Grace time.Duration

	// Build is the version of this program, which clients may ask for.
	Build string

	// Logger gets what an operator should know; nil discards it.
	Logger *slog.Logger
}

// Server is the capabilities and faces on one engine.
type Server struct {
	eng     engine.Engine
	o       Options
	flow    []part // what the faces stand on: starts first, ends last
	faces   []part
	http    net.Listener
	resp    net.Listener
	serving atomic.Bool

	started atomic.Bool
	quit    chan struct{} // closed by Close
	over    chan struct{} // closed when Run has returned, or will never run
	once    sync.Once
}

// part is something that runs until its context ends. An error before that stops
// the server.
type part struct {
	name string
	run  func(ctx context.Context) error
}

// Open assembles a server on eng, which stays the caller's to close, after Run
// has returned. It fails with engine.ErrUnsupported, naming what is missing, if
// eng does not promise what a capability needs. The listeners are open when Open
// returns, but nothing is answered before Run.
func Open(eng engine.Engine, o Options) (*Server, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{eng: eng, o: o, http: o.HTTPListener, resp: o.RESPListener,
		quit: make(chan struct{}), over: make(chan struct{})}
	err := s.assemble()
	if err != nil {
		s.closeListeners()
		return nil, err
	}
	return s, nil
}

func (s *Server) assemble() (err error) {
	if s.o.Grace < 0 {
		return engine.Errorf(engine.CodeInvalid, "skerry: Grace is %v, must not be negative", s.o.Grace)
	}
	s.o.Grace = cmp.Or(s.o.Grace, DefaultGrace)
	store, err := kv.New(s.eng, kv.Options{})
	if err != nil {
		return err
	}
	changes, err := feed.New(s.eng, feed.Options{})
	if err != nil {
		return err
	}
	if s.http, err = listen("HTTP", s.http, cmp.Or(s.o.HTTP, DefaultHTTP)); err != nil {
		return err
	}
	if s.resp, err = listen("RESP", s.resp, cmp.Or(s.o.RESP, DefaultRESP)); err != nil {
		return err
	}
	s.flow = []part{{"feed", changes.Run}, {"expiry", store.Run}}
	if s.resp != nil {
		meter, _ := s.eng.(engine.Meter)
		face, err := resp.New(store, changes, resp.Options{
			Password: s.o.Password, TLS: s.o.TLS, Meter: meter, Durable: s.eng.Promises().Durable,
			Build: s.o.Build, Logger: s.o.Logger,
		})
		if err != nil {
			return err
		}
		s.faces = append(s.faces, part{"resp", func(ctx context.Context) error {
			defer face.Close()
			return face.Serve(ctx, s.resp)
		}})
	}
	if s.http != nil {
		face := s.newHTTP(store)
		s.faces = append(s.faces, part{"http", func(ctx context.Context) error { return s.serveHTTP(ctx, face) }})
	}
	return nil
}

func listen(face string, given net.Listener, addr string) (net.Listener, error) {
	if given != nil {
		return given, nil
	}
	if addr == Off {
		return nil, nil
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", face, err)
	}
	return l, nil
}

func (s *Server) newHTTP(store *kv.Store) *http.Server {
	o := web.Options{Password: s.o.Password, Hosts: s.o.Hosts, Logger: s.o.Logger, Ready: s.Ready}
	if m, ok := s.eng.(engine.Meter); ok {
		o.Metrics = m.Metrics
	}
	if b, ok := s.eng.(backuper); ok {
		o.Backup = b.Backup
	}
	srv := web.NewServer(web.New(store, o), s.o.Logger)
	srv.TLSConfig = s.o.TLS
	return srv
}

// backuper is satisfied by engines that can write all their data while they run.
type backuper interface {
	Backup(ctx context.Context, w io.Writer) (engine.Position, error)
}

// stopper is satisfied by engines that stop by themselves when they can no
// longer keep their promises. Err says why, and nil before.
type stopper interface {
	Stopped() <-chan struct{}
	Err() error
}

// serveHTTP serves until ctx ends, and then gives requests in flight their time.
func (s *Server) serveHTTP(ctx context.Context, srv *http.Server) error {
	failed := make(chan error, 1)
	go func() {
		if s.o.TLS != nil {
			failed <- srv.ServeTLS(s.http, "", "")
		} else {
			failed <- srv.Serve(s.http)
		}
	}()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.o.Grace)
	defer cancel()
	if err := srv.Shutdown(grace); err != nil {
		s.o.Logger.Warn("requests were cut off at the end of the grace period", "grace", s.o.Grace)
		srv.Close()
	}
	<-failed //nolint:errcheck // it says only that the server is closed
	return nil
}

// Run serves until ctx ends or Close is called, and returns nil after a clean
// stop: the faces stop first and their requests end, then what they stand on. It
// returns an error if a part or the engine stopped by itself. It can be called
// once.
func (s *Server) Run(ctx context.Context) error {
	if s.started.Swap(true) {
		return engine.Errorf(engine.CodeClosed, "skerry: the server has run already or is closed")
	}
	defer close(s.over)
	defer s.closeListeners()
	failed := make(chan error, len(s.flow)+len(s.faces))
	stopFlow := s.start(s.flow, failed)
	stopFaces := s.start(s.faces, failed)
	var stopped <-chan struct{}
	if e, ok := s.eng.(stopper); ok {
		stopped = e.Stopped()
	}
	s.serving.Store(true)
	var err error
	select {
	case <-ctx.Done():
	case <-s.quit:
	case <-stopped:
		err = fmt.Errorf("the engine stopped: %w", s.eng.(stopper).Err())
	case err = <-failed:
	}
	s.serving.Store(false)
	s.o.Logger.Info("stopping; requests in flight are answered first")
	stopFaces()
	stopFlow()
	return err
}

// start runs parts in the background, sends to failed what ends by itself, and
// returns a function that stops them all at once and waits for their end.
func (s *Server) start(parts []part, failed chan<- error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, p := range parts {
		running.Go(func() {
			err := p.run(ctx)
			switch {
			case ctx.Err() == nil && err == nil:
				failed <- fmt.Errorf("%s stopped, for no reason that it told", p.name)
			case ctx.Err() == nil:
				failed <- fmt.Errorf("%s stopped: %w", p.name, err)
			case err != nil && !errors.Is(err, context.Canceled):
				s.o.Logger.Warn("a part did not stop cleanly", "part", p.name, "err", err)
			}
		})
	}
	return func() { cancel(); running.Wait() }
}

// Ready returns nil while requests are answered: after Run has begun, before it
// stops, and only as long as the engine has not stopped by itself.
func (s *Server) Ready() error {
	if !s.serving.Load() {
		return engine.ErrClosed
	}
	if e, ok := s.eng.(stopper); ok {
		return e.Err()
	}
	return nil
}

// HTTPURL returns where the HTTP face is, or "" if there is none.
func (s *Server) HTTPURL() string { return s.url(s.http, "http", "https") }

// RESPURL returns where the Redis protocol is, or "" if there is none.
func (s *Server) RESPURL() string { return s.url(s.resp, "redis", "rediss") }

func (s *Server) url(l net.Listener, plain, secure string) string {
	if l == nil {
		return ""
	}
	if s.o.TLS != nil {
		plain = secure
	}
	return plain + "://" + l.Addr().String()
}

// Close stops Run, waits until it has returned, and closes the listeners. It may
// be called more than once, and whether Run was called or not.
func (s *Server) Close() error {
	s.once.Do(func() {
		close(s.quit)
		if !s.started.Swap(true) {
			s.closeListeners()
			close(s.over)
		}
	})
	<-s.over
	return nil
}

func (s *Server) closeListeners() {
	for _, l := range []net.Listener{s.http, s.resp} {
		if l != nil {
			l.Close() // a second close of a listener does nothing
		}
	}
}
