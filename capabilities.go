package skerry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/feed"
	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/mail"
	"github.com/skerrydb/skerry/proc"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/resp"
	"github.com/skerrydb/skerry/series"
	"github.com/skerrydb/skerry/session"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/admin"
	"github.com/skerrydb/skerry/web/api"
)

// capability is what a capability adds to a server. Every field but the name is optional.
type capability struct {
	name     string                          // in errors and in the log
	errors   []engine.Meaning                // its error codes
	commands []resp.Command                  // for Redis clients
	routes   []api.Route                     // over HTTP, for clients that know the password
	metrics  func() iter.Seq[engine.Metric]  // for /metrics
	run      func(ctx context.Context) error // works in the background until the server stops
}

// capabilities lists the functions that open the capabilities, in order. Each may use the Services that
// earlier ones have set. If the engine does not promise what a capability needs, it is left out, and fails by the
// promise's name as soon as the program uses it.
func capabilities() []func(s *Server) (capability, error) {
	return []func(s *Server) (capability, error){
		(*Server).openTransfers,
		(*Server).openFeed,
		(*Server).openKeys,
		(*Server).openProcedures,
		(*Server).openRecords,
		(*Server).openSeries,
		(*Server).openGraphs,
		(*Server).openCaches,
		(*Server).openUsers,
		(*Server).openSessions,
		(*Server).openCertificates,
		(*Server).openMail,
		(*Server).openReports,
		(*Server).openOperatorRoutes,
	}
}

// Services are the capabilities as applications use them. They are safe for concurrent use,
// and work from the application's first request to its last.
type Services struct {
	Engine     engine.Engine
	KV         *kv.Store  // spaces 16 to 127 are for the application, 0 to 15 are shared with Redis clients
	Feed       *feed.Feed // nil if the engine has no change feed
	Procedures *proc.Set
	Records    *record.DB     // fails if the engine cannot have records
	Series     *series.DB     // fails if the engine cannot have time series
	Graphs     *graph.DB      // fails if the engine cannot have graphs
	Sessions   *session.Store // of this application
	Global     *session.Store // shared by all applications on the same data
	Mail       mail.Sender    // nil if there is none
	BaseURL    string         // the public URL of the application, see Web.BaseURL; empty if unknown

	// Users may be set by the application to its users. Operators can then list, create and disable them and
	// give them roles, with `skerry users` and over HTTP on the admin listener.
	Users *auth.Auth

	// PromQL may be set by the application, to a Face of package web/prometheus, for the console of the admin page.
	PromQL series.Evaluator

	// AdminPages may be set by the application to pages that it adds to the menu of the admin page.
	AdminPages []admin.Page

	// AdminTexts may be set by the application to translations of the texts of the admin page; see admin.Options.Texts.
	AdminTexts map[string]string

	// Source is Web.Source; it is empty except in development.
	Source string

	// Web has all options that the server can fill in. The application adds its own and passes them to web.New.
	Web web.Options

	live   []string // folders on disk that Files has returned
	hooks  hooks
	caches caches
}

// openCapabilities opens all capabilities and registers what they add.
func (s *Server) openCapabilities() error {
	s.newServices()
	for _, open := range capabilities() {
		c, err := open(s)
		if err != nil {
			return err
		}
		s.errors = append(s.errors, c.errors)
		s.commands = append(s.commands, c.commands...)
		s.routes = append(s.routes, c.routes...)
		s.meters = append(s.meters, c.metrics)
		if c.run != nil {
			s.flow = append(s.flow, part{c.name, c.run})
		}
	}
	return nil
}

// without leaves out what the engine does not promise enough for. It returns err if that has another reason.
func (s *Server) without(what string, err error) error {
	if !errors.Is(err, engine.ErrUnsupported) {
		return err
	}
	s.o.Logger.Info("this engine is served without "+what, "because", err)
	return nil
}

// newServices makes the Services, which the capabilities then complete.
func (s *Server) newServices() {
	w := &s.o.Web
	w.Name = cmp.Or(w.Name, web.DefaultName)
	s.services = &Services{Engine: s.eng, Source: w.Source, Web: web.Options{
		Name: w.Name, Debug: w.Debug, Engine: s.eng, Cluster: s.cluster, Superadmins: w.Superadmins,
		TrustedProxies: w.TrustedProxies, Ready: s.Ready, Logger: s.o.Logger,
	}}
}

func (s *Server) openKeys() (c capability, err error) {
	store, err := kv.New(s.eng, kv.Options{Feed: s.services.Feed})
	if err != nil {
		return c, err
	}
	s.services.KV = store
	return capability{name: "expiry", run: store.Run}, nil
}

