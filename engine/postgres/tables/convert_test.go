package tables_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/pgserver"
	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/postgres"
	"github.com/skerrydb/skerry/engine/testengine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/keys"
	"github.com/skerrydb/skerry/record/schema"
)

var errKilled = errors.New("killed")

// mortal is a transaction that fails at one of its calls, and at all that follow.
type mortal struct {
	engine.Tx
	postgres.SQL
	engine.Attacher
	engine.Savepointer
	left *int
}

func newMortal(tx engine.Tx, left *int) mortal {
	return mortal{tx, tx.(postgres.SQL), tx.(engine.Attacher), tx.(engine.Savepointer), left}
}

func (m mortal) dies() bool {
	*m.left--
	return *m.left < 0
}

func (m mortal) Get(key []byte) ([]byte, bool, error) {
	if m.dies() {
		return nil, false, errKilled
	}
	return m.Tx.Get(key)
}

func (m mortal) Put(key, val []byte) error {
	if m.dies() {
		return errKilled
	}
	return m.Tx.Put(key, val)
}

func (m mortal) Delete(key []byte) error {
	if m.dies() {
		return errKilled
	}
	return m.Tx.Delete(key)
}

func (m mortal) Query(sql string, args ...any) (pgx.Rows, error) {
	if m.dies() {
		return nil, errKilled
	}
	return m.SQL.Query(sql, args...)
}

func (m mortal) Queue(sql string, args ...any) error {
	if m.dies() {
		return errKilled
	}
	return m.SQL.Queue(sql, args...)
}

// converted is a pair of which the first database, on PostgreSQL, is converted meanwhile by several processes.
type converted struct {
	*pair
	s       uint64
	at      string
	open    [2]engine.Engine // processes on the database
	process [2]*record.DB
	model   engine.Engine
	cursors []url.Values
	flips   int
	killed  int
	stage   keys.Stage // after the last step
}

