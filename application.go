package skerry

import (
	"cmp"
	"context"
	"iter"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/feed"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/mail"
	"github.com/skerrydb/skerry/proc"
	"github.com/skerrydb/skerry/session"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/view"
)

// DefaultAdmin is where keys, metrics, backups and profiles are if HTTP serves an
// application and Options says nothing.
const DefaultAdmin = "127.0.0.1:7201"

// Application makes the web application of a server, before anything is served.
type Application func(s *Services) (http.Handler, error)

// Web says what a server's application needs to know. The zero value means that
// there is none.
type Web struct {
	// Application, if not nil, makes what HTTP serves instead of keys and
	// procedures, which are then on Options.Admin only. What it returns is, as a
	// rule, a *web.App: only that can be served by every node of a cluster.
	Application Application

	// Name of the application: on its pages, in its cookies' names, and what its
	// sessions are kept apart by. "" is web.DefaultName.
	Name string

	// BaseURL is where browsers find the application, https://HOST[:PORT]: what links
	// in mail begin with. "": with Debug HTTPURL, otherwise it is not known.
	BaseURL string

	// Debug is for development: see web.Options.Debug. Mail goes to an outbox then,
	// if Mail is nil.
	Debug bool

	// Mail sends the application's messages, and tells Superadmins of faults. Nil
	// without Debug: there is none.
	Mail mail.Sender

	// Source, if not empty, is for development: the folder of the program's source,
	// from which Services.Files takes files as they are now.
	Source string

	// Superadmins and TrustedProxies are those of web.Options.
	Superadmins    []string
	TrustedProxies []netip.Prefix
}

// Services are what an application stands on. All of it is safe for concurrent use,
// and works from when the application is first asked until it has answered.
type Services struct {
	Engine     engine.Engine
	KV         *kv.Store // spaces 16 to 127 are the application's, 0 to 15 are Redis clients' too
	Feed       *feed.Feed
	Procedures *proc.Set
	Sessions   *session.Store // of this application
	Global     *session.Store // shared by all applications on the same data
	Mail       mail.Sender    // nil if there is none
	BaseURL    string         // where browsers find the application, see Web.BaseURL; "" if that is not known

	// Users can be set by the application to the users that it has. Operators can then
	// list, create and disable them and give them roles: by `skerry users`, and over HTTP on
	// the admin listener.
	Users *auth.Auth

	// Source is Web.Source: "" but in development.
	Source string

	// Web has all options that the server knows; the application adds its own, and
	// gives them to web.New.
	Web web.Options

	live  []string // folders of Source that Files has returned
	hooks hooks
}

// runner is satisfied by senders of mail that work in the background.
type runner interface {
	Run(ctx context.Context) error
}

// newApplication makes the application and adds it to the faces.
func (s *Server) newApplication(store *kv.Store, changes *feed.Feed, procs *proc.Set) error {
	w := &s.o.Web
	if w.Application == nil || s.http == nil && s.cluster == nil {
		return nil
	}
	w.Name = cmp.Or(w.Name, web.DefaultName)
	if w.BaseURL == "" && w.Debug {
		w.BaseURL = s.HTTPURL()
	}
	local, err := session.New(store, session.Options{Namespace: w.Name})
	if err != nil {
		return err
	}
	global, err := session.New(store, session.Options{Namespace: globalNamespace})
	if err != nil {
		return err
	}
	services := &Services{Engine: s.eng, KV: store, Feed: changes, Procedures: procs, Sessions: local, Global: global, Source: w.Source, BaseURL: w.BaseURL, Web: web.Options{
		Name: w.Name, Debug: w.Debug, Sessions: local, Global: global, Engine: s.eng, Cluster: s.cluster, Superadmins: w.Superadmins,
		TrustedProxies: w.TrustedProxies, Hosts: hostsOf(s.o.Hosts, w.BaseURL), Ready: s.Ready, Logger: s.o.Logger,
	}}
	if err := s.addMail(services); err != nil {
		return err
	}
	h, err := w.Application(services)
	if err != nil {
		return err
	}
	s.live = services.live
	s.users = services.Users
	services.hooks.sealed = true
	s.hooks = &services.hooks
	if app, ok := h.(*web.App); ok {
		app.AddErrors(errorCatalogs()...)
		s.ends = append(s.ends, app.Close)
		s.meters = append(s.meters, app.Metrics)
		if s.cluster != nil {
			s.addNodeFace("web of other nodes", web.NodeProtocol, app.NodeHandler()).RegisterOnShutdown(app.EndStreams)
		}
	}
	s.addFace("http", s.http, h)
	return nil
}

