package record_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine/recordengine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
)

// modelled are collections with every kind of reference, in a cycle, with unique values and rules.
func modelled() []schema.Collection {
	ref := func(name, to string, d schema.OnDelete) schema.Field {
		return schema.Field{Name: name, Type: schema.Reference, Collection: to, OnDelete: d}
	}
	rules := func(r string) schema.Rules {
		return schema.Rules{View: "true", Create: r, Update: r, Delete: r, History: "true"}
	}
	own := schema.Field{Name: "own", Type: schema.Text, Default: "@auth.id"}
	n := schema.Field{Name: "n", Type: schema.Int}
	return []schema.Collection{
		{Name: "a", Rules: rules("own = @auth.id"), Fields: []schema.Field{own, n, ref("up", "b", schema.Cascade), ref("like", "a", schema.SetNull)}, Indexes: []schema.Index{{Name: "n", Unique: true, Fields: []schema.IndexField{{Name: "n"}}}}},
		{Name: "b", Rules: rules("own = @auth.id || n > 5"), Fields: []schema.Field{own, n, ref("up", "c", schema.Cascade), ref("hold", "a", schema.Restrict)}},
		{Name: "c", Rules: rules("true"), Fields: []schema.Field{own, n, ref("up", "a", schema.SetNull)}},
	}
}

// modelRecord is a record as the model has it: a text, number or nil for each field.
type modelRecord struct {
	Rev     uint64
	Deleted bool
	Data    map[string]any
}

// model does naively what the package does.
type model struct {
	records map[string]*modelRecord // by collection and id
	revs    map[string]uint64       // last revision, also of purged records
	history map[string][]modelRecord
	fields  map[string][]schema.Field
}

func (m *model) clone() *model {
	c := &model{map[string]*modelRecord{}, maps.Clone(m.revs), map[string][]modelRecord{}, m.fields}
	for k, r := range m.records {
		x := *r
		x.Data = maps.Clone(r.Data)
		c.records[k] = &x
	}
	for k, h := range m.history {
		c.history[k] = slices.Clone(h)
	}
	return c
}

// allows is the rule of a collection for all changes.
func (m *model) allows(c, user string, data map[string]any) bool {
	n, _ := data["n"].(float64)
	return c == "c" || data["own"] == user || c == "b" && n > 5
}

// fault returns why a record cannot be as it is, nil if it can. changed are fields whose references are looked at.
func (m *model) fault(at, c string, data, was map[string]any) error {
	for _, f := range m.fields[c] {
		id, ok := data[f.Name].(string)
		if f.Type != schema.Reference || !ok || was != nil && was[f.Name] == id || f.Collection+id == at {
			continue
		}
		if r := m.records[f.Collection+id]; r == nil || r.Deleted {
			return record.ErrInvalid
		}
	}
	for k, r := range m.records {
		if c == "a" && k != at && k[0] == 'a' && !r.Deleted && data["n"] != nil && r.Data["n"] == data["n"] {
			return record.ErrExists
		}
	}
	return nil
}

// store is a new revision.
func (m *model) store(at string, r *modelRecord) {
	m.revs[at]++
	r.Rev = m.revs[at]
	m.records[at] = r
	x := *r
	x.Data = maps.Clone(r.Data)
	m.history[at] = append(m.history[at], x)
}

// delete moves a record and what refers to it into the trash.
func (m *model) delete(at string) error {
	gone, order := map[string]bool{at: true}, []string{at}
	for i := 0; i < len(order); i++ {
		for _, k := range slices.Sorted(maps.Keys(m.records)) {
			if m.refers(k, order[i], schema.Cascade) != nil && !gone[k] {
				gone[k] = true
				order = append(order, k)
			}
		}
	}
	for k := range m.records {
		for at := range gone {
			if !gone[k] && m.refers(k, at, schema.Restrict) != nil {
				return record.ErrReferenced
			}
		}
	}
	for k, r := range m.records {
		var lost []string
		for at := range gone {
			if !gone[k] {
				lost = append(lost, m.refers(k, at, schema.SetNull)...)
			}
		}
		if len(lost) > 0 {
			x := &modelRecord{Data: maps.Clone(r.Data)}
			for _, f := range lost {
				delete(x.Data, f)
			}
			m.store(k, x)
		}
	}
	for k := range gone {
		m.store(k, &modelRecord{Deleted: true, Data: m.records[k].Data})
	}
	return nil
}

