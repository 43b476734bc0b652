// Package admin is the admin page: a web application for the people who operate a server. They see and work records, keys, procedures,
// users, the cluster and backups in it.
//
// It knows pages, forms, administrators and the log of what they do; it must not know engine names, the layout of keys, or a
// way to data that other faces do not have. docs/admin.md is the guide.
//
// Pages are rendered on the server and work without scripts. Modules in assets add what is live.
package admin

import (
	"cmp"
	"context"
	"embed"
	"html/template"
	"io"
	"io/fs"
	"iter"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/archive"
	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/backups"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/feed"
	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/keyspace"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/mail"
	"github.com/skerrydb/skerry/proc"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/resp"
	"github.com/skerrydb/skerry/series"
	"github.com/skerrydb/skerry/session"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/account"
	"github.com/skerrydb/skerry/web/view"
)

// Prefix begins the path of every page.
const Prefix = "/admin"

// NodeProtocol is the name under which nodes forward requests of the admin page. On the wire: do not change.
const NodeProtocol = "skerry-admin/1"

// name is in cookies. Do not change.
const name = "skerry-admin"

// sessionsNamespace separates the sessions of administrators from those of applications, whose names have no dot. In the
// data: do not change.
const sessionsNamespace = ".admin"

// policy is the Content-Security-Policy of all pages. Only the pages of package account have inline styles, with a nonce.
const policy = "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

//go:embed all:views assets
var files embed.FS

// Options of New. Store and Engine are required; a page whose part is nil is left out.
type Options struct {
	Store      *kv.Store
	Engine     engine.Engine
	Cluster    engine.Cluster
	Records    *record.DB
	Procedures *proc.Set
	Series     *series.DB
	PromQL     series.Evaluator // of the console
	Graphs     *graph.DB
	Redis      *resp.Server // runs the commands of the console; it needs no listener
	Feed       *feed.Feed

	// Users and Sessions are those of the application.
	Users    *auth.Auth
	Sessions *session.Store

	// Mail sends the application's email.
	Mail mail.Sender

	// Caches returns the caches of this node as `skerry cache stats` has them, and empties one.
	Caches     func() []Cache
	FlushCache func(ctx context.Context, name string) error

	// Metrics yields what /metrics shows.
	Metrics func() iter.Seq[engine.Metric]

	// Backup writes all data to w.
	Backup func(ctx context.Context, w io.Writer) (engine.Position, error)

	// Backups is the folder of this node's backups, and Archive its archive; nil: there is none.
	Backups *backups.Folder
	Archive *Archive

	// Settings are the server's settings in effect.
	Settings []Setting

	// Faults has the newest faults of the application; nil: there is none.
	Faults *Faults

	// RecentLog has the newest lines of the server's log.
	RecentLog *RecentLog

	// Docs are the pages of the documentation, *.md.
	Docs fs.FS

	// Pages are those that the application adds to the menu.
	Pages []Page

	// Texts translates the texts of pages from English; a text that is missing stays English. See texts.txt.
	Texts map[string]string

	// Hosts are more host names under which browsers may use the page; see web.Options.Hosts.
	Hosts []string

	// Hashing is the cost of the password hashes of administrators; the zero value is auth's.
	Hashing auth.Params

	// TrustedProxies are those of web.Options.
	TrustedProxies []netip.Prefix

	// SetupLink, if not nil, is called once with the path of a page where the first administrator can be set up, if there is
	// none when this node begins to lead.
	SetupLink func(path string)

	Build  string // of the program
	Dir    string // the data folder, "" if there is none
	Ready  func() error
	Logger *slog.Logger
	Now    func() time.Time // nil: time.Now
}

// Archive is what people do with an archive.
type Archive struct {
	Dir string

	// Reach returns what can be restored, without reading everything.
	Reach func() (archive.Reach, error)

	// Check reads every byte.
	Check func(ctx context.Context, p *backups.Progress) (archive.Report, error)

	// Restore restores the state at t into a new folder. The note says what people should know about that state, "" if nothing.
	Restore func(ctx context.Context, t archive.Target, dir string, p *backups.Progress) (sum archive.Summary, note string, err error)
}

// Setting is one setting of the server, for people.
type Setting struct {
	Name, Value, From string // From says where the value comes from
	Help              string
}

// Cache is a cache of this node, for people.
type Cache struct {
	Name      string
	Fresh     bool          // whether it may answer now
	Age       time.Duration // how old an answer can be now; 0 if unknown
	Staleness time.Duration // how old it may be
	Reads     []Tier        // by who answered them
	Rows      []Row         // what else it counts
}

// Tier is how many reads of a cache one tier has answered.
type Tier struct {
	Name  string
	Reads uint64
}

// Row is a name with a value.
type Row struct{ Name, Value string }

// Page is a page that an application adds to the menu. Handler gets the requests below Path.
type Page struct {
	Path, Title string // "/reports", "Reports"
	Handler     http.Handler
}

