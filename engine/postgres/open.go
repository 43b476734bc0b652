package postgres

import (
	"cmp"
	"context"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"

	"github.com/skerrydb/skerry/engine"
)

// minVersion is the oldest server, as in server_version_num: older ones get no more fixes.
const minVersion = 130000

// Open opens the database that u names, as libpq does, and creates what it needs there in a
// schema of its own: u's parameter schema, or DefaultSchema. On a hot standby it opens a
// follower, which only reads. The password is in no error and no log.
func Open(ctx context.Context, u *url.URL, o Options) (*DB, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	cfg, schema, err := parse(u)
	if err != nil {
		return nil, err
	}
	d := newDB(cfg, schema, o.withDefaults())
	if err := d.start(ctx); err != nil {
		_ = d.Close() // the first error counts
		return nil, err
	}
	return d, nil
}

// Dial opens a connection to the database that u names, for statements that are not the engine's. It returns the schema
// that the engine uses there. The password is in no error.
func Dial(ctx context.Context, u *url.URL) (conn *pgx.Conn, schema string, err error) {
	cfg, schema, err := parse(u)
	if err != nil {
		return nil, "", err
	}
	d := newDB(cfg, schema, Options{}.withDefaults())
	defer d.Close()
	if conn, err = d.connect(ctx); err != nil {
		return nil, "", d.fault(err)
	}
	return conn, schema, nil
}

// parse takes Skerry's parameters out of u and gives the rest to pgx.
func parse(u *url.URL) (*pgx.ConnConfig, string, error) {
	if u == nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return nil, "", engine.Errorf(engine.CodeInvalid, "postgres: the URL must begin with postgres:// or postgresql://")
	}
	schema, bare := Cut(u, "schema")
	schema = cmp.Or(schema, DefaultSchema)
	if len(schema) > 40 || strings.ContainsRune(schema, 0) || strings.HasPrefix(schema, "pg_") {
		return nil, "", engine.Errorf(engine.CodeInvalid, "postgres: %q cannot be the schema: it must have at most 40 bytes and not begin with pg_", schema)
	}
	cfg, err := pgx.ParseConfig(bare.String())
	if err != nil {
		return nil, "", engine.Errorf(engine.CodeInvalid, "postgres: the URL is wrong: %s", redacted(err, u))
	}
	dialer := &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 5}}
	cfg.DialFunc = dialer.DialContext
	cfg.ConnectTimeout = cmp.Or(cfg.ConnectTimeout, 5*time.Second)
	cfg.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
		// A caller's context that ends should not cost a connection whose server replies.
		return &pgconn.DeadlineContextWatcherHandler{Conn: c.Conn(), DeadlineDelay: 250 * time.Millisecond}
	}
	cfg.DefaultQueryExecMode = pgx.QueryExecModeCacheStatement
	if cfg.RuntimeParams["application_name"] == "" {
		cfg.RuntimeParams["application_name"] = "skerry"
	}
	cfg.RuntimeParams["client_encoding"] = "UTF8"
	return cfg, schema, nil
}

// Cut returns the value of a parameter of u, "" if there is none, and u without it. Unlike in
// package url, a plus in a value is a plus and not a space, as for PostgreSQL.
func Cut(u *url.URL, param string) (val string, without *url.URL) {
	bare := *u
	var kept []string
	for pair := range strings.SplitSeq(u.RawQuery, "&") {
		name, v, _ := strings.Cut(pair, "=")
		plain, err := url.PathUnescape(v)
		switch {
		case pair == "":
		case name == param && err == nil:
			val = plain
		case err == nil:
			kept = append(kept, name+"="+strings.ReplaceAll(url.QueryEscape(plain), "+", "%20"))
		default:
			kept = append(kept, pair) // pgx reports it
		}
	}
	bare.RawQuery = strings.Join(kept, "&")
	return val, &bare
}

// redacted returns why pgx refuses the URL u, without u and its passwords.
func redacted(err error, u *url.URL) string {
	text := err.Error()
	if i := strings.LastIndex(text, "`: "); i >= 0 { // before it is the URL
		text = text[i+3:]
	}
	secret, _ := u.User.Password()
	secrets := []string{secret, url.QueryEscape(secret), url.PathEscape(secret)}
	for name, vals := range u.Query() {
		if strings.Contains(name, "password") {
			secrets = append(secrets, vals...)
		}
	}
	for _, s := range secrets {
		if s != "" {
			text = strings.ReplaceAll(text, s, "xxxxx")
		}
	}
	return text
}

// connect opens a connection. It waits for it no longer than until ctx or the engine ends.
func (d *DB) connect(ctx context.Context) (*pgx.Conn, error) {
	return d.connectWith(ctx, d.cfg.Copy())
}

func (d *DB) connectWith(ctx context.Context, cfg *pgx.ConnConfig) (*pgx.Conn, error) {
	ctx, cancel := d.bounded(ctx)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, d.refusal(err)
	}
	d.connects.Add(1)
	return conn, nil
}

