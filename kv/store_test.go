package kv_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
)

// weak is an engine that promises less.
type weak struct {
	engine.Engine
	p engine.Promises
}

func (w weak) Promises() engine.Promises { return w.p }

func TestNeeds(t *testing.T) {
	_, eng, _ := open(t)
	for _, c := range []struct {
		change func(p *engine.Promises)
		lacks  string // of a store that opens; "": New fails
	}{
		{func(p *engine.Promises) { p.Serializable = false }, ""},
		{func(p *engine.Promises) { p.MaxKeyBytes = kv.MaxKeyBytes }, ""},
		{func(p *engine.Promises) { p.Atomic = engine.OnePartition }, "all keys"},
		{func(p *engine.Promises) { p.Ordered = false }, "ordered scans"},
		{func(p *engine.Promises) { p.Snapshot = false }, "one state"},
		{func(p *engine.Promises) { p.Clock = false }, "clock"},
		{func(p *engine.Promises) { p.MaxKeyBytes = kv.MaxKeyBytes + 2 }, "keys of"},
	} {
		p := eng.Promises()
		c.change(&p)
		s, err := kv.New(weak{eng, p}, kv.Options{})
		if err == nil {
			err = s.Lacks()
		}
		if (s != nil) != (c.lacks != "") || !errors.Is(err, engine.ErrUnsupported) || !strings.Contains(err.Error(), c.lacks) {
			t.Errorf("engine with %+v: %v", p, err)
		}
	}
	if full, err := kv.New(eng, kv.Options{}); err != nil || full.Lacks() != nil {
		t.Errorf("engine with everything: %v", err)
	}
	if _, err := kv.New(eng, kv.Options{ExpireEvery: -1}); !errors.Is(err, engine.ErrInvalid) {
		t.Errorf("negative option: %v", err)
	}
	p := eng.Promises()
	p.Feed = false
	s, err := kv.New(weak{eng, p}, kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range s.Watch(t.Context(), 0, nil, 0) {
		if !errors.Is(err, engine.ErrUnsupported) {
			t.Errorf("watch without a change feed: %v", err)
		}
	}
}

func TestMany(t *testing.T) {
	s, _, _ := open(t)
	ctx := t.Context()
	pairs := []engine.Pair{{Key: []byte("a"), Val: []byte("1")}, {Key: []byte("b"), Val: []byte("2")}, {Key: []byte("a"), Val: []byte("3")}}
	pos, err := s.MSet(ctx, 0, pairs)
	if err != nil || pos == 0 {
		t.Fatalf("mset: %d %v", pos, err)
	}
	es, at, err := s.MGet(ctx, engine.Read{AtLeast: pos}, 0, [][]byte{[]byte("b"), []byte("none"), []byte("a")})
	if err != nil || at < pos {
		t.Fatalf("mget: %d %v", at, err)
	}
	if string(es[0].Val) != "2" || es[1].Rev != 0 || es[1].Val != nil || string(es[2].Val) != "3" {
		t.Errorf("mget: %+v", es)
	}
	over := make([][]byte, kv.MaxBatch+1)
	if _, _, err := s.MGet(ctx, engine.Read{}, 0, over); !errors.Is(err, engine.ErrLimit) {
		t.Errorf("mget of too many: %v", err)
	}
	if _, err := s.MSet(ctx, 0, make([]engine.Pair, kv.MaxBatch+1)); !errors.Is(err, engine.ErrLimit) {
		t.Errorf("mset of too many: %v", err)
	}
	pairs = append(pairs, engine.Pair{Key: nil}, engine.Pair{Key: []byte("c")})
	if _, err := s.MSet(ctx, 0, pairs); !errors.Is(err, engine.ErrKeyEmpty) {
		t.Errorf("mset with an empty key: %v", err)
	}
	ok, _, err := s.Delete(ctx, 0, []byte("a"), es[2].Rev+1)
	if ok || !errors.Is(err, engine.ErrPreconditionFailed) {
		t.Errorf("delete at another revision: %v %v", ok, err)
	}
	if ok, _, err = s.Delete(ctx, 0, []byte("a"), es[2].Rev); !ok || err != nil {
		t.Errorf("delete: %v %v", ok, err)
	}
}

// TestReplyBytes checks that copies of large values are bounded.
func TestReplyBytes(t *testing.T) {
	s, _, _ := open(t)
	big := strings.Repeat("v", 8<<20)
	var keys [][]byte
	for i := range kv.MaxReplyBytes/len(big) + 1 {
		keys = append(keys, []byte(strconv.Itoa(i)))
		set(t, s, strconv.Itoa(i), big, kv.SetOptions{})
	}
	if _, _, err := s.MGet(t.Context(), engine.Read{}, 0, keys); !errors.Is(err, engine.ErrLimit) {
		t.Errorf("mget: %v", err)
	}
	page, _, err := s.List(t.Context(), engine.Read{}, 0, kv.ListOptions{})
	if err != nil || !page.More || len(page.Items) != len(keys)-2 {
		t.Errorf("list: %d items, more %v, %v", len(page.Items), page.More, err)
	}
}

func TestList(t *testing.T) {
	s, _, c := open(t)
	ctx := t.Context()
	var want []string
	for i := range 25 {
		k := fmt.Sprintf("p/%02d", i)
		want = append(want, k)
		set(t, s, k, "v", kv.SetOptions{})
		set(t, s, k+"/gone", "v", kv.SetOptions{TTL: time.Millisecond})
	}
	set(t, s, "o", "v", kv.SetOptions{})
	set(t, s, "p0", "v", kv.SetOptions{})
	c.Add(time.Second)
	for limit := 1; limit < 30; limit++ {
		var got []string
		o := kv.ListOptions{Prefix: []byte("p/"), Limit: limit}
		for {
			page, _, err := s.List(ctx, engine.Read{}, 0, o)
			if err != nil {
				t.Fatal(err)
			}
			for _, it := range page.Items {
				got = append(got, string(it.Key))
			}
			if !page.More {
				break
			}
			if len(page.Items) != limit {
				t.Fatalf("a page of %d has %d items and is not the last", limit, len(page.Items))
			}
			o.After = page.Items[limit-1].Key
		}
		if !slices.Equal(got, want) {
			t.Errorf("pages of %d: %q", limit, got)
		}
	}
	for _, o := range []kv.ListOptions{{After: []byte("q")}, {Prefix: []byte("p/"), After: []byte("q")}, {Prefix: []byte("zz")}} {
		if page, _, err := s.List(ctx, engine.Read{}, 0, o); err != nil || page.More || len(page.Items) > 0 {
			t.Errorf("list %+v: %+v, %v", o, page, err)
		}
	}
	page, _, err := s.List(ctx, engine.Read{}, 0, kv.ListOptions{Prefix: []byte("p/"), After: []byte("a")})
	if err != nil || len(page.Items) != len(want) {
		t.Errorf("list after a key before the prefix: %d items, %v", len(page.Items), err)
	}
	if _, _, err := s.List(ctx, engine.Read{}, 0, kv.ListOptions{Limit: kv.MaxPage + 1}); !errors.Is(err, engine.ErrLimit) {
		t.Errorf("page over the limit: %v", err)
	}
	if _, _, err := s.List(ctx, engine.Read{}, 0, kv.ListOptions{Limit: -1}); !errors.Is(err, engine.ErrInvalid) {
		t.Errorf("negative page: %v", err)
	}
}

// TestPrefixEnds uses prefixes at the end of the key space.
func TestPrefixEnds(t *testing.T) {
	s, _, _ := open(t)
	keys := []string{"a", "a\xfe", "a\xff", "a\xff\x00", "a\xff\xff", "b", "\xfe", "\xff", "\xff\xff", "\xff\xff\x00"}
	for _, k := range keys {
		set(t, s, k, "v", kv.SetOptions{})
	}
	for _, prefix := range append(keys, "", "a\xff\xff\xff", "\xff\xff\xff") {
		var want, got []string
		for _, k := range keys {
			if strings.HasPrefix(k, prefix) {
				want = append(want, k)
			}
		}
		page, _, err := s.List(t.Context(), engine.Read{}, 0, kv.ListOptions{Prefix: []byte(prefix)})
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range page.Items {
			got = append(got, string(it.Key))
		}
		if !slices.Equal(got, want) {
			t.Errorf("prefix %q: %q, want %q", prefix, got, want)
		}
	}
}

// TestCopies checks that the caller may modify what the methods of Store return.
func TestCopies(t *testing.T) {
	s, _, _ := open(t)
	ctx, k := t.Context(), []byte("k")
	set(t, s, "k", "value", kv.SetOptions{})
	e, _ := get(t, s, "k")
	clear(e.Val)
	es, _, err := s.MGet(ctx, engine.Read{}, 0, [][]byte{k})
	if err != nil {
		t.Fatal(err)
	}
	clear(es[0].Val)
	page, _, err := s.List(ctx, engine.Read{}, 0, kv.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	clear(page.Items[0].Val)
	clear(page.Items[0].Key)
	if e, ok := get(t, s, "k"); !ok || string(e.Val) != "value" {
		t.Errorf("the store's value became %q, %v", e.Val, ok)
	}
	res, _, err := s.Set(ctx, 0, k, []byte("other"), kv.SetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	set(t, s, "k", "third", kv.SetOptions{})
	if string(res.Old.Val) != "value" {
		t.Errorf("the old value became %q", res.Old.Val)
	}
}

// faultyEngine fails the third and all further writes of each transaction.
type faultyEngine struct{ engine.Engine }

func (f faultyEngine) Update(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
	return f.Engine.Update(ctx, func(tx engine.Tx) error { return fn(&faultTx{Tx: tx, left: 2, still: true}) })
}

// TestHalfWritten checks that a transaction with a write that could not be undone is not
// committed, even if its function ignores the error.
func TestHalfWritten(t *testing.T) {
	s, eng, _ := open(t)
	set(t, s, "k", "v", kv.SetOptions{TTL: time.Minute})
	bad, err := kv.New(faultyEngine{eng}, kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	careless := func(tx *kv.Tx) error {
		if err := tx.Broken(); err != nil {
			t.Errorf("broken before anything was written: %v", err)
		}
		if _, err := tx.Set([]byte("k"), []byte("w"), kv.SetOptions{TTL: time.Hour}); !errors.Is(err, engine.ErrMemoryFull) {
			t.Errorf("set: %v", err)
		}
		if _, err := tx.Count(); !errors.Is(err, engine.ErrMemoryFull) {
			t.Errorf("count in a broken transaction: %v", err)
		}
		if err := tx.Broken(); !errors.Is(err, engine.ErrMemoryFull) {
			t.Errorf("Broken returns %v", err)
		}
		if _, _, err := tx.At(0); !errors.Is(err, engine.ErrMemoryFull) {
			t.Errorf("at in a broken transaction: %v", err)
		}
		return nil
	}
	if _, err := bad.Update(t.Context(), 0, careless); !errors.Is(err, engine.ErrMemoryFull) {
		t.Errorf("update: %v", err)
	}
	_, err = bad.UpdateEach(t.Context(), 1, func(tx *kv.Tx, _ int) error { return careless(tx) })
	if !errors.Is(err, engine.ErrOutcomeUnknown) {
		t.Errorf("update each: %v", err)
	}
	if e, ok := get(t, s, "k"); !ok || string(e.Val) != "v" {
		t.Errorf("k is %q, %v", e.Val, ok)
	}
}

func TestUpdateEach(t *testing.T) {
	s, _, _ := open(t)
	failed := errors.New("of its own")
	revs := make([]kv.Revision, 10)
	_, err := s.UpdateEach(t.Context(), len(revs), func(tx *kv.Tx, i int) error {
		tx.Select(uint8(i % 2))
		res, err := tx.Set([]byte("k"), []byte(strconv.Itoa(i)), kv.SetOptions{})
		if err != nil {
			return err
		}
		if i >= 8 {
			return failed
		}
		revs[i] = res.Rev
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for sp, want := range []string{"6", "7"} {
		e, _, _, err := s.Get(t.Context(), engine.Read{}, uint8(sp), []byte("k"))
		if err != nil || string(e.Val) != want || e.Rev != revs[6+sp] {
			t.Errorf("space %d has %q at %d, want %q at %d", sp, e.Val, e.Rev, want, revs[6+sp])
		}
	}
}

func TestReadOnlyView(t *testing.T) {
	s, _, _ := open(t)
	_, err := s.View(t.Context(), engine.Read{}, 0, func(tx *kv.Tx) error {
		_, err := tx.Set([]byte("k"), nil, kv.SetOptions{})
		return err
	})
	if !errors.Is(err, engine.ErrReadOnly) {
		t.Errorf("set in a view: %v", err)
	}
}

func TestWatch(t *testing.T) {
	s, _, _ := open(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	set(t, s, "p/0", "before", kv.SetOptions{})
	from := update(t, s, func(tx *kv.Tx) error { _, err := tx.Add([]byte("q"), 1); return err })
	want := []string{"p/a set", "p/b set more", "p/c set", "p/a deleted", "p/b deleted", "p/end set"}
	var got []string
	go func() {
		_, _, _ = s.Set(ctx, 0, []byte("p/a"), []byte("1"), kv.SetOptions{})
		_, _, _ = s.Set(ctx, 1, []byte("p/other"), []byte("1"), kv.SetOptions{})
		_, _ = s.MSet(ctx, 0, []engine.Pair{{Key: []byte("p/b")}, {Key: []byte("o")}, {Key: []byte("p/c")}})
		_, _, _ = s.Delete(ctx, 0, []byte("p/a"), 0)
		_, _, _ = s.Set(ctx, 0, []byte("p/b"), nil, kv.SetOptions{Expires: start})
		_, _, _ = s.Set(ctx, 0, []byte("p/end"), nil, kv.SetOptions{})
	}()
	last := from
	for e, err := range s.Watch(ctx, 0, []byte("p/"), from) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Pos < last || e.Time.IsZero() || e.Deleted == (e.Rev != 0) {
			t.Errorf("event %+v after position %d", e, last)
		}
		last = e.Pos
		what := string(e.Key) + " set"
		if e.Deleted {
			what = string(e.Key) + " deleted"
		}
		if e.More {
			what += " more"
		}
		got = append(got, what)
		if string(e.Key) == "p/end" {
			break
		}
	}
	// Two keys of one transaction may come in any order.
	if len(got) > 2 && got[1] == "p/c set more" {
		got[1], got[2] = "p/b set more", "p/c set"
	}
	if !slices.Equal(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}
	cancel()
	for e, err := range s.Watch(ctx, 0, nil, last) {
		t.Errorf("after the end of its context: %+v %v", e, err)
	}
}

// TestOneEventOfDeletion checks that clearing a tombstone is not a second deletion.
func TestOneEventOfDeletion(t *testing.T) {
	s, _, c := open(t)
	update(t, s, func(tx *kv.Tx) error {
		if _, err := tx.Set([]byte("k"), nil, kv.SetOptions{}); err != nil {
			return err
		}
		_, err := tx.Delete([]byte("k"))
		return err
	})
	set(t, s, "l", "", kv.SetOptions{TTL: time.Millisecond})
	c.Add(time.Second)
	if _, err := s.ExpireStep(t.Context()); err != nil {
		t.Fatal(err)
	}
	set(t, s, "end", "", kv.SetOptions{})
	var got []string
	for e, err := range s.Watch(t.Context(), 0, nil, 0) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(string(e.Key), e.Deleted))
		if got[len(got)-1] == "endfalse" {
			break
		}
	}
	if want := []string{"ktrue", "lfalse", "ltrue", "endfalse"}; !slices.Equal(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}
}

// TestTogether checks that concurrent counters and compare-and-set lose nothing.
func TestTogether(t *testing.T) {
	s, _, _ := open(t)
	const workers, each = 8, 50
	var work sync.WaitGroup
	for range workers {
		work.Go(func() {
			for done := 0; done < each; {
				e, _ := get(t, s, "cas")
				o := kv.SetOptions{IfRev: e.Rev, OnlyNew: e.Rev == 0}
				n, _ := strconv.Atoi(string(e.Val))
				res, _, err := s.Set(t.Context(), 0, []byte("cas"), []byte(strconv.Itoa(n+1)), o)
				switch {
				case err != nil && !errors.Is(err, engine.ErrPreconditionFailed):
					t.Error(err)
					return
				case err == nil && res.Written:
					done++
					if _, err := s.Update(t.Context(), 0, func(tx *kv.Tx) error { _, err := tx.Add([]byte("n"), 1); return err }); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	work.Wait()
	for _, k := range []string{"cas", "n"} {
		if e, _ := get(t, s, k); string(e.Val) != strconv.Itoa(workers*each) {
			t.Errorf("%s is %q, want %d", k, e.Val, workers*each)
		}
	}
}

// breakerTx counts calls of Break.
type breakerTx struct {
	engine.Tx
	told []error
}

func (b *breakerTx) Break(err error) { b.told = append(b.told, err) }

// TestStay checks that keys reject a Select after Stay until they are bound again.
func TestStay(t *testing.T) {
	s, _, _ := open(t)
	if _, err := s.Update(t.Context(), 0, func(plain *kv.Tx) error {
		b := &breakerTx{Tx: plain.Engine()}
		tx := kv.In(b, 3)
		tx.Stay()
		tx.Select(3)
		if tx.Broken() != nil || b.told != nil {
			t.Errorf("selected where it is: %v, returned %v", tx.Broken(), b.told)
		}
		tx.Select(4)
		_, err := tx.Set([]byte("k"), nil, kv.SetOptions{})
		if !errors.Is(err, engine.ErrInvalid) || tx.Space() != 3 || len(b.told) != 1 || b.told[0] != tx.Broken() {
			t.Errorf("in space %d: %v, returned %v", tx.Space(), err, b.told)
		}
		tx.Bind(b, 3)
		tx.Select(4)
		if _, err := tx.Set([]byte("k"), nil, kv.SetOptions{}); err != nil || tx.Space() != 4 {
			t.Errorf("bound again, in space %d: %v", tx.Space(), err)
		}
		return plain.Broken()
	}); err != nil {
		t.Fatal(err)
	}
}
