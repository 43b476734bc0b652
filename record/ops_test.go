package record_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine/recordengine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/keys"
	"github.com/skerrydb/skerry/record/schema"
)

// plain is Passwords whose hashes show the password. It calls during, if that is set, with each one.
type plain struct {
	during func(ctx context.Context, password string) error
}

func (p plain) Hash(ctx context.Context, password string) (string, error) {
	if p.during != nil {
		return "hash of " + password, p.during(ctx, password)
	}
	return "hash of " + password, nil
}

func (p plain) Matches(ctx context.Context, password, hash string) (bool, error) {
	again, err := p.Hash(ctx, password)
	return again == hash, err
}

// TestCheckPassword: a password is checked outside of transactions, also one of a record that is not there.
func TestCheckPassword(t *testing.T) {
	eng := recordengine.Open(t, recordengine.Options{})
	hashed := 0
	db, err := record.Open(eng, record.Options{Passwords: plain{func(ctx context.Context, _ string) error {
		hashed++
		_, err := eng.Update(ctx, func(tx engine.Tx) error { return tx.Put([]byte{1, 1}, nil) })
		return err
	}}})
	must(t, err)
	must(t, db.Define(schema.Collection{Name: "people", Fields: []schema.Field{{Name: "name", Type: schema.Text}, {Name: "secret", Type: schema.Password}}}))
	must(t, update(t, db, record.Program(), func(tx *record.Tx) error {
		_, err := tx.Do(record.Op{Kind: keys.Create, Collection: "people", ID: "a", Data: []byte(`{"secret":"one"}`)},
			record.Op{Kind: keys.Create, Collection: "people", ID: "b", Data: []byte(`{}`)},
			record.Op{Kind: keys.Create, Collection: "people", ID: "c", Data: []byte(`{"secret":"one"}`)},
			record.Op{Kind: keys.Delete, Collection: "people", ID: "c"})
		return err
	}))
	hashed = 0
	for i, c := range []struct {
		id, password string
		want         bool
	}{{"a", "one", true}, {"a", "two", false}, {"a", "", false}, {"b", "", false}, {"b", "hash of ", false}, {"c", "one", false}, {"d", "one", false}} {
		if got, err := db.CheckPassword(t.Context(), "people", c.id, "secret", c.password); got != c.want || err != nil || hashed != i+1 {
			t.Errorf("%s %q: %v, %v, after %d hashes", c.id, c.password, got, err, hashed)
		}
	}
	for _, c := range [][2]string{{"people", "name"}, {"people", "nothing"}, {"nobody", "secret"}} {
		if got, err := db.CheckPassword(t.Context(), c[0], "a", c[1], "one"); got || err == nil {
			t.Errorf("%v: %v, %v", c, got, err)
		}
	}
}

// TestHashOutsideTransactions: while a password is hashed, others write; each password is hashed once.
func TestHashOutsideTransactions(t *testing.T) {
	eng := recordengine.Open(t, recordengine.Options{})
	var hashed atomic.Int64
	db, err := record.Open(eng, record.Options{Passwords: plain{func(ctx context.Context, password string) error {
		hashed.Add(1)
		// A transaction that waited for this one would never end.
		_, err := eng.Update(ctx, func(tx engine.Tx) error { return tx.Put([]byte{1, 1}, []byte(password)) })
		return err
	}}})
	must(t, err)
	must(t, db.Define(schema.Collection{Name: "people", Fields: []schema.Field{{Name: "name", Type: schema.Text}, {Name: "secret", Type: schema.Password, Min: "3"}}}))
	create := func(tx *record.Tx) error {
		_, err := tx.Do(record.Op{Kind: keys.Create, Collection: "people", ID: "a", Data: []byte(`{"secret":"one"}`)},
			record.Op{Kind: keys.Create, Collection: "people", ID: "b", Data: []byte(`{"secret":"two"}`)},
			record.Op{Kind: keys.Update, Collection: "people", ID: "b", Data: []byte(`{"secret":"one"}`)})
		return err
	}
	must(t, update(t, db, record.Program(), create))
	if n := hashed.Load(); n != 2 {
		t.Errorf("%d hashes of 2 passwords", n)
	}
	_, err = db.View(t.Context(), engine.Read{}, record.Program(), func(tx *record.Tx) error {
		for _, id := range []string{"a", "b"} {
			r, err := tx.Get("people", id)
			if err != nil {
				return err
			}
			if got := r.Value("secret").String(); got != "hash of one" {
				t.Errorf("%s has %s", id, got)
			}
			if b, _ := r.MarshalJSON(); string(b[len(b)-len(`"data":{}}`):]) != `"data":{}}` {
				t.Errorf("a password is shown: %s", b)
			}
		}
		return nil
	})
	must(t, err)
	err = update(t, db, record.Program(), func(tx *record.Tx) error {
		_, err := tx.Create("people", "c", []byte(`{"secret":"1"}`)) // too short: not hashed
		return err
	})
	if n := hashed.Load(); !errors.Is(err, record.ErrInvalid) || n != 2 {
		t.Errorf("a short password: %v after %d hashes", err, n)
	}
	if _, err = eng.Update(t.Context(), func(tx engine.Tx) error {
		in, err := db.In(tx, record.Program())
		if err != nil {
			return err
		}
		_, err = in.Create("people", "d", []byte(`{"secret":"four"}`))
		return err
	}); engine.CodeOf(err) != engine.CodeUnsupported {
		t.Errorf("a password within another transaction: %v", err)
	}
}

// TestDo: operations succeed together or not at all, and the error names the one that failed.
func TestDo(t *testing.T) {
	db := open(t)
	name := []byte(`{"name":"x"}`)
	do := func(ops ...record.Op) error {
		return update(t, db, record.Program(), func(tx *record.Tx) error { _, err := tx.Do(ops...); return err })
	}
	err := do(record.Op{Kind: keys.Create, Collection: "users", ID: "x", Data: name}, record.Op{Kind: keys.Update, Collection: "users", ID: "x", Rev: 7, Data: name})
	if at, ok := errors.AsType[*record.OpError](err); !ok || at.Index != 1 || !errors.Is(err, record.ErrRevision) {
		t.Errorf("a wrong revision: %v", err)
	}
	if err := do(record.Op{Kind: keys.Delete, Collection: "users", ID: "x"}); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("the operation before the one that failed: %v", err)
	}
	if err := do(make([]record.Op, record.MaxOps+1)...); engine.CodeOf(err) != engine.CodeLimit {
		t.Errorf("too many: %v", err)
	}
	if err := do(record.Op{}); engine.CodeOf(err) != engine.CodeInvalid {
		t.Errorf("no kind: %v", err)
	}
}
