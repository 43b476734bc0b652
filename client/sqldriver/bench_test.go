package sqldriver_test

import (
	"context"
	"database/sql"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

var background = context.Background()

// quick are the calls whose allocations are documented, each with a query and a scan.
var quick = map[string]func(*sql.DB, *sql.Stmt) error{
	"int": func(db *sql.DB, _ *sql.Stmt) error {
		var n int64
		return db.QueryRowContext(background, "CALL add(?, ?)", "counter", 1).Scan(&n)
	},
	"struct": func(db *sql.DB, _ *sql.Stmt) error {
		var n, total int64
		return db.QueryRowContext(background, "CALL vote(?, ?, ?)", 4165550100, 7, 2).Scan(&n, &total)
	},
	"prepared": func(_ *sql.DB, st *sql.Stmt) error {
		var n, total int64
		return st.QueryRowContext(background, 4165550100, 7, 2).Scan(&n, &total)
	},
	"cancellable": func(db *sql.DB, _ *sql.Stmt) error {
		ctx, cancel := context.WithCancel(background)
		defer cancel()
		var n, total int64
		return db.QueryRowContext(ctx, "CALL vote(?, ?, ?)", 4165550100, 7, 2).Scan(&n, &total)
	},
	"exec": func(db *sql.DB, _ *sql.Stmt) error {
		_, err := db.ExecContext(background, "CALL add(?, ?)", "counter", 1)
		return err
	},
}

// TestAllocs counts the allocations of a call through database/sql in the client, including
// the variables that it scans into. The server replies from a table, so that it adds none.
func TestAllocs(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	db := openDB(t, newCanned(t).dsn())
	st, err := db.PrepareContext(t.Context(), "CALL vote(?, ?, ?)")
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	for name, call := range quick {
		n := testing.AllocsPerRun(500, func() {
			if err := call(db, st); err != nil {
				t.Fatal(err)
			}
		})
		t.Logf("%s: %.1f allocations a call", name, n)
		most := 9.0
		switch name {
		case "prepared":
			most = 12 // database/sql itself needs three more for a Stmt
		case "cancellable":
			most = 20 // the context of the test, and the goroutine of database/sql that watches it
		}
		if n > most {
			t.Errorf("%s allocates %.1f times a call, want %.0f at most", name, n, most)
		}
	}
}

// BenchmarkSQL measures calls by 64 goroutines. Server and client are in one process, so
// cpu-ns/op includes both. The server only looks up canned replies, so its share is small.
func BenchmarkSQL(b *testing.B) {
	db := openDB(b, newCanned(b).dsn())
	db.SetMaxIdleConns(64)
	st, err := db.PrepareContext(b.Context(), "CALL vote(?, ?, ?)")
	if err != nil {
		b.Fatal(err)
	}
	defer st.Close()
	for name, call := range quick {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(32)
			var failed atomic.Int64
			before := cpuTime()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if call(db, st) != nil {
						failed.Add(1)
					}
				}
			})
			b.ReportMetric(float64(cpuTime()-before)/float64(b.N), "cpu-ns/op")
			if n := failed.Load(); n != 0 {
				b.Errorf("%d calls failed", n)
			}
		})
	}
}

// cpuTime returns the CPU time of this process.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
