package record_test

import (
	"fmt"
	"net/url"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record"
)

// BenchmarkTx measures single operations under a rule, 100 of those that write in a transaction, without waiting for a
// disk or a client.
func BenchmarkTx(b *testing.B) {
	db := open(b)
	ann := record.Actor{ID: "ann"}
	must(b, update(b, db, record.Program(), func(tx *record.Tx) error {
		_, err := tx.Create("users", "ann", []byte(`{"name":"Ann"}`))
		return err
	}))
	var ids []string
	writes := func(b *testing.B, op func(tx *record.Tx, i int) error) {
		b.ReportAllocs()
		for n := 0; n < b.N; n += 100 {
			must(b, update(b, db, ann, func(tx *record.Tx) error {
				for i := n; i < min(b.N, n+100); i++ {
					if err := op(tx, i); err != nil {
						return err
					}
				}
				return nil
			}))
		}
	}
	b.Run("create", func(b *testing.B) {
		writes(b, func(tx *record.Tx, i int) error {
			r, err := tx.Create("posts", "", []byte(`{"title":"A post about fish","public":true}`))
			if err == nil {
				ids = append(ids, r.ID)
			}
			return err
		})
	})
	b.Run("update", func(b *testing.B) {
		writes(b, func(tx *record.Tx, i int) error {
			_, err := tx.Update("posts", ids[i%len(ids)], fmt.Appendf(nil, `{"likes":%d}`, i+1), 0)
			return err
		})
	})
	b.Run("get", func(b *testing.B) {
		b.ReportAllocs()
		var out []byte
		for i := range b.N {
			_, err := db.View(b.Context(), engine.Read{Level: engine.Local}, ann, func(tx *record.Tx) error {
				r, err := tx.Get("posts", ids[i%len(ids)])
				if err == nil {
					out = r.AppendJSON(out[:0])
				}
				return err
			})
			must(b, err)
		}
	})
	b.Run("find", func(b *testing.B) {
		b.ReportAllocs()
		_, err := db.View(b.Context(), engine.Read{Level: engine.Local}, ann, func(tx *record.Tx) error {
			q, err := tx.ParseQuery("posts", url.Values{"limit": {"20"}})
			for b.Loop() && err == nil {
				_, err = tx.Find("posts", q)
			}
			return err
		})
		must(b, err)
	})
}