func newConverted(t *testing.T, s uint64) *converted {
	rng := rand.New(rand.NewPCG(s, 1))
	c := &converted{pair: describePair(rng), s: s, at: pgserver.Shared(t).Database(t)}
	c.present = true
	for i := range c.open {
		c.reopen(t, i, i == 1)
	}
	t.Cleanup(func() {
		for _, eng := range c.open {
			if err := eng.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	c.model = testengine.Open(t, testengine.Options{Memory: true, Now: func() time.Time { return c.now }})
	c.dbs[1] = c.records(t, c.model)
	return c
}

func (c *converted) records(t *testing.T, eng engine.Engine) *record.DB {
	t.Helper()
	db, err := record.Open(eng, record.Options{})
	if err == nil {
		err = db.Define(c.collection)
	}
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// reopen opens a process again.
func (c *converted) reopen(t *testing.T, i int, create bool) {
	t.Helper()
	if c.open[i] != nil {
		if err := c.open[i].Close(); err != nil {
			t.Fatal(err)
		}
	}
	u, err := url.Parse(c.at)
	if err != nil {
		t.Fatal(err)
	}
	c.open[i] = openPlace(t, u, create, func() time.Time { return c.now })
	c.process[i] = c.records(t, c.open[i])
}

// step does a step of the conversion, and dies in the middle of many.
func (c *converted) step(t *testing.T) {
	t.Helper()
	left := 1 << 30
	if c.rng.IntN(2) == 0 {
		left = c.rng.IntN(30)
	}
	most := 1 + c.rng.IntN(20)
	_, err := c.open[c.rng.IntN(2)].Update(t.Context(), func(tx engine.Tx) error {
		left := left
		m := newMortal(tx, &left)
		all, err := keys.Load(m)
		if err != nil {
			return err
		}
		works, err := keys.Works(m)
		if err != nil || len(works) == 0 {
			return err
		}
		w := works[0]
		if w.Failed != "" {
			return errors.New("the conversion failed: " + w.Failed)
		}
		was := keys.Stage("")
		if w.Convert != nil {
			w.Convert.Most, was = most, w.Convert.Stage
		}
		if err := w.Step(m, all, all[0]); err != nil {
			return err
		}
		c.stage = ""
		if w.Convert != nil {
			c.stage = w.Convert.Stage
		}
		if c.stage != was {
			c.flips++
		}
		return nil
	})
	if errors.Is(err, errKilled) {
		c.killed++
		err = nil
	}
	if errors.Is(err, engine.ErrUnavailable) { // a view has not ended yet, so a table cannot be dropped
		err = nil
	}
	if err != nil {
		t.Fatalf("SKERRY_SEED=%d: a step: %v", c.s, err)
	}
}

// do is both with one of the processes.
func (c *converted) do(t *testing.T, what string, write bool, fn func(tx *record.Tx) (any, error)) bool {
	t.Helper()
	c.dbs[0] = c.process[c.rng.IntN(2)]
	return c.both(t, fmt.Sprintf("SKERRY_SEED=%d %s", c.s, what), write, fn)
}

// read reads the next page of a listing that goes on through the conversion.
func (c *converted) read(t *testing.T) {
	t.Helper()
	if len(c.cursors) < 3 {
		c.cursors = append(c.cursors, url.Values{"limit": {"2"}, "sort": {pick(c.rng, "id", "-id", "created", c.fields[0].Name)}})
		if c.fields[0].Type == "json" {
			c.cursors[len(c.cursors)-1].Set("sort", "id")
		}
	}
	i := c.rng.IntN(len(c.cursors))
	next := ""
	c.do(t, fmt.Sprint("page ", c.cursors[i]), false, func(tx *record.Tx) (any, error) {
		x, err := tx.ParseQuery("c", c.cursors[i])
		if err != nil {
			return nil, err
		}
		page, err := tx.Find("c", x)
		if err != nil {
			return nil, err
		}
		next = page.Next
		return string(page.AppendJSON(nil)), nil
	})
	if next == "" {
		c.cursors = slices.Delete(c.cursors, i, i+1)
	} else {
		c.cursors[i].Set("after", next)
	}
}

// hide redacts changes, or removes the oldest.
func (c *converted) hide(t *testing.T) {
	t.Helper()
	c.now = c.now.Add(time.Minute)
	if c.rng.IntN(2) == 0 {
		c.trim(t)
		return
	}
	id, rev := fmt.Sprint("r", c.rng.IntN(25)), uint64(c.rng.IntN(4))
	c.do(t, "redact "+id, true, func(tx *record.Tx) (any, error) { return tx.Redact("c", id, rev) })
}

// trim removes the oldest changes.
func (c *converted) trim(t *testing.T) {
	t.Helper()
	n := 1 + c.rng.IntN(3)
	for _, eng := range []engine.Engine{c.open[c.rng.IntN(2)], c.model} {
		_, err := eng.Update(t.Context(), func(tx engine.Tx) error {
			all, err := keys.Load(tx)
			if err == nil && len(all) > 0 {
				_, err = keys.Trim(tx, all[0], c.now.Add(-20*time.Minute), 1<<40, n)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// migrate adds an index or drops it, in all databases. That it is built there is a part of steps.
func (c *converted) migrate(t *testing.T) {
	t.Helper()
	const name = "late"
	i := slices.IndexFunc(c.collection.Indexes, func(x schema.Index) bool { return x.Name == name })
	if c.collection.Indexes = slices.Clone(c.collection.Indexes); i >= 0 {
		c.collection.Indexes = slices.Delete(c.collection.Indexes, i, i+1)
	} else {
		c.collection.Indexes = append(c.collection.Indexes, schema.Index{Name: name, Fields: []schema.IndexField{{Name: "updated_by"}, {Name: "rev", Desc: true}}})
	}
	for i, eng := range c.open {
		c.process[i] = c.records(t, eng)
	}
	c.dbs[1] = c.records(t, c.model)
	for _, db := range []*record.DB{c.process[c.rng.IntN(2)], c.dbs[1]} {
		if _, err := db.Migrate(t.Context(), record.MigrateOptions{}); err != nil {
			t.Fatalf("SKERRY_SEED=%d: %v", c.s, err)
		}
	}
	if err := finishWork(t, c.model); err != nil {
		t.Fatal(err)
	}
}

// finishWork does steps of the work of all collections until nothing is left to do.
func finishWork(t *testing.T, eng engine.Engine) error {
	t.Helper()
	for {
		more, err := false, error(nil)
		if !eventually.Within(eventually.Limit, func() bool { // a view may still read a table that is to be dropped
			more, err = stepWork(t, eng)
			return !errors.Is(err, engine.ErrUnavailable)
		}) || err != nil || !more {
			return err
		}
	}
}

// stepWork does a step of the work of a collection, and reports whether there was any.
func stepWork(t *testing.T, eng engine.Engine) (more bool, err error) {
	t.Helper()
	_, err = eng.Update(t.Context(), func(tx engine.Tx) error {
		all, err := keys.Load(tx)
		if err != nil {
			return err
		}
		works, err := keys.Works(tx)
		if more = len(works) > 0; err != nil || !more {
			return err
		}
		for _, c := range all {
			if c.ID == works[0].Collection {
				return works[0].Step(tx, all, c)
			}
		}
		return works[0].Step(tx, all, nil) // it was dropped
	})
	return more, err
}

// feed returns what the engine has told about records, apart from index entries, descriptions and unfinished work.
func (c *converted) feed(t *testing.T, eng engine.Engine) (all []string) {
	t.Helper()
	last, err := eng.View(t.Context(), engine.Read{}, func(tx engine.Tx) error { _, _, err := tx.Get([]byte("x")); return err })
	if err != nil {
		t.Fatal(err)
	}
	for ch, err := range eng.Changes(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for _, w := range ch.Writes {
			if len(w.Key) > 2 && w.Key[0] == 'r' && bytes.IndexByte([]byte("dhlc"), w.Key[1]) >= 0 {
				lines = append(lines, fmt.Sprintf("%q %q %v", w.Key, w.Val, w.Deleted))
			}
		}
		if slices.Sort(lines); len(lines) > 0 {
			text, _ := json.Marshal(lines)
			all = append(all, string(text))
		}
		if ch.Pos >= last {
			break
		}
	}
	return all
}

func (c *converted) verify(t *testing.T) {
	t.Helper()
	all, err := c.process[c.rng.IntN(2)].Verify(t.Context(), nil, nil)
	if err != nil || len(all) > 1 || len(all) > 0 && all[0].Fault != nil {
		t.Fatalf("SKERRY_SEED=%d: %+v, %v", c.s, all, err)
	}
}

// TestConvert makes random changes to records while they are converted from keys to tables and back, in steps of two
// processes that die in the middle of many and are opened again, and compares all with a database that is not converted:
// pages of listings that were begun before, past states, histories, the chain and what subscribers are told.
func TestConvert(t *testing.T) {
	rounds := 3
	if testing.Short() {
		rounds = 1
	}
	flips, killed := 0, 0
	for range rounds {
		c := newConverted(t, seed.Of(t))
		to := []record.Place{record.InKeys, record.InTables}
		for i := range 300 {
			switch c.rng.IntN(14) {
			case 0, 1, 2, 3:
				c.do(t, fmt.Sprint("change ", i), true, c.change())
			case 4:
				q, fn := c.search()
				c.do(t, "query "+q, false, fn)
			case 5, 6:
				c.read(t)
			case 7:
				if _, err := c.process[c.rng.IntN(2)].Convert(t.Context(), nil, to[c.rng.IntN(2)]); err != nil && !errors.Is(err, engine.ErrConflict) {
					t.Fatalf("SKERRY_SEED=%d: %v", c.s, err)
				}
			case 8:
				switch c.rng.IntN(4) {
				case 0:
					c.reopen(t, c.rng.IntN(2), c.rng.IntN(2) == 0)
				case 1:
					c.verify(t)
				case 2:
					c.migrate(t)
				}
			default:
				c.step(t)
				for c.stage == keys.CopyChanges && c.rng.IntN(3) == 0 || c.rng.IntN(20) == 0 {
					c.hide(t)
				}
				if c.stage == keys.CopyChanges && c.rng.IntN(8) == 0 {
					c.migrate(t)
				}
			}
			if i%4 == 0 {
				c.do(t, fmt.Sprint("history after ", i), false, history)
			}
		}
		c.verify(t)
		got, want := c.feed(t, c.open[0]), c.feed(t, c.model)
		for i := range max(len(got), len(want)) {
			if i >= len(got) || i >= len(want) || got[i] != want[i] {
				t.Fatalf("SKERRY_SEED=%d: change %d of the feed differs: %s, want %s", c.s, i, slices.Concat(got, []string{"nothing"})[min(i, len(got))], slices.Concat(want, []string{"nothing"})[min(i, len(want))])
			}
		}
		flips, killed = flips+c.flips, killed+c.killed
	}
	if flips < 2*rounds || killed < rounds {
		t.Errorf("there were only %d stages of conversions and %d killed steps", flips, killed)
	}
	t.Logf("%d stages of conversions, %d killed steps", flips, killed)
}
