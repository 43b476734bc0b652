package skerry

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/backups"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/gate"
	"github.com/skerrydb/skerry/proc"
	"github.com/skerrydb/skerry/resp"
	"github.com/skerrydb/skerry/series"
	"github.com/skerrydb/skerry/web/admin"
	"github.com/skerrydb/skerry/web/api"
)

// Default addresses of the faces.
const (
	DefaultHTTP = "127.0.0.1:7001"
	DefaultRESP = "127.0.0.1:6380"
)

// How many databases clients of the Redis protocol can select: see Options.Databases.
const (
	DefaultDatabases = resp.DefaultDatabases
	MaxDatabases     = resp.MaxDatabases // databases that clients can select, at most
)

// Off as an address turns the listener off.
const Off = "off"

// AdminPageOnHTTP as Options.AdminPage serves the admin page also beside the application.
const AdminPageOnHTTP = "http"

// DefaultGrace is how long requests in flight have to end at a clean stop.
const DefaultGrace = 10 * time.Second

// Options of a Server. The zero value serves both faces on loopback without a
// password.
type Options struct {
	// HTTP and RESP are the addresses of the faces, HOST:PORT; port 0 takes a
	// free one. "" is DefaultHTTP and DefaultRESP, Off leaves the face out.
	HTTP, RESP string

	// Admin is the address of keys, procedures, metrics, backups and profiles, for operators. "" is
	// DefaultAdmin if there is an application, and otherwise Off: HTTP then serves all of these except
	// profiles.
	Admin string

	// Gremlin is the address for Gremlin drivers, which find the graphs at /gremlin; see DefaultGremlin. "" is Off.
	Gremlin string

	// Databases is how many databases clients of the Redis protocol can select, from DefaultDatabases to
	// MaxDatabases; 0 is DefaultDatabases. Database n is key space n of kv. A number above the default opens
	// the key spaces of the application and its procedures to every such client.
	Databases int

	// HTTPListener, RESPListener, AdminListener and GremlinListener, if set, are used instead of opening listeners.
	// The Server closes them, even when Open fails.
	HTTPListener, RESPListener, AdminListener, GremlinListener net.Listener

	// Web describes the application that HTTP serves.
	Web Web

	// Procedures are the stored procedures that clients can call; see package proc.
	Procedures []proc.Procedure

	// Series are the collections of time series that the server has, besides those of the application; see package
	// series.
	Series []series.Collection

	// OperatorRoutes returns more routes for those who know the password, such as PromQL's: see package
	// web/prometheus.
	OperatorRoutes func(s *Services) []api.Route

	// AdminPage says where the admin page is served, under the path /admin: "" on Admin, or, if there is neither that nor an
	// application, on HTTP; AdminPageOnHTTP there and also beside the application; Off nowhere.
	AdminPage string

	// AdminHashing is the cost of the password hashes of the admin page's administrators; the zero value is auth's.
	AdminHashing auth.Params

	// AdminLink, if not nil, is called with the URL where the first administrator of the admin page can be set up, if there is
	// none when this server begins to lead.
	AdminLink func(url string)

	// Settings are the program's settings in effect, which the admin page shows. They must not contain secrets.
	Settings []Setting

	// Backups is the folder of this server's backups, and Archive its archive, with which people work on the admin page. Nil: there
	// is none. The caller closes the folder after Run.
	Backups *backups.Folder
	Archive *Archive

	// RecentLog keeps the newest lines of the log for the admin page. Nil: the server keeps those of Logger.
	RecentLog *RecentLog

	// Password, if not empty, is required of every client on both faces.
	Password string

	// Connections bounds the connections of the listeners. A field that is 0 gets the value that ConnectionsFor
	// computes for this process.
	Connections Connections

	// InputBytes bounds the memory that commands of Redis clients take before they run; see
	// resp.Options.MaxInputBytes. 0 is resp.DefaultMaxInputBytes.
	InputBytes int64

	// Hosts are additional host names that HTTP accepts while there is no password; see api.Options.Hosts.
	Hosts []string

	// TLS, if set, is used on both faces.
	TLS *tls.Config

	// Certificates, if it names domains, orders certificates for HTTP, which then becomes HTTPS.
	Certificates Certificates

	// NoLane sends all HTTP requests through net/http: see package web/lane. Responses are the same.
	NoLane bool

	// Grace is how long requests in flight have to end when Run stops. Requests that still run then are cut
	// off. 0 is DefaultGrace.
	Grace time.Duration

	// Drain is how long a stopping server reports that it is not ready while it still accepts requests: the
	// time that load balancers need to notice.
	Drain time.Duration

	// AdvertiseHost is the host name or IP address by which other machines reach the faces. The nodes of a
	// cluster give it to clients. "" is the host of the listener, or, if that is unspecified, the host of the
	// port between nodes.
	AdvertiseHost string

	// Build is the version of this program, which clients may ask for.
	Build string

	// Dir is the data folder, and MachineMemory is the memory of the machine in bytes. Redis clients may ask
	// for both; empty and 0 are not reported.
	Dir           string
	MachineMemory int64

	// Metrics yields metrics for /metrics in addition to those of the engine and the faces; it may be nil.
	Metrics func() iter.Seq[engine.Metric]

	// Logger receives what an operator should know; nil discards it.
	Logger *slog.Logger
}

