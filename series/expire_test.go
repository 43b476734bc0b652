package series

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine"
	"github.com/skerrydb/skerry/feed"
)

const day = 24 * time.Hour

// hooked is an engine that calls a function before each update.
type hooked struct {
	engine.Engine
	before func(fn func(engine.Tx) error) error // nil: nothing; an error is that of the update
}

func (e *hooked) Update(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
	if e.before != nil {
		if err := e.before(fn); err != nil {
			return 0, err
		}
	}
	return e.Engine.Update(ctx, fn)
}

// expiring is a collection whose series expire, with a worker that the test runs.
type expiring struct {
	t   *testing.T
	eng *hooked
	at  clock
	c   Collection
	s   *Store
	w   *worker
}

func newExpiring(t *testing.T, c Collection) *expiring {
	e := &expiring{t: t, eng: &hooked{Engine: testengine.Open(t, testengine.Options{})}, c: c}
	e.at.at.Store(now.UnixNano())
	e.reopen()
	return e
}

// reopen goes on with another process.
func (e *expiring) reopen() {
	e.t.Helper()
	e.s = e.node()
	e.w = &worker{s: e.s, id: [16]byte{1}}
}

// node returns another process that does no work.
func (e *expiring) node() *Store {
	e.t.Helper()
	f, err := feed.New(e.eng.Engine, feed.Options{})
	if err != nil {
		e.t.Fatal(err)
	}
	s, _ := openRun(e.t, e.eng, Options{Feed: f, Now: e.at.now, lease: time.Nanosecond, generation: 20, fanIn: 2, sweep: 1}, func(db *DB, ctx context.Context) error {
		db.feed = f
		done := make(chan struct{})
		go func() { defer close(done); _ = f.Run(ctx) }()
		err := db.follow(ctx)
		<-done
		return err
	}, e.c)
	if _, err := s[0].Find(e.t.Context(), nil, engine.Read{}, 0); err != nil { // it has read everything
		e.t.Fatal(err)
	}
	return s[0]
}

func (e *expiring) work() {
	e.t.Helper()
	e.look()
	if err := e.w.work(e.t.Context()); err != nil {
		e.t.Fatal(err)
	}
}

// look makes the worker look at the age of the generation, as if its last look had been a minute ago.
func (e *expiring) look() {
	if !e.w.looked.IsZero() {
		e.w.looked = time.Unix(0, 0)
	}
}

func (e *expiring) define(names ...string) []ID {
	e.t.Helper()
	var all []Labels
	for _, n := range names {
		all = append(all, labels(e.t, n, "k", "v"))
	}
	ids, err := e.s.Define(e.t.Context(), all)
	if err != nil {
		e.t.Fatal(err)
	}
	return ids
}

func (e *expiring) append(id ID, v float64) error {
	var b Batch
	b.Add(id, e.at.now().UnixNano(), v)
	_, err := e.s.Append(e.t.Context(), &b)
	return err
}

// lagging is append that does not wait until this node has the batch.
func (e *expiring) lagging(id ID, v float64) error {
	var b Batch
	b.Add(id, e.at.now().UnixNano(), v)
	epoch, err := e.s.alive(&b)
	if err != nil {
		return err
	}
	no, _ := e.s.state()
	val := append(b.encodeHeader(), b.data...)
	_, err = e.eng.Update(e.t.Context(), func(tx engine.Tx) error { return e.s.put(tx, no, val, &b, epoch) })
	return err
}

// unused defines a series that the next sweep removes, unless it gets a sample.
func (e *expiring) unused(name string) ID {
	e.t.Helper()
	id := e.define(name)[0]
	e.at.forward(day)
	e.work()
	e.at.forward(day)
	return id
}

// is checks which series a node has.
func (e *expiring) is(s *Store, what string, want ...string) {
	e.t.Helper()
	got, err := s.LabelValues(e.t.Context(), NameLabel, nil, engine.Read{})
	if err != nil {
		e.t.Fatal(err)
	}
	if slices.Sort(want); !slices.Equal(got, want) || s.Stats().Series != len(want) {
		e.t.Errorf("%s: the series are %q, of %d; want %q", what, got, s.Stats().Series, want)
	}
	for n := 1; n <= len(want)+1; n++ {
		first, more, err := s.FirstLabelValues(e.t.Context(), NameLabel, n, engine.Read{})
		if err != nil || !slices.Equal(first, got[:min(n, len(got))]) || more != (n < len(got)) {
			e.t.Errorf("%s: the first %d are %q, %v, %v", what, n, first, more, err)
		}
	}
}

