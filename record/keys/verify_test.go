package keys

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine"
	"github.com/skerrydb/skerry/record/schema"
)

// written returns an engine on which a collection had many changes.
func written(t *testing.T, h schema.History) (engine.Engine, *life) {
	k, err := schema.Collection{
		Name: "c", Extra: true, History: h,
		Fields:  []schema.Field{{Name: "title", Type: schema.Text}, {Name: "n", Type: schema.Int}, {Name: "own", Type: schema.Text}},
		Indexes: []schema.Index{{Name: "t", Fields: []schema.IndexField{{Name: "title", Desc: true}, {Name: "n"}}}, {Name: "i", Unique: true, Fields: []schema.IndexField{{Name: "own"}}}},
	}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	eng := testengine.Open(t, testengine.Options{Memory: true})
	l := &life{t, seed.Rand(t), (&Collection{}).Next(k), map[string]uint64{}, false, "r0"}
	l.c.ID = 7
	for range 300 {
		l.write(eng)
	}
	return eng, l
}

// write makes one random change.
func (l *life) write(eng engine.Engine) {
	l.t.Helper()
	id := fmt.Sprint("r", l.rng.IntN(5))
	rev := l.last[id]
	edit(l.t, eng, func(tx engine.Tx) error {
		l.last[id] = rev
		l.change(tx, id)
		return nil
	})
}

