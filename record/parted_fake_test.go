package record

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine"
	"github.com/skerrydb/skerry/record/keys"
)

// partitions is an engine.PathStore in memory, whose table of paths does what a test asks for.
type partitions struct {
	engine.Engine

	mu      sync.Mutex // guards the fields below
	paths   map[pathKey]*pathStamps
	fail    error              // of the next Insert, after it has stored its entries
	hold    bool               // Remove keeps what it should remove in held
	held    []engine.PathEntry // what arrives late
	between func()             // called once by the next Insert, after it has stored its entries
}

type pathKey struct{ partition, key string }

// pathStamps are the greatest stamps of an entry: of its insertions and of its removals.
type pathStamps struct{ in, out int64 }

func newPartitions(t *testing.T) *partitions {
	return &partitions{Engine: testengine.Open(t, testengine.Options{}), paths: map[pathKey]*pathStamps{}}
}

// Promises returns only what records in partitions need.
func (p *partitions) Promises() engine.Promises { return keys.NeedsParted() }

func (p *partitions) Paths(context.Context) (engine.Paths, error) { return p, nil }

func (p *partitions) at(x engine.PathEntry) *pathStamps {
	k := pathKey{string(x.Partition), string(x.Key)}
	if p.paths[k] == nil {
		p.paths[k] = &pathStamps{}
	}
	return p.paths[k]
}

func (p *partitions) Insert(_ context.Context, list []engine.PathEntry) error {
	p.mu.Lock()
	for _, x := range list {
		s := p.at(x)
		s.in = max(s.in, x.Stamp)
	}
	between, err := p.between, p.fail
	p.between, p.fail = nil, nil
	p.mu.Unlock()
	if between != nil {
		between()
	}
	return err
}

func (p *partitions) Remove(_ context.Context, list []engine.PathEntry) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hold {
		p.held = append(p.held, list...)
		return errors.New("the removal is under way")
	}
	p.remove(list)
	return nil
}

func (p *partitions) remove(list []engine.PathEntry) {
	for _, x := range list {
		s := p.at(x)
		s.out = max(s.out, x.Stamp)
	}
}

// release makes what was held arrive.
func (p *partitions) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hold = false
	p.remove(p.held)
	p.held = nil
}

// alive returns how many entries there are.
func (p *partitions) alive() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.paths {
		if s.in > s.out {
			n++
		}
	}
	return n
}

func (p *partitions) Range(_ context.Context, partition, lo, hi []byte, back bool, limit int, _ engine.Read) (list [][]byte, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for k, s := range p.paths {
		if key := []byte(k.key); k.partition == string(partition) && s.in > s.out && bytes.Compare(key, lo) >= 0 && (hi == nil || bytes.Compare(key, hi) < 0) {
			list = append(list, key)
		}
	}
	slices.SortFunc(list, bytes.Compare)
	if back {
		slices.Reverse(list)
	}
	return list[:min(limit, len(list))], nil
}

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
	for _, fn := range []func(*Tx) error{
		func(tx *Tx) error { _, err := tx.Delete("notes", "a", 0); return err },
		func(tx *Tx) error { return tx.Purge("notes", "a", 0) },
	} {
		_, err := db.Update(t.Context(), Program(), fn)
		must(t, err)
	}
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
