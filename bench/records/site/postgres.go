package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skerrydb/skerry/bench/records/item"
	"github.com/skerrydb/skerry/bench/rig"
)

// pgConnections is the size of the pool: as many as the load has clients, so that their commits share fsyncs.
const pgConnections = 64

const pgSchema = `
CREATE TABLE IF NOT EXISTS items (
  id text PRIMARY KEY, rev bigint NOT NULL DEFAULT 1, created timestamptz NOT NULL DEFAULT now(), updated timestamptz NOT NULL DEFAULT now(),
  data jsonb NOT NULL);
CREATE INDEX IF NOT EXISTS items_status ON items ((data->>'status'), ((data->>'number')::bigint) DESC);
CREATE TABLE IF NOT EXISTS history (
  seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, record text NOT NULL, rev bigint NOT NULL, at timestamptz NOT NULL DEFAULT now(),
  actor text NOT NULL, op text NOT NULL, before jsonb, after jsonb);
CREATE UNIQUE INDEX IF NOT EXISTS history_record ON history (record, rev);`

// A change and its row of the history are one statement, so one transaction and one round trip.
const (
	pgColumns = "id, rev, created, updated, data::text"
	pgCreate  = `WITH new AS (INSERT INTO items (id, data) VALUES ($1, $2::jsonb) RETURNING *),
  past AS (INSERT INTO history (record, rev, actor, op, after) SELECT id, rev, '', 'create', data FROM new)
SELECT ` + pgColumns + ` FROM new`
	pgUpdate = `WITH old AS (SELECT id, data FROM items WHERE id = $1 FOR UPDATE),
  new AS (UPDATE items SET data = items.data || $2::jsonb, rev = rev + 1, updated = now() FROM old WHERE items.id = old.id
    RETURNING items.id, rev, created, updated, items.data, old.data AS before),
  past AS (INSERT INTO history (record, rev, actor, op, before, after) SELECT id, rev, '', 'update', before, data FROM new)
SELECT ` + pgColumns + ` FROM new`
	pgGet  = "SELECT " + pgColumns + " FROM items WHERE id = $1"
	pgList = "SELECT " + pgColumns + ` FROM items WHERE data->>'status' = $1 ORDER BY (data->>'number')::bigint DESC LIMIT $2`
)

// plain is what a careful programmer writes without a framework: net/http, pgx and JSONB.
type plain struct{ *pgxpool.Pool }

// newPostgres serves records from PostgreSQL.
func newPostgres(ctx context.Context, addr string) (*site, error) {
	c, err := pgxpool.ParseConfig(rig.PostgresURL(addr))
	if err != nil {
		return nil, err
	}
	c.MaxConns = pgConnections
	pool, err := pgxpool.NewWithConfig(ctx, c)
	if err != nil {
		return nil, err
	}
	if _, err := pool.Exec(ctx, pgSchema); err != nil {
		return nil, err
	}
	p := plain{pool}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /items", p.create)
	mux.HandleFunc("GET /items/{id}", p.get)
	mux.HandleFunc("GET /items", p.list)
	mux.HandleFunc("PATCH /items/{id}", p.update)
	return &site{
		load: p.load, report: p.report,
		index: func(ctx context.Context) error {
			_, err := pool.Exec(ctx, "CREATE INDEX items_price ON items (((data->>'price')::float8))")
			return err
		},
		serve: func(ctx context.Context, addr string) error { return serveHTTP(ctx, addr, mux) },
		close: func() error { pool.Close(); return nil },
	}, nil
}

// stored is a record as clients see it.
type stored struct {
	ID      string          `json:"id"`
	Rev     int64           `json:"rev"`
	Created time.Time       `json:"created"`
	Updated time.Time       `json:"updated"`
	Data    json.RawMessage `json:"data"`
}

func scan(row pgx.Row) (r stored, err error) {
	err = row.Scan(&r.ID, &r.Rev, &r.Created, &r.Updated, &r.Data)
	return r, err
}

// maxBody is the longest body of a request.
const maxBody = 1 << 20

