package record_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine/recordengine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
)

// verified fails the test if a verification finds anything, and returns what it has looked at.
func verified(t testing.TB, db *record.DB) []record.Verification {
	t.Helper()
	all, err := db.Verify(t.Context(), nil, nil)
	must(t, err)
	for _, v := range all {
		if v.Fault != nil {
			t.Errorf("%v", v.Fault)
		}
	}
	return all
}

// counted counts the transactions and views of an engine.
type counted struct {
	engine.Engine
	updates, views atomic.Int64
}

func (e *counted) Update(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
	e.updates.Add(1)
	return e.Engine.Update(ctx, fn)
}

func (e *counted) View(ctx context.Context, r engine.Read, fn func(engine.Tx) error) (engine.Position, error) {
	e.views.Add(1)
	return e.Engine.View(ctx, r, fn)
}

// TestIdleWork: while there is nothing to do, Run looks for work without making the engine keep a state each time.
func TestIdleWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng := &counted{Engine: recordengine.Open(t, recordengine.Options{Memory: true})}
		db, err := record.Open(eng, record.Options{Passwords: plain{}})
		must(t, err)
		c := accounts()
		c.History = schema.History{Keep: time.Hour}
		must(t, db.Define(c))
		go func() { _ = db.Run(t.Context()) }()
		synctest.Wait()
		updates, views := eng.updates.Load(), eng.views.Load()
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := eng.updates.Load() - updates; n < 60 {
			t.Errorf("it looked %d times in a minute", n)
		}
		if n := eng.views.Load() - views; n > 0 {
			t.Errorf("%d views in a minute", n)
		}
	})
}

// TestRetention: changes are removed in the background once they are too old; what is left is whole.
func TestRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := accounts()
		c.History = schema.History{Keep: time.Hour}
		db := openWith(t, recordengine.Options{Memory: true}, c, schema.Collection{Name: "kept", Fields: []schema.Field{{Name: "n", Type: schema.Int}}})
		go func() { _ = db.Run(t.Context()) }()
		do(t, db, func(tx *record.Tx) error { return ignore(tx.Create("kept", "a", []byte(`{"n":1}`))) })
		all := states(t, db)
		time.Sleep(time.Hour - 5*time.Second) // the states are of ten seconds; half of them are old now
		synctest.Wait()
		left := 0
		_, err := db.View(t.Context(), engine.Read{}, record.Program(), func(tx *record.Tx) error {
			h, err := tx.History("accounts", "a", 0, record.MaxHistory)
			left = len(h)
			for _, s := range all {
				got, err := tx.GetAsOf("accounts", "a", s.m[0])
				if rev := s.m[0].Rev; rev < h[len(h)-1].Rev-1 {
					if !errors.Is(err, record.ErrHistoryGone) {
						t.Errorf("revision %d: %v", rev, err)
					}
				} else if err != nil || string(got.AppendJSON(nil)) != s.json {
					if x, _ := got.Value("n").Int(); err != nil || rev == h[len(h)-1].Rev-1 && x == 0 {
						t.Errorf("revision %d: %s, want %s, %v", rev, got.AppendJSON(nil), s.json, err)
					}
				}
			}
			return err
		})
		must(t, err)
		if left == 0 || left > 80 {
			t.Errorf("%d changes are left", left)
		}
		if v := verified(t, db); v[0].Changes != left || v[1].Changes != 1 {
			t.Errorf("%+v", v)
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		do(t, db, func(tx *record.Tx) error { return ignore(tx.Update("accounts", "a", []byte(`{"n":1000}`), 101)) })
		if v := verified(t, db); v[0].Changes != 1 || v[0].Records != 1 {
			t.Errorf("%+v", v)
		}
	})
}

// TestRedact: a redaction leaves a tombstone, and the chain whole.
func TestRedact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openWith(t, recordengine.Options{Memory: true}, accounts())
		states(t, db)
		admin := record.Actor{ID: "root", System: true}
		if err := update(t, db, record.Actor{ID: "a"}, func(tx *record.Tx) error { return ignore(tx.Redact("accounts", "a", 3)) }); !errors.Is(err, record.ErrRefused) {
			t.Errorf("the owner redacts: %v", err)
		}
		must(t, update(t, db, admin, func(tx *record.Tx) error {
			n, err := tx.Redact("accounts", "a", 3)
			if n != 1 {
				t.Errorf("%d changes are redacted", n)
			}
			_, gone := tx.Redact("accounts", "b", 0)
			if !errors.Is(gone, record.ErrNotFound) {
				t.Errorf("a record that never was: %v", gone)
			}
			return err
		}))
		verified(t, db)
		do(t, db, func(tx *record.Tx) error {
			for rev, want := range map[uint64]error{1: nil, 2: nil, 4: nil, 33: nil, 100: nil} {
				if _, err := tx.GetAsOf("accounts", "a", record.Moment{Rev: rev}); !errors.Is(err, want) {
					t.Errorf("revision %d: %v, want %v", rev, err, want)
				}
			}
			all, err := tx.History("accounts", "a", 4, 1)
			if err != nil || !all[0].Redacted() || all[0].RedactedBy != "root" || all[0].RedactedAt.IsZero() {
				t.Errorf("%+v, %v", all, err)
			}
			return err
		})
		must(t, update(t, db, admin, func(tx *record.Tx) error { return ignore(tx.Redact("accounts", "a", 0)) }))
		verified(t, db)
		do(t, db, func(tx *record.Tx) error {
			if _, err := tx.GetAsOf("accounts", "a", record.Moment{Rev: 50}); !errors.Is(err, record.ErrHistoryGone) {
				t.Errorf("revision 50: %v", err)
			}
			r, err := tx.GetAsOf("accounts", "a", record.Moment{Rev: 101})
			if n, _ := r.Value("n").Int(); n != 99 {
				t.Errorf("the record is now %s", r.AppendJSON(nil))
			}
			return err
		})
	})
}