// Setting is a setting of a program in effect, for people.
type Setting = admin.Setting

// Archive is what people can do with the archive of a server.
type Archive = admin.Archive

// RecentLog keeps the newest lines of a log. The zero value is empty.
type RecentLog = admin.RecentLog

// Server is the capabilities and faces on one engine.
type Server struct {
	eng      engine.Engine
	cluster  engine.Cluster // nil: the engine runs alone
	o        Options
	flow     []part // what the faces depend on, and each on those before it: starts first, ends last
	nodes    []part // serve what other nodes forward to this one
	faces    []part
	ends     []func() // called when faces and nodes have ended
	http     net.Listener
	resp     net.Listener
	admin    net.Listener
	gremlin  net.Listener
	plain    net.Listener // for the CA; see Certificates
	ordered  *tls.Config  // with the certificates from the CA; nil: none are ordered
	services *Services
	errors   [][]engine.Meaning               // of all capabilities
	routes   []api.Route                      // likewise
	commands []resp.Command                   // likewise
	meters   []func() iter.Seq[engine.Metric] // metrics for /metrics besides the HTTP face's own
	page     *admin.Admin                     // nil: it is not served
	scrape   func() iter.Seq[engine.Metric]   // all that /metrics shows of Skerry, for the admin page
	faults   *admin.Faults                    // of the application; nil: there is none
	guesses  *gate.Guesses                    // wrong passwords, on all listeners
	doors    []door                           // the HTTP listeners
	serving  atomic.Bool

	started atomic.Bool
	quit    chan struct{} // closed by Close
	over    chan struct{} // closed when Run has returned, or will never run
	once    sync.Once
}

// part is something that runs until its context ends. If it returns an error before that, the server stops.
type part struct {
	name string
	run  func(ctx context.Context) error
}

// Open assembles a server on eng. The caller closes eng, after Run has returned. Open fails with
// engine.ErrUnsupported, naming what is missing, if eng does not promise what a capability needs. The
// listeners are open when Open returns, but no request is served before Run.
func Open(eng engine.Engine, o Options) (*Server, error) {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.RecentLog == nil {
		o.RecentLog = &RecentLog{}
		o.Logger = slog.New(o.RecentLog.Handler(o.Logger.Handler()))
	}
	s := &Server{eng: eng, cluster: clusterOf(eng), o: o, http: o.HTTPListener, resp: o.RESPListener, admin: o.AdminListener, gremlin: o.GremlinListener, plain: o.Certificates.HTTPListener,
		quit: make(chan struct{}), over: make(chan struct{})}
	err := s.assemble()
	if err != nil {
		s.closeListeners()
		return nil, err
	}
	return s, nil
}

