package record_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine/recordengine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
)

// outline returns a clause and its parts as lines.
func outline(c *record.Clause, indent string) string {
	if c == nil {
		return ""
	}
	text := indent + c.Result + " " + c.Text + "\n"
	for _, t := range c.Terms {
		text += outline(&t, indent+"  ")
	}
	return text
}

func TestExplain(t *testing.T) {
	c := notes()
	c.Rules = schema.Rules{View: `title = @auth.id || n > 5 && !(@auth.verified)`, Update: `@new.n = n`, Delete: `@auth.id = "bob"`}
	db := withCollections(t, recordengine.Open(t, recordengine.Options{}), c)
	fill(t, db, 0, 10)
	ann := record.Actor{ID: "t3", Verified: true}
	for _, x := range []struct {
		actor    record.Actor
		op, id   string
		want     string
		sentence string
	}{
		{ann, "view", "n3", "true title = @auth.id || n > 5 && !(@auth.verified = true)\n  true title = @auth.id\n  false n > 5 && !(@auth.verified = true)\n    false n > 5\n    false !(@auth.verified = true)\n      true @auth.verified = true\n", "The rule allows it."},
		{ann, "view", "n7", "false title = @auth.id || n > 5 && !(@auth.verified = true)\n  false title = @auth.id\n  false n > 5 && !(@auth.verified = true)\n    true n > 5\n    false !(@auth.verified = true)\n      true @auth.verified = true\n", "The rule refuses it."},
		{ann, "view", "", "depends title = @auth.id || n > 5 && !(@auth.verified = true)\n  depends title = @auth.id\n  false n > 5 && !(@auth.verified = true)\n    depends n > 5\n    false !(@auth.verified = true)\n      true @auth.verified = true\n", "It depends on the record."},
		{ann, "update", "n1", "true @new.n = n\n", "The rule allows it."}, {ann, "delete", "", "false @auth.id = \"bob\"\n", "The rule refuses it."},
		{ann, "list", "n1", "", "There is no rule, so nobody is allowed."}, {record.Program(), "list", "n1", "", "The actor is not subject to rules."},
	} {
		op, err := record.ParseOperation(x.op)
		must(t, err)
		_, err = db.View(t.Context(), engine.Read{}, x.actor, func(tx *record.Tx) error {
			e, err := tx.Explain("notes", op, x.id)
			if err == nil && (outline(e.Clause, "") != x.want || e.Text != x.sentence) {
				t.Errorf("%s of %s: %s\n%swant %s\n%s", x.op, x.id, e.Text, outline(e.Clause, ""), x.sentence, x.want)
			}
			return err
		})
		must(t, err)
	}
	_, err := db.View(t.Context(), engine.Read{}, ann, func(tx *record.Tx) error {
		_, err := tx.Explain("notes", record.View, "none")
		return err
	})
	if !errors.Is(err, record.ErrNotFound) {
		t.Error(err)
	}
	if _, err := record.ParseOperation("vew"); err == nil || !strings.Contains(err.Error(), "did you mean view?") {
		t.Error(err)
	}
}
