package record_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine/recordengine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
)

// article is a record of a Set with fields of several types.
type article struct {
	record.Meta
	Slug    string     `record:",required,unique,pattern=[a-z0-9-]+"`
	Title   string     `record:",required,min=1,max=40,label=Headline"`
	State   string     `record:",options=draft|public,default=draft"`
	Price   string     `record:",scale=2,min=0"`
	Words   int32      `record:",index"`
	Until   *time.Time `record:"until"`
	Topics  []string   `record:",options=go|sql|web"`
	Secret  string     `record:",type=password"`
	private int
}

var articles = record.Of[article](schema.Collection{
	Name:    "articles",
	Rules:   schema.Rules{List: `state = "public" || created_by = @auth.id`, View: `state = "public" || created_by = @auth.id`, Create: `@auth.id != null`, Update: `created_by = @auth.id`, Delete: `created_by = @auth.id`},
	Fields:  []schema.Field{{Name: "note", Type: schema.Text}}, // that article does not have
	Indexes: []schema.Index{{Name: "newest", Fields: []schema.IndexField{{Name: "created", Desc: true}}}},
})

func openArticles(t testing.TB) *record.DB {
	t.Helper()
	db, err := record.Open(recordengine.Open(t, recordengine.Options{}), record.Options{Passwords: plain{}})
	must(t, err)
	must(t, db.Use(articles))
	return db
}

// TestSet walks through the life of a record as a struct, one transaction for each step.
func TestSet(t *testing.T) {
	db := openArticles(t)
	ann, bob := db.As(t.Context(), record.Actor{ID: "ann"}), db.As(t.Context(), record.Actor{ID: "bob"})
	until := time.Date(2027, 1, 2, 3, 4, 5, 6000, time.UTC)
	a := article{Slug: "one", Title: "One", Price: "1.5", Words: 7, Until: &until, Topics: []string{"go", "web"}, Secret: "open sesame", private: 1}
	must(t, articles.Create(ann, &a))
	if a.ID == "" || a.Rev != 1 || a.CreatedBy != "ann" || a.Created.IsZero() || a.State != "draft" || a.Price != "1.50" || a.Secret != "" {
		t.Fatalf("created %+v", a)
	}
	got, err := articles.Get(ann, a.ID)
	must(t, err)
	if got.Slug != "one" || !got.Until.Equal(until) || strings.Join(got.Topics, " ") != "go web" || got.Meta != a.Meta {
		t.Errorf("got %+v", got)
	}
	if _, err := articles.Get(bob, a.ID); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("bob: %v", err)
	}

	// The field that article does not have, and the password, stay as they are.
	must(t, update(t, db, record.Actor{ID: "ann"}, func(tx *record.Tx) error {
		_, err := tx.Update("articles", a.ID, []byte(`{"note":"keep"}`), 1)
		return err
	}))
	a.State = "public"
	if err := articles.Save(ann, &a); !errors.Is(err, record.ErrRevision) {
		t.Errorf("a lost update: %v", err)
	}
	got.Rev, got.State, got.Until = 2, "public", nil
	must(t, articles.Save(ann, got))
	must(t, update(t, db, record.Program(), func(tx *record.Tx) error {
		r, err := tx.Get("articles", a.ID)
		if err == nil && (r.Value("note").String() != "keep" || r.Value("secret").String() != "hash of open sesame" || !r.Value("until").IsNull() || r.Rev != 3) {
			t.Errorf("stored %s", r.AppendJSON(nil))
		}
		return err
	}))
	if seen, err := articles.Get(bob, a.ID); err != nil || seen.UpdatedBy != "ann" {
		t.Errorf("bob: %+v, %v", seen, err)
	}
	if err := articles.Save(bob, got); !errors.Is(err, record.ErrRefused) {
		t.Errorf("bob: %v", err)
	}

	must(t, articles.Delete(ann, a.ID, 3))
	if _, err := articles.Get(ann, a.ID); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("deleted: %v", err)
	}
	back, err := articles.Restore(ann, a.ID, 0)
	if err != nil || back.Rev != 5 || back.IsDeleted || back.Title != "One" || back.RestoredBy != "ann" {
		t.Errorf("restored %+v, %v", back, err)
	}
}

