package tables_test

import (
	"context"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skerrydb/skerry/ci/pgserver"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/postgres/tables"
	"github.com/skerrydb/skerry/engine/testengine"
	"github.com/skerrydb/skerry/record/keys"
)

// hybrid is an engine whose keys are in another one and whose tables are in PostgreSQL, for tests without crashes: the two
// do not commit together. What is published is written to the keys, so that it is in the changes.
type hybrid struct {
	engine.Engine
	pool *pgxpool.Pool
	own  *tables.Driver
	mu   sync.RWMutex // held for writing by Update, for reading by View: both sides have the same state
}

// openHybrid returns a new, empty engine.
func openHybrid(t testing.TB, o testengine.Options) *hybrid {
	t.Helper()
	url := pgserver.Shared(t).Database(t)
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	h := &hybrid{Engine: testengine.Open(t, o), pool: pool, own: tables.New("skerry")}
	t.Cleanup(pool.Close)
	for _, sql := range h.own.Setup() {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

func (h *hybrid) Update(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.Engine.Update(ctx, func(tx engine.Tx) error { return h.run(tx, pgx.TxOptions{}, fn) })
}

func (h *hybrid) View(ctx context.Context, r engine.Read, fn func(engine.Tx) error) (engine.Position, error) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.Engine.View(ctx, r, func(tx engine.Tx) error {
		return h.run(tx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, fn)
	})
}

func (h *hybrid) run(tx engine.Tx, o pgx.TxOptions, fn func(engine.Tx) error) error {
	return pgx.BeginTxFunc(context.Background(), h.pool, o, func(in pgx.Tx) error {
		t := &hybridTx{Tx: tx, h: h, in: in, queue: &pgx.Batch{}}
		if err := fn(t); err != nil {
			return err
		}
		return t.flush()
	})
}

// hybridTx satisfies tables.Tx.
type hybridTx struct {
	engine.Tx
	h     *hybrid
	in    pgx.Tx
	queue *pgx.Batch
}

func (t *hybridTx) RecordDriver() keys.Driver { return t.h.own }

func (t *hybridTx) Query(sql string, args ...any) (pgx.Rows, error) {
	if err := t.flush(); err != nil {
		return nil, err
	}
	return t.in.Query(context.Background(), sql, args...)
}

func (t *hybridTx) Queue(sql string, args ...any) error {
	t.queue.Queue(sql, args...)
	if len(args) == 0 || sql[0] == 'A' {
		return t.flush() // a batch is prepared as a whole, before its first statement creates what the next one needs
	}
	return nil
}

func (t *hybridTx) flush() error {
	if t.queue.Len() == 0 {
		return nil
	}
	b := t.queue
	t.queue = &pgx.Batch{}
	return t.in.SendBatch(context.Background(), b).Close()
}

func (t *hybridTx) Publish(writes ...engine.Write) error {
	for _, w := range writes {
		err := t.Put(w.Key, w.Val)
		if w.Deleted {
			err = t.Delete(w.Key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
