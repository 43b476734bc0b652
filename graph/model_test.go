package graph

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine/testengine"
	"github.com/skerrydb/skerry/graph/value"
)

// modelProp is a property of a model's vertex.
type modelProp struct {
	key   string
	val   any
	metas map[string]any
}

type modelVertex struct {
	id     any
	labels []string
	props  []modelProp
}

type modelEdge struct {
	id, out, in any
	label       string
	props       map[string]any
}

// model is what a graph has, by the hashes of ids. The values of its maps are not
// changed, but replaced.
type model struct {
	vertices map[string]modelVertex
	edges    map[string]modelEdge
}

func newModel() model { return model{map[string]modelVertex{}, map[string]modelEdge{}} }

func (m model) clone() model { return model{maps.Clone(m.vertices), maps.Clone(m.edges)} }

func (m model) removeVertex(id any) {
	delete(m.vertices, value.EqualHash(id))
	maps.DeleteFunc(m.edges, func(_ string, e modelEdge) bool { return value.Equal(e.out, id) || value.Equal(e.in, id) })
}

// pick returns a random element of a map, the same one for the same r.
func pick[V any](r *rand.Rand, m map[string]V) (v V, ok bool) {
	if len(m) == 0 {
		return v, false
	}
	keys := slices.Sorted(maps.Keys(m))
	return m[keys[r.IntN(len(keys))]], true
}

var errBack = errors.New("roll back")

// step is a run of random changes in one transaction.
type step struct {
	t      *testing.T
	tx     *Tx
	r      *rand.Rand
	m      model
	unique []Index
}

// change makes one random change, to the graph and to the model.
func (s *step) change() error {
	switch n := s.r.IntN(20); {
	case n < 5:
		return s.addVertex()
	case n < 9:
		return s.addEdge()
	case n < 14:
		return s.set()
	case n < 16:
		return s.setEdge()
	case n < 17:
		return s.removeProperty()
	case n < 18:
		return s.removeEdge()
	}
	v, ok := pick(s.r, s.m.vertices)
	if !ok {
		return nil
	}
	w, err := s.vertex(v.id)
	if err != nil {
		return err
	}
	s.m.removeVertex(v.id)
	return w.Remove()
}

func (s *step) vertex(id any) (*Vertex, error) {
	v, ok, err := s.tx.Vertex(id)
	if err == nil && !ok {
		err = fmt.Errorf("the vertex %v is missing", id)
	}
	return v, err
}

func (s *step) edge(id any) (*Edge, error) {
	e, ok, err := s.tx.Edge(id)
	if err == nil && !ok {
		err = fmt.Errorf("the edge %v is missing", id)
	}
	return e, err
}

var ownIDsOfModel = []any{
	int32(1), int32(3), int64(40), int64(0), int64(-1), int64(math.MinInt64), int64(math.MaxInt64), int64(ownIDs), int64(ownIDs + 1), "1", "3", "a", "007", "b\x00",
	value.UUID{1}, value.UUID{2}, big.NewInt(41), int8(-5),
}

// id returns an id of its own or nil.
func (s *step) id() any {
	if s.r.IntN(2) == 0 {
		return nil
	}
	return ownIDsOfModel[s.r.IntN(len(ownIDsOfModel))]
}

var modelLabels = []string{"person", "city", "thing"}

func (s *step) addVertex() error {
	id := s.id()
	labels := []string{modelLabels[s.r.IntN(3)]}
	if s.r.IntN(4) == 0 {
		labels = append(labels, "extra")
	}
	_, has := s.m.vertices[value.EqualHash(id)]
	v, err := s.tx.AddVertex(labels, id)
	if id != nil && has {
		wantCode(s.t, "AddVertex", err, CodeExists)
		return nil
	}
	if err != nil {
		return err
	}
	if id != nil && !value.Equal(id, v.ElementID()) {
		return fmt.Errorf("the vertex with the id %v has %v", id, v.ElementID())
	}
	h := value.EqualHash(v.ElementID())
	if _, has := s.m.vertices[h]; has {
		return fmt.Errorf("two vertices have the id %v", v.ElementID())
	}
	s.m.vertices[h] = modelVertex{id: v.ElementID(), labels: labels}
	return nil
}