// start checks the server, makes the tables and starts the goroutines.
func (d *DB) start(ctx context.Context) error {
	conn, err := d.connect(ctx)
	if err != nil {
		return d.fault(err)
	}
	defer closeConn(conn)
	if err := d.check(ctx, conn); err != nil {
		return d.explain(ctx, err)
	}
	listening := make(chan error, 1)
	d.bg.Go(func() { d.listen(listening) })
	if err := <-listening; err != nil {
		return d.explain(ctx, err)
	}
	if !d.server.standby {
		d.bg.Go(d.execute)
		d.bg.Go(d.trim)
	}
	return nil
}

// check checks the server and makes the tables.
func (d *DB) check(ctx context.Context, conn *pgx.Conn) error {
	step := func(f func(context.Context, *pgx.Conn) error) error {
		ctx, cancel := d.bounded(ctx)
		defer cancel()
		return f(ctx, conn)
	}
	if err := step(d.refusePooler); err != nil {
		return err
	}
	d.sole.Store(true)
	if err := step(func(ctx context.Context, c *pgx.Conn) error { return d.pin(ctx, c.PgConn()) }); err != nil {
		return err
	}
	err := step(func(ctx context.Context, c *pgx.Conn) (err error) { d.server, err = readServer(ctx, c); return err })
	if err != nil {
		return err
	}
	if err := d.server.refuse(len(d.o.Setup) > 0); err != nil {
		return err
	}
	if !d.server.standby {
		if err := step(d.migrate); err != nil {
			return err
		}
	}
	if err := step(d.checkSchema); err != nil {
		return err
	}
	return step(func(ctx context.Context, c *pgx.Conn) error {
		h, err := d.readHead(ctx, c)
		d.advance(h.pos)
		return err
	})
}

// server is what the engine knows about the server that it is connected to.
type server struct {
	version   int
	standby   bool
	fsync     string
	sync      string // synchronous_commit
	fullPages string
	syncNames string // synchronous_standby_names
	user      string
	database  string
	readOnly  string // default_transaction_read_only
	backend   int32  // the session's process
	encoding  string // of the database
	first     string // the schema in which names are looked up first
}

func readServer(ctx context.Context, conn *pgx.Conn) (s server, err error) {
	err = conn.QueryRow(ctx, `SELECT pg_catalog.current_setting('server_version_num')::int, pg_is_in_recovery(), current_setting('fsync'),
		current_setting('synchronous_commit'), current_setting('full_page_writes'), current_setting('synchronous_standby_names'),
		current_user, current_database(), current_setting('default_transaction_read_only'), pg_backend_pid(),
		current_setting('server_encoding'), (pg_catalog.current_schemas(true))[1]::text`).Scan(
		&s.version, &s.standby, &s.fsync, &s.sync, &s.fullPages, &s.syncNames, &s.user, &s.database, &s.readOnly, &s.backend, &s.encoding, &s.first)
	return s, err
}

// refuse returns an error if the server, the database or the role cannot be used. texts says
// whether there will be columns of text.
func (s server) refuse(texts bool) error {
	switch {
	case s.version < minVersion:
		return engine.Errorf(engine.CodeUnsupported, "postgres: the server is PostgreSQL %d.%d; Skerry needs %d or newer", s.version/10000, s.version%10000, minVersion/10000)
	case s.first != "pg_catalog":
		return engine.Errorf(engine.CodeUnsupported, "postgres: search_path of role %s in database %s has schema %s before pg_catalog, so what is there could take the place of PostgreSQL's own functions: put pg_catalog first, or leave it out",
			s.user, s.database, s.first)
	case texts && s.encoding != "UTF8":
		return engine.Errorf(engine.CodeUnsupported, "postgres: database %s has encoding %s, which cannot hold every text; records in tables need UTF8: create the database with CREATE DATABASE %s TEMPLATE template0 ENCODING 'UTF8', or add records=keys to the URL",
			s.database, s.encoding, quoteIdent(s.database))
	}
	return s.refuseWrites()
}

// refuseWrites returns an error if an operator has switched off writes.
func (s server) refuseWrites() error {
	if s.readOnly == "off" || s.standby {
		return nil
	}
	return engine.Errorf(engine.CodeReadOnly, "postgres: default_transaction_read_only is on for role %s in database %s: an operator has switched off writes. To allow them, set it to off where it was set (ALTER ROLE, ALTER DATABASE, postgresql.conf or the URL)",
		s.user, s.database)
}

// weak names the setting because of which an acknowledged commit may be lost when the
// server's machine fails, or returns "".
func (s server) weak() string {
	switch {
	case s.fsync != "on":
		return "fsync=" + s.fsync
	case s.sync == "off":
		return "synchronous_commit=" + s.sync
	case s.fullPages != "on":
		return "full_page_writes=" + s.fullPages
	}
	return ""
}

// synchronous reports whether acknowledged commits are on a second server too.
func (s server) synchronous() bool {
	return s.syncNames != "" && s.sync != "off" && s.sync != "local"
}
