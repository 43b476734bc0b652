package tables_test

import (
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/query"
	"github.com/skerrydb/skerry/record/schema"
)

func TestSmoke(t *testing.T) {
	h := openHybrid(t, testengine.Options{Memory: true})
	db, err := record.Open(h, record.Options{})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Define(schema.Collection{Name: "users", Fields: []schema.Field{{Name: "name", Type: schema.Text}, {Name: "n", Type: schema.Int}}, Indexes: []schema.Index{{Name: "n", Unique: true, Fields: []schema.IndexField{{Name: "n"}}}}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.Update(t.Context(), record.Program(), func(tx *record.Tx) error {
		if _, err := tx.Create("users", "a", []byte(`{"name":"Ann","n":3}`)); err != nil {
			return err
		}
		_, err := tx.Update("users", "a", []byte(`{"n":4}`), 0)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.View(t.Context(), engine.Read{}, record.Program(), func(tx *record.Tx) error {
		r, err := tx.Get("users", "a")
		if err != nil {
			return err
		}
		t.Logf("%s", r.AppendJSON(nil))
		q, err := tx.ParseQueryJSON("users", []byte(`{"filter":{"n":">3"},"order":["-n"]}`))
		if err != nil {
			return err
		}
		p, err := tx.Find("users", q)
		if err != nil {
			return err
		}
		t.Logf("%d %s", len(p.Items), p.Items[0].AppendJSON(nil))
		_ = query.Live
		all, err := tx.History("users", "a", 0, 10)
		t.Logf("%d changes", len(all))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	v, err := db.Verify(t.Context(), nil, nil)
	t.Log(v, err)
}
