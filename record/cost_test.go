package record_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/engine/testengine/recordengine"
	"github.com/skerrydb/skerry/keyspace"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
)

// TestHistoryCost measures how many bytes of keys and values a change takes in the history and in the log. DESIGN.md has
// the numbers.
func TestHistoryCost(t *testing.T) {
	const records, updates = 50, 64 // each record gets two full copies
	body := strings.Repeat("lorem ipsum ", 42)
	for _, c := range []struct {
		name, patch string
		most        int // bytes
	}{{"a number", `{"likes":%d}`, 300}, {"a text of 500 bytes", `{"body":"%d` + body + `"}`, 1_350}} {
		db := openWith(t, recordengine.Options{Memory: true}, schema.Collection{Name: "posts", Fields: []schema.Field{
			{Name: "title", Type: schema.Text}, {Name: "body", Type: schema.Text}, {Name: "likes", Type: schema.Int}, {Name: "owner", Type: schema.Text},
		}})
		size := func(kind byte) (n int) {
			do(t, db, func(tx *record.Tx) error {
				n = 0
				for p, err := range tx.Engine().Scan([]byte{keyspace.Records, kind}, []byte{keyspace.Records, kind + 1}) {
					if err != nil {
						return err
					}
					n += len(p.Key) + len(p.Val)
				}
				return nil
			})
			return n
		}
		ann := record.Actor{ID: "019ab3f0-0000-7000-8000-000000000001", System: true, Request: "019ab3f0-0000-7000-8000-000000000002"}
		var ids []string
		must(t, update(t, db, ann, func(tx *record.Tx) error {
			ids = nil
			for range records {
				r, err := tx.Create("posts", "", []byte(`{"title":"A post about fish","likes":0,"owner":"`+ann.ID+`","body":"`+body+`"}`))
				if err != nil {
					return err
				}
				ids = append(ids, r.ID)
			}
			return nil
		}))
		doc, created := size('d'), size('h')+size('l')
		for i := range updates {
			must(t, update(t, db, ann, func(tx *record.Tx) error {
				for _, id := range ids {
					if _, err := tx.Update("posts", id, fmt.Appendf(nil, c.patch, i+1), 0); err != nil {
						return err
					}
				}
				return nil
			}))
		}
		each := (size('h') + size('l') - created) / (records * updates)
		t.Logf("a record of %d bytes: its creation takes %d bytes of history, a change of %s %d on average", doc/records, created/records, c.name, each)
		if each > c.most {
			t.Errorf("a change of %s takes %d bytes, more than %d", c.name, each, c.most)
		}
	}
}
