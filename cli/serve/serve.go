// Package serve has the verbs that run a server or prepare one: serve and systemd.
//
// It knows the settings of a server, and how much memory this machine has for it; it must not know the other
// verbs.
package serve

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"syscall"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/cli/cluster"
	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/series"
)

// Bounds of a server's configuration.
const (
	MinMemory        = 16 << 20
	maxPasswordBytes = 512
)

// Options is the configuration of a server.
type Options struct {
	data           string   // of the embedded engine
	engine         *url.URL // another engine, or nil
	http, resp     string
	admin          string
	adminPage      string
	gremlin        string
	databases      int
	web            webOptions
	acme           acmeOptions
	memory         int64
	hugePages      string
	spill          int64
	archive        archiveOptions
	backups        backupOptions
	passwordFile   string
	hosts          []string
	lane           string
	tlsCert        string
	tlsKey         string
	insecurePublic bool
	logLevel       string
	logFormat      string
	json           bool
	node           cluster.Node
	series         []series.Collection
	whileStdin     bool

	password string      // from passwordFile, after check
	tls      *tls.Config // from tlsCert and tlsKey, after check

	embeddedOnly []string // settings of the embedded engine that are set

	effective []skerry.Setting // what they are and where that comes from, for people
}

func MemorySetting(p *int64) verb.Setting {
	return verb.Setting{Name: "memory", Arg: "SIZE", Help: "memory limit for the data (default half of this machine's memory)", Server: true, Set: verb.Size(p, MinMemory)}
}

// MinSpill is the least --spill: shorter values take little more memory than their place in a file does.
const MinSpill = 1 << 10

func spillSetting(p *int64) verb.Setting {
	return verb.Setting{Name: "spill", Arg: "SIZE", Help: "keep values longer than this in files of the data folder, not in memory (default all values are in memory)", Server: true, Set: verb.Size(p, MinSpill)}
}

func (o *Options) Settings() []verb.Setting {
	return slices.Concat(verb.Data(&o.data, &o.engine, "./data"), []verb.Setting{
		{Name: "http", Arg: "ADDR", Default: skerry.DefaultHTTP, Help: "HTTP address of the web application or, if the program has none, of keys and procedures; or " + verb.Off, Server: true, Set: verb.Address(&o.http)},
		{Name: "resp", Arg: "ADDR", Default: skerry.DefaultRESP, Help: "address of the Redis protocol, or " + verb.Off, Server: true, Set: verb.Address(&o.resp)},
		{Name: "admin", Arg: "ADDR", Help: "address of keys, metrics, backups and profiles, or " + verb.Off + " (default " + skerry.DefaultAdmin + " beside a web application, otherwise " + verb.Off + ", as HTTP then serves all of these except profiles)", Server: true, Set: verb.Address(&o.admin)},
		{Name: "admin-page", Arg: "on|http|off", Default: "on", Help: "the admin page in browsers, under the path /admin: on serves it at the address of keys and metrics, http also beside the web application, off nowhere", Server: true, Set: verb.Choice(&o.adminPage, "on", "http", "off")},
		{Name: "gremlin", Arg: "ADDR", Default: verb.Off, Help: "address for Gremlin drivers, or " + verb.Off + "; they expect " + skerry.DefaultGremlin, Server: true, Set: verb.Address(&o.gremlin)},
		{Name: "databases", Arg: "N", Default: strconv.Itoa(skerry.DefaultDatabases), Help: "number of databases that Redis clients can select, at most " + strconv.Itoa(skerry.MaxDatabases) + "; more than the default gives them access to the key spaces of the application and its procedures", Server: true, Set: verb.Whole(&o.databases, skerry.DefaultDatabases, skerry.MaxDatabases)},
		{Name: "password-file", Arg: "FILE", Help: "file with the password for keys and procedures", Server: true, Set: verb.Text(&o.passwordFile)},
		{Name: "hosts", Arg: "NAMES", Help: "comma-separated host names that browsers may use (default IP addresses, localhost and names without a dot)", Server: true, Set: verb.List(&o.hosts)},
		{Name: "lane", Arg: "on|off", Default: "on", Help: "on answers simple HTTP requests without net/http, which takes less CPU; off sends all through net/http", Server: true, Set: verb.Choice(&o.lane, "on", "off")},
		{Name: "tls-cert", Arg: "FILE", Help: "certificate chain (PEM) for all addresses except the node port", Server: true, Set: verb.Text(&o.tlsCert)},
		{Name: "tls-key", Arg: "FILE", Help: "private key (PEM) of the certificate", Server: true, Set: verb.Text(&o.tlsKey)},
		{Name: "insecure-public", Help: "serve keys and procedures to other machines without a password", Server: true, Set: verb.Toggle(&o.insecurePublic)},
		{Name: "log-level", Arg: "LEVEL", Default: "info", Help: "debug, info, warn or error", Server: true, Set: verb.Choice(&o.logLevel, "debug", "info", "warn", "error")},
		{Name: "log-format", Arg: "FORMAT", Default: "text", Help: "text or json", Server: true, Set: verb.Choice(&o.logFormat, "text", "json")},
		hugePagesSetting(&o.hugePages),
		{Name: "while-stdin", Help: "stop cleanly when standard input ends; for programs that start this one", Set: verb.Toggle(&o.whileStdin)},
		verb.JSON(&o.json),
		seriesSetting(&o.series),
	}, o.acme.settings(), o.web.settings(), o.ofEmbedded())
}

