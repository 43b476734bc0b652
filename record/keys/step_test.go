package keys

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine"
	"github.com/skerrydb/skerry/record/schema"
)

// life makes random changes of a few records.
type life struct {
	t    *testing.T
	rng  *rand.Rand
	c    *Collection
	last map[string]uint64 // revision of the last change

	marks bool   // print prints all marks, not only that of the creation
	kept  string // a record that is never purged
}

// change does something to a record.
func (l *life) change(tx engine.Tx, id string) {
	t := l.t
	t.Helper()
	before, err := Get(tx, l.c, id)
	if err != nil {
		t.Fatal(err)
	}
	ch := &Change{At: tx.Now().UTC(), By: "u"}
	after := &Doc{ID: id, Rev: l.last[id] + 1}
	if before != nil {
		after.Marks, after.Data, after.Deleted = before.Marks, before.Data, before.Deleted
	}
	l.last[id]++
	switch {
	case before == nil:
		ch.Op = Create
	case before.Deleted && id != l.kept && l.rng.IntN(2) == 0:
		ch.Op = Purge
		if err := Remove(tx, l.c, before, ch); err != nil {
			t.Fatal(err)
		}
		return
	case before.Deleted:
		ch.Op, after.Deleted = Restore, false
	case l.rng.IntN(4) == 0:
		ch.Op, after.Deleted = Delete, true
	default:
		ch.Op = Update
	}
	after.Marks[ch.Op-Create] = Mark{ch.At, "u"}
	if ch.Op == Create || ch.Op == Update {
		if after.Data, err = l.c.Patch(after.Data, fmt.Appendf(nil, `{"title":"%d","n":%d,"more":%d,"own":%q}`, l.rng.IntN(3), l.rng.IntN(3), l.rng.IntN(3), id)); err != nil {
			t.Fatal(err)
		}
	}
	if err := Put(tx, l.c, before, after, ch); err != nil {
		t.Fatal(err)
	}
}

// print returns what subscribers can see of a record.
func (l *life) print(d *Doc) string {
	if d == nil || d.Deleted {
		return "none"
	}
	marks := d.Marks[:1]
	if l.marks {
		marks = d.Marks[:]
	}
	return fmt.Sprintf("%s %d %v %s", d.ID, d.Rev, marks, l.c.Append(nil, d.Data))
}

// TestSteps makes random transactions of up to four changes, and compares what their changes say with what was stored
// before and after.
func TestSteps(t *testing.T) {
	for _, off := range []bool{false, true} {
		t.Run(fmt.Sprint("Off", off), func(t *testing.T) {
			k := *collection(t).Compiled
			k.History = schema.History{Off: off}
			eng := testengine.Open(t, testengine.Options{Memory: true})
			l := &life{t, seed.Rand(t), (&Collection{}).Next(&k), map[string]uint64{}, !off, ""}
			l.c.ID = 7
			known, all := 0, 0
			for range 600 {
				var before, after map[string]string
				revs := l.last
				a, b := l.rng.Uint64(), l.rng.Uint64()
				pos, err := eng.Update(t.Context(), func(tx engine.Tx) error {
					// The function may run more than once, and must do the same then.
					l.rng, l.last = rand.New(rand.NewPCG(a, b)), map[string]uint64{}
					for id, rev := range revs {
						l.last[id] = rev
					}
					before = l.state(tx)
					for range 1 + l.rng.IntN(4) {
						l.change(tx, fmt.Sprint("r", l.rng.IntN(3)))
					}
					after = l.state(tx)
					return tx.Put([]byte("other"), nil)
				})
				if err != nil {
					t.Fatal(err)
				}
				for c, err := range eng.Changes(t.Context(), pos-1) {
					if err != nil {
						t.Fatal(err)
					}
					n, m := l.compare(eng, c, before, after)
					known, all = known+n, all+m
					break
				}
			}
			if known == 0 || !off && known < all*9/10 || off && known < all/2 {
				t.Errorf("of %d steps only %d are known", all, known)
			}
		})
	}
}

func (l *life) state(tx engine.Tx) map[string]string {
	all := map[string]string{}
	for d, err := range Docs(tx, l.c, "") {
		if err != nil {
			l.t.Fatal(err)
		}
		all[d.ID] = l.print(d)
	}
	return all
}

func (l *life) compare(eng engine.Engine, c engine.Change, before, after map[string]string) (known, all int) {
	t := l.t
	t.Helper()
	steps, err := Steps(c, func(id uint32) bool { return id == 7 })
	if err != nil {
		t.Fatal(err)
	}
	seq := uint64(0)
	for _, s := range steps {
		all++
		if s.seq() <= seq || s.Last().By != "u" || !s.Last().At.Equal(c.Time.Truncate(time.Microsecond)) {
			t.Errorf("the last change of %s is %+v after number %d", s.ID, s.Last(), seq)
		}
		seq = s.seq()
		was, is, ok, err := s.Live(l.c)
		if err != nil {
			t.Fatal(err)
		}
		if got := l.print(is); got != or(after[s.ID]) {
			t.Fatalf("after: %s, want %s", got, after[s.ID])
		}
		if !ok {
			continue
		}
		known++
		if was != nil && l.marks {
			l.addMarks(eng, s, was)
		}
		if got := l.print(was); got != or(before[s.ID]) && !(l.c.History.Off && or(before[s.ID]) == "none") {
			t.Fatalf("before: %s, want %s, by %+v", got, or(before[s.ID]), s.changes)
		}
	}
	for id := range after {
		if before[id] != after[id] && !slices.ContainsFunc(steps, func(s *Step) bool { return s.ID == id }) {
			t.Errorf("no step of %s, which was changed", id)
		}
	}
	return known, all
}