// refers returns the fields by which a live record refers to another in a way.
func (m *model) refers(from, to string, how schema.OnDelete) (names []string) {
	r := m.records[from]
	if r == nil || r.Deleted {
		return nil
	}
	for _, f := range m.fields[from[:1]] {
		if id, ok := r.Data[f.Name].(string); ok && f.Type == schema.Reference && f.OnDelete == how && f.Collection+id == to {
			names = append(names, f.Name)
		}
	}
	return names
}

// modelOp is one random operation.
type modelOp struct {
	kind, c, id, user string
	data              map[string]any
}

func randomOp(rng *rand.Rand) modelOp {
	op := modelOp{
		kind: []string{"create", "create", "update", "update", "update", "delete", "restore", "purge", "revert"}[rng.IntN(9)],
		c:    string("abc"[rng.IntN(3)]), id: fmt.Sprint(rng.IntN(5)), user: []string{"u", "v"}[rng.IntN(2)], data: map[string]any{},
	}
	if rng.IntN(2) == 0 {
		op.data["n"] = float64(rng.IntN(10))
	}
	for _, f := range []string{"up", "like", "hold", "own"} {
		for _, c := range modelled() {
			if c.Name != op.c || !slices.ContainsFunc(c.Fields, func(x schema.Field) bool { return x.Name == f }) || rng.IntN(3) > 0 {
				continue
			}
			op.data[f] = fmt.Sprint(rng.IntN(5))
			if f == "own" {
				op.data[f] = []string{"u", "v"}[rng.IntN(2)]
			}
			if rng.IntN(5) == 0 {
				op.data[f] = nil
			}
		}
	}
	return op
}

// run does an operation in the model.
func (m *model) run(op modelOp) error {
	at := op.c + op.id
	r := m.records[at]
	if op.kind == "create" {
		if r != nil {
			return record.ErrExists
		}
		x := &modelRecord{Data: map[string]any{"own": op.user}}
		x.patch(op.data)
		if x.Data["own"] == nil {
			x.Data["own"] = op.user
		}
		return m.admit(op, at, x, x.Data, nil)
	}
	if trashed := op.kind == "restore" || op.kind == "purge"; r == nil || r.Deleted != trashed || trashed && !m.allows(op.c, op.user, r.Data) {
		return record.ErrNotFound
	}
	x := &modelRecord{Data: maps.Clone(r.Data)}
	switch op.kind {
	case "update":
		x.patch(op.data)
		return m.admit(op, at, x, r.Data, r.Data)
	case "revert":
		h := m.history[at]
		x.Data = maps.Clone(h[max(0, len(h)-2)].Data)
		return m.admit(op, at, x, r.Data, r.Data)
	case "delete":
		if !m.allows(op.c, op.user, r.Data) {
			return record.ErrRefused
		}
		return m.delete(at)
	case "restore":
		if err := m.fault(at, op.c, x.Data, nil); err != nil {
			return err
		}
		m.store(at, x)
		return nil
	}
	m.revs[at]++
	delete(m.records, at)
	m.history[at] = nil
	return nil
}

func (r *modelRecord) patch(data map[string]any) {
	for k, v := range data {
		if r.Data[k] = v; v == nil {
			delete(r.Data, k)
		}
	}
}

func (m *model) admit(op modelOp, at string, x *modelRecord, rule, was map[string]any) error {
	if !m.allows(op.c, op.user, rule) {
		return record.ErrRefused
	}
	if err := m.fault(at, op.c, x.Data, was); err != nil {
		if errors.Is(err, record.ErrExists) && reflect.DeepEqual(x.Data, was) {
			return nil
		}
		return err
	}
	if !reflect.DeepEqual(x.Data, was) {
		m.store(at, x)
	}
	return nil
}

