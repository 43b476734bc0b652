package sqldriver_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/seed"
)

// patience is how long a test waits for an event.
const patience = 30 * time.Second

// testPreparedReconnects checks that a statement outlives the connections on which it was
// prepared.
func (offer) testPreparedReconnects(t *testing.T, o offer, db *sql.DB) {
	st, err := db.PrepareContext(t.Context(), o.echo["int"])
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	db.SetMaxIdleConns(-1)
	db.SetConnMaxLifetime(time.Nanosecond)
	for i := range 20 {
		var n int
		if err := st.QueryRowContext(t.Context(), i).Scan(&n); err != nil || n != i {
			t.Fatalf("%d: %d, %v", i, n, err)
		}
	}
	if db.Stats().MaxIdleClosed+db.Stats().MaxLifetimeClosed == 0 {
		t.Error("no connection was closed: the test proves nothing")
	}
}

// testConcurrent checks that a hundred goroutines get their own replies, and that no write
// is lost.
func (offer) testConcurrent(t *testing.T, o offer, db *sql.DB) {
	const goroutines, each = 100, 20
	db.SetMaxOpenConns(30)
	db.SetMaxIdleConns(30)
	st, err := db.PrepareContext(t.Context(), o.pair)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	name := t.Name() + fmt.Sprint(seed.Of(t))
	var all sync.WaitGroup
	for g := range goroutines {
		all.Go(func() {
			for i := range each {
				x, y := fmt.Sprint(g), fmt.Sprint(i)
				var a, b string
				query := st.QueryRowContext
				if i%2 == 0 {
					query = func(ctx context.Context, args ...any) *sql.Row { return db.QueryRowContext(ctx, o.pair, args...) }
				}
				row := query(t.Context(), x, y)
				if err := row.Scan(&a, &b); err != nil || a != x || b != y {
					t.Errorf("%s %s: got the answer %s %s, %v", x, y, a, b, err)
				}
				if _, err := db.ExecContext(t.Context(), o.add, name, 1); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	var n int
	if err := db.QueryRowContext(t.Context(), o.sum, name).Scan(&n); err != nil || n != goroutines*each {
		t.Errorf("%d of %d writes are there: %v", n, goroutines*each, err)
	}
}

// testCancel checks that a call ends with its context, and that the pool still works.
func (offer) testCancel(t *testing.T, o offer, db *sql.DB) {
	for i := range 10 {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		o.hold()
		go func() {
			var s any
			ended <- db.QueryRowContext(ctx, o.wait).Scan(&s)
		}()
		eventually.True(t, "the call is on its way", func() bool { return db.Stats().InUse > 0 })
		if i%2 == 0 {
			time.Sleep(5 * time.Millisecond) // it has most likely been sent; either case is right
		}
		cancel()
		select {
		case err := <-ended:
			if !errors.Is(err, context.Canceled) && !strings.Contains(err.Error(), "cancel") {
				t.Fatalf("a canceled call: %v", err)
			}
		case <-time.After(patience):
			t.Fatal("a canceled call does not end")
		}
		o.free()
		if _, err := db.ExecContext(ctx, o.add, "never", 1); !errors.Is(err, context.Canceled) {
			t.Errorf("a call with a context that is over: %v", err)
		}
		var n int
		if err := db.QueryRowContext(t.Context(), o.echo["int"], i).Scan(&n); err != nil || n != i {
			t.Fatalf("after a canceled call: %d, %v", n, err)
		}
	}
	eventually.True(t, "all connections are free", func() bool { return db.Stats().InUse == 0 })
}

// testCancelRows checks that rows end when their context does.
func (offer) testCancelRows(t *testing.T, o offer, db *sql.DB) {
	ctx, cancel := context.WithCancel(t.Context())
	rows, err := db.QueryContext(ctx, o.count, 1000)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	if !rows.Next() {
		t.Fatal(rows.Err())
	}
	cancel()
	eventually.True(t, "the rows end", func() bool { return !rows.Next() })
	eventually.True(t, "the connection is free", func() bool { return db.Stats().InUse == 0 })
	if err := rows.Err(); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("rows that were canceled: %v", err)
	}
}

func (offer) testDeadline(t *testing.T, o offer, db *sql.DB) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	var s any
	start := time.Now()
	o.hold()
	err := db.QueryRowContext(ctx, o.wait).Scan(&s)
	o.free()
	if took := time.Since(start); err == nil || took < 20*time.Millisecond || took > patience {
		t.Errorf("after %v: %v", took, err)
	}
	if !errors.Is(err, context.DeadlineExceeded) && !strings.Contains(fmt.Sprint(err), "cancel") {
		t.Errorf("a call over its deadline: %v", err)
	}
	var n int
	if err := db.QueryRowContext(t.Context(), o.echo["int"], 5).Scan(&n); err != nil || n != 5 {
		t.Errorf("after a deadline: %d, %v", n, err)
	}
}

func (offer) testPoolLimit(t *testing.T, o offer, db *sql.DB) {
	const most = 3
	db.SetMaxOpenConns(most)
	var held []*sql.Rows
	for range most {
		rows, err := db.QueryContext(t.Context(), o.count, 10)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		held = append(held, rows)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := db.QueryRowContext(ctx, o.echo["int"], 1).Scan(new(int)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with all connections taken: %v", err)
	}
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			var n int
			if err := db.QueryRowContext(t.Context(), o.echo["int"], i).Scan(&n); err != nil || n != i {
				t.Errorf("%d: %d, %v", i, n, err)
			}
		})
	}
	for _, rows := range held {
		rows.Close()
	}
	all.Wait()
	if n := db.Stats().OpenConnections; n > most {
		t.Errorf("%d connections are open, over the limit of %d", n, most)
	}
}

