package record_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine/recordengine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
)

// accounts is a collection with a password, whose history only its owner sees.
func accounts() schema.Collection {
	return schema.Collection{
		Name: "accounts", Rules: schema.Rules{View: "true", Update: "true", History: "id = @auth.id"},
		Fields: []schema.Field{{Name: "name", Type: schema.Text}, {Name: "pass", Type: schema.Password}, {Name: "n", Type: schema.Int}},
	}
}

func openWith(t testing.TB, o recordengine.Options, all ...schema.Collection) *record.DB {
	t.Helper()
	db, err := record.Open(recordengine.Open(t, o), record.Options{Passwords: plain{}})
	must(t, err)
	must(t, db.Define(all...))
	return db
}

// do runs fn as one transaction of the program.
func do(t testing.TB, db *record.DB, fn func(tx *record.Tx) error) {
	t.Helper()
	must(t, update(t, db, record.Program(), fn))
}

func ignore[T any](_ T, err error) error { return err }

// TestHistory: who did what and when, passwords never, under a rule of its own.
func TestHistory(t *testing.T) {
	db := openWith(t, recordengine.Options{}, accounts())
	ann := record.Actor{ID: "ann", Request: "r1"}
	do(t, db, func(tx *record.Tx) error {
		return ignore(tx.Create("accounts", "ann", []byte(`{"name":"Ann","pass":"first"}`)))
	})
	must(t, update(t, db, ann, func(tx *record.Tx) error {
		return ignore(tx.Update("accounts", "ann", []byte(`{"pass":"second","n":1}`), 0))
	}))
	do(t, db, func(tx *record.Tx) error { return ignore(tx.Delete("accounts", "ann", 0)) })
	page := func(a record.Actor, before uint64, n int) (got []*record.Change, err error) {
		_, err = db.View(t.Context(), engine.Read{}, a, func(tx *record.Tx) (err error) {
			got, err = tx.History("accounts", "ann", before, n)
			return err
		})
		return got, err
	}
	all, err := page(ann, 0, record.MaxHistory) // of a record in the trash
	must(t, err)
	want := []string{"3 delete  []", `2 update ann r1 [{"op":"replace","path":"/pass"},{"op":"add","path":"/n","value":1}]`, `1 create  [{"op":"add","path":"/name","value":"Ann"},{"op":"add","path":"/pass"}]`}
	for i, ch := range all {
		if got := strings.ReplaceAll(fmt.Sprintf("%d %s %s %s %s", ch.Rev, ch.Op, ch.By, ch.Request, ch.Patch), "   ", "  "); got != want[i] {
			t.Errorf("%s\nwant %s", got, want[i])
		}
		if text := string(ch.AppendJSON(nil)); strings.Contains(text, "hash") || strings.Contains(text, "sha256") || !strings.Contains(text, `"at":"20`) {
			t.Error(text)
		}
	}
	if some, err := page(ann, 3, 1); err != nil || len(some) != 1 || some[0].Rev != 2 {
		t.Errorf("%v, %v", some, err)
	}
	if none, err := page(ann, 1, 1); err != nil || len(none) != 0 {
		t.Errorf("%v, %v", none, err)
	}
	for _, n := range []int{0, -1, record.MaxHistory + 1} {
		if _, err := page(ann, 0, n); !errors.Is(err, engine.ErrLimit) {
			t.Errorf("a page of %d: %v", n, err)
		}
	}
	if _, err := page(record.Actor{ID: "bob"}, 0, 1); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("a stranger sees the history of a deleted record: %v", err)
	}
	do(t, db, func(tx *record.Tx) error { return ignore(tx.Restore("accounts", "ann", 0)) })
	if _, err := page(record.Actor{ID: "bob"}, 0, 1); !errors.Is(err, record.ErrRefused) {
		t.Errorf("a stranger sees the history: %v", err)
	}
	do(t, db, func(tx *record.Tx) error {
		return errors.Join(ignore(tx.Delete("accounts", "ann", 0)), tx.Purge("accounts", "ann", 0))
	})
	if _, err := page(ann, 0, 1); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("the history of a purged record: %v", err)
	}
	all, err = page(record.Program(), 0, 100)
	if err != nil || len(all) != 6 || all[0].Op != "purge" || all[0].Redacted() {
		t.Fatalf("%v, %v", all, err)
	}
	for _, ch := range all[1:] {
		if text := string(ch.AppendJSON(nil)); !ch.Redacted() || strings.Contains(text, "patch") || !strings.Contains(text, `"redacted":"20`) {
			t.Error(text)
		}
	}
}