// TestSetRefuses: what is wrong is said by field, and v stays as it was.
func TestSetRefuses(t *testing.T) {
	db := openArticles(t)
	ann := db.As(t.Context(), record.Actor{ID: "ann"})
	for _, c := range []struct {
		a    article
		want string
	}{
		{article{Slug: "One", Title: "x"}, "/slug"},
		{article{Slug: "one"}, "/title"},
		{article{Slug: "one", Title: "x", State: "gone"}, "/state"},
		{article{Slug: "one", Title: "x", Price: "much"}, "/price"},
		{article{Slug: "one", Title: "\xff"}, "/title"},
		{article{Meta: record.Meta{ID: "no id"}, Slug: "one", Title: "x"}, "/id"},
	} {
		a := c.a
		err := articles.Save(ann, &a)
		p, ok := errors.AsType[schema.Problems](err)
		if !ok || p[0].Pointer != c.want || !errors.Is(err, record.ErrInvalid) {
			t.Errorf("%+v: %v", c.a, err)
		}
		if a.Meta != c.a.Meta {
			t.Errorf("changed to %+v", a)
		}
	}
	must(t, articles.Save(ann, &article{Meta: record.Meta{ID: "first"}, Slug: "one", Title: "x"}))
	for _, a := range []article{{Slug: "one", Title: "y"}, {Meta: record.Meta{ID: "first"}, Slug: "two", Title: "y"}} {
		if err := articles.Create(ann, &a); !errors.Is(err, record.ErrExists) {
			t.Errorf("%+v: %v", a, err)
		}
	}
	if err := articles.Create(db.As(t.Context(), record.Actor{}), &article{Slug: "two", Title: "y"}); !errors.Is(err, record.ErrRefused) {
		t.Errorf("a stranger: %v", err)
	}
}

// TestSetInTx: operations of several sets in one transaction, beside plain keys, are done together or not at all.
func TestSetInTx(t *testing.T) {
	db := openArticles(t)
	stop := errors.New("stop")
	write := func(fail error) error {
		return update(t, db, record.Actor{ID: "ann"}, func(tx *record.Tx) error {
			a := &article{Meta: record.Meta{ID: "a"}, Slug: "a", Title: "A"}
			if err := articles.Create(tx, a); err != nil {
				return err
			}
			a.Words = 9
			if err := articles.Save(tx, a); err != nil {
				return err
			}
			return errors.Join(articles.Create(tx, &article{Meta: record.Meta{ID: "b"}, Slug: "b", Title: "B"}), fail)
		})
	}
	if err := write(stop); !errors.Is(err, stop) {
		t.Fatal(err)
	}
	ann := db.As(t.Context(), record.Actor{ID: "ann"})
	if _, err := articles.Get(ann, "a"); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("after a failure: %v", err)
	}
	must(t, write(nil))
	if a, err := articles.Get(ann, "a"); err != nil || a.Rev != 2 || a.Words != 9 {
		t.Errorf("%+v, %v", a, err)
	}
	_, err := db.View(t.Context(), engine.Read{}, record.Actor{ID: "ann"}, func(tx *record.Tx) error {
		return articles.Delete(tx, "a", 0)
	})
	if !errors.Is(err, engine.ErrReadOnly) {
		t.Errorf("a write in a view: %v", err)
	}
}

// TestUse: mistakes in structs and collections are reported, all of them, with the names of the program.
func TestUse(t *testing.T) {
	type plain struct{ Title string }
	type odd struct {
		record.Meta
		N uint64
	}
	type fine struct {
		record.Meta
		Title string
	}
	db, err := record.Open(recordengine.Open(t, recordengine.Options{}), record.Options{})
	must(t, err)
	err = db.Use(
		record.Of[plain](schema.Collection{Name: "plain"}), record.Of[odd](schema.Collection{Name: "odd"}),
		record.Of[fine](schema.Collection{Name: "fine", Fields: []schema.Field{{Name: "title", Type: schema.Text}}}),
	)
	for _, want := range []string{"record_test.plain does not embed record.Meta", "odd.N: the Go type uint64 is not supported", "collection fine:"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nlacks %s", err, want)
		}
	}
}
