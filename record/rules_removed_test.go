package record_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine/recordengine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
)

// teams are two collections of which one has a rule about the other.
func teams(rule string, extra bool, fields ...schema.Field) []schema.Collection {
	return []schema.Collection{
		{Name: "people", Fields: fields, Extra: extra, Rules: schema.Rules{View: "true"}},
		{Name: "plans", Fields: []schema.Field{{Name: "owner", Type: schema.Reference, Collection: "people"}}, Rules: schema.Rules{List: "true", View: rule}},
	}
}

// TestMigrateRefusesRules: a migration is refused while a rule, of the collection itself or of another one, names a field
// that it removes or renames; also if the collection allows extra members, so that any name could be one.
func TestMigrateRefusesRules(t *testing.T) {
	role, name := schema.Field{Name: "role", Type: schema.Text}, schema.Field{Name: "name", Type: schema.Text}
	rank := schema.Field{Name: "rank", Type: schema.Text, Was: []string{"role"}}
	for _, extra := range []bool{false, true} {
		for _, rule := range []string{`owner.role = "x"`, `owner.role != "x"`, `!(owner.role ~ "x")`, `owner.role = null`} {
			for what, fields := range map[string][]schema.Field{"remove": {name}, "rename": {rank, name}} {
				eng := recordengine.Open(t, recordengine.Options{Memory: true})
				db := withCollections(t, eng, teams(rule, extra, role, name)...)
				must(t, update(t, db, record.Program(), func(*record.Tx) error { return nil }))
				db = withCollections(t, eng, teams(rule, extra, fields...)...)
				_, err := db.Migrate(t.Context(), record.MigrateOptions{AllowLoss: true})
				if !errors.Is(err, record.ErrMigration) || !strings.Contains(err.Error(), `the view rule of plans: people has no field "role"`) {
					t.Errorf("%s, extra %v, %s: %v", what, extra, rule, err)
				}
				own := teams("true", extra, fields...)
				own[0].Rules.Update = `@new.role != "x"`
				db = withCollections(t, eng, own...)
				_, err = db.Migrate(t.Context(), record.MigrateOptions{AllowLoss: true})
				if !errors.Is(err, record.ErrMigration) || !strings.Contains(err.Error(), `the update rule of people: people has no field "role"`) {
					t.Errorf("%s, extra %v, own rule: %v", what, extra, err)
				}
				db = withCollections(t, eng, teams("owner.name = @auth.id", extra, fields...)...)
				_, err = db.Migrate(t.Context(), record.MigrateOptions{AllowLoss: true})
				must(t, err)
			}
		}
	}
}