func edit(t *testing.T, eng engine.Engine, fn func(tx engine.Tx) error) {
	t.Helper()
	if _, err := eng.Update(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
}

// verify runs a Verifier in steps of n pairs, and between in between.
func verify(t *testing.T, eng engine.Engine, c *Collection, n int, between func()) error {
	t.Helper()
	v := *NewVerifier(c)
	for done := false; !done; {
		next := v
		_, err := eng.View(t.Context(), engine.Read{}, func(tx engine.Tx) (err error) {
			next = v
			done, err = next.Step(tx, n)
			return err
		})
		if err != nil {
			return err
		}
		v = next
		between()
	}
	if v.Changes == 0 || v.Records == 0 || v.Entries == 0 {
		t.Errorf("%d changes, %d records, %d entries", v.Changes, v.Records, v.Entries)
	}
	return nil
}

// newest returns the record with the most changes, its document as it is stored, and its last change.
func (l *life) newest(tx engine.Tx) (id string, doc []byte, ch *Change) {
	for d, err := range Docs(tx, l.c, "") {
		if err != nil {
			l.t.Fatal(err)
		}
		if ch == nil || d.Rev > ch.Rev {
			id = d.ID
			doc, _, _ = tx.Get(docKey(7, id))
			doc = bytes.Clone(doc)
			ch, _ = l.c.change(tx, id, d.Rev)
		}
	}
	return id, doc, ch
}

// damage is done to a collection; id has the most changes, doc is its document as stored, and ch its last change.
type damage struct {
	name, want string
	do         func(tx engine.Tx, l *life, id string, doc []byte, ch *Change) error
}

func put(tx engine.Tx, key, val []byte) error { return tx.Put(key, val) }

func damageOfChanges() []damage {
	return []damage{
		{"nothing", "", func(engine.Tx, *life, string, []byte, *Change) error { return nil }},
		{"altered body", "the chain is broken", func(tx engine.Tx, _ *life, id string, _ []byte, ch *Change) error {
			ch.Body = []byte(`[{"op":"add","path":"/n","value":77}]`)
			return put(tx, historyKey(7, id, ch.Rev), appendChange(nil, ch))
		}},
		{"altered actor", "the chain is broken", func(tx engine.Tx, _ *life, id string, _ []byte, ch *Change) error {
			ch.By = "someone else"
			return put(tx, historyKey(7, id, ch.Rev), appendChange(nil, ch))
		}},
		{"removed from the history", "in the log but not in the history", func(tx engine.Tx, _ *life, id string, _ []byte, ch *Change) error {
			return tx.Delete(historyKey(7, id, ch.Rev))
		}},
		{"removed", "the change is missing", func(tx engine.Tx, _ *life, id string, _ []byte, ch *Change) error {
			return errors.Join(tx.Delete(historyKey(7, id, ch.Rev)), tx.Delete(logKey(7, ch.Seq)))
		}},
		{"reordered", "has number", func(tx engine.Tx, l *life, _ string, _ []byte, _ *Change) error {
			a, _, _ := tx.Get(logKey(7, 100))
			a = bytes.Clone(a)
			b, _, _ := tx.Get(logKey(7, 101))
			b = bytes.Clone(b)
			return errors.Join(put(tx, logKey(7, 100), b), put(tx, logKey(7, 101), a))
		}},
		{"inserted", "in the history but not in the log", func(tx engine.Tx, _ *life, id string, _ []byte, ch *Change) error {
			ch.Seq, ch.Rev = 1000, 1000
			return put(tx, historyKey(7, id, ch.Rev), appendChange(nil, ch))
		}},
		{"appended", "there are only", func(tx engine.Tx, l *life, id string, _ []byte, ch *Change) error {
			n, _ := ReadCounters(tx, l.c)
			ch.Seq, ch.Rev = n.Seq+1, ch.Rev+1
			return errors.Join(put(tx, historyKey(7, id, ch.Rev), appendChange(nil, ch)), put(tx, logKey(7, ch.Seq), appendLog(nil, ch, ch.hash(n.Head))))
		}},
		{"another head", "does not end with", func(tx engine.Tx, l *life, _ string, _ []byte, _ *Change) error {
			n, _ := ReadCounters(tx, l.c)
			n.Head[3]++
			return n.write(tx, l.c)
		}},
	}
}

func damageOfRecords() []damage {
	return []damage{
		{"last change taken back", "the record does not match its last change", func(tx engine.Tx, l *life, id string, _ []byte, _ *Change) error {
			d, _ := Get(tx, l.c, id)
			d.Rev--
			return put(tx, docKey(7, id), appendDoc(nil, l.c, d))
		}},
		{"altered record", "does not match its history", func(tx engine.Tx, l *life, id string, _ []byte, _ *Change) error {
			d, _ := Get(tx, l.c, id)
			d.Data, _ = l.c.Patch(d.Data, []byte(`{"n":9}`))
			d.Data, _ = l.c.Patch(d.Data, []byte(`{"more":9}`))
			return put(tx, docKey(7, id), appendDoc(nil, l.c, d))
		}},
		{"added member", "which no change has set|does not match its history", func(tx engine.Tx, l *life, id string, _ []byte, _ *Change) error {
			d, _ := Get(tx, l.c, id)
			d.Data, _ = l.c.Patch(d.Data, []byte(`{"extra":9}`))
			return put(tx, docKey(7, id), appendDoc(nil, l.c, d))
		}},
		{"removed record", "has an entry that is not of the record|the counters say", func(tx engine.Tx, _ *life, id string, _ []byte, _ *Change) error {
			return tx.Delete(docKey(7, id))
		}},
		{"record in another place", "the record has no history", func(tx engine.Tx, _ *life, _ string, doc []byte, _ *Change) error {
			return put(tx, docKey(7, "zz"), doc)
		}},
		{"damaged record", "read a record", func(tx engine.Tx, _ *life, id string, doc []byte, _ *Change) error {
			return put(tx, docKey(7, id), doc[:len(doc)-1])
		}},
		{"counter", "the counters say", func(tx engine.Tx, l *life, _ string, _ []byte, _ *Change) error {
			n, _ := ReadCounters(tx, l.c)
			n.Live++
			return n.write(tx, l.c)
		}},
		{"missing entry", "the record is not in index t", func(tx engine.Tx, l *life, id string, _ []byte, _ *Change) error {
			d, _ := Get(tx, l.c, id)
			return tx.Delete(l.c.stored[0].entryKey(7, d))
		}},
		{"wrong entry", "index t has an entry that does not belong to the record", func(tx engine.Tx, l *life, id string, _ []byte, _ *Change) error {
			d, _ := Get(tx, l.c, id)
			d.Data, _ = l.c.Patch(d.Data, []byte(`{"n":9}`))
			return put(tx, l.c.stored[0].entryKey(7, d), nil)
		}},
		{"stolen value", "does not own its values", func(tx engine.Tx, l *life, _ string, _ []byte, _ *Change) error {
			return put(tx, l.live(tx), []byte("r9"))
		}},
		{"value of nobody", "has values that do not belong to the record", func(tx engine.Tx, l *life, id string, _ []byte, _ *Change) error {
			nobody, _ := l.c.Patch(schema.Data{}, []byte(`{"own":"nobody"}`))
			return put(tx, l.c.stored[1].uniqueKey(7, &Doc{ID: "nobody", Data: nobody}), []byte(id))
		}},
	}
}

// TestVerify plants every kind of damage that a verification must find.
func TestVerify(t *testing.T) {
	for _, x := range append(damageOfChanges(), damageOfRecords()...) {
		t.Run(x.name, func(t *testing.T) {
			eng, l := written(t, schema.History{})
			l.t = t
			edit(t, eng, func(tx engine.Tx) error {
				id, doc, ch := l.newest(tx)
				return x.do(tx, l, id, doc, ch)
			})
			err := verify(t, eng, l.c, 50, func() {})
			switch f, ok := errors.AsType[*Fault](err); {
			case x.want == "":
				if err != nil {
					t.Error(err)
				}
			case !ok || !containsOne(f.Text, x.want):
				t.Errorf("%v, want a fault with %s", err, x.want)
			default:
				t.Log(f)
			}
		})
	}
}

func containsOne(text, wants string) bool {
	for want := range strings.SplitSeq(wants, "|") {
		if strings.Contains(text, want) {
			return true
		}
	}
	return false
}

// live returns the key of the values of a record that is not in the trash in the unique index.
func (l *life) live(tx engine.Tx) []byte {
	for {
		for d, err := range Docs(tx, l.c, "") {
			if err == nil && !d.Deleted {
				return l.c.stored[1].uniqueKey(7, d)
			}
		}
		l.change(tx, "r0")
	}
}

// TestVerifyWhileWriting: writes between the steps are not taken for damage.
func TestVerifyWhileWriting(t *testing.T) {
	for _, h := range []schema.History{{}, {Off: true}} {
		eng, l := written(t, h)
		if err := verify(t, eng, l.c, 7, func() { l.write(eng) }); err != nil {
			t.Errorf("%+v: %v", h, err)
		}
	}
}

// TestTrim removes old changes in steps. After each of them the chain is whole and each record can be seen as it was at
// each time since.
func TestTrim(t *testing.T) {
	eng, l := written(t, schema.History{})
	type point struct {
		at  time.Time
		all map[string]string
	}
	var points []point
	for range 30 {
		l.write(eng)
		edit(t, eng, func(tx engine.Tx) error {
			points = append(points, point{tx.Now(), l.state(tx)})
			return tx.Put([]byte("tick"), nil)
		})
		for now := points[len(points)-1].at; !time.Now().After(now.Add(2 * time.Millisecond)); { // an engine may have times of a millisecond
			edit(t, eng, func(tx engine.Tx) error { return tx.Put([]byte("tick"), nil) })
		}
	}
	cut := points[10].at
	for left := true; left; {
		edit(t, eng, func(tx engine.Tx) error {
			n, err := Trim(tx, l.c, cut, 1<<40, 37)
			left = n > 0
			return err
		})
		if err := verify(t, eng, l.c, 50, func() {}); err != nil {
			t.Fatal(err)
		}
		l.write(eng)
	}
	seen := 0
	edit(t, eng, func(tx engine.Tx) error {
		if n, err := Trim(tx, l.c, cut, 1<<40, 1); n != 0 || err != nil {
			t.Errorf("older changes are left, %v", err)
		}
		for i, p := range points[10:] {
			for id := range p.all {
				d, err := Past(tx, l.c, id, Moment{At: p.at})
				if now, _ := Get(tx, l.c, id); now == nil || now.Marks[Created].At.After(p.at) {
					continue // it was purged since
				}
				seen++
				if got := l.print(d); err != nil || got != or(p.all[id]) {
					t.Errorf("point %d: %s, want %s, %v", i, got, p.all[id], err)
				}
			}
		}
		for id := range points[0].all {
			if d, err := Past(tx, l.c, id, Moment{At: points[0].at.Add(-time.Hour)}); d != nil || err == nil && l.last[id] == 0 {
				t.Errorf("%s long ago: %v, %v", id, d, err)
			}
		}
		return nil
	})
	if seen < 20 {
		t.Errorf("only %d states were compared", seen)
	}
}