// stored returns how many definitions the engine has.
func (e *expiring) stored() (n int) {
	e.t.Helper()
	no, _ := e.s.state()
	_, err := e.eng.View(e.t.Context(), engine.Read{}, func(tx engine.Tx) error {
		keys, _, err := keysOf(tx, keyOf(keySeries, no), math.MaxInt)
		n = len(keys)
		return err
	})
	if err != nil {
		e.t.Fatal(err)
	}
	return n
}

// TestChurn: series come and go for weeks, many more than there may be at once. Those without samples go on every node and
// in the engine, the others stay with their samples, no id is used twice, and memory does not grow.
func TestChurn(t *testing.T) {
	rng := seed.Rand(t)
	e := newExpiring(t, Collection{Name: "c", Retention: 3 * day, MaxSeries: 120})
	other := e.node()
	m := model{}
	owners := map[ID]string{}
	for i := range 30 {
		var names []string
		for j := range 5 {
			names = append(names, fmt.Sprintf("stays%d", j))
		}
		for j := range 1 + rng.IntN(12) {
			names = append(names, fmt.Sprintf("pod%d-%d", i, j))
		}
		ids := e.define(names...)
		for range 4 {
			var b Batch
			for j, id := range ids {
				if owner, ok := owners[id]; ok && owner != names[j] {
					t.Fatalf("series %d is %s and was %s", id, names[j], owner)
				}
				owners[id] = names[j]
				at, v, name := e.at.now().UnixNano()-rng.Int64N(int64(time.Hour)), rng.Float64(), labels(t, names[j], "k", "v").String()
				b.Add(id, at, v)
				if m[name] == nil {
					m[name] = map[int64]uint64{}
				}
				m[name][at] = math.Float64bits(v)
			}
			if _, err := e.s.Append(t.Context(), &b); err != nil {
				t.Fatal(err)
			}
		}
		e.at.forward(day)
		e.work()
		oldest := e.at.now().Add(-3 * day).UnixNano()
		for name, samples := range m {
			if maps.DeleteFunc(samples, func(at int64, _ uint64) bool { return at < oldest }); len(samples) == 0 {
				delete(m, name)
			}
		}
		if rng.IntN(5) == 0 {
			e.reopen()
		}
		for _, s := range []*Store{e.s, other} {
			m.check(t, s, Query{}, nil)
			m.check(t, s, Query{Match: match(t, `{k="v"}`)}, nil)
			if n := s.Stats().Series; n != e.stored() || n > len(m)+3*12 {
				t.Fatalf("day %d: %d series of %d in the engine, %d have samples", i, n, e.stored(), len(m))
			}
			_, h := s.state()
			h.mu.RLock()
			if texts := len(h.index.texts) - len(h.index.unused); texts > 3+h.members.n || len(h.index.ids) != h.members.n {
				t.Fatalf("day %d: %d texts and %d hashes of %d series", i, texts, len(h.index.ids), h.members.n)
			}
			h.mu.RUnlock()
		}
	}
	e.at.forward(5 * day)
	e.work()
	e.at.forward(2 * day)
	e.work()
	for _, s := range []*Store{e.s, other, e.node()} {
		e.is(s, "in the end")
	}
	if last := e.define("new")[0]; int(last) != len(owners)+1 {
		t.Errorf("the next series is %d, after %d", last, len(owners))
	}
}

// TestUnusedStays: a series without samples stays until the second sweep, and then Append refuses it until it is defined
// again, under another id.
func TestUnusedStays(t *testing.T) {
	e := newExpiring(t, Collection{Name: "c", Retention: 10 * day})
	id := e.define("m")[0]
	e.work()
	e.is(e.s, "after a first sweep", "m")
	e.at.forward(day - 1)
	e.work()
	e.is(e.s, "within a day", "m")
	e.at.forward(1)
	e.work()
	e.is(e.s, "after a day")
	e.reopen()
	if err := e.append(id, 1); engine.CodeOf(err) != CodeGone {
		t.Errorf("append: %v", err)
	}
	again := e.define("m")[0]
	if again == id {
		t.Errorf("it has the id %d again", id)
	}
	if err := e.append(again, 1); err != nil {
		t.Error(err)
	}
	if err := e.append(again+1, 1); engine.CodeOf(err) != engine.CodeInvalid {
		t.Errorf("an id that there never was: %v", err)
	}
	e.is(e.s, "in the end", "m")
}