func (s *Server) assemble() (err error) {
	if s.o.AdminPage != "" && s.o.AdminPage != AdminPageOnHTTP && s.o.AdminPage != Off {
		return engine.Errorf(engine.CodeInvalid, "skerry: AdminPage is %q, must be %q, %q or empty", s.o.AdminPage, AdminPageOnHTTP, Off)
	}
	if s.o.Grace < 0 {
		return engine.Errorf(engine.CodeInvalid, "skerry: Grace is %v, must not be negative", s.o.Grace)
	}
	s.o.Grace = cmp.Or(s.o.Grace, DefaultGrace)
	if err := s.limitConnections(); err != nil {
		return err
	}
	s.guesses = gate.NewGuesses(s.o.Logger, nil)
	if s.http, err = listen(FaceHTTP, s.http, cmp.Or(s.o.HTTP, DefaultHTTP)); err != nil {
		return err
	}
	if s.resp, err = listen(FaceRESP, s.resp, cmp.Or(s.o.RESP, DefaultRESP)); err != nil {
		return err
	}
	if s.admin, err = listen(FaceAdmin, s.admin, cmp.Or(s.o.Admin, s.defaultAdmin())); err != nil {
		return err
	}
	if s.gremlin, err = listen(FaceGremlin, s.gremlin, cmp.Or(s.o.Gremlin, Off)); err != nil {
		return err
	}
	if err := s.openCapabilities(); err != nil {
		return err
	}
	redis, err := s.newRESP()
	if err != nil {
		return err
	}
	application, err := s.newApplication()
	if err != nil {
		return err
	}
	page, err := s.newAdminPage(redis)
	if err != nil {
		return err
	}
	s.serveApplication(application, page)
	face := s.newHTTP(redis, page)
	if s.cluster == nil {
		return nil
	}
	s.serveNodes(redis, face)
	return s.advertise()
}

// newRESP adds the face for Redis clients. Without a listener it serves only the other nodes of a cluster, and the console of the admin
// page.
func (s *Server) newRESP() (*resp.Server, error) {
	if s.resp == nil && s.cluster == nil && !s.hasAdminPage() {
		return nil, nil
	}
	meter, _ := s.eng.(engine.Meter)
	face, err := resp.New(s.services.KV, s.services.Feed, resp.Options{
		Procedures: s.services.Procedures, Commands: s.commands, Password: s.o.Password, Databases: s.o.Databases, TLS: s.o.TLS, Cluster: s.cluster, Meter: meter, Durable: s.eng.Promises().Durable,
		MaxClients: s.o.Connections.RESP, Upstreams: s.o.Connections.Upstreams, MaxInputBytes: s.o.InputBytes, Guesses: s.guesses, Errors: s.errors,
		Build: s.o.Build, Dir: s.o.Dir, MachineMemory: s.o.MachineMemory, Logger: s.o.Logger,
	})
	if err != nil {
		return nil, err
	}
	s.ends = append(s.ends, face.Close)
	if s.resp != nil {
		s.faces = append(s.faces, part{"resp", func(ctx context.Context) error { return face.Serve(ctx, s.resp) }})
	}
	return face, nil
}

// Names of listeners in a ListenError.
const (
	FaceHTTP      = "HTTP"
	FaceRESP      = "RESP"
	FaceAdmin     = "admin"
	FaceGremlin   = "Gremlin"
	FacePlainHTTP = "plain HTTP"
)

// ListenError is returned by Open if it cannot listen at an address of Options.
type ListenError struct {
	Face string // which address: FaceHTTP and so on
	Err  error
}

func (e *ListenError) Error() string { return e.Face + ": " + e.Err.Error() }

// Unwrap returns the network error.
func (e *ListenError) Unwrap() error { return e.Err }

func listen(face string, given net.Listener, addr string) (net.Listener, error) {
	if given != nil {
		return given, nil
	}
	if addr == Off {
		return nil, nil
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, &ListenError{face, err}
	}
	return l, nil
}