// ofEmbedded returns the settings that only the embedded engine has. They record in o.embeddedOnly that they
// are set.
func (o *Options) ofEmbedded() []verb.Setting {
	settings := slices.Concat([]verb.Setting{MemorySetting(&o.memory), spillSetting(&o.spill)}, o.archive.settings(), o.backups.settings(), o.node.Settings())
	for i, s := range settings {
		settings[i].Set = func(v string) error {
			o.embeddedOnly = append(o.embeddedOnly, s.Name)
			return s.Set(v)
		}
	}
	return settings
}

var Verb = verb.Verb{
	Name: "serve", Short: "serve a data folder over HTTP and the Redis protocol",
	Long: `Creates the folder if it does not exist. SIGTERM and SIGINT stop the server cleanly: it
completes requests in flight first. A second signal ends it at once. Either way, no
acknowledged write is lost.

A folder created by skerry cluster is a node of a cluster: see skerry help cluster.`,
	Start: func(app verb.App) verb.Action {
		o := &Options{}
		return verb.Action{Settings: o.noted(o.Settings()), Check: func(rest []string) error { return o.check(app, rest) }, Do: func(ctx context.Context, p verb.Process, _ []string) error {
			return serve(ctx, p, o)
		}}
	},
}

// serve starts a server, in order; the stop is the reverse.
func serve(ctx context.Context, p verb.Process, o *Options) (err error) {
	recent := &skerry.RecentLog{}
	log := slog.New(recent.Handler(o.logger(p.Stderr).Handler()))
	if o.engine == nil {
		o.memory = MemoryLimit(o.memory)
		o.compute("memory", verb.FormatSize(o.memory))
	}
	machine := machineMemory("/")
	if os.Getenv("GOMEMLIMIT") == "" { // otherwise the operator has set the limit
		debug.SetMemoryLimit(processLimit(machine, o.memory))
	}
	steered := os.Getenv("GOGC") == "" // otherwise the operator has set it
	if steered {
		debug.SetGCPercent(openPercent)
	}
	eng, err := o.open(ctx, p, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, eng.Close()) }()
	steering, end := context.WithCancel(ctx)
	defer end()
	huge := o.newHugePages()
	go huge.run(steering)
	if steered {
		go steerRuntime(steering)
	}
	keeping, err := o.startKeeping(eng, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, keeping.end()) }()
	app, err := o.web.of(p.App, log)
	if err != nil {
		return err
	}
	if app.Application != nil && app.Mail == nil && !app.Debug {
		log.Warn("no mail server (--smtp-url-file): the application cannot send email")
	}
	srv, err := skerry.Open(eng, skerry.Options{
		HTTP: o.http, RESP: o.resp, Databases: o.databases, Admin: o.admin, Gremlin: o.gremlin, Web: app, Procedures: p.App.Procedures, Series: slices.Concat(p.App.Series, o.series), OperatorRoutes: p.App.OperatorRoutes, Password: o.password, Hosts: o.hosts, TLS: o.tls, NoLane: o.lane == "off", Certificates: o.acme.of(),
		InputBytes: inputBytes(o.memory), Drain: o.web.drain, AdvertiseHost: o.node.FacesHost(), Build: p.App.Build().Version, Dir: o.folder(), MachineMemory: machine, Metrics: processMetrics(huge, keeping.metrics), Logger: log,
		AdminPage: map[string]string{"on": "", "http": skerry.AdminPageOnHTTP, "off": skerry.Off}[o.adminPage],
		Settings:  o.effective, RecentLog: recent, Backups: keeping.backups, Archive: keeping.archive,
		AdminLink: func(url string) {
			log.Info("the admin page has no administrator yet; open this link once, within 24 hours, to set up the first", "url", url)
		},
	})
	if err != nil {
		return otherAddress(err)
	}
	defer srv.Close()
	if err := o.announce(p, eng, srv); err != nil {
		return err
	}
	if o.whileStdin {
		ctx = whileOpen(ctx, p.Stdin)
	}
	return srv.Run(ctx)
}

