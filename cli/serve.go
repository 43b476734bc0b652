package cli

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/engine/embedded"
)

// Bounds of a server's configuration.
const (
	minMemory        = 16 << 20
	maxPasswordBytes = 512
)

// serveOptions is the configuration of a server.
type serveOptions struct {
	data           string
	http, resp     string
	admin          string
	databases      int
	web            webOptions
	acme           acmeOptions
	memory         int64
	archive        archiveOptions
	passwordFile   string
	hosts          []string
	tlsCert        string
	tlsKey         string
	insecurePublic bool
	logLevel       string
	logFormat      string
	json           bool
	node           nodeOptions
	whileStdin     bool

	password string      // what passwordFile holds, after check
	tls      *tls.Config // of tlsCert and tlsKey, after check
}

func dataSetting(p *string, def string) setting {
	return setting{"data", "DIR", def, "folder of the data", true, text(p)}
}

func memorySetting(p *int64) setting {
	return setting{"memory", "SIZE", "", "most that the data may take (default half of this machine's memory)", true, size(p, minMemory)}
}

func (o *serveOptions) settings() []setting {
	return append([]setting{
		dataSetting(&o.data, "./data"),
		{"http", "ADDR", skerry.DefaultHTTP, "address of HTTP: of the web application if the program has one, otherwise of keys and procedures; or " + off, true, address(&o.http)},
		{"resp", "ADDR", skerry.DefaultRESP, "address of the Redis protocol, or " + off, true, address(&o.resp)},
		{"admin", "ADDR", "", "address of keys, metrics, backups and profiles, or " + off + " (default " + skerry.DefaultAdmin + " beside a web application, otherwise " + off + ": HTTP then has all of these but profiles)", true, address(&o.admin)},
		{"databases", "N", strconv.Itoa(skerry.DefaultDatabases), "how many databases clients of the Redis protocol can select, up to " + strconv.Itoa(skerry.MaxDatabases) + "; more than the default opens the key spaces of the application and its procedures to them", true, whole(&o.databases, skerry.DefaultDatabases, skerry.MaxDatabases)},
		memorySetting(&o.memory),
		{"password-file", "FILE", "", "file with the password that clients of keys and procedures must give", true, text(&o.passwordFile)},
		{"hosts", "NAMES", "", "host names, with commas between them, that browsers may use (default IP addresses, localhost and names without a dot)", true, list(&o.hosts)},
		{"tls-cert", "FILE", "", "certificate chain (PEM) for all addresses but those between nodes", true, text(&o.tlsCert)},
		{"tls-key", "FILE", "", "private key (PEM) of the certificate", true, text(&o.tlsKey)},
		{"insecure-public", "", "", "allow addresses of keys and procedures that other machines reach without a password", true, toggle(&o.insecurePublic)},
		{"log-level", "LEVEL", "info", "debug, info, warn or error", true, choice(&o.logLevel, "debug", "info", "warn", "error")},
		{"log-format", "FORMAT", "text", "text or json", true, choice(&o.logFormat, "text", "json")},
		{"while-stdin", "", "", "stop cleanly when the standard input ends: for programs that start this one", false, toggle(&o.whileStdin)},
		jsonSetting(&o.json),
	}, slices.Concat(o.acme.settings(), o.web.settings(), o.archive.settings(), o.node.settings())...)
}

var serveVerb = verb{
	name: "serve", short: "serve the data of a folder over HTTP and the Redis protocol",
	long: `Makes the folder if it is missing. SIGTERM and SIGINT stop it cleanly: requests
in flight are answered first; a second signal ends it at once. Nothing that was
acknowledged is lost either way.

A folder that skerry cluster made is one node of several: see skerry help cluster.`,
	start: func(app App) action {
		o := &serveOptions{}
		return action{o.settings(), func(rest []string) error { return o.check(app, rest) }, func(ctx context.Context, p process, _ []string) error {
			return serve(ctx, p, o)
		}, false}
	},
}

// serve is the start-up of a server, in order; its end is the reverse.
func serve(ctx context.Context, p process, o *serveOptions) (err error) {
	log := o.logger(p.Stderr)
	o.memory = memoryLimit(o.memory)
	machine := machineMemory("/")
	if os.Getenv("GOMEMLIMIT") == "" { // else the operator has said it
		debug.SetMemoryLimit(processLimit(machine, o.memory))
	}
	if os.Getenv("GOGC") == "" {
		collector, end := context.WithCancel(ctx)
		defer end()
		go giveRoom(collector, machine)
	}
	eng, err := o.openNode(p, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, eng.Close()) }()
	figures, endArchive, err := o.archive.start(eng, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, endArchive()) }()
	app, err := o.web.of(p.app, log)
	if err != nil {
		return err
	}
	if app.Application != nil && app.Mail == nil && !app.Debug {
		log.Warn("no mail server (--smtp-url-file): letters, as of package account, cannot be sent")
	}
	folder, err := filepath.Abs(o.data)
	if err != nil {
		return err
	}
	srv, err := skerry.Open(eng, skerry.Options{
		HTTP: o.http, RESP: o.resp, Databases: o.databases, Admin: o.admin, Web: app, Procedures: p.app.Procedures, Password: o.password, Hosts: o.hosts, TLS: o.tls, Certificates: o.acme.of(),
		InputBytes: inputBytes(o.memory), Drain: o.web.drain, AdvertiseHost: o.node.facesHost(), Build: p.app.build().Version, Dir: folder, MachineMemory: machine, Metrics: figures, Logger: log,
	})
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w%s", err, otherAddress(err))
	}
	if err != nil {
		return err
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

// otherAddress says which setting chooses another address than the one that is in use.
func otherAddress(err error) string {
	face, _, _ := strings.Cut(err.Error(), ": ")
	name, known := map[string]string{"HTTP": "http", "RESP": "resp", "admin": "admin", "plain HTTP": "acme-http"}[face]
	if !known {
		return ""
	}
	return "; --" + name + " chooses another address"
}

// whileOpen returns a context that ends when there is no more to read from r.
func whileOpen(ctx context.Context, r io.Reader) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, r) // an error is an end too
		cancel()
	}()
	return ctx
}