// TestAppendWhileRemoved forces a removal between the check of a batch and its transaction.
func TestAppendWhileRemoved(t *testing.T) {
	e := newExpiring(t, Collection{Name: "c", Retention: 10 * day})
	stays := e.define("stays")[0]
	if err := e.append(stays, 1); err != nil {
		t.Fatal(err)
	}
	for round := range 2 {
		ids := []ID{e.unused(fmt.Sprint("unused", round)), stays}
		for i, id := range ids {
			if i == 1 {
				e.unused(fmt.Sprint("another", round))
			}
			e.eng.before = func(func(engine.Tx) error) error {
				e.eng.before = nil
				e.work()
				return nil
			}
			err := e.append(id, float64(round))
			if want := []engine.Code{CodeGone, ""}[i]; engine.CodeOf(err) != want {
				t.Errorf("series %d: %v, want %q", id, err, want)
			}
			e.is(e.s, "after the removal", "stays")
			e.is(e.node(), "of another process", "stays")
		}
	}
}

// TestRemoveWhileAppended forces a batch before each transaction of a sweep, on a node that has the batch in memory and on
// one that does not yet. If the batch is acknowledged, its sample is there.
func TestRemoveWhileAppended(t *testing.T) {
	kept, gone := 0, 0
	for _, lags := range []bool{false, true} {
		for step := 1; ; step++ {
			e := newExpiring(t, Collection{Name: "c", Retention: 10 * day})
			sealed := e.define("sealed")[0]
			for range 21 {
				if err := e.append(sealed, 1); err != nil {
					t.Fatal(err)
				}
			}
			id, other := e.define("late")[0], e.unused("removed")
			n, stored := 0, false
			e.eng.before = func(func(engine.Tx) error) error {
				if n++; n != step {
					return nil
				}
				before := e.eng.before
				e.eng.before = nil
				defer func() { e.eng.before = before }()
				store := e.append
				if lags {
					store = e.lagging
				}
				err := store(id, 7)
				if stored = err == nil; !stored && engine.CodeOf(err) != CodeGone {
					t.Errorf("append: %v", err)
				}
				return nil
			}
			e.work()
			e.eng.before = nil
			if n < step {
				break
			}
			want := []string{"sealed"}
			if stored {
				want = append(want, "late")
				kept++
			} else {
				gone++
			}
			e.is(e.s, fmt.Sprint("step ", step), want...)
			list, err := e.node().Select(t.Context(), Query{Match: match(t, "late")})
			if err != nil || (len(list) == 1) != stored {
				t.Errorf("step %d: the samples are %v, %v; stored: %t", step, list, err, stored)
			}
			if err := e.append(other, 1); engine.CodeOf(err) != CodeGone {
				t.Errorf("the other one: %v", err)
			}
			if t.Failed() {
				break
			}
		}
	}
	if kept < 4 || gone < 2 {
		t.Errorf("%d batches came before the removal, %d after it", kept, gone)
	}
}

// TestManyRemovals: a batch that meets a removal each time ends with CodeBusy.
func TestManyRemovals(t *testing.T) {
	e := newExpiring(t, Collection{Name: "c", Retention: 10 * day})
	id := e.define("m")[0]
	no, _ := e.s.state()
	e.eng.before = func(func(engine.Tx) error) error {
		_, err := e.eng.Engine.Update(t.Context(), func(tx engine.Tx) error {
			g, err := readGone(tx, no)
			g.epoch++
			return errors.Join(err, g.put(tx, no))
		})
		return err
	}
	if err := e.append(id, 1); engine.CodeOf(err) != CodeBusy {
		t.Errorf("%v", err)
	}
	e.eng.before = nil
	if err := e.append(id, 1); err != nil {
		t.Error(err)
	}
}

// TestSweepDies: whichever step of a sweep is the last of a process, the next one removes what is left, and only that.
func TestSweepDies(t *testing.T) {
	died := errors.New("died")
	for step := 1; ; step++ {
		e := newExpiring(t, Collection{Name: "c", Retention: 10 * day})
		stays, went := e.define("stays")[0], e.define("went")[0]
		for _, id := range []ID{stays, went} {
			if err := e.append(id, 1); err != nil {
				t.Fatal(err)
			}
		}
		e.at.forward(day)
		e.work()
		e.at.forward(11 * day)
		if err := e.append(stays, 2); err != nil {
			t.Fatal(err)
		}
		n := 0
		e.eng.before = func(func(engine.Tx) error) error {
			if n++; n >= step {
				return died
			}
			return nil
		}
		e.look()
		err := e.w.work(t.Context())
		e.eng.before = nil
		if err != nil && !errors.Is(err, died) {
			t.Fatal(err)
		}
		e.reopen()
		if err := e.append(stays, 3); err != nil {
			t.Errorf("step %d: %v", step, err)
		}
		e.work()
		e.is(e.s, fmt.Sprint("step ", step), "stays")
		if e.stored() != 1 {
			t.Errorf("step %d: %d definitions are stored", step, e.stored())
		}
		if t.Failed() || n < step {
			t.Logf("%d steps", step-1)
			break
		}
	}
}