// Admin is the admin page of one server. It is an http.Handler that is safe for concurrent use.
type Admin struct {
	o       Options
	app     *web.App
	users   *auth.Auth // administrators
	store   *session.Store
	account *account.Account
	menu    []section
	samples *sampler
	procs   *procMeter // nil: the server has no procedures
	leaders leaders
	poll    *poll
	folder  folder
	toNodes *http.Transport // nil: it runs alone
	backups atomic.Int32    // that are being downloaded
	jobs    jobs
	setup   setup

	started time.Time
}

// New returns the admin page. It fails with engine.ErrUnsupported if the engine does not promise what users need.
func New(o Options) (*Admin, error) {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	a := &Admin{o: o, started: o.Now()}
	a.jobs.init()
	a.samples, a.poll = newSampler(a), newPoll(a)
	if o.Procedures != nil {
		a.procs = newProcMeter(o.Procedures, o.Now)
	}
	if o.Cluster != nil {
		a.toNodes = nodeTransport(o.Cluster)
		a.poll.get = getFacts(a.toNodes)
	}
	var err error
	if a.store, err = session.New(o.Store, session.Options{Namespace: sessionsNamespace}); err != nil {
		return nil, err
	}
	if a.users, err = auth.New(o.Store, auth.Options{Space: keyspace.Administrators, Argon2: o.Hashing, Sessions: a.store, Issuer: "Skerry admin", MinPassword: minPassword, KeepRole: RoleSuperadmin}); err != nil {
		return nil, err
	}
	if err := a.newApp(); err != nil {
		return nil, err
	}
	a.addRoutes()
	return a, nil
}

// newApp makes the web application without its routes.
func (a *Admin) newApp() error {
	assetFiles, err := fs.Sub(files, "assets")
	if err != nil {
		return err
	}
	modules, err := moduleFiles()
	if err != nil {
		return err
	}
	assets, err := web.NewAssets(web.AssetOptions{FS: assetFiles, Prefix: Prefix + "/assets/", List: []string{"admin.css", "admin.mjs"}, Pages: modules, Logger: a.o.Logger})
	if err != nil {
		return err
	}
	viewFiles, err := fs.Sub(files, "views")
	if err != nil {
		return err
	}
	views, err := view.New(view.Options{FS: viewFiles, Funcs: a.funcs(), Always: append(view.LayoutLocals(), layoutLocals()...), Logger: a.o.Logger})
	if err != nil {
		return err
	}
	a.app, err = web.New(web.Options{
		Name: name, Views: views, Assets: assets, Sessions: a.store, Engine: a.o.Engine, Cluster: a.o.Cluster, NodeProtocol: NodeProtocol, LocalSessions: a.alone,
		User: account.UserAt(a.users, a.administrators), LoopbackCookies: true, TrustedProxies: a.o.TrustedProxies, Headers: web.Headers{CSP: policy, ReferrerPolicy: "no-referrer"}, MaxBody: maxBody, Logger: a.o.Logger,
	})
	if err != nil {
		return err
	}
	a.app.AddErrors(auth.Catalog(), mail.Catalog(), record.Catalog(), series.Catalog(), graph.Catalog())
	a.app.Use(a.checkHost, web.Compress(web.CompressOptions{}))
	a.account, err = account.New(a.app, a.users, account.Options{
		Sessions: a.store, Prefix: Prefix + "/account", Name: "Skerry admin", Views: views, Closed: true, AfterLogin: Prefix, Locals: a.accountLocals, OnEvent: a.accountEvent, Now: a.o.Now,
	})
	return err
}

// Run takes samples of the metrics until ctx ends, and announces the link with which the first administrator is set up. Then it stops
// the jobs that people have begun, and waits for them.
func (a *Admin) Run(ctx context.Context) error {
	defer a.jobs.end()
	var watch sync.WaitGroup
	watch.Go(func() { a.watchCluster(ctx) })
	watch.Go(func() { a.poll.run(ctx) })
	a.samples.run(ctx)
	watch.Wait()
	return ctx.Err()
}

// ServeHTTP implements http.Handler for clients. A browser that knows the password of the operator's port beside the page sends it
// here too, where it means nothing.
func (a *Admin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if len(r.Header["Authorization"]) > 0 {
		r = r.Clone(r.Context())
		r.Header.Del("Authorization")
	}
	a.app.ServeHTTP(w, r)
}

// EndStreams ends all streams of events; see web.App.EndStreams.
func (a *Admin) EndStreams() { a.app.EndStreams() }

// Close closes the connections to other nodes.
func (a *Admin) Close() {
	a.poll.close()
	if a.toNodes != nil {
		a.toNodes.CloseIdleConnections()
	}
	a.app.Close()
}

// funcs are the functions of views.
func (a *Admin) funcs() template.FuncMap {
	return template.FuncMap{"t": a.text, "when": when, "ago": a.ago, "bytes": byteText, "number": numberText, "short": shorten}
}
