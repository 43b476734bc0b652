package record_test

import (
	"errors"
	"testing"

	"github.com/skerrydb/skerry/record"
)

// TestSetHistory: all changes of a record, more than one batch of them; its past, and the way back.
func TestSetHistory(t *testing.T) {
	db := openArticles(t)
	me, other := db.As(t.Context(), record.Program()), db.As(t.Context(), record.Actor{ID: "bob"})
	a := article{Slug: "a", Title: "A", State: "public"}
	must(t, articles.Create(me, &a))
	const changes = 250
	must(t, update(t, db, record.Program(), func(tx *record.Tx) error {
		v, err := articles.Get(tx, a.ID)
		for i := range changes {
			if v.Words = int32(i + 1); err == nil {
				err = articles.Save(tx, v)
			}
		}
		return err
	}))
	rev := uint64(changes + 1)
	for ch, err := range articles.History(me, a.ID) {
		must(t, err)
		if ch.Rev != rev || rev > 1 && ch.Op != "update" || rev == 1 && ch.Op != "create" {
			t.Fatalf("%+v, want revision %d", ch, rev)
		}
		rev--
	}
	if rev != 0 {
		t.Errorf("the history ends before revision %d", rev)
	}
	for ch, err := range articles.History(other, a.ID) {
		if ch != nil || !errors.Is(err, record.ErrRefused) {
			t.Errorf("no rule allows it: %v, %v", ch, err)
		}
	}
	past, err := articles.GetAsOf(me, a.ID, record.Moment{Rev: 8})
	if err != nil || past.Words != 7 || past.Rev != 8 {
		t.Errorf("as of revision 8: %+v, %v", past, err)
	}
	back, err := articles.Revert(me, a.ID, 8, changes+1)
	if err != nil || back.Words != 7 || back.Rev != changes+2 {
		t.Errorf("back at revision 8: %+v, %v", back, err)
	}
	if _, err := articles.Revert(me, a.ID, 8, 1); !errors.Is(err, record.ErrRevision) {
		t.Errorf("another revision: %v", err)
	}
}

// TestSetPasswords: a transaction that sets passwords runs again when they are hashed, also those of a Set.
func TestSetPasswords(t *testing.T) {
	db := openArticles(t)
	must(t, update(t, db, record.Program(), func(tx *record.Tx) error {
		return errors.Join(articles.Save(tx, &article{Meta: record.Meta{ID: "a"}, Slug: "a", Title: "A", Secret: "one"}), articles.Save(tx, &article{Slug: "b", Title: "B", Secret: "two"}))
	}))
	must(t, update(t, db, record.Program(), func(tx *record.Tx) error {
		r, err := tx.Get("articles", "a")
		if err == nil && r.Value("secret").String() != "hash of one" {
			t.Errorf("stored %s", r.Value("secret"))
		}
		return err
	}))
}