// check reads what the settings name and finds what does not fit together.
func (o *serveOptions) check(app App, rest []string) error {
	wrong := []error{noArguments(rest), o.node.check(), o.web.check(app)}
	var err error
	if o.passwordFile != "" {
		o.password, err = readPassword(o.passwordFile)
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
	return mistakes(append(wrong, o.fits(app))...)
}

// fits finds what does not fit together in the settings alone.
func (o *serveOptions) fits(app App) error {
	wrong := []error{o.acme.check(o)}
	if o.http == off && o.resp == off {
		wrong = append(wrong, errors.New("http, resp: both are off, so nobody could be served"))
	}
	if o.passwordFile == "" && !o.insecurePublic {
		for _, face := range []struct{ name, addr string }{{"http", o.http}, {"resp", o.resp}, {"admin", o.admin}} {
			if face.name == "http" && app.Web != nil {
				continue // the application has users of its own
			}
			if public(face.addr) {
				wrong = append(wrong, fmt.Errorf("%s: %s can be reached from other machines: set --password-file, or --insecure-public if everyone may read and write", face.name, face.addr))
			}
		}
	}
	return mistakes(wrong...)
}

// readPassword returns the first line of the file that password-file names.
func readPassword(file string) (string, error) {
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

func (o *serveOptions) logger(w io.Writer) *slog.Logger {
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

// announcement is what `serve --json` prints once it listens.
type announcement struct {
	Version     string `json:"version"`
	PID         int    `json:"pid"`
	Data        string `json:"data"`
	HTTP        string `json:"http,omitempty"`
	RESP        string `json:"resp,omitempty"`
	Admin       string `json:"admin,omitempty"`
	Outbox      string `json:"outbox,omitempty"`
	MemoryBytes int64  `json:"memory_bytes"`
	Cluster     string `json:"cluster,omitempty"`
	Node        uint64 `json:"node,omitempty"`
	NodeAddr    string `json:"node_addr,omitempty"`

	Live []string `json:"live,omitempty"` // folders that are read as they are now
}

func (o *serveOptions) announce(p process, db *embedded.DB, srv *skerry.Server) error {
	w := p.Stdout
	a := announcement{Version: p.app.build().Version, PID: os.Getpid(), Data: o.data, HTTP: srv.HTTPURL(), RESP: srv.RESPURL(), Admin: srv.AdminURL(), MemoryBytes: o.memory, Live: srv.Live()}
	node := ""
	if a.HTTP != "" && p.app.Web != nil && o.web.debug && o.web.smtp == nil {
		a.Outbox = a.HTTP + outboxPath
	}
	if c := db.Cluster(); c != nil {
		st := c.State()
		a.Cluster, a.Node, a.NodeAddr = st.ID, st.Self, db.NodeAddr()
		node = fmt.Sprintf("%d of cluster %s, at %s", st.Self, st.ID, a.NodeAddr)
	}
	if o.json {
		return printJSON(w, a)
	}
	about := ""
	if p.app.Web != nil {
		about = map[bool]string{false: " (the application)", true: " (the application, in debug mode)"}[o.web.debug]
	}
	calls := ""
	if n := len(p.app.Procedures); n > 0 {
		calls = fmt.Sprintf("%s; `%s procedures` lists them", plural(n, "procedure"), p.app.Name)
	}
	_, err := fmt.Fprintf(w, "%s %s\n", p.paint(w, bold, p.app.Name), a.Version)
	for _, line := range []struct{ name, value string }{
		{"HTTP", suffixed(a.HTTP, about)}, {"mail", suffixed(a.Outbox, " (not sent)")}, {"Redis", a.RESP}, {"admin", suffixed(a.Admin, " (keys, metrics, backups, profiles)")}, {"data", a.Data}, {"memory", formatSize(o.memory)}, {"node", node}, {"calls", calls},
	} {
		if line.value != "" && err == nil {
			_, err = fmt.Fprintf(w, "  %-7s %s\n", line.name, line.value)
		}
	}
	return err
}

// outboxPath is where an application in debug mode shows mail that was not sent.
const outboxPath = "/_dev/outbox"

// suffixed is text with a suffix, or "" if there is no text.
func suffixed(text, suffix string) string {
	if text == "" {
		return ""
	}
	return text + suffix
}
