package cassandra

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/apache/cassandra-gocql-driver/v2"

	"github.com/skerrydb/skerry/engine"
)

// The statements on the tables. Those that write a partition are parts of one conditional batch.
//
// The row with the empty key has the partition's stamp. So one SELECT returns values with the stamp
// at which they are valid, also if there are none, which a static column would not do.
const (
	selectKeys  = `SELECT key, val, stamp FROM kv WHERE partition = ? AND key IN ?`
	updateStamp = `UPDATE kv USING TTL ? SET stamp = ? WHERE partition = ? AND key = ? IF stamp = ?`
	insertKey   = `INSERT INTO kv (partition, key, val) VALUES (?, ?, ?) USING TTL ?`
	deleteKey   = `DELETE FROM kv WHERE partition = ? AND key = ?`
	selectMeta  = `SELECT val FROM meta WHERE name = ?`
	insertMeta  = `INSERT INTO meta (name, val) VALUES (?, ?) IF NOT EXISTS`

	selectKeyspace = `SELECT replication, durable_writes FROM system_schema.keyspaces WHERE keyspace_name = ?`
	selectTable    = `SELECT table_name FROM system_schema.tables WHERE keyspace_name = ? AND table_name = ?`
	selectSetting  = `SELECT value FROM system_views.settings WHERE name = ?`
)

const (
	// stampTTL is how long a partition's stamp stays after its last commit, so that a partition
	// without keys uses no space. It is far more than a transaction may take.
	stampTTL = 24 * time.Hour
	// maxDuration is how long a transaction may take.
	maxDuration = time.Hour
)

// stampKey is the key of the row that has the stamp.
var stampKey = []byte{}

// row is one row of a partition.
type row struct {
	key string
	val []byte
}

// read reads some keys of a partition, and its stamp. It tries again for a while if servers do not
// answer, since it changes nothing.
func (e *db) read(ctx context.Context, at gocql.Consistency, part string, keys []string) (stamp []byte, rows []row, err error) {
	err = e.patiently(ctx, func() error {
		stamp, rows, err = e.readOnce(ctx, at, part, keys)
		return err
	})
	return stamp, rows, err
}

func (e *db) readOnce(ctx context.Context, at gocql.Consistency, part string, keys []string) (stamp []byte, rows []row, err error) {
	in := make([][]byte, 0, len(keys)+1)
	in = append(in, stampKey)
	for _, k := range keys {
		in = append(in, []byte(k))
	}
	iter := e.query(selectKeys, []byte(part), in).Consistency(at).PageSize(len(in) + 1).IterContext(ctx)
	for {
		var key, val, st []byte
		if !iter.Scan(&key, &val, &st) {
			return stamp, rows, iter.Close()
		}
		if len(key) == 0 {
			stamp = st
			continue
		}
		if val == nil {
			val = []byte{}
		}
		rows = append(rows, row{string(key), val[:len(val):len(val)]})
	}
}

// query returns a read, which may be sent to several nodes.
func (e *db) query(stmt string, args ...any) *gocql.Query {
	q := e.c.Query(stmt, args...).Idempotent(true).RetryPolicy(&gocql.SimpleRetryPolicy{NumRetries: 2})
	if e.several() {
		q.SetSpeculativeExecutionPolicy(&gocql.SimpleSpeculativeExecution{NumAttempts: 1, TimeoutDelay: speculateAfter})
	}
	return q
}

// scan returns a SELECT of much that is seldom read, which need not displace other data from the cache of ScyllaDB.
// See https://docs.scylladb.com/manual/stable/cql/cql-extensions.html.
func (e *db) scan(stmt string) string {
	if e.scylla {
		return stmt + " BYPASS CACHE"
	}
	return stmt
}

// several reports whether at least three nodes are up. With fewer the driver would give up a read
// when it has no node left for a speculative one.
func (e *db) several() bool {
	up := 0
	for _, h := range e.c.GetHosts() {
		if h.IsUp() {
			up++
		}
	}
	return up > 2
}

// patiently calls f until it succeeds or fails for good, or patience is at an end.
func (e *db) patiently(ctx context.Context, f func() error) error {
	until := time.Now().Add(e.o.patience)
	for wait := time.Millisecond; ; wait = min(2*wait, 200*time.Millisecond) {
		err := f()
		if err == nil || !passing(err) || ctx.Err() != nil || time.Now().After(until) {
			return err
		}
		e.retries.Add(1)
		pause(ctx, wait+rand.N(wait))
	}
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// write is what a commit does with one key.
type write struct {
	key, val []byte // a nil val deletes
	ttl      int    // seconds; 0: for ever
}

// apply replaces the stamp base of a partition, and writes, if the stamp is still base. It returns
// the stamp that it found if it is not.
func (e *db) apply(ctx context.Context, part string, base, next []byte, writes []write) (applied bool, found []byte, err error) {
	b := e.c.Batch(gocql.UnloggedBatch).Consistency(e.level.commit).SerialConsistency(e.level.serial).DefaultTimestamp(false)
	p := []byte(part)
	b.Query(updateStamp, int(stampTTL/time.Second), next, p, stampKey, base)
	for _, w := range writes {
		if w.val == nil {
			b.Query(deleteKey, p, w.key)
		} else {
			b.Query(insertKey, p, w.key, w.val, w.ttl)
		}
	}
	send := func() error {
		iter := b.IterContext(ctx)
		got := map[string]any{}
		read := iter.MapScan(got)
		if err := iter.Close(); err != nil {
			return err
		}
		var ok bool
		if applied, ok = got["[applied]"].(bool); !read || !ok {
			return errors.New("the answer to a conditional batch has no column [applied]")
		}
		found, _ = got["stamp"].([]byte)
		return nil
	}
	if e.o.through != nil {
		return applied, found, e.o.through(send)
	}
	return applied, found, send()
}

// write runs a statement outside of transactions that may be repeated.
func (e *db) write(ctx context.Context, q *gocql.Query) error {
	if err := e.refusal(); err != nil {
		return err
	}
	err := e.patiently(ctx, func() error { return q.Consistency(e.level.commit).Idempotent(true).ExecContext(ctx) })
	return e.fault(ctx, err)
}

// plainLevel returns the consistency of a read of what write has stored.
func (e *db) plainLevel(r engine.Read) (gocql.Consistency, error) {
	switch {
	case r.AtLeast != 0:
		return 0, lacks("position")
	case r.Level == engine.Local && r.MaxStale == 0:
		return gocql.LocalOne, nil
	}
	return e.level.get, nil
}

// inParallel calls fn with 0 to n-1, atOnce at a time, and returns the first error.
func inParallel(ctx context.Context, n, atOnce int, fn func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var work sync.WaitGroup
	next := make(chan int)
	for range min(n, atOnce) {
		work.Go(func() {
			for i := range next {
				if err := fn(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	for i := range n {
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	work.Wait()
	return context.Cause(ctx)
}
