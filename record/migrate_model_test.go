package record_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine/testengine/recordengine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
)

// shaper makes random collections of random records.
type shaper struct {
	*rand.Rand
	named int // names that were given
}

func (s *shaper) pick(all ...string) string { return all[s.IntN(len(all))] }

// typed gives a field a random type, with the options of that.
func (s *shaper) typed(f schema.Field) schema.Field {
	f = schema.Field{Name: f.Name, Was: f.Was}
	f.Type = []schema.Type{schema.Text, schema.Int, schema.Float, schema.Decimal, schema.Bool, schema.Time, schema.Select, schema.JSON, schema.Email, schema.Password}[s.IntN(10)]
	switch f.Type {
	case schema.Decimal:
		f.Scale = s.IntN(3)
	case schema.Select:
		f.Options, f.Many = []string{"5", "true", "x", "y"}[s.IntN(3):], s.IntN(2) == 0
	case schema.Int:
		if s.IntN(3) == 0 {
			f.Required, f.Default = true, "5"
		}
	case schema.Text:
		f.Max = s.pick("", "", "3")
	}
	return f
}

func (s *shaper) field() schema.Field {
	s.named++
	return s.typed(schema.Field{Name: fmt.Sprint("f", s.named)})
}

// indexes gives a collection random indexes.
func (s *shaper) indexes(c *schema.Collection) {
	c.Indexes = nil
	var names []string
	for _, f := range c.Fields {
		if f.Type != schema.JSON && f.Type != schema.Password && !f.Many {
			names = append(names, f.Name)
		}
	}
	for i := 0; i < 3 && len(names) > 0; i++ {
		x := schema.Index{Name: fmt.Sprint("x", i), Unique: s.IntN(4) == 0}
		for _, name := range []string{s.pick(names...), s.pick(append(names, "updated")...)} {
			if !slices.ContainsFunc(x.Fields, func(f schema.IndexField) bool { return f.Name == name }) {
				x.Fields = append(x.Fields, schema.IndexField{Name: name, Desc: s.IntN(2) == 0})
			}
		}
		c.Indexes = append(c.Indexes, x)
	}
}

// change changes the description of a collection.
func (s *shaper) change(c schema.Collection) schema.Collection {
	c.Fields, c.Extra = slices.Clone(c.Fields), c.Extra != (s.IntN(6) == 0)
	for range 1 + s.IntN(3) {
		i := s.IntN(len(c.Fields))
		switch f := &c.Fields[i]; s.IntN(5) {
		case 0:
			c.Fields = append(c.Fields, s.field())
		case 1:
			s.named++
			f.Was, f.Name = append(slices.Clone(f.Was), f.Name), fmt.Sprint("f", s.named)
		case 2:
			if len(c.Fields) > 1 {
				c.Fields = slices.Delete(c.Fields, i, i+1)
			}
		case 3:
			*f = s.typed(*f)
		default:
			f.Required = f.Required && s.IntN(2) == 0
		}
	}
	s.indexes(&c)
	return c
}

// patch returns random data for a collection.
func (s *shaper) patch(c schema.Collection) []byte {
	var parts []string
	for _, f := range c.Fields {
		if s.IntN(3) == 0 {
			continue
		}
		v := map[schema.Type][]string{schema.Text: {`""`, `"5"`, `"true"`, `"x"`, `"a@b.example"`, `"2026-01-02T00:00:00Z"`, `"1.50"`}, schema.Int: {"0", "5", "-7"}, schema.Float: {"0.5", "5", "1e300"},
			schema.Decimal: {`"1"`, `"5"`, `"1.5"`}, schema.Bool: {"true", "false"}, schema.Time: {`"2026-01-02T00:00:00Z"`}, schema.Select: {`"x"`, `"y"`}, schema.JSON: {`{"a":1.50}`, `"x"`, `["x"]`, "5", "true"},
			schema.Email: {`"a@b.example"`, `"c@d.example"`}, schema.Password: {`"p"`, `"q"`}}[f.Type]
		text := s.pick(append(v, "null")...)
		if f.Many && text != "null" {
			text = "[" + text + "]"
		}
		parts = append(parts, fmt.Sprintf("%q:%s", f.Name, text))
	}
	if c.Extra {
		parts = append(parts, fmt.Sprintf(`"e%d":%s`, s.IntN(3), s.pick("1", `"x"`, "null", `{"b":[]}`)))
	}
	return []byte("{" + strings.Join(parts, ",") + "}")
}

