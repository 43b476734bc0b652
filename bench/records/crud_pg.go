package main

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/jackc/pgx/v5"

	"github.com/skerrydb/skerry/bench/records/item"
	"github.com/skerrydb/skerry/bench/rig"
)

const crudSchema = `CREATE TABLE crud (id bigint PRIMARY KEY, data jsonb NOT NULL);
CREATE TABLE crud_history (seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, record bigint NOT NULL, at timestamptz NOT NULL DEFAULT now(),
  before jsonb, after jsonb NOT NULL);
CREATE INDEX crud_history_record ON crud_history (record, seq);`

// pgStore is a table in PostgreSQL, with a row of history a change or without.
func pgStore(name, bin string, history bool) *crudStore {
	return &crudStore{name: name, times: map[int64]*crudTimes{}, open: func(dir string) (func() (crudSession, error), func() (int64, int64, error), func() error, error) {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, nil, nil, err
		}
		ports, err := rig.FreePorts(1)
		if err != nil {
			return nil, nil, nil, err
		}
		p, err := rig.StartPostgres(bin, dir, ports[0], filepath.Join(dir, "log"))
		if err != nil {
			return nil, nil, nil, err
		}
		end := func() error { return p.Stop(syscall.SIGINT) }
		ask := func(sql string, to ...any) error {
			return rig.WithPostgres(ports[0], func(ctx context.Context, c *pgx.Conn) error {
				if len(to) == 0 {
					_, err := c.Exec(ctx, sql)
					return err
				}
				return c.QueryRow(ctx, sql).Scan(to...)
			})
		}
		session := func() (crudSession, error) {
			c, err := pgx.Connect(context.Background(), rig.PostgresURL(ports[0]))
			return &pgSession{c, history}, err
		}
		count := func() (records, changes int64, err error) {
			err = ask("SELECT (SELECT count(*) FROM crud), (SELECT count(*) FROM crud_history)", &records, &changes)
			if !history {
				changes = -1
			}
			return records, changes, err
		}
		return session, count, end, ask(crudSchema)
	}}
}

type pgSession struct {
	*pgx.Conn
	history bool
}

func (s *pgSession) insert(n int64) error {
	sql := "INSERT INTO crud VALUES ($1, $2::jsonb)"
	if s.history {
		sql = "WITH new AS (INSERT INTO crud VALUES ($1, $2::jsonb) RETURNING *) INSERT INTO crud_history (record, after) SELECT id, data FROM new"
	}
	_, err := s.Exec(context.Background(), sql, n, string(crudData(n)))
	return err
}

func (s *pgSession) update(n int64) error {
	sql := "UPDATE crud SET data = data || $2::jsonb WHERE id = $1"
	if s.history {
		sql = `WITH old AS (SELECT * FROM crud WHERE id = $1 FOR UPDATE),
  new AS (UPDATE crud SET data = crud.data || $2::jsonb FROM old WHERE crud.id = old.id RETURNING crud.id, crud.data, old.data AS before)
INSERT INTO crud_history (record, before, after) SELECT id, before, data FROM new`
	}
	_, err := s.Exec(context.Background(), sql, n, string(crudChange(n)))
	return err
}

func (s *pgSession) scan(from int64, up bool, limit int, row func(id int64) error) error {
	sql := "SELECT id, data::text FROM crud WHERE id >= $1 ORDER BY id LIMIT $2"
	if !up {
		sql = "SELECT id, data::text FROM crud WHERE id <= $1 ORDER BY id DESC LIMIT $2"
	}
	rows, err := s.Query(context.Background(), sql, from, limit)
	if err != nil {
		return err
	}
	defer rows.Close()
	var id int64
	var data []byte
	for rows.Next() {
		if err := rows.Scan(&id, &data); err != nil {
			return err
		}
		if err := row(id); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (s *pgSession) close() error { return s.Close(context.Background()) }

// crudData is the data of record n, and crudChange its change.
func crudData(n int64) []byte {
	b := append(strconv.AppendInt([]byte(`{"title":"inserted `), n, 10), `","status":"`...)
	b = append(item.AppendStatus(b, n), `","number":`...)
	return append(strconv.AppendInt(b, n, 10), '}')
}

func crudChange(n int64) []byte {
	return append(strconv.AppendInt([]byte(`{"title":"updated `), n, 10), `"}`...)
}
