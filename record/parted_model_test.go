package record

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
)

// note is the state of a record in the model.
type note struct {
	owner, title string
	n            int
	deleted      bool
}

// step is one revision of a record in the model.
type step struct {
	op string
	to *note // nil: it was purged
}

// noteModel has every revision of each record.
type noteModel struct {
	mu  sync.Mutex // guards log
	log map[string][]step
}

// now returns the state of a record, nil if there is none.
func (m *noteModel) now(id string) *note {
	m.mu.Lock()
	defer m.mu.Unlock()
	if all := m.log[id]; len(all) > 0 {
		return all[len(all)-1].to
	}
	return nil
}

func (m *noteModel) add(id string, s step) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.log[id] = append(m.log[id], s)
}

// TestPartedModel compares random changes, by several writers at once, with a naive model, and then what every path finds and
// the history of each record.
func TestPartedModel(t *testing.T) {
	db := openParted(t)
	if err := db.Define(notes()); err != nil {
		t.Fatal(err)
	}
	rnd := seed.Rand(t)
	const writers, each, ids = 4, 30, 4
	model := &noteModel{log: map[string][]step{}}
	var work sync.WaitGroup
	for w := range writers {
		own := rand.New(rand.NewPCG(rnd.Uint64(), 0))
		work.Go(func() {
			for range each {
				// Each writer has ids of its own; they share one more.
				changeNote(t, db, own, model, fmt.Sprintf("w%d-%d", w, own.IntN(ids)))
				contend(t, db, own)
			}
		})
	}
	work.Wait()
	compareNotes(t, db, model.log)
	for id, log := range model.log {
		compareHistory(t, db, id, log)
	}
	compareShared(t, db)
}

// changeNote makes a random change of a record that only this writer changes.
func changeNote(t *testing.T, db *DB, rnd *rand.Rand, model *noteModel, id string) {
	m := model.now(id)
	next := &note{[]string{"anna", "bert", "cleo"}[rnd.IntN(3)], []string{"x", "y"}[rnd.IntN(2)], rnd.IntN(4), false}
	data := fmt.Appendf(nil, `{"owner":%q,"title":%q,"n":%d}`, next.owner, next.title, next.n)
	op := rnd.IntN(4)
	var did string
	_, err := db.Update(t.Context(), Program(), func(tx *Tx) error {
		var err error
		switch {
		case m == nil:
			did = "create"
			_, err = tx.Create("notes", id, data)
		case m.deleted && op < 2:
			did, next = "purge", nil
			err = tx.Purge("notes", id, 0)
		case m.deleted:
			did, next = "restore", &note{m.owner, m.title, m.n, false}
			_, err = tx.Restore("notes", id, 0)
		case op == 0:
			did, next = "delete", &note{m.owner, m.title, m.n, true}
			_, err = tx.Delete("notes", id, 0)
		default:
			did = "update"
			_, err = tx.Update("notes", id, data, 0)
		}
		return err
	})
	if err != nil {
		t.Errorf("%s %s: %v", did, id, err)
	} else if did != "update" || *next != *m { // an update that changes nothing makes no revision
		model.add(id, step{did, next})
	}
}

// contend changes a record that all writers change. Some lose, and leave entries of changes that were not made.
func contend(t *testing.T, db *DB, rnd *rand.Rand) {
	data := fmt.Appendf(nil, `{"owner":"dora","title":"%d","n":%d}`, rnd.IntN(3), rnd.IntN(9))
	_, err := db.Update(t.Context(), Program(), func(tx *Tx) error {
		_, err := tx.Update("notes", "shared", data, 0)
		if errors.Is(err, ErrNotFound) {
			_, err = tx.Create("notes", "shared", data)
		}
		return err
	})
	if err != nil && !engine.Retryable(err) {
		t.Errorf("change the shared record: %v", err)
	}
}

// sortNotes sorts ids by n and id as a query does.
func sortNotes(ids []string, order string, log map[string][]step) {
	n := func(id string) int { return log[id][len(log[id])-1].to.n }
	slices.SortFunc(ids, func(a, b string) int {
		byN, byID := cmp.Compare(n(a), n(b)), cmp.Compare(a, b)
		if strings.Contains(order, "-n") {
			byN = -byN
		}
		if strings.Contains(order, "-id") {
			byID = -byID
		}
		return cmp.Or(byN, byID)
	})
}