func (s *step) addEdge() error {
	a, _ := pick(s.r, s.m.vertices)
	b, ok := pick(s.r, s.m.vertices)
	if !ok {
		return nil
	}
	if s.r.IntN(8) == 0 {
		b = a
	}
	out, err := s.vertex(a.id)
	if err != nil {
		return err
	}
	in, err := s.vertex(b.id)
	if err != nil {
		return err
	}
	id := s.id()
	if s.r.IntN(6) == 0 {
		id = []any{"1-0-1-0", "9-2-1-2", "zz-2-3-4"}[s.r.IntN(3)] // as those that edges are given
	}
	label := []string{"knows", "likes"}[s.r.IntN(2)]
	_, has := s.m.edges[value.EqualHash(id)]
	e, err := s.tx.AddEdge(label, out, in, id)
	if id != nil && has {
		wantCode(s.t, "AddEdge", err, CodeExists)
		return nil
	}
	if err != nil {
		return err
	}
	h := value.EqualHash(e.ElementID())
	if _, has := s.m.edges[h]; has {
		return fmt.Errorf("two edges have the id %v", e.ElementID())
	}
	s.m.edges[h] = modelEdge{id: e.ElementID(), out: a.id, in: b.id, label: label}
	return nil
}

func modelValues() []any {
	long := strings.Repeat("x", indexText)
	one, _ := value.ParseDecimal("1.00")
	return []any{
		int32(1), int64(1), 1.0, one, int64(2), 2.5, int64(1)<<60 + 1, int64(1) << 60, math.NaN(), math.Inf(1), "", "a", "a\x00", "a\x00\x01", long + "1", long + "2", nil, true,
		value.UUID{7}, time.Unix(5, 6).UTC(), value.List{int32(1), "x"}, value.NewSet("x"), value.MapOf("k", int32(1)), []byte{0, 1}, value.Char('c'),
		value.Duration{Seconds: -1, Nanos: 5}, new(big.Int).Lsh(big.NewInt(1), 80), float32(0.1), int16(-3),
	}
}

func (s *step) value() any { vals := modelValues(); return vals[s.r.IntN(len(vals))] }

var modelKeys = []string{"name", "age", "city"}

// taken reports whether a unique index refuses the vertex.
func (s *step) taken(v modelVertex) bool {
	for _, ix := range s.unique {
		for _, o := range s.m.vertices {
			if value.Equal(o.id, v.id) || !hasIndexed(ix, o) || !hasIndexed(ix, v) {
				continue
			}
			if slices.ContainsFunc(o.props, func(p modelProp) bool {
				return p.key == ix.Keys[0] && slices.ContainsFunc(v.props, func(q modelProp) bool { return q.key == p.key && inIndex(q.val) && value.Equal(p.val, q.val) })
			}) {
				return true
			}
		}
	}
	return false
}

func inIndex(v any) bool { _, ok := AppendIndexKey(nil, v); return ok }

func hasIndexed(ix Index, v modelVertex) bool {
	return ix.Label == "" || slices.Contains(v.labels, ix.Label)
}

func (s *step) set() error {
	m, ok := pick(s.r, s.m.vertices)
	if !ok {
		return nil
	}
	v, err := s.vertex(m.id)
	if err != nil {
		return err
	}
	key, val, c := modelKeys[s.r.IntN(len(modelKeys))], s.value(), Cardinality(s.r.IntN(3))
	p := modelProp{key: key, val: val}
	var metas []value.Entry
	if s.r.IntN(4) == 0 {
		metas = []value.Entry{{Key: "since", Val: s.value()}}
		p.metas = map[string]any{"since": metas[0].Val}
	}
	props := slices.Clone(m.props)
	at := -1
	switch c {
	case Single:
		props = slices.DeleteFunc(props, func(p modelProp) bool { return p.key == key })
	case Set:
		at = slices.IndexFunc(props, func(p modelProp) bool { return p.key == key && value.Equal(p.val, val) })
	}
	if at < 0 {
		props = append(props, p)
	} else if p.metas != nil {
		props[at].metas = p.metas
	}
	after := modelVertex{m.id, m.labels, props}
	_, err = v.Set(c, key, val, metas...)
	if s.taken(after) {
		wantCode(s.t, "Set", err, CodeUnique)
		return nil
	}
	s.m.vertices[value.EqualHash(m.id)] = after
	return err
}

func (s *step) setEdge() error {
	m, ok := pick(s.r, s.m.edges)
	if !ok {
		return nil
	}
	e, err := s.edge(m.id)
	if err != nil {
		return err
	}
	props := maps.Clone(m.props)
	if props == nil {
		props = map[string]any{}
	}
	key := modelKeys[s.r.IntN(len(modelKeys))]
	if s.r.IntN(4) == 0 {
		delete(props, key)
		err = s.tx.RemoveProperty(e, key)
	} else {
		props[key] = s.value()
		err = e.Set(key, props[key])
	}
	m.props = props
	s.m.edges[value.EqualHash(m.id)] = m
	return err
}

func (s *step) removeProperty() error {
	m, ok := pick(s.r, s.m.vertices)
	if !ok {
		return nil
	}
	v, err := s.vertex(m.id)
	if err != nil {
		return err
	}
	key := modelKeys[s.r.IntN(len(modelKeys))]
	m.props = slices.DeleteFunc(slices.Clone(m.props), func(p modelProp) bool { return p.key == key })
	s.m.vertices[value.EqualHash(m.id)] = m
	return v.RemoveProperty(key)
}

