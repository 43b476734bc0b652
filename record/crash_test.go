package record_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/journal/memfs"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
)

// wreck is a store whose disk loses power.
type wreck struct {
	t    *testing.T
	disk *memfs.FS
	eng  *embedded.DB
	*record.DB

	mu  sync.Mutex // guards now
	now time.Time
}

func (w *wreck) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(time.Microsecond)
	return w.now
}

func (w *wreck) later(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

func (w *wreck) open(c schema.Collection) {
	w.t.Helper()
	var err error
	w.eng, err = embedded.Open("data", embedded.Options{FS: w.disk, Now: w.clock, Logger: slog.New(slog.DiscardHandler)})
	must(w.t, err)
	w.DB = withCollections(w.t, w.eng, c)
}

// crash runs a function until the power fails, after a number of its calls of done. The next call of done waits for that, so
// that the function is in its next step at the most, however slowly this goroutine gets on.
func (w *wreck) crash(after int, run func(ctx context.Context, done func()) error) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	defer cancel()
	reached := make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, func() {
			select {
			case reached <- struct{}{}:
			case <-ctx.Done():
			}
		})
	}()
	for i := range after {
		select {
		case <-reached:
		case err := <-ended:
			w.t.Fatalf("it has ended after %d of %d steps: %v", i, after, err)
		}
	}
	w.disk.Crash()
	cancel()
	_ = w.eng.Close() // its disk is gone
	<-ended
}

// again opens the store after a crash, and checks that histories, records and indexes agree.
func (w *wreck) again(c schema.Collection) {
	w.t.Helper()
	w.open(c)
	found, err := w.Verify(w.t.Context(), nil, nil)
	must(w.t, err)
	for _, v := range found {
		if v.Fault != nil {
			w.t.Fatal(v.Fault)
		}
	}
}

func (w *wreck) write(ctx context.Context, by string, fn func(tx *record.Tx) error) error {
	_, err := w.Update(ctx, record.Actor{ID: by, System: true}, fn)
	return err
}

// load creates records in batches, until an error.
func (w *wreck) load(ctx context.Context, done func()) error {
	for batch := 0; ; batch++ {
		err := w.write(ctx, "ann", func(tx *record.Tx) error {
			for i := range 20 {
				if _, err := tx.Create("notes", fmt.Sprintf("i%d-%d", batch, i), []byte(`{"title":"x","n":3,"old":"y"}`)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		done()
	}
}

// purge purges the first 1,000 records, one after the other.
func (w *wreck) purge(ctx context.Context, done func()) error {
	for i := range 1_000 {
		id := fmt.Sprint("n", i)
		if err := w.write(ctx, "", func(tx *record.Tx) error {
			return errors.Join(ignore(tx.Delete("notes", id, 0)), tx.Purge("notes", id, 0))
		}); err != nil {
			return err
		}
		done()
	}
	return nil
}

// stepwise repeats a step while there is more to do.
func stepwise(step func(ctx context.Context) (bool, error)) func(ctx context.Context, done func()) error {
	return func(ctx context.Context, done func()) error {
		for {
			if more, err := step(ctx); err != nil || !more {
				return err
			}
			done()
		}
	}
}

// TestCrashes cuts the power in the middle of an import, a migration, a purge, a retention pass and an undo. After each,
// histories, records and indexes agree, and an undo has taken back everything or nothing.
func TestCrashes(t *testing.T) {
	rng := seed.Rand(t)
	c := notes()
	c.History.Keep = time.Hour
	w := &wreck{t: t, disk: memfs.New(rng.Uint64()), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	w.open(c)
	fill(t, w.DB, 0, 1_000)
	w.crash(1+rng.IntN(40), w.load)
	w.again(c)
	sound(t, w.eng, w.DB, "notes")
	c.Fields = []schema.Field{{Name: "name", Type: schema.Text, Was: []string{"title"}}, {Name: "n", Type: schema.Text}}
	c.Indexes = append([]schema.Index{{Name: "by_name", Fields: []schema.IndexField{{Name: "name"}}}}, c.Indexes...)
	w.DB = withCollections(t, w.eng, c)
	_, err := w.Migrate(t.Context(), record.MigrateOptions{AllowLoss: true})
	must(t, err)
	w.crash(1+rng.IntN(4), stepwise(func(ctx context.Context) (bool, error) { return w.WorkStep(ctx) }))
	w.again(c)
	finish(t, w.DB)
	sound(t, w.eng, w.DB, "notes")
	w.crash(1+rng.IntN(60), w.purge)
	w.again(c)
	sound(t, w.eng, w.DB, "notes")
	w.later(2 * time.Hour)
	w.crash(1+rng.IntN(2), stepwise(func(ctx context.Context) (bool, error) { return w.TrimStep(ctx) }))
	w.again(c)
	sound(t, w.eng, w.DB, "notes")
	w.undoAndCrash(rng.IntN(2) == 0)
	w.again(c)
	sound(t, w.eng, w.DB, "notes")
	w.undone()
	must(t, w.eng.Close())
}

// undoAndCrash lets eve change 300 records, and cuts the power while that is taken back, or just after it.
func (w *wreck) undoAndCrash(done bool) {
	w.t.Helper()
	for more := true; more; { // the rest of the retention pass, so that the history reaches back
		var err error
		more, err = w.TrimStep(w.t.Context())
		must(w.t, err)
	}
	w.later(time.Second)
	since := w.clock()
	must(w.t, w.write(w.t.Context(), "eve", func(tx *record.Tx) error {
		for i := range 300 {
			if _, err := tx.Update("notes", fmt.Sprint("n", 500+i), []byte(`{"n":"eve"}`), 0); err != nil {
				return err
			}
		}
		return nil
	}))
	w.crash(1, func(ctx context.Context, reached func()) error {
		if !done {
			reached()
		}
		_, err := w.Undo(ctx, record.Program(), "eve", since, false)
		if reached(); err == nil && !done {
			w.t.Log("the undo was done before the crash")
		}
		return err
	})
}

// undone checks that of eve's changes all are there or none.
func (w *wreck) undone() {
	w.t.Helper()
	ids, _, err := list(w.t, w.DB, record.Program(), "notes", `filter=n="eve"`)
	must(w.t, err)
	w.t.Logf("%d records are eve's", len(ids))
	if len(ids) != 0 && len(ids) != 300 {
		w.t.Errorf("%d of 300 changes are taken back", 300-len(ids))
	}
}