// compareNotes compares what the paths find with the model, page by page, in several orders.
func compareNotes(t *testing.T, db *DB, log map[string][]step) {
	t.Helper()
	for _, owners := range [][]string{{"anna"}, {"bert"}, {"cleo"}, {"anna", "cleo"}, {"cleo", "bert", "anna"}, {"nobody"}} {
		filter := `owner = "` + strings.Join(owners, `" || owner = "`) + `"`
		for _, trash := range []bool{false, true} {
			for _, least := range []int{-1, 1, 3} {
				var want []string
				for id, all := range log {
					m := all[len(all)-1].to
					if m != nil && slices.Contains(owners, m.owner) && m.deleted == trash && m.n > least {
						want = append(want, id)
					}
				}
				for i, order := range []string{"-n,-id", "n,id", "-n,id", "n,-id"} {
					sortNotes(want, order, log)
					q := Query{Filter: "(" + filter + ") && n > ?", Sort: order, Limit: 1 + (i+least+1)%3, Trash: trash}
					got, err := found(t, db, q, least)
					if err != nil || !slices.Equal(got, want) {
						t.Errorf("%s above %d by %s, %d a page, trash %t: %v %v, want %v", filter, least, order, q.Limit, trash, got, err, want)
					}
				}
			}
		}
	}
}

// historyOf returns all changes of a note, the oldest first, read page by page.
func historyOf(t *testing.T, db *DB, id string, size int) (all []*Change) {
	t.Helper()
	before := uint64(0)
	for {
		var page []*Change
		_, err := db.View(t.Context(), engine.Read{}, Program(), func(tx *Tx) (err error) {
			page, err = tx.History("notes", id, before, size)
			return err
		})
		if err != nil {
			t.Fatalf("history of %s before %d: %v", id, before, err)
		}
		if all = append(all, page...); len(page) < size {
			slices.Reverse(all)
			return all
		}
		before = page[len(page)-1].Rev
	}
}

// compareHistory compares every revision of a record with the model.
func compareHistory(t *testing.T, db *DB, id string, log []step) {
	t.Helper()
	all := historyOf(t, db, id, 3)
	if len(all) != len(log) {
		t.Errorf("%s has %d changes, want %d", id, len(all), len(log))
		return
	}
	purged := 0 // the last revision that was purged
	for i, s := range log {
		if s.to == nil {
			purged = i + 1
		}
	}
	for i, ch := range all {
		// A purge redacts what was before it; it has an empty patch itself, which a later purge redacts.
		gone := i+1 < purged
		if ch.Rev != uint64(i+1) || ch.Op != log[i].op || ch.Redacted() != gone {
			t.Errorf("change %d of %s is %s at revision %d, redacted %t, want %s, redacted %t", i+1, id, ch.Op, ch.Rev, ch.Redacted(), log[i].op, gone)
		}
	}
	if purged == len(log) {
		return
	}
	_, err := db.View(t.Context(), engine.Read{}, Program(), func(tx *Tx) error {
		for i, s := range log[purged:] {
			r, err := tx.GetAsOf("notes", id, Moment{Rev: uint64(purged + i + 1)})
			if err != nil {
				return err
			}
			if got := noteOf(r); got != *s.to {
				t.Errorf("revision %d of %s is %v, want %v", purged+i+1, id, got, *s.to)
			}
		}
		return nil
	})
	if err != nil {
		t.Errorf("states of %s: %v", id, err)
	}
}

func noteOf(r *Record) (n note) {
	n.owner, _ = r.Field(0).Text()
	n.title, _ = r.Field(1).Text()
	i, _ := r.Field(2).Int()
	n.n, n.deleted = int(i), r.Deleted
	return n
}

// compareShared checks the record that all writers change: it is found once, and its history has no gaps.
func compareShared(t *testing.T, db *DB) {
	t.Helper()
	got, err := found(t, db, Query{Filter: `owner = "dora"`, Sort: "id"})
	if err != nil || len(got) != 1 {
		t.Errorf("the shared record is found as %v %v", got, err)
		return
	}
	for i, ch := range historyOf(t, db, "shared", 7) {
		want := "update"
		if i == 0 {
			want = "create"
		}
		if ch.Rev != uint64(i+1) || ch.Op != want {
			t.Errorf("change %d of the shared record is %s at revision %d", i+1, ch.Op, ch.Rev)
		}
	}
}
