package cassandra

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/cassandra-gocql-driver/v2"

	"github.com/skerrydb/skerry/ci/cassandraserver"
	"github.com/skerrydb/skerry/engine"
)

// recorder keeps what the engine sends.
type recorder struct {
	mu      sync.Mutex // guards the fields below
	queries []gocql.ObservedQuery
	batches []gocql.ObservedBatch
}

func (r *recorder) ObserveQuery(_ context.Context, q gocql.ObservedQuery) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queries = append(r.queries, q)
}

func (r *recorder) ObserveBatch(_ context.Context, b gocql.ObservedBatch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.batches = append(r.batches, b)
}

// TestStatements looks at everything that the engine sends: prepared statements only, each on one partition by its whole
// key, and batches that are conditional and within one partition.
func TestStatements(t *testing.T) {
	s := cassandraserver.Shared(t)
	keyspace, done := cassandraserver.Keyspace(t, "meta")
	defer done()
	rec := &recorder{}
	eng := open1(t, s.URL(keyspace), Options{watch: rec})
	defer eng.Close()
	use(t, eng)

	tables := []string{selectKeys, selectMeta, insertMeta, selectKeyspace, selectTable, selectSetting}
	queries := slices.Clone(rec.queries)
	prepared := preparedOn(t, eng.(*db))
	for _, q := range queries {
		if strings.HasPrefix(q.Statement, "CREATE ") {
			continue // the driver prepares no changes of the schema
		}
		if !slices.Contains(tables, q.Statement) {
			t.Errorf("an unknown statement: %s", q.Statement)
		}
		if len(q.Values) == 0 || !strings.Contains(q.Statement, "?") {
			t.Errorf("nothing is bound in %s", q.Statement)
		}
		if !prepared[q.Statement] {
			t.Errorf("not prepared: %s", q.Statement)
		}
	}
	if len(rec.batches) < 3 {
		t.Errorf("%d batches", len(rec.batches))
	}
	for _, b := range rec.batches {
		checkBatch(t, b, prepared)
	}
	for _, stmt := range append(tables, updateStamp, insertKey, deleteKey) {
		if strings.Contains(strings.ToUpper(stmt), "ALLOW FILTERING") || strings.ContainsAny(stmt, "'0123456789") {
			t.Errorf("%s filters, or has a literal", stmt)
		}
	}
}

// use makes the engine send each of its statements.
func use(t *testing.T, eng engine.Engine) {
	t.Helper()
	for _, fn := range []func(tx engine.Tx) error{
		func(tx engine.Tx) error {
			_, _, err := tx.Get([]byte("{p}a"))
			return errors.Join(err, tx.Put([]byte("{p}a"), []byte("1")), tx.Put([]byte("{p}b"), nil))
		},
		func(tx engine.Tx) error {
			return errors.Join(tx.Delete([]byte("{p}a")), tx.(engine.Expirer).PutUntil([]byte("{p}c"), []byte("2"), tx.Now().Add(time.Hour)))
		},
		func(tx engine.Tx) error { return tx.Put([]byte("plain"), []byte("3")) },
	} {
		if _, err := eng.Update(t.Context(), fn); err != nil {
			t.Fatal(err)
		}
	}
	for _, level := range []engine.Level{engine.Linearizable, engine.Session, engine.Local} {
		if _, err := eng.View(t.Context(), engine.Read{Level: level}, func(tx engine.Tx) error {
			vals, err := tx.(engine.ManyGetter).GetMany([][]byte{[]byte("{p}a"), []byte("{p}b"), []byte("{p}c"), []byte("plain"), []byte("none")})
			if err == nil && (vals[0] != nil || vals[1] == nil || string(vals[2]) != "2" || string(vals[3]) != "3" || vals[4] != nil) {
				t.Errorf("at level %d: %q", level, vals)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// checkBatch checks that a batch compares the stamp and writes within that partition, and was sent once.
func checkBatch(t *testing.T, b gocql.ObservedBatch, prepared map[string]bool) {
	t.Helper()
	if b.Statements[0] != updateStamp || b.Attempt != 0 {
		t.Errorf("attempt %d of a batch that begins with %s", b.Attempt, b.Statements[0])
	}
	part, _ := b.Values[0][2].([]byte)
	for i, stmt := range b.Statements {
		if i > 0 && stmt != insertKey && stmt != deleteKey || !prepared[stmt] {
			t.Errorf("statement %d of a batch, prepared %t: %s", i, prepared[stmt], stmt)
		}
		if i == 0 {
			continue
		}
		if p, _ := b.Values[i][0].([]byte); string(p) != string(part) {
			t.Errorf("a batch on the partition %q writes %q", part, p)
		}
	}
}

// preparedOn returns the statements that the node has prepared.
func preparedOn(t *testing.T, e *db) map[string]bool {
	t.Helper()
	iter := e.c.Query("SELECT query_string FROM system.prepared_statements").Iter()
	all := map[string]bool{}
	for stmt := ""; iter.Scan(&stmt); {
		all[stmt] = true
	}
	if err := iter.Close(); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestDriver checks how the driver is configured: what it does by default costs latency, or repeats writes.
func TestDriver(t *testing.T) {
	cfg := config(target{hosts: []string{"h"}}, Options{}, policy(target{dc: "dc1", rack: "r"}), "k")
	if cfg.WriteCoalesceWaitTime != 0 || cfg.RetryPolicy != nil || cfg.DefaultIdempotence || cfg.DefaultTimestamp {
		t.Errorf("%+v", cfg)
	}
	eng := open1(t, cassandraserver.Shared(t).URL(func() string {
		name, done := cassandraserver.Keyspace(t, "meta")
		t.Cleanup(done)
		return name
	}()), Options{})
	defer eng.Close()
	if !eng.(*db).query(selectKeys).IsIdempotent() {
		t.Error("reads are not sent again")
	}
	if eng.(*db).c.Batch(gocql.UnloggedBatch).Query(updateStamp).IsIdempotent() {
		t.Error("batches are sent again")
	}
}
