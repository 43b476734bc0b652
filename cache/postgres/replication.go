package postgres

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/skerrydb/skerry/cache"
	"github.com/skerrydb/skerry/engine"
)

const (
	defaultPublication = "skerry_cache"
	defaultEvery       = 250 * time.Millisecond
)

// ReplicationOptions configure Replication. URL and Tables are required.
type ReplicationOptions struct {
	// URL is that of the primary. Its role needs REPLICATION, and SELECT on the tables is not needed.
	URL    string
	Tables []Table

	// Slot is a permanent replication slot: lower-case letters, digits and _, at most 63. It keeps the changes that come
	// while the cache is away, so that a disk tier stays warm over a restart; limit what it may keep with the server's
	// max_slot_wal_keep_size. Each cache needs a slot of its own. "" is a slot that is gone with the connection: the
	// cache is emptied whenever the connection is lost.
	Slot string

	// Publication is what selects the tables on the server; "" is "skerry_cache".
	Publication string

	// Create makes the publication and the slot if they do not exist, and replaces a slot that has lost changes.
	Create bool

	// Fallback is run instead if the server, or the rights of the role, do not allow logical replication. Nil: the error
	// is reported, and reads go to the source.
	Fallback cache.Feed

	// Every is how often the feed proves that it is not behind; 0 is 250 ms.
	Every time.Duration

	// Logger receives what an operator should know; nil discards it.
	Logger *slog.Logger
}

var slotForm = regexp.MustCompile(`^[a-z0-9_]{1,63}$`)

// Replication returns a Feed of the changes of tables by logical replication. It needs no trigger, and costs writers
// nothing. Positions are LSNs; see Position.
func Replication(o ReplicationOptions) (cache.Feed, error) {
	if err := checkTables(o.Tables); err != nil {
		return nil, err
	}
	if o.Slot != "" && !slotForm.MatchString(o.Slot) {
		return nil, engine.Errorf(engine.CodeInvalid, "cache/postgres: the slot %q is not 1 to 63 lower-case letters, digits and _", o.Slot)
	}
	if o.Every < 0 {
		return nil, engine.Errorf(engine.CodeInvalid, "cache/postgres: Every is negative")
	}
	if _, err := pgx.ParseConfig(o.URL); err != nil {
		return nil, engine.Errorf(engine.CodeInvalid, "cache/postgres: the URL is malformed")
	}
	o.Publication = cmp.Or(o.Publication, defaultPublication)
	o.Every = cmp.Or(o.Every, defaultEvery)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return &replication{o}, nil
}

type replication struct{ o ReplicationOptions }

// Run implements cache.Feed.
func (f *replication) Run(ctx context.Context, sink cache.Sink) error {
	err := f.follow(ctx, sink)
	if engine.CodeOf(err) == engine.CodeUnsupported && f.o.Fallback != nil && ctx.Err() == nil {
		f.o.Logger.Warn("logical replication is not possible here: the cache uses its fallback", "because", err)
		return f.o.Fallback.Run(ctx, sink)
	}
	return err
}

// connect opens an ordinary connection.
func connect(ctx context.Context, url string) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	return pgx.Connect(ctx, url)
}

func (f *replication) follow(ctx context.Context, sink cache.Sink) error {
	db, err := connect(ctx, f.o.URL)
	if err != nil {
		return fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	defer closeSoon(db.Close)
	setup, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	tables, err := f.prepare(setup, db)
	if err != nil {
		return err
	}
	shape, err := f.shapeOf(setup, db, tables)
	if err != nil {
		return err
	}
	confirmed, exists, err := f.slot(setup, db)
	if err != nil {
		return err
	}
	cancel()
	s, err := f.open(ctx, tables)
	if err != nil {
		return err
	}
	defer closeSoon(s.conn.Close)
	if err := sameServer(ctx, db, s); err != nil {
		return err
	}
	history, pos, resumed, err := f.start(ctx, s, sink, shape, confirmed, exists)
	if err != nil {
		return err
	}
	ctx, cancel = context.WithCancel(ctx)
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.read(ctx)
	}()
	defer func() { cancel(); <-ended }()
	db2 := &server{db, f.o.Publication, names(tables)}
	return (&settler{every: f.o.Every, s: s, db: db2, sink: sink, shape: shape, reached: pos, news: s.news}).run(ctx, history, pos, resumed)
}