// write makes a change of the records r0 to r7. It is refused where values are not valid or not unique.
func (s *shaper) write(t *testing.T, db *record.DB, c schema.Collection) {
	t.Helper()
	id, patch, op, by := fmt.Sprint("r", s.IntN(8)), s.patch(c), s.IntN(6), s.pick("ann", "bob")
	err := update(t, db, record.Actor{ID: by, System: true}, func(tx *record.Tx) error {
		switch op {
		case 0:
			return ignore(tx.Delete(c.Name, id, 0))
		case 1:
			return ignore(tx.Restore(c.Name, id, 0))
		case 2:
			return ignore(tx.Create(c.Name, id, patch))
		}
		return ignore(tx.Update(c.Name, id, patch, 0))
	})
	if err != nil && !errors.Is(err, record.ErrNotFound) && !errors.Is(err, record.ErrExists) && !errors.Is(err, record.ErrInvalid) {
		t.Fatalf("%s %s: %v", id, patch, err)
	}
}

// agree checks that histories, records and indexes agree, and that nothing shows a password.
func agree(t *testing.T, db *record.DB, name string) {
	t.Helper()
	found, err := db.Verify(t.Context(), []string{name}, nil)
	must(t, err)
	if found[0].Fault != nil {
		t.Fatal(found[0].Fault)
	}
	for seq := range found[0].Changes {
		if bodies := bodies(t, db, record.Program(), name, url.Values{"asof": {fmt.Sprint(seq + 1)}, "deleted": {"all"}, "limit": {"3"}}); strings.Contains(bodies, "sha256:") || strings.Contains(bodies, "hash of") {
			t.Fatalf("the state after change %d shows a password: %s", seq+1, bodies)
		}
	}
	do(t, db, func(tx *record.Tx) error {
		for i := range 8 {
			all, err := tx.History(name, fmt.Sprint("r", i), 0, 1000)
			if err != nil && !errors.Is(err, record.ErrNotFound) {
				return err
			}
			for _, ch := range all {
				if text := string(ch.AppendJSON(nil)); strings.Contains(text, "sha256:") || strings.Contains(text, "hash of") {
					t.Errorf("the history shows a password: %s", text)
				}
			}
		}
		return nil
	})
}

// TestMigrateRandomly: through random migrations, with writes before, during and after the work of each, histories,
// records and indexes always agree.
func TestMigrateRandomly(t *testing.T) {
	s := &shaper{Rand: seed.Rand(t)}
	rounds := 25
	if testing.Short() {
		rounds = 8
	}
	for range rounds {
		eng := recordengine.Open(t, recordengine.Options{Memory: true})
		c := schema.Collection{Name: "things", Fields: []schema.Field{s.field(), s.field(), s.field()}, Extra: s.IntN(2) == 0}
		s.indexes(&c)
		open := func(c schema.Collection) *record.DB {
			db, err := record.Open(eng, record.Options{Passwords: plain{}})
			must(t, err)
			must(t, db.Define(c))
			return db
		}
		db := open(c)
		for range 6 {
			for range 12 {
				s.write(t, db, c)
			}
			next := s.change(c)
			to := open(next)
			if _, err := to.Migrate(t.Context(), record.MigrateOptions{AllowLoss: true}); errors.Is(err, record.ErrMigration) {
				continue // to or from a password
			} else if err != nil {
				t.Fatal(err)
			}
			db, c = to, next
			s.write(t, db, c)
			agree(t, db, c.Name)
			_, err := db.WorkStep(t.Context())
			must(t, err)
			s.write(t, db, c)
			agree(t, db, c.Name)
			finish(t, db)
			if all, err := db.Migrations(t.Context()); err != nil || len(all[0].Steps) > 0 || all[0].Progress != nil && all[0].Progress.Failed == "" {
				t.Fatalf("after the work: %+v, %v", all, err)
			}
			agree(t, db, c.Name)
		}
		if _, err := db.Undo(t.Context(), record.Program(), "ann", time.Unix(0, 0), false); err != nil {
			t.Fatal(err)
		}
		agree(t, db, c.Name)
	}
}

// TestProgressAfterPurge: no more records are done than there are, also if some of them were purged.
func TestProgressAfterPurge(t *testing.T) {
	eng := recordengine.Open(t, recordengine.Options{Memory: true})
	db := withCollections(t, eng, notes())
	fill(t, db, 0, 600)
	next := notes()
	next.Indexes = append(next.Indexes, schema.Index{Name: "by_title", Fields: []schema.IndexField{{Name: "title"}}})
	db = withCollections(t, eng, next)
	_, err := db.Migrate(t.Context(), record.MigrateOptions{})
	must(t, err)
	_, err = db.WorkStep(t.Context())
	must(t, err)
	do(t, db, func(tx *record.Tx) error {
		for i := range 200 {
			id := fmt.Sprint("n", i)
			if err := errors.Join(ignore(tx.Delete("notes", id, 0)), tx.Purge("notes", id, 0)); err != nil {
				return err
			}
		}
		return nil
	})
	if got, want := steps(t, db), "notes: 500 of 500: building the index by_title "; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	finish(t, db)
	sound(t, eng, db, "notes")
}