// TestHistoryBytes: large changes make short pages.
func TestHistoryBytes(t *testing.T) {
	db := openWith(t, recordengine.Options{Memory: true}, schema.Collection{Name: "c", Fields: []schema.Field{{Name: "x", Type: schema.Text}}})
	for i := range 12 {
		text := fmt.Appendf(nil, `{"x":"%s"}`, strings.Repeat(string(rune('a'+i)), schema.MaxDataBytes-100))
		do(t, db, func(tx *record.Tx) error {
			if i == 0 {
				return ignore(tx.Create("c", "a", text))
			}
			return ignore(tx.Update("c", "a", text, 0))
		})
	}
	do(t, db, func(tx *record.Tx) error {
		before, pages := uint64(0), 0
		for {
			all, err := tx.History("c", "a", before, 100)
			if err != nil || len(all) == 0 {
				if before != 1 || pages < 3 {
					t.Errorf("%d pages end before %d", pages, before)
				}
				return err
			}
			size := 0
			for _, ch := range all {
				size += len(ch.Patch)
			}
			if size > record.MaxHistoryBytes {
				t.Errorf("a page of %d bytes", size)
			}
			before = all[len(all)-1].Rev
			pages++
		}
	})
}

// past is a state of a record, and the moments of it.
type past struct {
	m    []record.Moment
	json string
}

// states makes 101 changes of the record a of accounts, at different times, and returns its states.
func states(t *testing.T, db *record.DB) (all []past) {
	step := func(fn func(tx *record.Tx) (*record.Record, error)) {
		t.Helper()
		time.Sleep(100 * time.Millisecond)
		var r *record.Record
		do(t, db, func(tx *record.Tx) (err error) { r, err = fn(tx); return err })
		var at time.Time
		for _, m := range r.Marks {
			if m.At.After(at) {
				at = m.At
			}
		}
		all = append(all, past{[]record.Moment{{Rev: r.Rev}, {Seq: uint64(len(all) + 1)}, {At: at}}, string(r.AppendJSON(nil))})
	}
	step(func(tx *record.Tx) (*record.Record, error) {
		return tx.Create("accounts", "a", []byte(`{"name":"A","pass":"p"}`))
	})
	for i := range 100 {
		switch i % 40 {
		case 38:
			step(func(tx *record.Tx) (*record.Record, error) { return tx.Delete("accounts", "a", 0) })
		case 39:
			step(func(tx *record.Tx) (*record.Record, error) { return tx.Restore("accounts", "a", 0) })
		default:
			step(func(tx *record.Tx) (*record.Record, error) {
				return tx.Update("accounts", "a", fmt.Appendf(nil, `{"n":%d,"pass":"p%d"}`, i, i), 0)
			})
		}
	}
	return all
}

// TestAsOf: each state of a record is found by its revision, its time and its change, and can come back.
func TestAsOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openWith(t, recordengine.Options{Memory: true}, accounts())
		all := states(t, db)
		get := func(m record.Moment) (text string, err error) {
			_, err = db.View(t.Context(), engine.Read{}, record.Actor{ID: "a"}, func(tx *record.Tx) error {
				r, err := tx.GetAsOf("accounts", "a", m)
				if err == nil {
					text = string(r.AppendJSON(nil))
					if p, _ := r.Value("pass").Text(); p != "" {
						t.Errorf("the password %s", p)
					}
				}
				return err
			})
			return text, err
		}
		for i, s := range all {
			for _, m := range s.m {
				if got, err := get(m); got != s.json {
					t.Fatalf("state %d as of %+v:\n%s\nwant %s, %v", i, m, got, s.json, err)
				}
			}
		}
		for _, m := range []record.Moment{{At: all[0].m[2].At.Add(-1)}, {Rev: 102}} {
			if got, err := get(m); !errors.Is(err, record.ErrNotFound) {
				t.Errorf("%+v: %s, %v", m, got, err)
			}
		}
		for _, m := range []record.Moment{{}, {Rev: 1, Seq: 1}} {
			if got, err := get(m); !errors.Is(err, engine.ErrInvalid) {
				t.Errorf("%+v: %s, %v", m, got, err)
			}
		}
		var r *record.Record
		must(t, update(t, db, record.Actor{ID: "a"}, func(tx *record.Tx) (err error) { r, err = tx.Revert("accounts", "a", 5, 101); return err }))
		pass, _ := r.Value("pass").Text()
		if n, _ := r.Value("n").Int(); n != 3 || r.Rev != 102 || pass != "hash of p99" {
			t.Errorf("reverted: %s with %s", r.AppendJSON(nil), pass)
		}
		if err := update(t, db, record.Actor{ID: "b"}, func(tx *record.Tx) error { return ignore(tx.Revert("accounts", "a", 5, 0)) }); !errors.Is(err, record.ErrRefused) {
			t.Errorf("someone who may not see the history reverts: %v", err)
		}
	})
}
