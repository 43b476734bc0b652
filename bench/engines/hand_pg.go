package main

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skerrydb/skerry/bench/records/item"
	"github.com/skerrydb/skerry/bench/rig"
)

// startPostgres starts PostgreSQL with its data below dir.
func startPostgres(dir string) (server *rig.Process, addr string, stop func() error, err error) {
	bin, err := rig.PostgresPrograms()
	if err != nil {
		return nil, "", nil, err
	}
	free, err := rig.FreePorts(1)
	if err != nil {
		return nil, "", nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, "", nil, err
	}
	server, err = rig.StartPostgres(bin, dir, free[0], dir+".log")
	return server, free[0], func() error { return server.Stop(syscall.SIGINT) }, err
}

const pgSchema = `
CREATE TABLE kv (k bytea PRIMARY KEY, v bytea NOT NULL);
CREATE TABLE log (seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at timestamptz NOT NULL DEFAULT now(), k bytea NOT NULL, v bytea NOT NULL);
CREATE TABLE sessions (token bytea PRIMARY KEY, data bytea NOT NULL, seen timestamptz NOT NULL DEFAULT now());
CREATE TABLE phone (id bigint PRIMARY KEY, votes bigint NOT NULL);
CREATE TABLE votes (contestant int NOT NULL, state text NOT NULL, votes bigint NOT NULL, PRIMARY KEY (contestant, state));
INSERT INTO votes SELECT c, 'NY', 0 FROM generate_series(1, 12) c;
CREATE FUNCTION vote(who bigint, contestant_id int, most bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE n bigint;
BEGIN
  SELECT votes INTO n FROM phone WHERE id = who;
  IF n >= most THEN RAISE EXCEPTION 'too many votes'; END IF;
  UPDATE votes SET votes = votes + 1 WHERE contestant = contestant_id AND state = 'NY';
  IF NOT FOUND THEN RAISE EXCEPTION 'no such contestant'; END IF;
  INSERT INTO phone VALUES (who, 1) ON CONFLICT (id) DO UPDATE SET votes = phone.votes + 1 RETURNING votes INTO n;
  RETURN n;
END $$;
CREATE TABLE items (
  id text PRIMARY KEY, rev bigint NOT NULL DEFAULT 1, created timestamptz NOT NULL DEFAULT now(), updated timestamptz NOT NULL DEFAULT now(),
  data jsonb NOT NULL);
CREATE INDEX items_status ON items ((data->>'status'), ((data->>'number')::bigint) DESC);
CREATE TABLE history (
  seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, record text NOT NULL, rev bigint NOT NULL, at timestamptz NOT NULL DEFAULT now(),
  actor text NOT NULL, op text NOT NULL, before jsonb, after jsonb);
CREATE UNIQUE INDEX history_record ON history (record, rev);`

// What a programmer writes by hand. A change of a record and its row of history are one statement.
const (
	pgGet     = "SELECT v FROM kv WHERE k = $1"
	pgSet     = "INSERT INTO kv VALUES ($1, $2) ON CONFLICT (k) DO UPDATE SET v = excluded.v"
	pgLog     = "INSERT INTO log (k, v) VALUES ($1, $2)"
	pgVote    = "SELECT vote($1, $2, $3)"
	pgLoad    = "SELECT data FROM sessions WHERE token = $1"
	pgSave    = "INSERT INTO sessions VALUES ($1, $2) ON CONFLICT (token) DO UPDATE SET data = excluded.data, seen = now()"
	pgColumns = "id, rev, created, updated, data::text"
	pgItem    = "SELECT " + pgColumns + " FROM items WHERE id = $1"
	pgList    = "SELECT " + pgColumns + ` FROM items WHERE data->>'status' = $1 ORDER BY (data->>'number')::bigint DESC LIMIT $2`
	pgCreate  = `WITH new AS (INSERT INTO items (id, data) VALUES (gen_random_uuid()::text, $1::jsonb) RETURNING *),
  past AS (INSERT INTO history (record, rev, actor, op, after) SELECT id, rev, '', 'create', data FROM new)
SELECT ` + pgColumns + ` FROM new`
	pgUpdate = `WITH old AS (SELECT id, data FROM items WHERE id = $1 FOR UPDATE),
  new AS (UPDATE items SET data = items.data || $2::jsonb, rev = rev + 1, updated = now() FROM old WHERE items.id = old.id
    RETURNING items.id, rev, created, updated, items.data, old.data AS before),
  past AS (INSERT INTO history (record, rev, actor, op, before, after) SELECT id, rev, '', 'update', before, data FROM new)
SELECT ` + pgColumns + ` FROM new`
)

func openPgx(ctx context.Context, p *plan, dir string, fill bool) (*side, error) {
	server, addr, stop, err := startPostgres(dir)
	if err != nil {
		return nil, err
	}
	c, err := pgxpool.ParseConfig(rig.PostgresURL(addr))
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	c.MaxConns = maxCallers
	pool, err := pgxpool.NewWithConfig(ctx, c)
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	end := func() error { pool.Close(); return stop() }
	if fill {
		if err := fillPg(ctx, p, pool); err != nil {
			return nil, errors.Join(err, end())
		}
	}
	return &side{ops: pgOps(p, pool), pids: []int{server.PID()}, close: end}, nil
}

