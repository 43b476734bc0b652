package workload_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/logbuf"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/workload"
)

func open(t *testing.T, dir string) *embedded.DB {
	t.Helper()
	db, err := embedded.Open(dir, embedded.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// TestAllTwice runs each workload twice on one engine: Setup must make the
// second run as good as the first, with the same value and with another.
func TestAllTwice(t *testing.T) {
	db := open(t, t.TempDir())
	defer db.Close()
	first := workload.All()
	for i, w := range append(append(workload.All()[:0:0], first...), append(first, workload.All()...)...) {
		stats, err := workload.Run(t.Context(), db, w, workload.Options{Steps: 500, Seed: uint64(i)})
		if err != nil || stats.OK != 500 || stats.Unknown+stats.Failed != 0 {
			t.Errorf("%v: %v", stats, err)
		}
	}
}

func TestRunNamesWhatIsNotPromised(t *testing.T) {
	for _, w := range workload.All() {
		_, err := workload.Run(t.Context(), promiseless{}, w, workload.Options{})
		if !errors.Is(err, engine.ErrUnsupported) || !strings.Contains(err.Error(), w.Name()) {
			t.Errorf("%s on an engine without promises: %v", w.Name(), err)
		}
	}
}

type promiseless struct{ engine.Engine }

func (promiseless) Promises() engine.Promises { return engine.Promises{} }

// TestLedgerOutlivesTheLoad cuts loads off, as killed processes would be, each
// with a ledger of its own epoch, and checks the engine by their logs alone.
func TestLedgerOutlivesTheLoad(t *testing.T) {
	dir := t.TempDir()
	var log logbuf.Buffer
	for epoch := range uint32(4) {
		db := open(t, dir)
		ledger := workload.NewLedger(epoch, &log)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for _, w := range workloadsOf(ledger) {
			wg.Go(func() {
				_, err := workload.Load(ctx, db, w, workload.Options{Duration: time.Hour, Clients: 3, Seed: uint64(epoch)})
				if !errors.Is(err, context.Canceled) {
					t.Errorf("%s: the load ended with %v", w.Name(), err)
				}
			})
		}
		eventually.True(t, "acknowledged writes", func() bool { acked, _, _ := ledger.Counts(); return acked >= 100 })
		cancel()
		wg.Wait()
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		check(t, dir, log.String(), "")
	}
	acked := strings.LastIndex(log.String(), "\nack s ") + 1
	line, _, _ := strings.Cut(log.String()[acked:], "\n")
	check(t, dir, strings.Replace(log.String(), line, "not"+line[3:strings.LastIndex(line, " ")], 1), "refused")
	check(t, dir, log.String()+"try s 0 9999999999 0\nack s 0 9999999999 0 0\n", "is missing")
	check(t, dir, log.String()+"try a 0 9999999999 1\nack a 0 9999999999 1 0\n", "is missing")
	var more strings.Builder
	for i := range 500 {
		fmt.Fprintf(&more, "try c 0 9%09d 0\nack c 0 9%09d 0 0\n", i, i)
	}
	check(t, dir, log.String()+more.String(), "acknowledged additions")
}

func workloadsOf(l *workload.Ledger) []workload.Workload {
	return []workload.Workload{&workload.Set{Ledger: l}, &workload.Append{Ledger: l}, &workload.Counter{Ledger: l}}
}

// check opens the data again and checks it by a log; want is "" or a part of
// the violation that must come.
func check(t *testing.T, dir, log, want string) {
	t.Helper()
	db := open(t, dir)
	defer db.Close()
	ledger := workload.NewLedger(1000, nil)
	if err := ledger.Replay(strings.NewReader(log)); err != nil {
		t.Fatal(err)
	}
	if acked, _, _ := ledger.Counts(); acked < 100 {
		t.Fatalf("only %d items were acknowledged", acked)
	}
	var found error
	for _, w := range workloadsOf(ledger) {
		if err := w.Check(t.Context(), db); err != nil && found == nil {
			found = err
		}
	}
	if want == "" && found != nil {
		t.Fatal(found)
	}
	if _, ok := errors.AsType[*workload.Violation](found); want != "" && (!ok || !strings.Contains(found.Error(), want)) {
		t.Errorf("check found %v, want a violation with %q", found, want)
	}
}
