package record

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/skerrydb/skerry/engine"
)

// openFake opens records on partitions, with the collection notes.
func openFake(t *testing.T) (*DB, *partitions) {
	t.Helper()
	p := newPartitions(t)
	db, err := Open(p, Options{})
	if err == nil {
		err = db.Define(notes())
	}
	if err != nil {
		t.Fatal(err)
	}
	return db, p
}

// own sets the owner of a note, and creates it if there is none.
func own(db *DB, id, owner string) error {
	_, err := db.Update(context.Background(), Program(), func(tx *Tx) error {
		data := []byte(`{"owner":"` + owner + `"}`)
		_, err := tx.Update("notes", id, data, 0)
		if errors.Is(err, ErrNotFound) {
			_, err = tx.Create("notes", id, data)
		}
		return err
	})
	return err
}

// owned compares the notes of an owner.
func owned(t *testing.T, db *DB, owner string, want ...string) {
	t.Helper()
	got, err := found(t, db, Query{Filter: "owner = ?", Sort: "-n,-id"}, owner)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("notes of %s: %v %v, want %v", owner, got, err, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// purge deletes a note for good.
func purge(t *testing.T, db *DB, id string) {
	t.Helper()
	for _, fn := range []func(*Tx) error{
		func(tx *Tx) error { _, err := tx.Delete("notes", id, 0); return err },
		func(tx *Tx) error { return tx.Purge("notes", id, 0) },
	} {
		_, err := db.Update(t.Context(), Program(), fn)
		must(t, err)
	}
}

// TestForcedDeathBeforeCommit: entries of a change that was not made are ignored, and removed once the record is known to be
// elsewhere.
func TestForcedDeathBeforeCommit(t *testing.T) {
	db, p := openFake(t)
	must(t, own(db, "a", "anna"))
	dead := errors.New("the process died")
	p.fail = dead
	if err := own(db, "a", "bert"); !errors.Is(err, dead) {
		t.Fatal(err)
	}
	if n := p.alive(); n != 2 {
		t.Errorf("%d entries, want that of the record and that of the change that was not made", n)
	}
	owned(t, db, "bert")
	owned(t, db, "anna", "a")
	must(t, own(db, "a", "bert"))
	owned(t, db, "bert", "a")
	owned(t, db, "anna")
	if n := p.alive(); n != 1 {
		t.Errorf("%d entries of one record", n)
	}
	p.fail = dead
	if err := own(db, "new", "bert"); !errors.Is(err, dead) {
		t.Fatal(err)
	}
	owned(t, db, "bert", "a") // nothing shows whether the other one is still being created
	must(t, own(db, "new", "bert"))
	owned(t, db, "bert", "new", "a")
}

// TestForcedLateRemoval: a removal that arrives after the record has got the same entry again changes nothing.
func TestForcedLateRemoval(t *testing.T) {
	db, p := openFake(t)
	must(t, own(db, "a", "anna"))
	p.hold = true
	must(t, own(db, "a", "bert"))
	owned(t, db, "anna") // its entry is still there
	must(t, own(db, "a", "anna"))
	p.release()
	owned(t, db, "anna", "a")
	owned(t, db, "bert")
	if n := p.alive(); n != 1 {
		t.Errorf("%d entries of one record", n)
	}
}

// TestForcedReadDuringChange: a reader that comes upon the entry of a change that is under way removes nothing that the change
// needs.
func TestForcedReadDuringChange(t *testing.T) {
	db, p := openFake(t)
	must(t, own(db, "a", "anna"))
	p.hold = true
	p.between = func() { owned(t, db, "bert") } // it comes before the commit, its removal after it
	must(t, own(db, "a", "bert"))
	p.release()
	owned(t, db, "bert", "a")
	owned(t, db, "anna")
}

// TestForcedPurge: a record that was purged and created again has the entries of the new one.
func TestForcedPurge(t *testing.T) {
	db, p := openFake(t)
	must(t, own(db, "a", "anna"))
	p.hold = true
	purge(t, db, "a")
	must(t, own(db, "a", "anna"))
	p.release()
	owned(t, db, "anna", "a")
	if n := p.alive(); n != 1 {
		t.Errorf("%d entries of one record", n)
	}
}

// TestForcedStaleEntries: a record that several entries lead to is found once, where it is, and the other entries are removed.
func TestForcedStaleEntries(t *testing.T) {
	db, p := openFake(t)
	must(t, own(db, "a", "anna"))
	must(t, own(db, "b", "anna"))
	p.hold = true
	for _, n := range []string{"3", "5", "1"} {
		_, err := db.Update(t.Context(), Program(), func(tx *Tx) error {
			_, err := tx.Update("notes", "a", []byte(`{"n":`+n+`}`), 0)
			return err
		})
		must(t, err)
	}
	p.hold, p.held = false, nil // they never arrive
	owned(t, db, "anna", "a", "b")
	if n := p.alive(); n != 2 {
		t.Errorf("%d entries of two records", n)
	}
	p.fail = errors.New("the process died")
	if own(db, "b", "bert") == nil {
		t.Fatal("the change was made")
	}
	must(t, own(db, "b", "cleo")) // the same revision
	owned(t, db, "bert")
	if n := p.alive(); n != 2 {
		t.Errorf("%d entries of two records", n)
	}
}

// TestForcedRemovalAfterCommit: the entry that a change makes obsolete stays until the change is committed.
func TestForcedRemovalAfterCommit(t *testing.T) {
	db, p := openFake(t)
	must(t, own(db, "a", "anna"))
	p.between = func() { owned(t, db, "anna", "a") }
	must(t, own(db, "a", "bert"))
	owned(t, db, "anna")
	if n := p.alive(); n != 1 {
		t.Errorf("%d entries of one record", n)
	}
}

// TestForcedUnknownOutcome: a change that was made although its writer does not know is found, and the next reader removes what
// it has left.
func TestForcedUnknownOutcome(t *testing.T) {
	db, p := openFake(t)
	must(t, own(db, "a", "anna"))
	p.unknown = engine.Errorf(engine.CodeOutcomeUnknown, "no answer")
	if err := own(db, "a", "bert"); engine.CodeOf(err) != engine.CodeOutcomeUnknown {
		t.Fatal(err)
	}
	if n := p.alive(); n != 2 {
		t.Errorf("%d entries: what is obsolete is known only if the change is", n)
	}
	owned(t, db, "bert", "a")
	owned(t, db, "anna")
	if n := p.alive(); n != 1 {
		t.Errorf("%d entries of one record", n)
	}
	must(t, own(db, "a", "anna"))
	owned(t, db, "anna", "a")
}

// TestForcedConflict: of two processes that change a record at once, the later one changes what the first has made.
func TestForcedConflict(t *testing.T) {
	db, p := openFake(t)
	must(t, own(db, "a", "anna"))
	p.another = func() { must(t, own(db, "a", "cleo")) }
	must(t, own(db, "a", "bert"))
	owned(t, db, "bert", "a")
	owned(t, db, "cleo")
	owned(t, db, "anna")
	if n := p.alive(); n != 1 {
		t.Errorf("%d entries of one record", n)
	}
}

// TestForcedCreations: two processes create a record, and one of them has purged its own when the other one tries again.
func TestForcedCreations(t *testing.T) {
	for _, again := range []bool{false, true} {
		db, p := openFake(t)
		must(t, own(db, "first", "dora"))
		p.another = func() {
			must(t, own(db, "a", "anna"))
			p.hold = true
			purge(t, db, "a")
			if again {
				must(t, own(db, "a", "bert"))
			}
		}
		must(t, own(db, "a", "anna"))
		p.release()
		owned(t, db, "anna", "a")
		owned(t, db, "bert")
		if n := p.alive(); n != 2 {
			t.Errorf("%d entries of two records, created again %t", n, again)
		}
	}
}

// TestForcedDefinition: while a process stores its collections for the first time, another transaction of the process does not
// take them for stored.
func TestForcedDefinition(t *testing.T) {
	db, p := openFake(t)
	p.another = func() { must(t, own(db, "a", "anna")) } // the first transaction is that of the descriptions
	must(t, own(db, "b", "anna"))
	owned(t, db, "anna", "b", "a")
}