// TestBrokenRule: a rule that names a field that is not there allows nobody anything, however it is negated, and the
// explanation says so. Migrations of something else go on; the one that mends it opens it.
func TestBrokenRule(t *testing.T) {
	eng := recordengine.Open(t, recordengine.Options{Memory: true})
	gone := `gone != "x" || "a" = "a"`
	c := schema.Collection{Name: "notes", Fields: []schema.Field{{Name: "title", Type: schema.Text}},
		Rules: schema.Rules{List: gone, View: gone, Create: gone, Update: `@new.gone != "x"`, Delete: gone, History: gone, Subscribe: gone}}
	db := withCollections(t, eng, c)
	do(t, db, func(tx *record.Tx) error { return ignore(tx.Create("notes", "a", []byte(`{"title":"x"}`))) })
	ann := record.Actor{ID: "ann"}
	closed := func(op record.Operation, err error) {
		t.Helper()
		if !errors.Is(err, record.ErrRefused) && !errors.Is(err, record.ErrNotFound) {
			t.Errorf("%v: %v", op, err)
		}
	}
	try := func(fn func(tx *record.Tx) error) error { return update(t, db, ann, fn) }
	_, _, err := list(t, db, ann, "notes", "")
	closed(record.List, err)
	closed(record.View, try(func(tx *record.Tx) error { return ignore(tx.Get("notes", "a")) }))
	closed(record.Create, try(func(tx *record.Tx) error { return ignore(tx.Create("notes", "b", []byte(`{}`))) }))
	closed(record.Update, try(func(tx *record.Tx) error { return ignore(tx.Update("notes", "a", []byte(`{"title":"y"}`), 0)) }))
	closed(record.Delete, try(func(tx *record.Tx) error { return ignore(tx.Delete("notes", "a", 0)) }))
	closed(record.History, try(func(tx *record.Tx) error { return ignore(tx.History("notes", "a", 0, 10)) }))
	for op := record.List; op <= record.Subscribe; op++ {
		must(t, try(func(tx *record.Tx) error {
			e, err := tx.Explain("notes", op, "a")
			if err == nil && (e.Result != record.Fails || !strings.HasPrefix(e.Text, "The rule is broken, so nobody is allowed: the ") || !strings.Contains(e.Text, `notes has no field "gone"`)) {
				t.Errorf("%v is explained by %q, %s", op, e.Text, e.Result)
			}
			return err
		}))
	}
	c.Fields = append(c.Fields, schema.Field{Name: "n", Type: schema.Int})
	db = withCollections(t, eng, c)
	_, err = db.Migrate(t.Context(), record.MigrateOptions{})
	must(t, err)
	closed(record.View, try(func(tx *record.Tx) error { return ignore(tx.Get("notes", "a")) }))
	c.Fields = append(c.Fields, schema.Field{Name: "gone", Type: schema.Text})
	db = withCollections(t, eng, c)
	_, err = db.Migrate(t.Context(), record.MigrateOptions{})
	must(t, err)
	must(t, try(func(tx *record.Tx) error { return ignore(tx.Get("notes", "a")) }))
}

// TestFormerNames: in a collection that allows extra members, a former name of a field is none: the value would become
// that of the field, unchecked. Nor is the name of a field that was removed.
func TestFormerNames(t *testing.T) {
	eng := recordengine.Open(t, recordengine.Options{Memory: true})
	c := schema.Collection{Name: "notes", Extra: true, Fields: []schema.Field{{Name: "by", Type: schema.Text, Max: "5"}, {Name: "old", Type: schema.Text}},
		Indexes: []schema.Index{{Name: "by_by", Fields: []schema.IndexField{{Name: "by"}}}}}
	db := withCollections(t, eng, c)
	do(t, db, func(tx *record.Tx) error { return ignore(tx.Create("notes", "a", []byte(`{"x":1}`))) })
	c.Fields = []schema.Field{{Name: "author", Type: schema.Text, Max: "5", Was: []string{"by"}}}
	c.Indexes = []schema.Index{{Name: "by_by", Fields: []schema.IndexField{{Name: "author"}}}}
	db = withCollections(t, eng, c)
	_, err := db.Migrate(t.Context(), record.MigrateOptions{AllowLoss: true})
	must(t, err)
	finish(t, db)
	for patch, want := range map[string]string{`{"by":"longer than five"}`: `notes has no field "by"; it is called author now`, `{"by":null}`: `notes has no field "by"`, `{"old":"x"}`: `notes has no field "old"`} {
		for _, fn := range []func(tx *record.Tx) error{
			func(tx *record.Tx) error { return ignore(tx.Update("notes", "a", []byte(patch), 0)) },
			func(tx *record.Tx) error { return ignore(tx.Create("notes", "b", []byte(patch))) },
		} {
			if err := update(t, db, record.Program(), fn); !errors.Is(err, record.ErrInvalid) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", patch, err)
			}
		}
	}
	for _, filter := range []string{`by != "x"`, `old != "x"`} {
		_, err := db.View(t.Context(), engine.Read{}, record.Program(), func(tx *record.Tx) error {
			_, err := tx.ParseQuery("notes", url.Values{"filter": {filter}})
			return err
		})
		if !errors.Is(err, record.ErrQuery) {
			t.Errorf("%s: %v", filter, err)
		}
	}
	do(t, db, func(tx *record.Tx) error { return ignore(tx.Update("notes", "a", []byte(`{"y":2}`), 0)) })
	sound(t, eng, db, "notes")
}
