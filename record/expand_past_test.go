package record_test

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine/recordengine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
)

// family opens a store with a clock that goes on by a second with each step, and makes the steps.
func family(t *testing.T, steps ...func(tx *record.Tx) error) (*record.DB, time.Time) {
	t.Helper()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	begin := now
	db, err := record.Open(recordengine.Open(t, recordengine.Options{Now: func() time.Time { return now }}), record.Options{})
	must(t, err)
	reference := func(name, to string) schema.Field {
		return schema.Field{Name: name, Type: schema.Reference, Collection: to}
	}
	open := schema.Rules{List: "true", View: "true", History: "true"}
	own := open
	own.History = "owner = @auth.id"
	closed := open
	closed.History = ""
	text := schema.Field{Name: "text", Type: schema.Text}
	must(t, db.Define(
		schema.Collection{Name: "notes", Fields: []schema.Field{text, {Name: "owner", Type: schema.Text}, reference("parent", "notes")}, Rules: own},
		schema.Collection{Name: "tags", Fields: []schema.Field{text, reference("note", "notes")}, Rules: open},
		schema.Collection{Name: "marks", Fields: []schema.Field{text, reference("note", "notes")}, Rules: closed}))
	for _, step := range steps {
		now = now.Add(time.Second)
		must(t, update(t, db, record.Program(), step))
	}
	return db, begin
}

func put(collection, id, data string) func(tx *record.Tx) error {
	return func(tx *record.Tx) error {
		_, err := tx.Update(collection, id, []byte(data), 0)
		if errors.Is(err, record.ErrNotFound) {
			_, err = tx.Create(collection, id, []byte(data))
		}
		return err
	}
}

// brief returns what is expanded of the records of a page, as text.
func brief(p *record.Page) string {
	text := string(p.AppendJSON(nil))
	var parts []string
	for _, part := range strings.Split(text, `"text":"`)[1:] {
		part, _, _ = strings.Cut(part, `"`)
		parts = append(parts, part)
	}
	return strings.Join(parts, " ")
}

// TestExpandPast: what is expanded is as it was, for those who may see its history, in both directions, also if references
// have changed since.
func TestExpandPast(t *testing.T) {
	db, begin := family(t,
		put("notes", "a", `{"text":"a1","owner":"ann"}`), put("notes", "b", `{"text":"b1","owner":"bob","parent":"a"}`), put("tags", "x", `{"text":"x1","note":"a"}`), put("tags", "y", `{"text":"y1","note":"b"}`), put("marks", "m", `{"text":"m1","note":"a"}`),
		put("notes", "a", `{"text":"a2","parent":"b"}`), put("tags", "y", `{"text":"y2","note":"a"}`), func(tx *record.Tx) error { _, err := tx.Delete("tags", "x", 0); return err },
		func(tx *record.Tx) error { // two changes of one time
			return errors.Join(put("notes", "c", `{"text":"c1","owner":"ann","parent":"a"}`)(tx), put("notes", "a", `{"text":"a3"}`)(tx))
		})
	at := func(step int) string { return begin.Add(time.Duration(step) * time.Second).Format(time.RFC3339) }
	ann, program := record.Actor{ID: "ann"}, record.Program()
	for _, c := range []struct {
		actor                          record.Actor
		collection, asof, expand, want string
	}{
		{program, "tags", "2", "note", "x1 a1 y1 b1"}, {program, "tags", at(6), "note.parent", "x1 a2 b1 y1 b1 a2"}, {program, "tags", at(7), "note", "x1 a2 y2 a2"}, {program, "tags", at(8), "note", "y2 a2"}, {program, "tags", at(3), "note", "x1 a1"},
		{ann, "tags", "2", "note", "x1 a1 y1"}, {ann, "tags", "2", "note.tags(note)", "x1 a1 x1 y1"},
		{program, "notes", at(5), "tags(note),marks(note)", "a1 x1 m1 b1 y1"}, {ann, "notes", at(5), "tags(note),marks(note)", "a1 x1"}, {program, "notes", at(7), "tags(note)", "a2 x1 y2 b1"}, {program, "notes", at(8), "notes(parent)", "a2 b1 b1 a2"},
		{program, "notes", "4", "parent", "a2 b1 b1 a2 c1 a2"}, {program, "notes", "5", "parent", "a3 b1 b1 a3 c1 a3"}, {program, "notes", "1", "parent,notes(parent)", "a1"},
	} {
		_, pages, err := list(t, db, c.actor, c.collection, url.Values{"asof": {c.asof}, "expand": {c.expand}}.Encode())
		if err != nil || brief(pages[0]) != c.want {
			t.Errorf("%s as of %s expand %s for %s: %s, %v; want %s", c.collection, c.asof, c.expand, c.actor.ID, pages[0].AppendJSON(nil), err, c.want)
		}
	}
	for _, c := range []struct {
		actor    record.Actor
		m        record.Moment
		id, want string
	}{{ann, record.Moment{}, "a", "a3 b1"}, {ann, record.Moment{Rev: 2}, "a", "a2"}, {program, record.Moment{Rev: 2}, "a", "a2 b1 x1"}, {program, record.Moment{Rev: 3}, "a", "a3 b1 y2"}, {program, record.Moment{Rev: 1}, "a", "a1"}, {program, record.Moment{At: begin.Add(7 * time.Second)}, "a", "a2 b1 x1 y2"}} {
		_, err := db.View(t.Context(), engine.Read{}, c.actor, func(tx *record.Tx) error {
			expand := "parent,tags(note)"
			if c.actor.ID != "" {
				expand = "parent"
			}
			q, err := tx.ParseQuery("notes", url.Values{"expand": {expand}, "fields": {"text"}})
			if err != nil {
				return err
			}
			p, err := tx.GetWith("notes", c.id, c.m, q)
			if err == nil && brief(p) != c.want {
				err = fmt.Errorf("%s", p.AppendJSON(nil))
			}
			return err
		})
		if err != nil {
			t.Errorf("%s at %+v for %q: %v; want %s", c.id, c.m, c.actor.ID, err, c.want)
		}
	}
}

// TestExpandPastLimit: users cannot make expansions of the past read many histories.
func TestExpandPastLimit(t *testing.T) {
	db, _ := family(t, put("notes", "a", `{"owner":"ann"}`), func(tx *record.Tx) error {
		for range record.MaxPast {
			if _, err := tx.Create("tags", "", []byte(`{"text":"t"}`)); err != nil {
				return err
			}
		}
		return nil
	})
	for _, c := range []struct {
		actor  record.Actor
		expand string
		ok     bool
	}{{record.Actor{ID: "ann"}, "tags(note)", true}, {record.Actor{ID: "ann"}, "tags(note),notes(parent)", false}, {record.Program(), "tags(note),notes(parent)", true}} {
		_, _, err := list(t, db, c.actor, "notes", "asof=1&expand="+c.expand)
		if c.ok != (err == nil) || !c.ok && engine.CodeOf(err) != record.CodeScan {
			t.Errorf("%s for %q: %v", c.expand, c.actor.ID, err)
		}
	}
}