func (s *Server) openFeed() (c capability, err error) {
	changes, err := feed.New(s.eng, feed.Options{})
	if err != nil {
		return c, s.without("the change feed, watches and invalidations", err)
	}
	s.services.Feed = changes
	return capability{name: "feed", run: changes.Run}, nil
}

func (s *Server) openProcedures() (c capability, err error) {
	procs, err := proc.New(s.eng, proc.Options{Value: s.value, Logger: s.o.Logger}, s.o.Procedures...)
	if err != nil {
		return c, err
	}
	s.services.Procedures = procs
	return capability{name: "procedures", run: procs.Run, metrics: procs.Metrics}, nil
}

// openUsers opens nothing: the application opens its users.
func (s *Server) openUsers() (capability, error) {
	return capability{name: "users", errors: auth.Catalog()}, nil
}

// globalNamespace is the namespace of sessions that several applications share. It cannot clash with an
// application's, because application names have no dot. In the data: do not change.
const globalNamespace = ".global"

func (s *Server) openSessions() (c capability, err error) {
	c = capability{name: "sessions", errors: session.Catalog()}
	if !s.hasApplication() {
		return c, nil
	}
	to := s.services
	if to.Sessions, err = session.New(to.KV, session.Options{Namespace: s.o.Web.Name}); err != nil {
		return c, err
	}
	if to.Global, err = session.New(to.KV, session.Options{Namespace: globalNamespace}); err != nil {
		return c, err
	}
	to.Web.Sessions, to.Web.Global = to.Sessions, to.Global
	return c, nil
}

// openMail opens the sender of the application's email.
func (s *Server) openMail() (capability, error) {
	c := capability{name: "mail", errors: mail.Catalog()}
	if !s.hasApplication() {
		return c, nil
	}
	sender := s.o.Web.Mail
	if sender == nil && s.o.Web.Debug {
		outbox := mail.NewOutbox(0)
		outbox.Logger = s.o.Logger
		sender, s.services.Web.Outbox = outbox, outbox
	}
	if r, ok := sender.(interface {
		Run(ctx context.Context) error
	}); ok {
		c.run = r.Run
	}
	if m, ok := sender.(engine.Meter); ok {
		c.metrics = m.Metrics
	}
	s.services.Mail = sender
	return c, nil
}

// openReports opens the reporter that emails the application's faults.
func (s *Server) openReports() (c capability, err error) {
	if !s.hasApplication() {
		return c, nil
	}
	w := &s.o.Web
	faults, err := mail.NewFaults(mail.FaultsOptions{Sender: s.services.Mail, To: w.Superadmins, Name: w.Name, Node: s.nodeName(), Version: s.o.Build, Logger: s.o.Logger})
	if err != nil {
		return c, err
	}
	s.faults = &admin.Faults{}
	s.services.Web.Faults = reporter{faults, s.faults}
	return capability{name: "reports of faults", run: faults.Run, metrics: faults.Metrics}, nil
}

// openOperatorRoutes adds the routes of Options.OperatorRoutes.
func (s *Server) openOperatorRoutes() (c capability, err error) {
	c.name = "operator routes"
	if s.o.OperatorRoutes != nil {
		c.routes = s.o.OperatorRoutes(s.services)
	}
	return c, nil
}

// reporter sends the application's faults to its operators, and keeps the newest for the admin page.
type reporter struct {
	faults *mail.Faults
	recent *admin.Faults
}

// Report implements web.FaultReporter.
func (r reporter) Report(f web.Fault) {
	report := mail.Fault{Ref: f.Ref, RequestID: f.Ref, Err: f.Err, Stack: f.Stack, Method: f.Method, Path: f.URL, Route: f.Route}
	report.Fields = append(report.Fields, mail.Field{Name: "From", Value: f.From})
	for name, lines := range f.Request.Header {
		for _, line := range lines {
			report.Fields = append(report.Fields, mail.Field{Name: name, Value: line})
		}
	}
	for name, values := range f.Request.URL.Query() {
		for _, value := range values {
			report.Fields = append(report.Fields, mail.Field{Name: name, Value: value})
		}
	}
	r.faults.Report(report)
	r.recent.Add(admin.Fault{
		At: f.Time, Ref: f.Ref, Method: f.Method, Path: mail.RedactedPath(f.URL, f.Route), Route: f.Route,
		Err: mail.Redacted(fmt.Sprint(f.Err), mail.MaxFaultValueBytes), Stack: mail.Redacted(string(f.Stack), mail.MaxFaultStackBytes),
	})
}

// all yields the metrics of each of meters, which may be nil.
func all(meters []func() iter.Seq[engine.Metric]) iter.Seq[engine.Metric] {
	return func(yield func(engine.Metric) bool) {
		for _, meter := range meters {
			if meter == nil {
				continue
			}
			for m := range meter() {
				if !yield(m) {
					return
				}
			}
		}
	}
}