// newHTTP adds the face for keys and procedures over HTTP in the same way. If there is an application, this
// face is on the admin listener only.
func (s *Server) newHTTP(redis *resp.Server, page *admin.Admin) *api.Face {
	s.scrape = s.allMetrics(redis)
	public := s.http
	if s.o.Web.Application != nil {
		public = nil
	}
	if public == nil && s.admin == nil && s.cluster == nil {
		return nil
	}
	o := api.Options{Procedures: s.services.Procedures, Users: s.services.Users, Records: s.services.Records, Password: s.o.Password, Hosts: s.o.Hosts, Cluster: s.cluster, Logger: s.o.Logger, Ready: s.Ready, Errors: s.errors, Routes: s.routes, Profiles: s.admin != nil, Guesses: s.guesses}
	o.Metrics = s.scrape
	if b, ok := s.eng.(engine.Backuper); ok {
		o.Backup = b.Backup
	}
	face := api.New(s.services.KV, o)
	s.scrape = func() iter.Seq[engine.Metric] {
		return all([]func() iter.Seq[engine.Metric]{o.Metrics, face.RequestMetrics})
	}
	s.ends = append(s.ends, face.Close)
	if s.admin != nil {
		s.addFace("admin", s.admin, beside(face.AdminHandler(), page))
		page = nil
	}
	s.addFace("http", public, beside(face, page))
	return face
}

// allMetrics returns the metrics of everything but the operator's port.
func (s *Server) allMetrics(redis *resp.Server) func() iter.Seq[engine.Metric] {
	meters := []func() iter.Seq[engine.Metric]{s.o.Metrics, s.connectionMetrics}
	if m, ok := s.eng.(engine.Meter); ok {
		meters = append(meters, m.Metrics)
	}
	if redis != nil && (s.resp != nil || s.cluster != nil) {
		meters = append(meters, redis.Metrics)
	}
	return func() iter.Seq[engine.Metric] { return all(append(slices.Clip(meters), s.meters...)) }
}

// defaultAdmin returns the default address of the admin listener.
func (s *Server) defaultAdmin() string {
	if s.o.Web.Application != nil {
		return DefaultAdmin
	}
	return Off
}

// Run serves until ctx ends or Close is called, and returns nil after a clean stop. Run stops in this order:
// background work of the application ends, a leader hands over leadership, the faces stop and their requests
// end, then what they depend on ends. Run returns an error if an OnStart function failed, or if a part or the
// engine stopped unexpectedly. It can be called once.
func (s *Server) Run(ctx context.Context) error {
	if s.started.Swap(true) {
		return engine.Errorf(engine.CodeClosed, "skerry: the server has run already or is closed")
	}
	defer close(s.over)
	defer s.closeListeners()
	failed := make(chan error, len(s.flow)+len(s.nodes)+len(s.faces))
	stopFlow := s.startInOrder(s.flow, failed)
	defer stopFlow()
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer cancel()
		ended <- s.awaitEnd(ctx, failed)
	}()
	if err := s.services.hooks.begin(ctx, s.o.Grace); err != nil {
		interrupted := ctx.Err() != nil
		cancel()
		s.end()
		if end := <-ended; end != nil || interrupted {
			s.o.Logger.Warn("the server stopped while the application was starting", "err", err)
			return end
		}
		return err
	}
	stopNodes := s.start(s.nodes, failed)
	s.serving.Store(true) // before the faces: the first that they tell of this server must not be that it stops
	stopFaces := s.start(s.faces, failed)
	stopWork := s.services.hooks.background(s.cluster, s.o.Logger)
	err := <-ended
	s.serving.Store(false)
	s.o.Logger.Info("stopping; finishing requests in flight first")
	s.drain()
	stopWork(s.o.Grace)
	s.handOver()
	stopFaces()
	stopNodes()
	s.end()
	s.services.hooks.end(s.o.Grace, s.o.Logger)
	return err
}

// end runs the ends once nothing is served anymore.
func (s *Server) end() {
	for _, end := range s.ends {
		end()
	}
}