func (s *step) removeEdge() error {
	m, ok := pick(s.r, s.m.edges)
	if !ok {
		return nil
	}
	e, err := s.edge(m.id)
	if err != nil {
		return err
	}
	delete(s.m.edges, value.EqualHash(m.id))
	return e.Remove()
}

// TestModel compares random changes of several graphs with a model.
func TestModel(t *testing.T) {
	r := seed.Rand(t)
	d := open(t)
	d.batch = 300
	names := []string{Default, "two"}
	models := map[string]model{Default: newModel(), "two": newModel()}
	indexes := map[string][]Index{}
	if err := d.Create(t.Context(), "two"); err != nil {
		t.Fatal(err)
	}
	steps := 150
	if testengine.Remote() {
		steps = 60
	}
	for n := range steps {
		name := names[r.IntN(len(names))]
		switch r.IntN(12) {
		case 0:
			modelIndex(t, d, name, r, models[name], indexes)
		case 1:
			if v, ok := pick(r, models[name].vertices); ok {
				if err := d.RemoveVertex(t.Context(), name, v.id); err != nil {
					t.Fatal(err)
				}
				models[name].removeVertex(v.id)
			}
		case 2:
			if r.IntN(4) == 0 {
				modelDrop(t, d, name, indexes)
				models[name] = newModel()
			}
		default:
			modelStep(t, d, name, r.Uint64(), models, indexes[name])
		}
		if t.Failed() {
			t.Fatalf("at step %d", n)
		}
		for _, name := range names {
			compare(t, d, name, models[name], indexes[name])
		}
		mustCheck(t, d)
	}
}

// modelStep makes changes in one transaction, some of which fail.
func modelStep(t *testing.T, d *DB, name string, from uint64, models map[string]model, indexes []Index) {
	t.Helper()
	var after model
	_, err := d.Update(t.Context(), name, func(tx *Tx) error {
		s := &step{t: t, tx: tx, r: rand.New(rand.NewPCG(from, 1)), m: models[name].clone()}
		for _, ix := range indexes {
			if ix.Unique && ix.On == value.KindVertex {
				s.unique = append(s.unique, ix)
			}
		}
		for range 1 + s.r.IntN(12) {
			if err := s.change(); err != nil {
				return err
			}
		}
		after = s.m
		if s.r.IntN(5) == 0 {
			return errBack
		}
		return nil
	})
	switch {
	case err == nil:
		models[name] = after
	case !errors.Is(err, errBack):
		t.Fatal(err)
	}
}

// modelIndex adds or removes a random index.
func modelIndex(t *testing.T, d *DB, name string, r *rand.Rand, m model, indexes map[string][]Index) {
	t.Helper()
	ix := Index{On: value.KindVertex, Keys: []string{modelKeys[r.IntN(3)]}}
	switch r.IntN(4) {
	case 0:
		ix.On = value.KindEdge
	case 1:
		ix.Keys = []string{"name", "age"}
	case 2:
		ix.Unique, ix.Keys = true, []string{"city"}
	}
	if r.IntN(2) == 0 {
		ix.Label = map[value.Kind]string{value.KindVertex: "person", value.KindEdge: "knows"}[ix.On]
	}
	at := slices.IndexFunc(indexes[name], func(o Index) bool { return ix.Same(&o) })
	if at >= 0 && r.IntN(2) == 0 {
		if err := d.RemoveIndex(t.Context(), name, ix); err != nil {
			t.Fatal(err)
		}
		indexes[name] = slices.Delete(slices.Clone(indexes[name]), at, at+1)
		return
	}
	if at >= 0 && indexes[name][at].Unique != ix.Unique {
		wantCode(t, "AddIndex", d.AddIndex(t.Context(), name, ix), CodeSchema)
		return
	}
	s := &step{m: m, unique: []Index{ix}}
	err := d.AddIndex(t.Context(), name, ix)
	if ix.Unique && slices.ContainsFunc(slices.Collect(maps.Values(m.vertices)), s.taken) {
		wantCode(t, "AddIndex", err, CodeUnique)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if at < 0 {
		indexes[name] = append(slices.Clone(indexes[name]), ix)
	}
}

func modelDrop(t *testing.T, d *DB, name string, indexes map[string][]Index) {
	t.Helper()
	if err := d.Drop(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	if name == Default {
		return
	}
	delete(indexes, name)
	_, err := d.Update(t.Context(), name, func(*Tx) error { return nil })
	wantCode(t, "Update", err, CodeNoGraph)
	if err := d.Create(t.Context(), name); err != nil {
		t.Fatal(err)
	}
}