// open opens the engine.
func (o *Options) open(ctx context.Context, p verb.Process, log *slog.Logger) (engine.Engine, error) {
	if o.engine != nil {
		return p.Engines.Open(ctx, o.engine, verb.EngineOptions{Logger: log})
	}
	if _, err := os.Stat(filepath.Join(o.data, DevFile)); err == nil {
		return nil, engine.Errorf(engine.CodeInvalid, "%s is the folder of `skerry dev`, whose nodes have their data in %s and so on; stop dev and choose one of these with --data", o.data, filepath.Join(o.data, "n1"))
	}
	node, err := o.node.Options(o.data, p.App.Build().Version)
	if err != nil {
		return nil, err
	}
	eng, err := p.Engines.Open(ctx, verb.FolderURL(o.folder()), verb.EngineOptions{MemoryBytes: o.memory, SpillBytes: o.spill, Cluster: &node, Logger: log})
	return eng, cluster.Explain(err)
}

// folder returns the absolute path of the data folder, "" if there is none.
func (o *Options) folder() string {
	if o.engine != nil {
		return ""
	}
	dir, err := filepath.Abs(o.data)
	if err != nil {
		return o.data // the current folder is gone: opening it reports that
	}
	return dir
}

// DevFile is the file that `skerry dev` keeps in its folder.
const DevFile = "dev.json"

// otherAddress adds to an error the setting for another address than the one in use.
func otherAddress(err error) error {
	face, ok := errors.AsType[*skerry.ListenError](err)
	if !ok || !errors.Is(err, syscall.EADDRINUSE) {
		return err
	}
	setting := map[string]string{skerry.FaceHTTP: "http", skerry.FaceRESP: "resp", skerry.FaceAdmin: "admin", skerry.FaceGremlin: "gremlin", skerry.FacePlainHTTP: "acme-http"}[face.Face]
	return fmt.Errorf("%w; --%s chooses another address", err, setting)
}

// whileOpen returns a context that ends at the end of r.
func whileOpen(ctx context.Context, r io.Reader) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, r) // an error is an end too
		cancel()
	}()
	return ctx
}

// check reads the files of the settings and returns an error if settings contradict each other.
func (o *Options) check(app verb.App, rest []string) error {
	wrong := []error{verb.NoArguments(rest), o.node.Check(), o.web.check(app)}
	var err error
	if o.passwordFile != "" {
		o.password, err = ReadPassword(o.passwordFile)
		wrong = append(wrong, err)
	}
	switch {
	case o.tlsCert != "" && o.tlsKey != "":
		pair, err := tls.LoadX509KeyPair(o.tlsCert, o.tlsKey)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("tls-cert, tls-key: %w", err))
		}
		o.tls = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	case o.tlsCert != "":
		wrong = append(wrong, errors.New("tls-cert: needs tls-key"))
	case o.tlsKey != "":
		wrong = append(wrong, errors.New("tls-key: needs tls-cert"))
	}
	return verb.Mistakes(append(wrong, o.fits(app))...)
}

// fits returns an error if settings contradict each other, without reading files.
func (o *Options) fits(app verb.App) error {
	wrong := []error{o.acme.check(o), o.backups.fits(o.folder(), o.archive.dir)}
	if o.engine != nil {
		for _, name := range slices.Compact(o.embeddedOnly) {
			wrong = append(wrong, fmt.Errorf("%s: only the embedded engine has this setting, not %s", name, o.engine.Scheme))
		}
	}
	if o.http == verb.Off && o.resp == verb.Off && o.gremlin == verb.Off {
		wrong = append(wrong, errors.New("http, resp, gremlin: all are off, so there is nothing to serve"))
	}
	if o.passwordFile == "" && !o.insecurePublic {
		for _, face := range []struct{ name, addr string }{{"http", o.http}, {"resp", o.resp}, {"admin", o.admin}, {"gremlin", o.gremlin}} {
			if face.name == "http" && app.Web != nil {
				continue // the application has its own users
			}
			if verb.Public(face.addr) {
				wrong = append(wrong, fmt.Errorf("%s: %s is reachable from other machines: set --password-file, or --insecure-public to let anyone read and write", face.name, face.addr))
			}
		}
	}
	return verb.Mistakes(wrong...)
}