// addMarks adds the marks of a record before a step.
func (l *life) addMarks(eng engine.Engine, s *Step, was *Doc) {
	_, err := eng.View(l.t.Context(), engine.Read{}, func(tx engine.Tx) error {
		known, err := s.Marks(tx, l.c, was)
		if err == nil && !known {
			l.t.Errorf("the marks of %s before revision %d are not known", s.ID, s.changes[0].Rev)
		}
		return err
	})
	if err != nil {
		l.t.Fatal(err)
	}
}

// put stores a change of the record a by a user, after before.
func (l *life) put(eng engine.Engine, before *Doc, op Op, by string) (after *Doc, pos engine.Position) {
	pos, err := eng.Update(l.t.Context(), func(tx engine.Tx) (err error) {
		d := Doc{ID: "a"}
		if before != nil {
			d = *before
		}
		at := tx.Now().UTC().Truncate(time.Microsecond)
		d.Rev, d.Deleted, d.Marks[op-Create] = d.Rev+1, op == Delete, Mark{at, by}
		if d.Data, err = l.c.Patch(d.Data, fmt.Appendf(nil, `{"n":%d,"own":"a"}`, d.Rev)); err != nil {
			return err
		}
		after = &d
		return Put(tx, l.c, before, &d, &Change{Op: op, At: at, By: by})
	})
	if err != nil {
		l.t.Fatal(err)
	}
	return after, pos
}

// TestMarksFarBack checks that marks of many changes ago are found in a full copy, with few reads, and that they are not
// known if the history was trimmed.
func TestMarksFarBack(t *testing.T) {
	eng := testengine.Open(t, testengine.Options{Memory: true})
	l := &life{t, seed.Rand(t), (&Collection{}).Next(collection(t).Compiled), map[string]uint64{}, true, ""}
	l.c.ID = 7
	put := func(before *Doc, op Op, by string) (*Doc, engine.Position) { return l.put(eng, before, op, by) }
	d, _ := put(nil, Create, "ann")
	d, _ = put(d, Delete, "bob")
	d, _ = put(d, Restore, "eve")
	for range 3 * FullEvery {
		d, _ = put(d, Update, "ann")
	}
	want := *d
	_, pos := put(d, Delete, "ann")
	for c, err := range eng.Changes(t.Context(), pos-1) {
		if err != nil {
			t.Fatal(err)
		}
		steps, err := Steps(c, func(uint32) bool { return true })
		if err != nil || len(steps) != 1 {
			t.Fatal(len(steps), err)
		}
		for _, n := range []int{FullEvery * 3, FullEvery, 3} { // how many changes are left; the last copy is at revision 96
			_, err = eng.Update(t.Context(), func(tx engine.Tx) error {
				all, err := History(tx, l.c, "a", 0, 0)
				if err != nil {
					return err
				}
				_, err = Trim(tx, l.c, tx.Now().Add(time.Hour), all[n].Seq, 1_000)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			was, _, _, err := steps[0].Live(l.c)
			if err != nil {
				t.Fatal(err)
			}
			if n > 3 {
				if l.addMarks(eng, steps[0], was); l.print(was) != l.print(&want) {
					t.Errorf("before: %s, want %s", l.print(was), l.print(&want))
				}
				continue
			}
			_, err = eng.View(t.Context(), engine.Read{}, func(tx engine.Tx) error {
				known, err := steps[0].Marks(tx, l.c, was)
				if known {
					t.Errorf("marks of a history that was trimmed are known: %v", was.Marks)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		break
	}
}

func or(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// TestStepsOfOthers checks that keys of other collections, and others than records, are no steps.
func TestStepsOfOthers(t *testing.T) {
	put := func(keys ...[]byte) (c engine.Change) {
		for _, k := range keys {
			c.Writes = append(c.Writes, engine.Write{Key: k, Deleted: true})
		}
		return c
	}
	c := put([]byte("r"), []byte("rd"), docKey(8, "a"), docKey(7, ""), historyKey(7, "a", 1), logKey(7, 1), []byte("x"), nil)
	if steps, err := Steps(c, func(id uint32) bool { return id == 7 }); len(steps) > 0 || err != nil {
		t.Errorf("%v, %v", steps, err)
	}
	if EpochOf(c) || !EpochOf(put([]byte("x"), epoch)) {
		t.Error("EpochOf is wrong")
	}
	c = put(docKey(7, "a"), historyKey(7, "a", 1))
	c.Writes[1] = engine.Write{Key: c.Writes[1].Key, Val: []byte("damaged")}
	if _, err := Steps(c, func(uint32) bool { return true }); engine.CodeOf(err) != engine.CodeCorrupt {
		t.Errorf("a damaged change: %v", err)
	}
}