// TestAbsent: the ids that a part does not have, of parts with blocks of any size, as a scan of all would find them.
func TestAbsent(t *testing.T) {
	rng := seed.Rand(t)
	for range 30 {
		eng := testengine.Open(t, testengine.Options{})
		has, w := map[uint32]bool{}, &partWriter{part: part{no: 5}, coll: 1}
		var blocks []engine.Pair
		w.out = func(key, val []byte) error {
			blocks = append(blocks, engine.Pair{Key: key, Val: slices.Clone(val)})
			return nil
		}
		id := uint32(1 + rng.IntN(3))
		for range 1 + rng.IntN(60) {
			has[id] = true
			err := w.add(id, &columns{[]int64{1}, []float64{1}})
			if rng.IntN(4) == 0 {
				err = errors.Join(err, w.flush())
			}
			if err != nil {
				t.Fatal(err)
			}
			if rng.IntN(3) > 0 {
				id += uint32(rng.IntN(10))
			}
		}
		if err := w.flush(); err != nil {
			t.Fatal(err)
		}
		_, err := eng.Update(t.Context(), func(tx engine.Tx) (err error) {
			for _, x := range blocks {
				err = errors.Join(err, tx.Put(x.Key, x.Val))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		var ids, want []uint32
		for id := uint32(1); id < 400; id++ {
			if rng.IntN(3) == 0 {
				continue
			}
			if ids = append(ids, id); !has[id] {
				want = append(want, id)
			}
		}
		var got []uint32
		r := &partReader{part: part{no: 5}, coll: 1}
		_, err = eng.View(t.Context(), engine.Read{}, func(tx engine.Tx) error {
			n, out, err := r.absent(tx, ids, sweepBytes)
			if got = out; n != len(ids) {
				t.Errorf("%d of %d were looked for", n, len(ids))
			}
			return err
		})
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("of %v it has %v and not %v, want %v: %v", ids, has, got, want, err)
		}
	}
}

// TestLastID: when there are no ids left, series are refused.
func TestLastID(t *testing.T) {
	e := newExpiring(t, Collection{Name: "c"})
	e.define("m")
	no, _ := e.s.state()
	_, err := e.eng.Update(t.Context(), func(tx engine.Tx) error {
		m, err := readMeta(tx, no)
		m.series = maxID
		return errors.Join(err, m.put(tx, no), gone{epoch: 1, removed: maxID - 1, swept: minTime}.put(tx, no))
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.s.Define(t.Context(), []Labels{labels(t, "over")}); engine.CodeOf(err) != CodeTooManySeries {
		t.Errorf("one more: %v", err)
	}
	if e.define("m")[0] != 1 {
		t.Error("the series that is there has another id")
	}
}

// TestGoneEncoding: the count of removed series is stored as in the first version that had it.
func TestGoneEncoding(t *testing.T) {
	e := newExpiring(t, Collection{Name: "c"})
	e.define("m")
	g := gone{epoch: 3, removed: 5, swept: -2, newest: 1 << 33}
	const want = "\x01\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x05\xff\xff\xff\xff\xff\xff\xff\xfe\x00\x00\x00\x02\x00\x00\x00\x00"
	_, err := e.eng.Update(t.Context(), func(tx engine.Tx) error {
		if err := g.put(tx, 1); err != nil {
			return err
		}
		val, _, err := tx.Get([]byte("sg\x00\x00\x00\x01"))
		if string(val) != want {
			t.Errorf("it is %x", val)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := decodeGone([]byte(want)); err != nil || got != g {
		t.Errorf("it is read as %v, %v", got, err)
	}
	for _, bad := range []string{"", want[1:], want + "\x00", "\x02" + want[1:]} {
		if _, err := decodeGone([]byte(bad)); !errors.Is(err, engine.ErrCorrupt) {
			t.Errorf("%x: %v", bad, err)
		}
	}
}
