package skerry

import (
	"iter"
	"net/http"
	"strings"

	"github.com/skerrydb/skerry/docs"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/resp"
	"github.com/skerrydb/skerry/web/admin"
	"github.com/skerrydb/skerry/web/api"
	"github.com/skerrydb/skerry/web/lane"
)

// newAdminPage makes the admin page and the operator's routes for it. It comes after the application, whose users and collections
// it shows, and before the operator's port, beside which it is served. It returns nil if it is not served.
func (s *Server) newAdminPage(redis *resp.Server) (*admin.Admin, error) {
	if !s.hasAdminPage() {
		return nil, nil
	}
	to := s.services
	o := admin.Options{
		Store: to.KV, Engine: s.eng, Cluster: s.cluster, Records: to.Records, Procedures: to.Procedures, Series: to.Series, PromQL: to.PromQL, Graphs: to.Graphs, Redis: redis,
		Feed: to.Feed, Users: to.Users, Sessions: to.Sessions, Mail: to.Mail, Pages: to.AdminPages, Texts: to.AdminTexts, Hosts: s.o.Hosts, Hashing: s.o.AdminHashing, TrustedProxies: s.o.Web.TrustedProxies,
		Metrics: func() iter.Seq[engine.Metric] { return s.scrape() }, Build: s.o.Build, Dir: s.o.Dir, Ready: s.Ready, Logger: s.o.Logger,
		Settings: s.o.Settings, Faults: s.faults, RecentLog: s.o.RecentLog, Backups: s.o.Backups, Archive: s.o.Archive, Docs: docs.Pages,
	}
	if s.o.AdminLink != nil {
		o.SetupLink = func(path string) { s.o.AdminLink(s.adminPageURL() + strings.TrimPrefix(path, admin.Prefix)) }
	}
	if s.hasApplication() {
		o.Caches, o.FlushCache = to.caches.forPeople, to.caches.empty
	}
	if b, ok := s.eng.(engine.Backuper); ok {
		o.Backup = b.Backup
	}
	page, err := admin.New(o)
	if err != nil {
		return nil, s.without("the admin page", err)
	}
	s.routes = append(s.routes, api.Route{Methods: "POST", Path: "/administrators", Handle: page.Operate, Text: "make a link with which an administrator of the admin page sets up an account"})
	s.page = page
	s.ends = append(s.ends, page.Close)
	s.flow = append(s.flow, part{"admin page", page.Run})
	if s.cluster != nil {
		s.routes = append(s.routes, api.Route{Methods: "GET", Path: "/nodes", Handle: page.ServeNodes, Text: "what this node knows of all nodes: memory, disks, versions, certificates"})
		srv := s.addNodeFace("admin page of other nodes", admin.NodeProtocol, page.NodeHandler())
		srv.ConnContext = admin.NodeContext
		srv.RegisterOnShutdown(page.EndStreams)
	}
	return page, nil
}

// hasAdminPage reports whether the admin page is served.
func (s *Server) hasAdminPage() bool {
	return s.o.AdminPage != Off && (s.adminPageURL() != "" || s.cluster != nil)
}

// adminPageURL returns the URL of the admin page, "" if it is not served.
func (s *Server) adminPageURL() string {
	base := s.AdminURL()
	if base == "" && (s.o.Web.Application == nil || s.o.AdminPage == AdminPageOnHTTP) {
		base = s.HTTPURL()
	}
	if base == "" {
		return ""
	}
	return base + admin.Prefix
}

// AdminPageURL returns the URL of the admin page, or "" if it is not served.
func (s *Server) AdminPageURL() string {
	if s.page == nil {
		return ""
	}
	return s.adminPageURL()
}

// pageBeside is a handler with the admin page beside it.
type pageBeside struct {
	rest http.Handler
	page *admin.Admin
}

// beside returns rest with the admin page, or rest alone if there is none.
func beside(rest http.Handler, page *admin.Admin) http.Handler {
	if page == nil {
		return rest
	}
	return &pageBeside{rest, page}
}

// ServeHTTP implements http.Handler.
func (p *pageBeside) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == admin.Prefix || strings.HasPrefix(r.URL.Path, admin.Prefix+"/") {
		p.page.ServeHTTP(w, r)
		return
	}
	p.rest.ServeHTTP(w, r)
}

// EndStreams ends all streams of events.
func (p *pageBeside) EndStreams() {
	p.page.EndStreams()
	if streams, ok := p.rest.(interface{ EndStreams() }); ok {
		streams.EndStreams()
	}
}

// LaneRoutes returns the routes of the rest that may be in the lane.
func (p *pageBeside) LaneRoutes() []lane.Route {
	if simple, ok := p.rest.(interface{ LaneRoutes() []lane.Route }); ok {
		return simple.LaneRoutes()
	}
	return nil
}
