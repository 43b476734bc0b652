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

// parse takes Skerry's parameters out of u and gives the rest to pgx.
func parse(u *url.URL) (*pgx.ConnConfig, string, error) {
	if u == nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return nil, "", engine.Errorf(engine.CodeInvalid, "postgres: the URL must begin with postgres:// or postgresql://")
	}
	bare, q := *u, u.Query()
	schema := cmp.Or(q.Get("schema"), DefaultSchema)
	if len(schema) > 40 || strings.ContainsRune(schema, 0) || strings.HasPrefix(schema, "pg_") {
		return nil, "", engine.Errorf(engine.CodeInvalid, "postgres: %q cannot be the schema: it must have at most 40 bytes and not begin with pg_", schema)
	}
	q.Del("schema")
	bare.RawQuery = q.Encode()
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

// redacted returns err's text without u's password.
func redacted(err error, u *url.URL) string {
	text := err.Error()
	if pw, ok := u.User.Password(); ok && pw != "" {
		text = strings.ReplaceAll(text, pw, "xxxxx")
		text = strings.ReplaceAll(text, url.QueryEscape(pw), "xxxxx")
	}
	return text
}

// connect opens a connection. It waits for it no longer than until ctx or the engine ends.
func (d *DB) connect(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, statementTime)
	defer cancel()
	defer context.AfterFunc(d.ctx, cancel)()
	conn, err := pgx.ConnectConfig(ctx, d.cfg.Copy())
	if err == nil {
		d.connects.Add(1)
	}
	return conn, err
}

// start checks the server, makes the tables and starts the goroutines.
func (d *DB) start(ctx context.Context) error {
	conn, err := d.connect(ctx)
	if err != nil {
		return translate(err)
	}
	defer closeConn(conn)
	s, err := readServer(ctx, conn)
	if err != nil {
		return d.fault(err)
	}
	if s.version < minVersion {
		return engine.Errorf(engine.CodeUnsupported, "postgres: the server is PostgreSQL %d.%d; Skerry needs %d or newer", s.version/10000, s.version%10000, minVersion/10000)
	}
	if err := d.refusePooler(ctx, conn); err != nil {
		return err
	}
	d.server = s
	if !s.standby {
		if err := d.migrate(ctx, conn); err != nil {
			return err
		}
	}
	if err := d.checkSchema(ctx, conn); err != nil {
		return err
	}
	h, err := d.readHead(ctx, conn)
	if err != nil {
		return d.fault(err)
	}
	d.advance(h.pos)
	listening := make(chan error, 1)
	d.bg.Go(func() { d.listen(listening) })
	if err := <-listening; err != nil {
		return d.fault(err)
	}
	if !s.standby {
		d.bg.Go(d.execute)
		d.bg.Go(d.trim)
	}
	return nil
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
}

func readServer(ctx context.Context, conn *pgx.Conn) (s server, err error) {
	err = conn.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, pg_is_in_recovery(), current_setting('fsync'),
		current_setting('synchronous_commit'), current_setting('full_page_writes'), current_setting('synchronous_standby_names'),
		current_user, current_database(), current_setting('default_transaction_read_only'), pg_backend_pid()`).Scan(
		&s.version, &s.standby, &s.fsync, &s.sync, &s.fullPages, &s.syncNames, &s.user, &s.database, &s.readOnly, &s.backend)
	return s, err
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

// refusePooler returns an error if the server's connections are shared between sessions by
// the transaction, as pgbouncer does in that mode: LISTEN and the identity of a session would
// not work. One session leaves a mark. While another one is within a transaction, the first
// must still have its mark, and the other must not see it.
func (d *DB) refusePooler(ctx context.Context, one *pgx.Conn) error {
	two, err := d.connect(ctx)
	if err != nil {
		return translate(err)
	}
	defer closeConn(two)
	const mark, look = "SELECT set_config('skerry.session', 'one', false)", "SELECT coalesce(current_setting('skerry.session', true), '')"
	var mine, other string
	steps := []func() error{
		func() error { _, err := one.Exec(ctx, mark); return err },
		func() error { _, err := two.Exec(ctx, "BEGIN"); return err },
		func() error { return two.QueryRow(ctx, look).Scan(&other) },
		func() error { return one.QueryRow(ctx, look).Scan(&mine) },
		func() error { _, err := two.Exec(ctx, "ROLLBACK"); return err },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return d.fault(err)
		}
	}
	if mine != "one" || other != "" {
		return engine.Errorf(engine.CodeUnsupported, "postgres: a pooler in transaction mode, such as pgbouncer, is between Skerry and the server; connect to the server itself or use pool_mode=session")
	}
	return nil
}