// ReadPassword returns the first line of the password file.
func ReadPassword(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", fmt.Errorf("password-file: %w", err)
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxPasswordBytes+2))
	if err != nil {
		return "", fmt.Errorf("password-file: %w", err)
	}
	line, _, _ := bytes.Cut(content, []byte("\n"))
	line = bytes.TrimSuffix(line, []byte("\r"))
	switch {
	case len(line) == 0:
		return "", fmt.Errorf("password-file: the first line of %s is empty", file)
	case len(line) > maxPasswordBytes:
		return "", fmt.Errorf("password-file: the password in %s is longer than %d bytes", file, maxPasswordBytes)
	}
	return string(line), nil
}

func (o *Options) logger(w io.Writer) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.logLevel)); err != nil {
		panic("BUG: log level " + o.logLevel)
	}
	options := &slog.HandlerOptions{Level: level}
	if o.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// Announcement is the output of `serve --json` once it listens.
type Announcement struct {
	Version     string `json:"version"`
	PID         int    `json:"pid"`
	Data        string `json:"data"` // the folder, or the URL of another engine
	HTTP        string `json:"http,omitempty"`
	RESP        string `json:"resp,omitempty"`
	Admin       string `json:"admin,omitempty"`
	AdminPage   string `json:"admin_page,omitempty"`
	Gremlin     string `json:"gremlin,omitempty"`
	Outbox      string `json:"outbox,omitempty"`
	MemoryBytes int64  `json:"memory_bytes,omitempty"` // limit of the embedded engine
	Cluster     string `json:"cluster,omitempty"`
	Node        uint64 `json:"node,omitempty"`
	NodeAddr    string `json:"node_addr,omitempty"`

	Live []string `json:"live,omitempty"` // folders that are read from disk
}

func (o *Options) announce(p verb.Process, eng engine.Engine, srv *skerry.Server) error {
	w := p.Stdout
	a := Announcement{Version: p.App.Build().Version, PID: os.Getpid(), Data: o.data, HTTP: srv.HTTPURL(), RESP: srv.RESPURL(), Admin: srv.AdminURL(), AdminPage: srv.AdminPageURL(), Gremlin: srv.GremlinURL(), MemoryBytes: o.memory, Live: srv.Live()}
	node := ""
	if a.HTTP != "" && p.App.Web != nil && o.web.debug && o.web.smtp == nil {
		a.Outbox = a.HTTP + OutboxPath
	}
	if o.engine != nil {
		a.Data = verb.Redacted(o.engine)
	}
	if db, ok := eng.(*embedded.DB); ok && db.Cluster() != nil {
		st := db.Cluster().State()
		a.Cluster, a.Node, a.NodeAddr = st.ID, st.Self, db.NodeAddr()
		node = fmt.Sprintf("%d of cluster %s, at %s", st.Self, st.ID, a.NodeAddr)
	}
	if o.json {
		return verb.PrintJSON(w, a)
	}
	about := ""
	if p.App.Web != nil {
		about = map[bool]string{false: " (the application)", true: " (the application, in debug mode)"}[o.web.debug]
	}
	calls := ""
	if n := len(p.App.Procedures); n > 0 {
		calls = fmt.Sprintf("%s; `%s procedures` lists them", verb.Plural(n, "procedure"), p.App.Name)
	}
	memory := ""
	if o.memory > 0 {
		memory = verb.FormatSize(o.memory)
	}
	_, err := fmt.Fprintf(w, "%s %s\n", p.Paint(w, verb.Bold, p.App.Name), a.Version)
	for _, line := range []struct{ name, value string }{
		{"HTTP", suffixed(a.HTTP, about)}, {"mail", suffixed(a.Outbox, " (not sent)")}, {"Redis", a.RESP}, {"admin", suffixed(a.Admin, " (keys, metrics, backups, profiles)")}, {"page", suffixed(a.AdminPage, " (the admin page)")}, {"Gremlin", a.Gremlin}, {"data", a.Data}, {"memory", memory}, {"node", node}, {"calls", calls},
	} {
		if line.value != "" && err == nil {
			_, err = fmt.Fprintf(w, "  %-7s %s\n", line.name, line.value)
		}
	}
	return err
}

// OutboxPath is where an application in debug mode shows email that was not sent.
const OutboxPath = "/_dev/outbox"

// suffixed returns text with a suffix, or "" if text is "".
func suffixed(text, suffix string) string {
	if text == "" {
		return ""
	}
	return text + suffix
}
