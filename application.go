package skerry

import (
	"context"
	"iter"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/gate"
	"github.com/skerrydb/skerry/mail"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/admin"
	"github.com/skerrydb/skerry/web/lane"
)

// DefaultAdmin is the address of the admin listener if HTTP serves an application and Options.Admin is empty.
const DefaultAdmin = "127.0.0.1:7201"

// Application makes the web application of a server. It is called before anything is served.
type Application func(s *Services) (http.Handler, error)

// Web describes a server's application. The zero value means that there is none.
type Web struct {
	// Application, if not nil, makes the handler that HTTP serves instead of keys and procedures, which are
	// then on Options.Admin only. It should return a *web.App: no other handler can be served by every node of
	// a cluster.
	Application Application

	// Name of the application. It is shown on pages, is part of cookie names, and separates its sessions from
	// those of other applications. "" is web.DefaultName.
	Name string

	// BaseURL is the public URL of the application, https://HOST[:PORT]. Links in email begin with it. "" is
	// HTTPURL in debug mode, and unknown otherwise.
	BaseURL string

	// Debug is for development; see web.Options.Debug. If Mail is nil, email then goes to an outbox.
	Debug bool

	// Mail sends the application's email, and reports faults to Superadmins. Nil means no email, except in
	// debug mode.
	Mail mail.Sender

	// Source, if not empty, is for development: the folder of the program's source. Services.Files then reads
	// files from there.
	Source string

	// Superadmins and TrustedProxies are those of web.Options.
	Superadmins    []string
	TrustedProxies []netip.Prefix
}

// hasApplication reports whether the server serves an application.
func (s *Server) hasApplication() bool {
	return s.o.Web.Application != nil && (s.http != nil || s.cluster != nil)
}

// newApplication makes the application; nil: there is none.
func (s *Server) newApplication() (http.Handler, error) {
	if !s.hasApplication() {
		return nil, nil
	}
	to := s.services
	if to.BaseURL = s.o.Web.BaseURL; to.BaseURL == "" && s.o.Web.Debug {
		to.BaseURL = s.HTTPURL()
	}
	to.Web.Hosts = hostsOf(s.o.Hosts, to.BaseURL)
	h, err := s.o.Web.Application(to)
	if err != nil {
		return nil, err
	}
	to.hooks.sealed = true
	if app, ok := h.(*web.App); ok {
		app.AddErrors(s.errors...)
		s.ends = append(s.ends, app.Close)
		s.meters = append(s.meters, app.Metrics)
		if s.cluster != nil {
			s.addNodeFace("web of other nodes", web.NodeProtocol, app.NodeHandler()).RegisterOnShutdown(app.EndStreams)
		}
	}
	return h, nil
}

// serveApplication adds the application to the faces, with the admin page beside it if Options.AdminPage says so.
func (s *Server) serveApplication(h http.Handler, page *admin.Admin) {
	if h == nil {
		return
	}
	if s.o.AdminPage != AdminPageOnHTTP {
		page = nil
	}
	s.addFace("http", s.http, beside(h, page))
}

// hostsOf returns hosts with the host of address added.
func hostsOf(hosts []string, address string) []string {
	if u, err := url.Parse(address); err == nil && u.Hostname() != "" {
		return append(slices.Clip(hosts), u.Hostname())
	}
	return hosts
}

// addFace serves h on a listener until the server stops. A nil listener adds nothing.
func (s *Server) addFace(name string, l net.Listener, h http.Handler) {
	if l == nil {
		return
	}
	srv := web.NewServer(h, s.o.Logger)
	srv.TLSConfig = s.tlsOf(l)
	var endStreams func()
	if streams, ok := h.(interface{ EndStreams() }); ok {
		endStreams = streams.EndStreams // they would not end by themselves
		srv.RegisterOnShutdown(endStreams)
	}
	var routes []lane.Route
	if simple, ok := h.(interface{ LaneRoutes() []lane.Route }); ok {
		routes = simple.LaneRoutes()
	}
	s.faces = append(s.faces, s.httpPart(name, s.gated(name, l, srv), srv, routes, endStreams))
}

// addNodeFace serves h to other nodes under the name protocol, with the server that it returns. The routes are those that
// may be in the lane.
func (s *Server) addNodeFace(name, protocol string, h http.Handler, routes ...lane.Route) *http.Server {
	l, srv := s.cluster.Listen(protocol), web.NewNodeServer(h, s.o.Logger)
	s.nodes = append(s.nodes, s.httpPart(name, l, srv, routes, nil))
	return srv
}

// admission returns the connection of a listener that gated has bounded.
func admission(conn context.Context) lane.Admission {
	if c := gate.FromContext(conn); c != nil {
		return c
	}
	return nil
}

// httpPart serves srv on l, through the lane if it has routes.
func (s *Server) httpPart(name string, l net.Listener, srv *http.Server, routes []lane.Route, stop func()) part {
	if len(routes) > 0 && !s.o.NoLane {
		fast := lane.New(lane.Options{HTTP: srv, Routes: routes, Admission: admission, Stop: stop, Logger: s.o.Logger})
		s.meters = append(s.meters, func() iter.Seq[engine.Metric] { return slices.Values(fast.Metrics(name)) })
		return part{name, func(ctx context.Context) error {
			return s.serveHTTP(ctx, fast, func() error { return fast.Serve(l) })
		}}
	}
	return part{name, func(ctx context.Context) error {
		return s.serveHTTP(ctx, srv, func() error {
			if srv.TLSConfig != nil {
				return srv.ServeTLS(l, "", "")
			}
			return srv.Serve(l)
		})
	}}
}

// drain keeps the listeners open for Options.Drain, for requests in flight and for clients that have not yet
// noticed that this server is no longer ready.
func (s *Server) drain() {
	if s.o.Drain > 0 {
		time.Sleep(s.o.Drain)
	}
}
