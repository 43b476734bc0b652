package postgres

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skerrydb/skerry/cache"
	"github.com/skerrydb/skerry/engine"
)

// PoolOptions configure NewPool. The zero value works.
type PoolOptions struct {
	// Conns is how many connections the pool may have; 0 is 8.
	Conns int32

	// Standby allows connections to standbys; see QueryOptions.Primary.
	Standby bool
}

const defaultConns = 8

// NewPool returns connections for Query. Unless standbys are allowed, it refuses them.
func NewPool(ctx context.Context, url string, o PoolOptions) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, engine.Errorf(engine.CodeInvalid, "cache/postgres: the URL is malformed")
	}
	cfg.MaxConns = cmp.Or(o.Conns, defaultConns)
	if !o.Standby {
		cfg.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
			var standby bool
			if err := c.QueryRow(ctx, "select pg_is_in_recovery()").Scan(&standby); err != nil {
				return fmt.Errorf("ask whether the server is a standby: %w", err)
			}
			if standby {
				return engine.Errorf(engine.CodeUnsupported, "cache/postgres: the server is a standby: set PoolOptions.Standby to read it")
			}
			return nil
		}
	}
	return pgxpool.NewWithConfig(ctx, cfg)
}

// QueryOptions configure Query. Pool and SQL are required.
type QueryOptions struct {
	Pool *pgxpool.Pool

	// SQL returns a row for each key of the array $1 that exists: the key as text, the body as text, json, jsonb or
	// bytea, and optionally an ETag as text. For example:
	//
	//	select id::text, to_json(d) from dept d where id = any ($1::text[]::bigint[])
	SQL string

	// Type is the media type of the bodies; "" is application/json.
	Type string

	// Finish, if not nil, may change an entry before it is kept: compress it for example.
	Finish func(cache.Entry) cache.Entry

	// Primary is required if the pool may read standbys. Each load asks it for its position and waits until the standby
	// has replayed that much, so a load sees what the feed has reported, and readers see their own writes. A
	// standby shows commits in another order than the primary.
	Primary Queryer

	// Valid, if not nil, reports whether a key can exist. Keys that cannot are missing, and SQL is not asked for them. Without
	// it, a key that is no integer makes $1::bigint[] fail for all keys that are loaded together; see Integer.
	Valid func(key string) bool

	// Logger receives what is wrong with the database, which readers are not told; nil discards it.
	Logger *slog.Logger
}

// Query returns a source that loads entries with SQL, all keys that it is asked for in one query.
func Query(o QueryOptions) (cache.Source, error) {
	if o.Pool == nil || o.SQL == "" {
		return nil, engine.Errorf(engine.CodeInvalid, "cache/postgres: Query needs Pool and SQL")
	}
	o.Type = cmp.Or(o.Type, "application/json")
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return &query{o}, nil
}

type query struct{ o QueryOptions }

// Load implements cache.Source.
func (q *query) Load(ctx context.Context, keys []string) ([]cache.Entry, error) {
	entries, err := q.load(ctx, keys)
	if err != nil {
		q.o.Logger.Warn("a query of the cache failed", "err", err)
		return nil, loadError(ctx, err)
	}
	return entries, nil
}

func (q *query) load(ctx context.Context, keys []string) ([]cache.Entry, error) {
	at := make(map[string]int, len(keys))
	entries := make([]cache.Entry, len(keys))
	var asked []string
	for i, key := range keys {
		at[key] = i
		entries[i].Missing = true
		// No text of PostgreSQL is invalid UTF-8 or has a zero byte.
		if utf8.ValidString(key) && !strings.Contains(key, "\x00") && (q.o.Valid == nil || q.o.Valid(key)) {
			asked = append(asked, key)
		}
	}
	if len(asked) == 0 {
		return entries, nil
	}
	conn, err := q.o.Pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	if q.o.Primary != nil {
		if err := q.replayed(ctx, conn.Conn()); err != nil {
			return nil, err
		}
	}
	rows, err := conn.Query(ctx, q.o.SQL, asked)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		key, e, err := q.row(rows)
		if err != nil {
			return nil, err
		}
		if i, ok := at[key]; ok {
			entries[i] = e
		}
	}
	return entries, rows.Err()
}

// row returns the key and the entry of a row.
func (q *query) row(rows pgx.Rows) (string, cache.Entry, error) {
	types, raw := rows.FieldDescriptions(), rows.RawValues()
	if len(raw) < 2 || len(raw) > 3 {
		return "", cache.Entry{}, fmt.Errorf("the query returns %d columns, not a key, a body and perhaps an ETag", len(raw))
	}
	texts := [3][]byte{}
	for i, v := range raw {
		body, err := plain(types[i].DataTypeOID, types[i].Format, v, i == 1)
		if err != nil {
			return "", cache.Entry{}, fmt.Errorf("column %d of the query, %s: %w", i+1, types[i].Name, err)
		}
		texts[i] = body
	}
	key := string(texts[0])
	if raw[1] == nil {
		return key, cache.Entry{Missing: true}, nil
	}
	e := cache.Entry{Body: append([]byte{}, texts[1]...), Type: q.o.Type, ETag: string(texts[2])}
	if q.o.Finish != nil {
		e = q.o.Finish(e)
	}
	return key, e, nil
}

// plain returns the bytes of a text, or of a body.
func plain(oid uint32, format int16, v []byte, body bool) ([]byte, error) {
	switch oid {
	case pgtype.TextOID, pgtype.VarcharOID, pgtype.BPCharOID, pgtype.JSONOID:
		return v, nil
	case pgtype.JSONBOID:
		if format == pgx.BinaryFormatCode && len(v) > 0 {
			v = v[1:] // its version
		}
		return v, nil
	case pgtype.ByteaOID:
		if body && format == pgx.BinaryFormatCode {
			return v, nil
		}
	}
	if body {
		return nil, fmt.Errorf("a body must be text, json, jsonb or bytea: cast it")
	}
	return nil, fmt.Errorf("it must be text: cast it with ::text")
}

// replayPause is how long a load waits between two looks at how far a standby is.
const replayPause = 2 * time.Millisecond

// replayed waits until a standby has replayed what the primary has committed by now.
func (q *query) replayed(ctx context.Context, c *pgx.Conn) error {
	pos, err := Position(ctx, q.o.Primary)
	if err != nil {
		return err
	}
	pos = max(pos, cache.AtLeast(ctx))
	for {
		var done bool
		err := c.QueryRow(ctx, "select not pg_is_in_recovery() or pg_last_wal_replay_lsn() >= $1::text::pg_lsn", formatLSN(pos)).Scan(&done)
		if err != nil || done {
			return err
		}
		select {
		case <-time.After(replayPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Integer reports whether a key is a decimal integer of 64 bits as PostgreSQL writes it. It can be QueryOptions.Valid.
func Integer(key string) bool {
	n, err := strconv.ParseInt(key, 10, 64)
	return err == nil && strconv.FormatInt(n, 10) == key
}

// Queryer is a connection or a pool of pgx.
type Queryer interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Position returns a position that includes everything that the caller has committed on the primary before, for
// cache.Read.AtLeast.
func Position(ctx context.Context, db Queryer) (cache.Position, error) {
	var lsn string
	err := db.QueryRow(ctx, "select (case current_setting('synchronous_commit') when 'off' then pg_current_wal_insert_lsn() else pg_current_wal_flush_lsn() end)::text").Scan(&lsn)
	if err != nil {
		return 0, fmt.Errorf("ask for the position: %w", err)
	}
	return parseLSN(lsn)
}