// errorCatalogs are the codes of the packages that procedures and applications call.
func errorCatalogs() [][]engine.Meaning {
	return [][]engine.Meaning{auth.Catalog(), mail.Catalog(), session.Catalog(), view.Catalog()}
}

// hostsOf is hosts with that of an address.
func hostsOf(hosts []string, address string) []string {
	if u, err := url.Parse(address); err == nil && u.Hostname() != "" {
		return append(slices.Clip(hosts), u.Hostname())
	}
	return hosts
}

// globalNamespace is that of sessions which several applications share: no name of
// an application has a dot. In the data: do not change.
const globalNamespace = ".global"

// addMail adds what sends messages, and what tells of faults by them.
func (s *Server) addMail(services *Services) error {
	w := &s.o.Web
	sender := w.Mail
	if sender == nil && w.Debug {
		outbox := mail.NewOutbox(0)
		outbox.Logger = s.o.Logger
		sender, services.Web.Outbox = outbox, outbox
	}
	faults, err := mail.NewFaults(mail.FaultsOptions{Sender: sender, To: w.Superadmins, Name: w.Name, Node: s.nodeName(), Version: s.o.Build, Logger: s.o.Logger})
	if err != nil {
		return err
	}
	services.Mail, services.Web.Faults = sender, reporter{faults}
	s.flow = append(s.flow, part{"reports of faults", faults.Run})
	s.meters = append(s.meters, faults.Metrics)
	if r, ok := sender.(runner); ok {
		s.flow = append(s.flow, part{"mail", r.Run})
	}
	if m, ok := sender.(engine.Meter); ok {
		s.meters = append(s.meters, m.Metrics)
	}
	return nil
}

// reporter gives the faults of an application to those who look after it.
type reporter struct{ faults *mail.Faults }

// Report implements web.FaultReporter.
func (r reporter) Report(f web.Fault) {
	told := mail.Fault{Ref: f.Ref, RequestID: f.Ref, Err: f.Err, Stack: f.Stack, Method: f.Method, Path: f.URL, Route: f.Route}
	told.Fields = append(told.Fields, mail.Field{Name: "From", Value: f.From})
	for name, lines := range f.Request.Header {
		for _, line := range lines {
			told.Fields = append(told.Fields, mail.Field{Name: name, Value: line})
		}
	}
	for name, values := range f.Request.URL.Query() {
		for _, value := range values {
			told.Fields = append(told.Fields, mail.Field{Name: name, Value: value})
		}
	}
	r.faults.Report(told)
}

// addFace serves h on a listener until the server stops. Nil listeners serve nobody.
func (s *Server) addFace(name string, l net.Listener, h http.Handler) {
	if l == nil {
		return
	}
	srv := web.NewServer(h, s.o.Logger)
	srv.TLSConfig = s.tlsOf(l)
	if app, ok := h.(*web.App); ok {
		srv.RegisterOnShutdown(app.EndStreams) // which would not end by themselves
	}
	l = s.gated(name, l, srv)
	s.faces = append(s.faces, part{name, func(ctx context.Context) error {
		return s.serveHTTP(ctx, srv, func() error {
			if srv.TLSConfig != nil {
				return srv.ServeTLS(l, "", "")
			}
			return srv.Serve(l)
		})
	}})
}

// addNodeFace serves h to other nodes, which call it protocol, by the server that it
// returns.
func (s *Server) addNodeFace(name, protocol string, h http.Handler) *http.Server {
	l, srv := s.cluster.Listen(protocol), web.NewNodeServer(h, s.o.Logger)
	s.nodes = append(s.nodes, part{name, func(ctx context.Context) error {
		return s.serveHTTP(ctx, srv, func() error { return srv.Serve(l) })
	}})
	return srv
}

// all yields what each of them yields; one can be nil.
func all(meters []func() iter.Seq[engine.Metric]) iter.Seq[engine.Metric] {
	return func(yield func(engine.Metric) bool) {
		for _, figures := range meters {
			if figures == nil {
				continue
			}
			for m := range figures() {
				if !yield(m) {
					return
				}
			}
		}
	}
}

// drain lets requests in flight, and those of who has not yet seen that this server
// is not ready any more, be answered for a while before the listeners close.
func (s *Server) drain() {
	if s.o.Drain > 0 {
		time.Sleep(s.o.Drain)
	}
}
