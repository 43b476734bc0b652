package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skerrydb/skerry/cache"
)

// sqlShape returns a text that differs once the stream may have missed something: when the publication ($1) was altered,
// or one of the tables ($2) was altered, replaced, rewritten, or got another partition, or this is another database. Such changes of values come with no
// messages.
const sqlShape = `(select md5(coalesce(string_agg(x, ' ' order by x), '')) from (
	with t as (select to_regclass(n) as oid from unnest($2::text[]) n),
		part as (select oid from t union select p.relid from t, lateral pg_partition_tree(t.oid) p)
	select concat_ws(':', 'p', oid, xmin::text) as x from pg_publication where pubname = $1
	union all select concat_ws(':', 'd', oid) from pg_database where datname = current_database()
	union all select concat_ws(':', 'r', r.oid, r.xmin::text) from pg_publication_rel r join pg_publication p on p.oid = r.prpubid where p.pubname = $1
	union all select concat_ws(':', 'c', c.oid, c.relfilenode, c.relreplident::text) from pg_class c where c.oid in (select oid from part)
	union all select concat_ws(':', 'a', attrelid, attnum, attname, atttypid, atttypmod, attisdropped) from pg_attribute where attrelid in (select oid from part) and attnum > 0
) parts)`

// shapeOf returns what sqlShape does.
func (f *replication) shapeOf(ctx context.Context, db *pgx.Conn, tables []Table) (shape string, err error) {
	if err := db.QueryRow(ctx, "select "+sqlShape, f.o.Publication, names(tables)).Scan(&shape); err != nil {
		return "", fmt.Errorf("look at the tables: %w", err)
	}
	return shape, nil
}

// names returns the names of tables as SQL writes them.
func names(tables []Table) (list []string) {
	for _, t := range tables {
		list = append(list, quoted(t.Name))
	}
	return list
}

// server is what a feed asks over its ordinary connection.
type server struct {
	db          *pgx.Conn
	publication string
	tables      []string
}

// now returns a snapshot, and an LSN that is after everything that it sees. If due, it also returns the shape of the
// tables in the snapshot.
func (s *server) now(ctx context.Context, due bool) (snap snapshot, pos cache.Position, shape string, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	var text, lsn string
	if due {
		// The catalogs are read in the snapshot of the statement, which is the one that it returns.
		err = s.db.QueryRow(ctx, "select pg_current_snapshot()::text, pg_current_wal_insert_lsn()::text, "+sqlShape, s.publication, s.tables).Scan(&text, &lsn, &shape)
	} else {
		err = s.db.QueryRow(ctx, "select pg_current_snapshot()::text, pg_current_wal_insert_lsn()::text").Scan(&text, &lsn)
	}
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			err = errSilent
		}
		return snapshot{}, 0, "", fmt.Errorf("ask for the newest position: %w", err)
	}
	if snap, err = parseSnapshot(text); err != nil {
		return snapshot{}, 0, "", err
	}
	pos, err = parseLSN(lsn)
	return snap, pos, shape, err
}

// nudge makes the server write its log to disk up to now, by a commit that does not wait for standbys: only what is on
// disk is streamed, and what a transaction that still runs has written can stay in memory for long.
func (s *server) nudge(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	if _, err := s.db.Exec(ctx, "select pg_logical_emit_message(true, 'skerry_cache', '')"); err != nil {
		return fmt.Errorf("write to the log of the server: %w", err)
	}
	return nil
}

// sameServer checks that two connections lead to one server: an address can stand for several.
func sameServer(ctx context.Context, db *pgx.Conn, s *stream) error {
	const born = "select pg_postmaster_start_time()::text, pg_current_wal_insert_lsn()::text"
	var started, unused string
	if err := db.QueryRow(ctx, born).Scan(&started, &unused); err != nil {
		return fmt.Errorf("ask which server this is: %w", err)
	}
	row, err := s.row(ctx, born)
	if err != nil {
		return fmt.Errorf("ask which server this is: %w", err)
	}
	if row[0] != started {
		return errors.New("the URL leads to different servers: name the primary, or add target_session_attrs=primary")
	}
	return nil
}

// errSilent ends a feed whose server does not answer.
var errSilent = fmt.Errorf("the server did not answer within %v", answerWithin)

// errShape ends a feed whose tables were altered. The next run checks them again and has another history.
var errShape = errors.New("a table or the publication was altered")

const (
	// answerWithin bounds how long the server may take to answer a question: a connection that is half open does not say
	// so.
	answerWithin = 10 * time.Second

	// streamWithin is the same for the stream. It is longer, as decoding a large transaction can take long.
	streamWithin = time.Minute

	// makeWithin is the same for making a slot, which waits for every transaction that runs.
	makeWithin = time.Minute
)