// awaitEnd returns when the server has to stop: nil if ctx ended or Close was called, or else the error of the
// part or engine that stopped.
func (s *Server) awaitEnd(ctx context.Context, failed <-chan error) error {
	var stopped <-chan struct{}
	if e, ok := s.eng.(engine.Stopper); ok {
		stopped = e.Stopped()
	}
	select {
	case <-ctx.Done():
		return nil
	case <-s.quit:
		return nil
	case <-stopped:
		return fmt.Errorf("the engine stopped: %w", s.eng.(engine.Stopper).Err())
	case err := <-failed:
		if e, ok := s.eng.(engine.Stopper); ok && e.Err() != nil {
			return fmt.Errorf("the engine stopped: %w", e.Err()) // the part failed because of that
		}
		return err
	}
}

// start runs parts in the background and sends the error of a part that stops unexpectedly to failed. The
// function that it returns stops all parts at once and waits for them.
func (s *Server) start(parts []part, failed chan<- error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, p := range parts {
		running.Go(func() {
			err := p.run(ctx)
			switch {
			case ctx.Err() == nil && err == nil:
				failed <- fmt.Errorf("%s stopped without an error", p.name)
			case ctx.Err() == nil:
				failed <- fmt.Errorf("%s stopped: %w", p.name, err)
			case err != nil && !errors.Is(err, context.Canceled):
				s.o.Logger.Warn("a part did not stop cleanly", "part", p.name, "err", err)
			}
		})
	}
	return func() { cancel(); running.Wait() }
}

// startInOrder is start, except that stop stops one part after the other, the last one first: each may depend on those
// before it, and would take their end for a failure. So records, which reads the feed, would report that it was closed.
func (s *Server) startInOrder(parts []part, failed chan<- error) (stop func()) {
	var stops []func()
	for i := range parts {
		stops = append(stops, s.start(parts[i:i+1], failed))
	}
	return func() {
		for _, stop := range slices.Backward(stops) {
			stop()
		}
	}
}

// Ready returns nil while the server answers requests: from the beginning of Run until it stops, as long as
// the engine has not stopped. A node of a cluster must also be a member and know the leader.
func (s *Server) Ready() error {
	if !s.serving.Load() {
		return engine.ErrClosed
	}
	if e, ok := s.eng.(engine.Stopper); ok {
		if err := e.Err(); err != nil {
			return err
		}
	}
	return s.joined()
}

// HTTPURL returns the URL of the HTTP face, or "" if there is none.
func (s *Server) HTTPURL() string { return s.url(s.http, "http", "https") }

// AdminURL returns the URL of the admin listener, or "" if there is none.
func (s *Server) AdminURL() string { return s.url(s.admin, "http", "https") }

// RESPURL returns the URL of the Redis protocol, or "" if there is none.
func (s *Server) RESPURL() string { return s.url(s.resp, "redis", "rediss") }

// GremlinURL returns the URL for Gremlin drivers, or "" if there is none.
func (s *Server) GremlinURL() string {
	if s.gremlin == nil {
		return ""
	}
	return s.url(s.gremlin, "ws", "wss") + gremlinPath
}

// tlsOf returns the TLS configuration of a listener; nil: its connections are not encrypted.
func (s *Server) tlsOf(l net.Listener) *tls.Config {
	if l == s.http && s.ordered != nil {
		return s.ordered
	}
	return s.o.TLS
}

func (s *Server) url(l net.Listener, plain, secure string) string {
	if l == nil {
		return ""
	}
	if s.tlsOf(l) != nil {
		plain = secure
	}
	return plain + "://" + l.Addr().String()
}

// Close stops Run, waits until it has returned, and closes the listeners. It may be called more than once, and
// without Run.
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

// closeListeners closes what Open has opened.
func (s *Server) closeListeners() {
	if s.services != nil {
		s.services.caches.close()
	}
	for _, l := range []net.Listener{s.http, s.resp, s.admin, s.gremlin, s.plain} {
		if l != nil {
			l.Close() // closing a listener twice does nothing
		}
	}
}