// closeSoon closes a connection that may hang.
func closeSoon(end func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = end(ctx) // the connection is gone either way
}

// readBuffer is how much is read from the server at once.
const readBuffer = 128 << 10

// open connects for replication.
func (f *replication) open(ctx context.Context, tables []Table) (*stream, error) {
	cfg, err := pgconn.ParseConfig(f.o.URL)
	if err != nil {
		return nil, engine.Errorf(engine.CodeInvalid, "cache/postgres: the URL is malformed")
	}
	cfg.RuntimeParams["replication"] = "database"
	cfg.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend { // the server sends each change by itself
		return pgproto3.NewFrontend(bufio.NewReaderSize(r, readBuffer), w)
	}
	within, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	conn, err := pgconn.ConnectConfig(within, cfg)
	if stateOf(err) == stateNoRight {
		return nil, engine.Errorf(engine.CodeUnsupported, "cache/postgres: role %s may not replicate; as a superuser, run: ALTER ROLE %s REPLICATION: %w", cfg.User, quoted(cfg.User), err)
	} else if err != nil {
		return nil, fmt.Errorf("connect to PostgreSQL for replication: %w", err)
	}
	return newStream(conn, newAssembler(tables)), nil
}

// start begins replication after the position of the cache, if the slot still has what came since, or else where the
// slot is.
func (f *replication) start(ctx context.Context, s *stream, sink cache.Sink, shape, confirmed string, exists bool) (history string, pos cache.Position, resumed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, makeWithin)
	defer cancel()
	system, err := s.row(ctx, "IDENTIFY_SYSTEM")
	if err != nil {
		return "", 0, false, err
	}
	slot := cmp.Or(f.o.Slot, fmt.Sprintf("skerry_cache_%d", s.conn.PID()))
	if !exists {
		temporary := ""
		if f.o.Slot == "" {
			temporary = " TEMPORARY"
		}
		f.o.Logger.Info("making a replication slot, which waits for the transactions that run now", "slot", slot)
		made, err := s.row(ctx, fmt.Sprintf("CREATE_REPLICATION_SLOT %s%s LOGICAL pgoutput NOEXPORT_SNAPSHOT", slot, temporary))
		if err != nil {
			return "", 0, false, rights(err, "make the replication slot", "ALTER ROLE "+quoted(f.user())+" REPLICATION")
		}
		confirmed = made[1]
	}
	from, err := parseLSN(confirmed)
	if err != nil {
		return "", 0, false, err
	}
	history = fmt.Sprintf("pg %s %s %s %s", system[0], system[1], slot, shape) // the system and its timeline; shape has the database's tables
	if known, last := sink.Resume(); exists && known == history && from <= last {
		from, resumed = last, true
	}
	sql := fmt.Sprintf("START_REPLICATION SLOT %s LOGICAL %s (proto_version '1', publication_names '%s')", slot, formatLSN(from), strings.ReplaceAll(quoted(f.o.Publication), "'", "''"))
	err = s.start(ctx, sql, from)
	if stateOf(err) == stateInUse {
		err = engine.Errorf(engine.CodeUnavailable, "cache/postgres: slot %s is in use by another program: each cache needs a slot of its own: %w", slot, err)
	}
	return history, from, resumed, err
}

func (f *replication) user() string {
	cfg, err := pgconn.ParseConfig(f.o.URL)
	if err != nil {
		return ""
	}
	return cfg.User
}