func fillPg(ctx context.Context, p *plan, pool *pgxpool.Pool) error {
	if _, err := pool.Exec(ctx, pgSchema); err != nil {
		return err
	}
	insert := func(sql string, n int, args func(i int) []any) error {
		for from := 0; from < n; from += fillBatch {
			b := &pgx.Batch{}
			for i := from; i < min(from+fillBatch, n); i++ {
				b.Queue(sql, args(i)...)
			}
			if err := pool.SendBatch(ctx, b).Close(); err != nil {
				return err
			}
		}
		return nil
	}
	err := insert(pgSet, p.keys, func(i int) []any { return []any{key(int64(i)), value(int64(i))} })
	if err == nil {
		err = insert(pgSave, sessions, func(i int) []any { return []any{key(int64(i)), value(int64(i))} })
	}
	if err == nil {
		err = insert("INSERT INTO items (id, data) VALUES ($1, $2::jsonb)", p.records, func(i int) []any {
			return []any{string(item.AppendID(nil, int64(i))), string(item.AppendJSON(nil, int64(i)))}
		})
	}
	return err
}

// pgOps returns the operations by lane.
func pgOps(p *plan, pool *pgxpool.Pool) map[string]op {
	keys, records := int64(p.keys), int64(p.records)
	one := func(ctx context.Context, sql string, args ...any) error {
		var v []byte
		return pool.QueryRow(ctx, sql, args...).Scan(&v)
	}
	exec := func(ctx context.Context, sql string, args ...any) error {
		_, err := pool.Exec(ctx, sql, args...)
		return err
	}
	return map[string]op{
		"get": func(ctx context.Context, _ int, n int64) error { return one(ctx, pgGet, key(n%keys)) },
		"set": func(ctx context.Context, _ int, n int64) error { return exec(ctx, pgSet, key(n%keys), value(n)) },
		"set+log": func(ctx context.Context, _ int, n int64) error {
			return again(func() error { return setLogged(ctx, pool, key(n%keys), value(n)) })
		},
		"vote": func(ctx context.Context, _ int, n int64) error {
			var votes int64
			return pool.QueryRow(ctx, pgVote, phone(n%keys), contestant(n), int64(maxVotes)).Scan(&votes)
		},
		"session load": func(ctx context.Context, _ int, n int64) error { return one(ctx, pgLoad, key(n%sessions)) },
		"session save": func(ctx context.Context, _ int, n int64) error {
			token := key(n % sessions)
			if err := one(ctx, pgLoad, token); err != nil {
				return err
			}
			return exec(ctx, pgSave, token, value(n))
		},
		"record get": func(ctx context.Context, _ int, n int64) error {
			return rows(ctx, pool, 1, pgItem, string(item.AppendID(nil, n%records)))
		},
		"record list": func(ctx context.Context, _ int, n int64) error {
			return rows(ctx, pool, 1, pgList, string(item.AppendStatus(nil, n%item.Statuses)), listed)
		},
		"record create": func(ctx context.Context, _ int, n int64) error {
			return rows(ctx, pool, 1, pgCreate, string(item.AppendJSON(nil, n)))
		},
		"record update": func(ctx context.Context, _ int, n int64) error {
			return rows(ctx, pool, 1, pgUpdate, string(item.AppendID(nil, n%records)), string(item.AppendChange(nil, n)))
		},
	}
}

// setLogged reads a row, writes it and logs the change, in one serialisable transaction.
func setLogged(ctx context.Context, pool *pgxpool.Pool, k, v []byte) error {
	return pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.Serializable}, func(tx pgx.Tx) error {
		var old []byte
		if err := tx.QueryRow(ctx, pgGet, k).Scan(&old); err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		b := &pgx.Batch{}
		b.Queue(pgSet, k, v)
		b.Queue(pgLog, k, v)
		return tx.SendBatch(ctx, b).Close()
	})
}

// again runs a transaction until it has no conflict.
func again(fn func() error) error {
	for {
		err := fn()
		if e, ok := errors.AsType[*pgconn.PgError](err); !ok || e.Code != "40001" {
			return err
		}
	}
}

// rows reads all rows of records. Fewer than least are an error.
func rows(ctx context.Context, pool *pgxpool.Pool, least int, sql string, args ...any) error {
	found, err := pool.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	all, err := pgx.CollectRows(found, func(row pgx.CollectableRow) (r pgRecord, err error) {
		err = row.Scan(&r.id, &r.rev, &r.created, &r.updated, &r.data)
		return r, err
	})
	return there(len(all) >= least, err)
}

// pgRecord is a row of items.
type pgRecord struct {
	id               string
	rev              int64
	created, updated time.Time
	data             []byte
}