// checked reads a body and checks its fields; those of a whole record are required.
func checked(w http.ResponseWriter, r *http.Request, whole bool) ([]byte, bool) {
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var in struct {
		Title, Status *string
		Number        *int64
		Price         *float64
		Done          *bool
		Body          *string
	}
	if err == nil {
		err = json.Unmarshal(b, &in)
	}
	switch {
	case err != nil:
	case whole && (in.Title == nil || in.Status == nil), in.Title != nil && (*in.Title == "" || len(*in.Title) > 200),
		in.Status != nil && (*in.Status == "" || len(*in.Status) > 20), in.Body != nil && len(*in.Body) > 5000:
		err = errors.New("a field is missing or too long")
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
	return b, err == nil
}

func answer(w http.ResponseWriter, status int, v any, err error) {
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		http.Error(w, "not found", http.StatusNotFound)
		return
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client is gone
}

// newID returns a UUID in version 7 form (RFC 9562).
func newID() string {
	var u [16]byte
	rand.Read(u[6:])
	ms := time.Now().UnixMilli()
	for i := range 6 {
		u[i] = byte(ms >> (40 - 8*i))
	}
	u[6], u[8] = u[6]&0x0f|0x70, u[8]&0x3f|0x80
	h := hex.EncodeToString(u[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

func (p plain) create(w http.ResponseWriter, r *http.Request) {
	if b, ok := checked(w, r, true); ok {
		rec, err := scan(p.QueryRow(r.Context(), pgCreate, newID(), string(b)))
		answer(w, http.StatusCreated, rec, err)
	}
}

func (p plain) update(w http.ResponseWriter, r *http.Request) {
	if b, ok := checked(w, r, false); ok {
		rec, err := scan(p.QueryRow(r.Context(), pgUpdate, r.PathValue("id"), string(b)))
		answer(w, http.StatusOK, rec, err)
	}
}

func (p plain) get(w http.ResponseWriter, r *http.Request) {
	rec, err := scan(p.QueryRow(r.Context(), pgGet, r.PathValue("id")))
	answer(w, http.StatusOK, rec, err)
}

func (p plain) list(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	limit, err := strconv.Atoi(q.Get("limit"))
	if err != nil || limit < 1 || limit > 1000 {
		http.Error(w, "limit must be from 1 to 1000", http.StatusBadRequest)
		return
	}
	rows, err := p.Query(r.Context(), pgList, q.Get("status"), limit)
	if err != nil {
		answer(w, 0, nil, err)
		return
	}
	items, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (stored, error) { return scan(row) })
	answer(w, http.StatusOK, map[string]any{"items": items}, err)
}

func (p plain) load(ctx context.Context, n int64) error {
	var there int64
	if err := p.QueryRow(ctx, "SELECT count(*) FROM items").Scan(&there); err != nil || there > 0 {
		return err
	}
	i := int64(-1)
	if _, err := p.CopyFrom(ctx, pgx.Identifier{"items"}, []string{"id", "data"}, pgx.CopyFromFunc(func() ([]any, error) {
		if i++; i == n {
			return nil, nil
		}
		return []any{string(item.AppendID(nil, i)), string(item.AppendJSON(nil, i))}, nil
	})); err != nil {
		return err
	}
	if _, err := p.Exec(ctx, "INSERT INTO history (record, rev, actor, op, after) SELECT id, 1, '', 'create', data FROM items"); err != nil {
		return err
	}
	_, err := p.Exec(ctx, "VACUUM ANALYZE")
	return err
}

// report counts rows with their headers and line pointers, not pages: tables that many connections fill at once grow by
// more pages than they need yet.
func (p plain) report(ctx context.Context, r *item.Report) error {
	for _, of := range []struct {
		table       string
		rows, bytes *int64
	}{{"items", &r.Records, &r.RecordBytes}, {"history", &r.Changes, &r.HistoryBytes}} {
		err := p.QueryRow(ctx, "SELECT count(*), coalesce(sum(pg_column_size(t.*) + 4), 0)::bigint + pg_indexes_size('"+of.table+"') FROM "+of.table+" t").
			Scan(of.rows, of.bytes)
		if err != nil {
			return err
		}
	}
	return nil
}