// testConn uses one connection for more than one call.
func (offer) testConn(t *testing.T, o offer, db *sql.DB) {
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.PingContext(t.Context()); err != nil {
		t.Error(err)
	}
	for i := range 3 {
		var n int
		if err := conn.QueryRowContext(t.Context(), o.echo["int"], i).Scan(&n); err != nil || n != i {
			t.Errorf("%d, %v", n, err)
		}
	}
	st, err := conn.PrepareContext(t.Context(), o.echo["text"])
	if err != nil {
		t.Fatal(err)
	}
	var s string
	if err := st.QueryRowContext(t.Context(), "x").Scan(&s); err != nil || s != "x" {
		t.Errorf("%q, %v", s, err)
	}
	if err := st.Close(); err != nil {
		t.Error(err)
	}
	if err := conn.Raw(func(c any) error {
		if c == nil {
			return errors.New("no driver connection")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if err := conn.PingContext(t.Context()); !errors.Is(err, sql.ErrConnDone) {
		t.Errorf("a closed Conn: %v", err)
	}
}

func (offer) testClosed(t *testing.T, o offer, _ *sql.DB) {
	db := o.open(t)
	if err := db.PingContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	st, err := db.PrepareContext(t.Context(), o.echo["int"])
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := db.PingContext(t.Context()); err == nil {
		t.Error("ping after Close: no error")
	}
	if _, err := db.ExecContext(t.Context(), o.none); err == nil {
		t.Error("exec after Close: no error")
	}
	if err := st.QueryRowContext(t.Context(), 1).Scan(new(int)); err == nil {
		t.Error("a statement after Close: no error")
	}
	if err := db.Close(); err != nil {
		t.Errorf("a second Close: %v", err)
	}
}

func (offer) testTransactions(t *testing.T, o offer, db *sql.DB) {
	tx, err := db.BeginTx(t.Context(), nil)
	if o.begins {
		if err != nil {
			t.Fatal(err)
		}
		if err := tx.Rollback(); err != nil {
			t.Error(err)
		}
		return
	}
	if err == nil {
		t.Fatal("a transaction began")
	}
	if !strings.Contains(err.Error(), "transaction") {
		t.Errorf("the refusal does not explain itself: %v", err)
	}
	if _, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelSerializable, ReadOnly: true}); err == nil {
		t.Error("a transaction with options began")
	}
	var n int
	if err := db.QueryRowContext(t.Context(), o.echo["int"], 5).Scan(&n); err != nil || n != 5 {
		t.Errorf("after a refused transaction: %d, %v", n, err)
	}
}

// testLeaks checks that no goroutine of a pool is left after it is closed.
func (offer) testLeaks(t *testing.T, o offer, _ *sql.DB) {
	use := func() {
		db := o.open(t)
		together := func(fn func(i int)) {
			var all sync.WaitGroup
			for i := range 20 {
				all.Go(func() { fn(i) })
			}
			all.Wait()
		}
		together(func(i int) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if rows, err := db.QueryContext(ctx, o.count, i); err == nil {
				rows.Next()
				rows.Close()
			} else {
				t.Error(err)
			}
		})
		o.hold()
		together(func(int) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			_ = db.QueryRowContext(ctx, o.wait).Scan(new(any))
		})
		o.free()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
	use()
	before := runtime.NumGoroutine()
	for range 5 {
		use()
	}
	// The server may notice the end of a connection later than the client.
	eventually.True(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before+3 })
}

// testRestart checks that a pool works again after the server has restarted.
func (offer) testRestart(t *testing.T, o offer, db *sql.DB) {
	if o.restart == nil {
		t.Skip("this database cannot be restarted")
	}
	st, err := db.PrepareContext(t.Context(), o.echo["int"])
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	for i := range 3 {
		o.restart(t)
		eventually.True(t, "ping after a restart", func() bool { return db.PingContext(t.Context()) == nil })
		var n int
		eventually.True(t, "a statement after a restart", func() bool { return st.QueryRowContext(t.Context(), i).Scan(&n) == nil })
		if n != i {
			t.Errorf("%d, not %d", n, i)
		}
	}
}