// real does an operation in the package.
func (op modelOp) real(tx *record.Tx, m *model) error {
	data, _ := json.Marshal(op.data)
	tx = tx.As(record.Actor{ID: op.user})
	switch op.kind {
	case "create":
		return ignore(tx.Create(op.c, op.id, data))
	case "update":
		return ignore(tx.Update(op.c, op.id, data, 0))
	case "delete":
		return ignore(tx.Delete(op.c, op.id, 0))
	case "restore":
		return ignore(tx.Restore(op.c, op.id, 0))
	case "purge":
		return tx.Purge(op.c, op.id, 0)
	}
	to := uint64(1)
	if h := m.history[op.c+op.id]; len(h) > 0 {
		to = h[max(0, len(h)-2)].Rev
	}
	return ignore(tx.Revert(op.c, op.id, to, 0))
}

// TestModel makes random changes by two users under rules, and compares errors, records and their states in the past with
// a naive model.
func TestModel(t *testing.T) {
	done := map[string]int{}
	for range 4 {
		s := seed.Of(t)
		rng := rand.New(rand.NewPCG(s, 1))
		db := openWith(t, recordengine.Options{Memory: true}, modelled()...)
		m := &model{map[string]*modelRecord{}, map[string]uint64{}, map[string][]modelRecord{}, map[string][]schema.Field{}}
		for _, c := range modelled() {
			m.fields[c.Name] = c.Fields
		}
		for i := range 400 {
			op := randomOp(rng)
			after := m.clone()
			want := after.run(op)
			_, err := db.Update(t.Context(), record.Program(), func(tx *record.Tx) error { return op.real(tx, m) })
			if !errors.Is(err, want) {
				t.Fatalf("SKERRY_SEED=%d, operation %d, %+v: %v, want %v", s, i, op, err, want)
			}
			if want == nil {
				m = after
				done[op.kind]++
			}
			if i%20 == 19 {
				m.compare(t, db, fmt.Sprintf("SKERRY_SEED=%d after operation %d", s, i))
			}
		}
		verified(t, db)
	}
	if len(done) < 6 {
		t.Errorf("only %v were possible", done)
	}
}

// compare compares all records, and what they were, with the model.
func (m *model) compare(t *testing.T, db *record.DB, when string) {
	t.Helper()
	_, err := db.View(t.Context(), engine.Read{}, record.Program(), func(tx *record.Tx) error {
		for at, last := range m.revs {
			r := m.records[at]
			got, err := tx.Get(at[:1], at[1:])
			if live := r != nil && !r.Deleted; live != (err == nil) || err != nil && !errors.Is(err, record.ErrNotFound) {
				t.Fatalf("%s: %s: %v, want %+v", when, at, err, r)
			} else if live {
				m.same(t, when+": "+at, got, *r)
			}
			all, err := tx.History(at[:1], at[1:], 0, record.MaxHistory)
			if err != nil || all[0].Rev != last {
				t.Fatalf("%s: the history of %s: %v, %v, want revision %d", when, at, all, err, last)
			}
			for _, h := range m.history[at] {
				past, err := tx.GetAsOf(at[:1], at[1:], record.Moment{Rev: h.Rev})
				if err != nil {
					t.Fatalf("%s: %s as of %d: %v", when, at, h.Rev, err)
				}
				m.same(t, fmt.Sprintf("%s: %s as of %d", when, at, h.Rev), past, h)
			}
		}
		return nil
	})
	must(t, err)
}

func (m *model) same(t *testing.T, what string, got *record.Record, want modelRecord) {
	t.Helper()
	var x struct {
		Rev     uint64         `json:"rev"`
		Deleted bool           `json:"is_deleted"`
		Data    map[string]any `json:"data"`
	}
	if err := json.Unmarshal(got.AppendJSON(nil), &x); err != nil || x.Rev != want.Rev || x.Deleted != want.Deleted || !maps.Equal(x.Data, want.Data) {
		t.Fatalf("%s: %s, want %+v, %v", what, got.AppendJSON(nil), want, err)
	}
}
